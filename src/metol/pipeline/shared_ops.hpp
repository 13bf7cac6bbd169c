// Which loops the operations of a Stage move with, and which loops pick among its values.
//
// What does not move with a loop, as exp(-y) or the row y / 2 along x, is computed once for all of its turns. A loop
// picks that a `mux` is indexed by, or a `select` compares with a number: all values that it picks among are the same
// at each of its turns. Where several turns are unrolled, compilers compute each once, and where Halide knows each turn
// as a number, nothing is left of the picking. How much that saves is what is picked among: a Stage that goes on with
// what it has picked does most of its work at each turn anew.
#pragma once

#include <cstdint>
#include <vector>

#include "op_classes.hpp"

namespace metol {

class OpSharing {
  public:
    // `stage` has its loops and its Func.
    OpSharing(const ExprGraph& graph, const Stage& stage);

    // Counts `n` operations of a node.
    void add(int32_t id, OpClass op, float n);

    // Does the value of a node differ from one point of the Func to another?
    bool moves_with_points(int32_t id) const { return (loops_[static_cast<size_t>(id)] & pure_loops_) != 0; }

    // What was counted, by loops.
    const std::vector<SharedOps>& counted() const { return counted_; }

    // [loops] Does a loop pick among values, which are at least half of all that is computed?
    std::vector<uint8_t> picking_loops() const;

  private:
    uint32_t loops_of_index(int32_t id) const;
    uint32_t loops_of_condition(int32_t id) const;
    uint32_t loops_picking(int32_t id) const;
    bool is_most_picked_among(uint32_t loop) const;

    const ExprGraph& graph_;
    size_t loop_count_;
    uint32_t pure_loops_ = 0;
    uint32_t picking_ = 0;
    std::vector<uint32_t> loops_;       // [nodes] that the value moves with, a bit each
    std::vector<uint8_t> is_of_place_;  // [nodes] made of loops and numbers alone
    std::vector<SharedOps> counted_;
};

}  // namespace metol
