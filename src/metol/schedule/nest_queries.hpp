// What every target asks of a loop nest: the loops of a Stage, level by level, and which of them enclose what.
#pragma once

#include <algorithm>

#include "schedule/reads.hpp"

namespace metol {

// The loops of a Stage of a Func that is computed.
const StageNest& nest_of(const PipelineIndex& index, const LoopNest& nest, int stage_id);

// Loops of a level with more than one iteration.
int loops_that_turn(const Trips& trips);

const Trips& level_of(const PipelineIndex& index, const LoopNest& nest, const Site& site);

// The places that enclose every use of `func`, outermost first, where `places(stage)` are those around a Stage; the
// root is not among them.
template <typename Places>
std::vector<Site> common_places(const PipelineIndex& index, const LoopNest& nest, int func, const Places& places) {
    const std::vector<int> readers = readers_of(index, nest, func);
    std::vector<Site> common;
    for (size_t i = 0; i < readers.size(); i++) {
        const std::vector<Site> sites = places(readers[i]);
        if (i == 0) {
            common = sites;
            continue;
        }
        const auto [end, unused] = std::mismatch(common.begin(), common.end(), sites.begin(), sites.end());
        common.erase(end, common.end());
    }
    return common;
}

// For each dimension of a Func the loads that vectors, or threads, which run along it make of it.
using Votes = std::array<int, kMaxLoops>;
Votes votes_of_readers(const PipelineIndex& index, const LoopNest& nest, int func);
int most_votes(const Votes& votes);

// The dimension along which the vectors of the consumers run, or their threads, if they do; otherwise the first.
int dimension_read_densely(const PipelineIndex& index, const LoopNest& nest, int func);

}  // namespace metol
