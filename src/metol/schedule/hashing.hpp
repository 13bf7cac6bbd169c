// 64-bit mixing for identity and structural hashes; stable across runs and machines.
#pragma once

#include <cstdint>

namespace metol {

// The finalizer of splitmix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit.
inline uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

inline uint64_t combine(uint64_t seed, uint64_t value) {
    return mix(seed ^ mix(value));
}

}  // namespace metol
