// How much of each memory one Stage reads, writes and keeps: in a realization, a block and a thread.
#pragma once

#include "targets/gpu/memory.hpp"

namespace metol::gpu {

class StageFootprints {
  public:
    StageFootprints(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int stage, const Kernel& kernel)
        : index_(index), nest_(nest), regions_(regions), id_(stage), stage_(index.stage(stage)), kernel_(kernel) {}

    // Fills in the columns of what is read; `points_per_thread` are those with reductions.
    void measure_reads(double points_per_thread, float* out);
    // Fills in those of what is written and allocated; `active_threads` are those of a block that run the Stage.
    void measure_storage(double active_threads, float* out);

  private:
    struct Footprint {
        double bytes = 0;
        double lines = 0;
    };
    using Footprints = std::array<Footprint, kMemories>;  // by Memory

    struct Written {
        double bytes;
        double innermost_bytes;  // along the innermost storage dimension
    };

    Footprints read(const Site& site);
    Written written(const Box& box) const;
    double allocated_bytes(int func);
    Site block_site() const;
    Site thread_site() const;

    const PipelineIndex& index_;
    const LoopNest& nest_;
    Regions& regions_;
    int id_;
    const Stage& stage_;
    const Kernel& kernel_;
};

}  // namespace metol::gpu
