// The way to a complete loop nest, and what another one on its way has in common with it.
//
// Enters: the decisions of one loop nest, and those of a neighbour that differs from it in one. Leaves: for each of the
// later decisions, whether it does to the neighbour what it did before. Where a target decides by sub-nests
// (targets/base.hpp), most do: what is in other loops does not notice.
#pragma once

#include <memory>
#include <vector>

#include "schedule/loop_nest.hpp"
#include "schedule/pipeline_index.hpp"

namespace metol {

struct Trajectory {
    std::vector<Decision> decisions;
    std::vector<std::vector<const FuncSchedule*>> funcs;  // [decisions + 1][Funcs] before each, and at the end
    std::vector<std::vector<int32_t>> changed;            // [decisions] the Funcs that each changes

    // Adds a decision, and the loop nest that it made.
    void add(const Decision& decision, const LoopNest& nest);
    // Makes the next decision in a loop nest that it does the same to.
    void advance(LoopNest& nest) const;
};

// A loop nest beside a Trajectory, decision by decision. An object is used for one after another, and keeps its memory.
class Beside {
  public:
    // Finds what differs after as many decisions.
    void compare(const PipelineIndex& index, const Trajectory& trajectory, const LoopNest& nest);
    // Does the next decision of the Trajectory do the same to the loop nest that was compared?
    bool is_next_alike(const PipelineIndex& index, const Trajectory& trajectory, size_t step) const;

  private:
    using Funcs = std::vector<const FuncSchedule*>;

    static void mark(const PipelineIndex& index, const Funcs& funcs, int func, std::vector<uint8_t>& roots);
    static void mark_readers(const PipelineIndex& index, const Funcs& funcs, int func, std::vector<uint8_t>& roots);
    bool are_readers_alike(const PipelineIndex& index, const Funcs& funcs, int func, bool with_layouts) const;

    bool is_same_ = false;           // nothing differs
    std::vector<uint8_t> differs_;   // [Funcs]
    std::vector<uint8_t> contains_;  // [Funcs] at root, with something that differs in its loops or inlined there
    std::vector<uint8_t> reads_;     // [Funcs] at root, reading what lies otherwise in memory
};

}  // namespace metol
