// PTX as a list of words, numbers and signs.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace metol::emulated {

struct Token {
    std::string_view text;  // of the PTX; of what is quoted, with the quotes
    int32_t line = 0;
};

// Throws EmulationError where a quotation or a comment does not end.
std::vector<Token> tokens_of(std::string_view ptx);

}  // namespace metol::emulated
