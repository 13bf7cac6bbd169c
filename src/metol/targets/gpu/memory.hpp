// What one Stage of a kernel reads and writes: which memory each Func is in, and how the lanes of a warp go to it.
#pragma once

#include "schedule/reads.hpp"
#include "targets/gpu/kernels.hpp"
#include "targets/gpu/transactions.hpp"

namespace metol::gpu {

// Where a Func is; None for one that is inlined, or not scheduled yet, unless it is a copy.
enum class Memory : uint8_t { None, Global, Shared, Registers };
inline constexpr size_t kMemories = 4;

Memory memory_of(const PipelineIndex& index, const LoopNest& nest, int func);

// The dimension that is innermost in storage.
int innermost_dim(const PipelineIndex& index, const LoopNest& nest, int func);

// Points that there is storage for along each dimension: of an input, as many as its estimate says.
std::vector<int64_t> stored_extents(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func);

// Elements of what it reads that a thread loads: what points of its tile share once, and what moves with no reduction
// loop once for all iterations of it.
double loads_per_thread(const Stage& stage, const StageNest& nest, const EffectiveAccess& access);

// How the coordinates of a Func, or the loops of a Stage, move from one thread to its neighbour along each dimension
// of the block; NaN where that is not known.
using Motion = std::array<double, kBlockDimensions>;

class StageMemory {
  public:
    StageMemory(const GpuParameters& machine, const PipelineIndex& index, const LoopNest& nest, Regions& regions,
                int stage, const Kernel& kernel);

    // The threads that run the Stage: its own, or those of what it is computed in.
    Lanes lanes() const;
    // Points that one of them computes in one turn of its block, with their reductions; and the turns.
    double points_per_thread() const;
    double turns() const { return turns_; }
    // Those of its loops, in all turns of its block, that read of global memory what the one before them may have
    // written: compilers keep their order, and a thread waits for each. What comes from beyond the first cache counts
    // as several.
    double turns_in_a_row();
    const StageReads& reads() const { return *reads_; }

    // Fills in the columns of loads and stores, then those of distinct bytes, where a multiprocessor holds so many
    // blocks.
    void count_accesses(float* out);
    void measure_bytes(double blocks_held, float* out);

  private:
    // What the accesses of all warps of one block ask for.
    struct Traffic {
        Transactions global;
        Transactions shared;
    };

    std::vector<Motion> motion_of_loops(int stage) const;
    std::vector<Motion> motion_of_func(int func) const;
    LaneStrides strides_of(const EffectiveAccess& access);
    // Adds what an access asks for, that a thread makes to so many elements.
    void add_traffic(const EffectiveAccess& access, double per_thread, Traffic& sum);
    double fetches_a_turn();
    double bytes_read(const Box& loops);
    double bytes_fetched_again(double read_in_turn, double blocks_held) const;
    // Does a thread keep what it sums up in registers while its reduction loops turn? It does of what it computes for
    // itself; of what is in memory, where no condition lies between the points of its tile, and strides are known: not
    // at root, for sizes that are not fixed.
    bool keeps_sums();

    const GpuParameters& machine_;
    const PipelineIndex& index_;
    const LoopNest& nest_;
    Regions& regions_;
    int id_;
    const Stage& stage_;
    const StageNest& own_;
    const Kernel& kernel_;
    double turns_;             // of each block
    double loaded_bytes_ = 0;  // of global memory by the warps of a block, distinct in each access
    std::shared_ptr<const StageReads> reads_;
    std::vector<Motion> motion_;  // [loops]
    double sectors_read_ = 0;     // of global memory, by the loads of a block
};

}  // namespace metol::gpu
