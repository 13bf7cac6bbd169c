// What is needed more of where a Func computes more along one of its dimensions, whatever the schedule.
#pragma once

#include <bitset>
#include <vector>

#include "pipeline/dag.hpp"
#include "schedule/decision.hpp"

namespace metol {

// Dimensions of a Func.
using DimSet = std::bitset<kMaxLoops>;

class Growth {
  public:
    Growth() = default;
    explicit Growth(const PipelineDag& dag);

    // The dimensions of `producer` of which more is needed the further `func` goes along `dim`, through all that lies
    // between them.
    DimSet of(int func, int dim, int producer) const;

    // Funcs that read an input, and along which of their dimensions they read more of it; not where they read it whole.
    // Funcs, too, that are promised to read no further of whatever they read, where nothing clamps them.
    struct Reader {
        int32_t func;
        DimSet dims;
        DimSet open_dims;  // those along which nothing clamps it to what the input is estimated to be
    };
    const std::vector<Reader>& readers() const { return readers_; }

  private:
    size_t func_count_ = 0;
    std::vector<size_t> rows_;    // [Funcs] of their first dimension
    std::vector<DimSet> needed_;  // [rows][Funcs]
    std::vector<Reader> readers_;
};

}  // namespace metol
