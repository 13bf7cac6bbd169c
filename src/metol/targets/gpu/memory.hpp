// What one Stage of a kernel reads and writes: which memory each Func is in, and how the lanes of a warp go to it.
#pragma once

#include "schedule/reads.hpp"
#include "targets/gpu/kernels.hpp"
#include "targets/gpu/transactions.hpp"

namespace metol::gpu {

// Where a Func is; None for one that is inlined, or not scheduled yet.
enum class Memory : uint8_t { None, Global, Shared, Registers };
inline constexpr size_t kMemories = 4;

Memory memory_of(const PipelineIndex& index, const LoopNest& nest, int func);

// The dimension that is innermost in storage.
int innermost_dim(const PipelineIndex& index, const LoopNest& nest, int func);

// Points that there is storage for along each dimension: of an input, as many as its estimate says.
std::vector<int64_t> stored_extents(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func);

// How the coordinates of a Func, or the loops of a Stage, move from one thread to its neighbour along each dimension
// of the block; NaN where that is not known.
using Motion = std::array<double, kBlockDimensions>;

class StageMemory {
  public:
    StageMemory(const GpuParameters& machine, const PipelineIndex& index, const LoopNest& nest, Regions& regions,
                int stage, const Kernel& kernel);

    // The threads that run the Stage: its own, or those of what it is computed in.
    Lanes lanes() const;
    // Points that one of them computes, with their reductions.
    double points_per_thread() const;
    const StageReads& reads() const { return *reads_; }

    // Fills in the columns of loads and stores, then those of distinct bytes.
    void count_accesses(float* out);
    void measure_bytes(float* out);

  private:
    // What the accesses of all warps of one block ask for.
    struct Traffic {
        Transactions global;
        Transactions shared;
    };

    // The Stage around it, or itself, that has threads.
    int host() const;
    std::vector<Motion> motion_of_loops(int stage) const;
    std::vector<Motion> motion_of_func(int func) const;
    LaneStrides strides_of(const EffectiveAccess& access);
    // Adds what an access asks for, that a thread makes to so many elements.
    void add_traffic(const EffectiveAccess& access, double per_thread, Traffic& sum);
    double bytes_read(const Box& loops);

    const GpuParameters& machine_;
    const PipelineIndex& index_;
    const LoopNest& nest_;
    Regions& regions_;
    int id_;
    const Stage& stage_;
    const StageNest& own_;
    const Kernel& kernel_;
    std::shared_ptr<const StageReads> reads_;
    std::vector<Motion> motion_;  // [loops]
    double sectors_read_ = 0;     // of global memory, by the loads of a block
};

}  // namespace metol::gpu
