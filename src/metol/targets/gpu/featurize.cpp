#include "targets/gpu/featurize.hpp"

#include <algorithm>
#include <cmath>

#include "schedule/reads.hpp"
#include "targets/gpu/feature_table.hpp"
#include "targets/gpu/kernels.hpp"
#include "targets/gpu/memory.hpp"
#include "targets/gpu/occupancy.hpp"

namespace metol::gpu {

namespace {

class StageFeaturizer {
  public:
    StageFeaturizer(const GpuParameters& machine, const SubNest& sub_nest, int stage_id)
        : machine_(machine),
          index_(sub_nest.index),
          nest_(sub_nest.nest),
          id_(stage_id),
          stage_(index_.stage(stage_id)),
          regions_(index_, nest_, sub_nest.iteration),
          kernel_(kernel(index_, nest_, regions_, kernel_of(index_, nest_, stage_id), sub_nest.group)),
          memory_(machine, index_, nest_, regions_, stage_id, kernel_) {}

    void run(StageRow& row) {
        row.row.assign(kFeatureCount, 0.0F);
        float* out = row.row.data();
        count_threads(out);
        memory_.count_accesses(out);
        memory_.measure_bytes(out);
        const FuncSchedule& schedule = nest_[stage_.func];
        const bool is_root = schedule.placement == Placement::Root;
        out[k_launches] = is_root ? 1 : 0;
        out[k_barriers] = is_root || is_in_thread(schedule) ? 0.0F : static_cast<float>(kernel_.blocks);
        out[k_shared_bytes] = static_cast<float>(kernel_.shared_bytes);
        out[k_registers] = static_cast<float>(kernel_.registers);
        const double slowdown = static_cast<double>(out[k_sm_imbalance]) * static_cast<double>(out[k_exposed_latency]);
        for (const InlinedUse& use : memory_.reads().inlined) {
            std::vector<float> part(kFeatureCount, 0.0F);
            part[k_inlined_lanes] =
                static_cast<float>(use.calls_per_point * static_cast<double>(out[k_lanes_issued]) * slowdown);
            row.inlined.push_back({index_.func(use.func).stages.front(), std::move(part)});
        }
    }

  private:
    void count_threads(float* out) {
        const Lanes lanes = memory_.lanes();
        const double serial = memory_.points_per_thread();
        const auto warps = static_cast<double>(active_warps(lanes));
        const double active = static_cast<double>(lanes.active[0]) * lanes.active[1] * lanes.active[2];
        const auto held = static_cast<double>(std::max<int64_t>(
            1, blocks_held(machine_, kernel_.threads_per_block(), kernel_.registers, kernel_.shared_bytes)));
        const double average = kernel_.blocks / machine_.multiprocessors;
        const double busiest = std::ceil(average);
        const double resident = warps * std::min(busiest, held);
        const FuncSchedule& schedule = nest_[stage_.func];
        const auto productions = static_cast<double>(regions_.iterations(schedule.compute));
        const auto points = static_cast<double>(regions_.loops(id_, schedule.compute).points());
        out[k_points_computed] = static_cast<float>(productions * points);
        out[k_blocks] = static_cast<float>(kernel_.blocks);
        out[k_threads_per_block] = static_cast<float>(kernel_.threads_per_block());
        out[k_active_threads] = static_cast<float>(active);
        out[k_points_per_thread] = static_cast<float>(serial);
        out[k_lanes_issued] = static_cast<float>(kernel_.blocks * warps * machine_.warp_threads * serial);
        out[k_sm_imbalance] = static_cast<float>(busiest / average);
        out[k_resident_warps] = static_cast<float>(resident);
        out[k_exposed_latency] = static_cast<float>(std::max(1.0, machine_.warps_to_hide_latency / resident));
    }

    const GpuParameters& machine_;
    const PipelineIndex& index_;
    const LoopNest& nest_;
    int id_;
    const Stage& stage_;
    Regions regions_;
    Kernel kernel_;
    StageMemory memory_;
};

}  // namespace

void featurize(const GpuParameters& machine, const SubNest& sub_nest, std::span<const int32_t> stages,
               std::span<StageRow> rows) {
    for (size_t i = 0; i < stages.size(); i++) {
        if (sub_nest.index.stage(stages[i]).is_undef) {
            rows[i].row.assign(kFeatureCount, 0.0F);
            continue;
        }
        StageFeaturizer(machine, sub_nest, stages[i]).run(rows[i]);
    }
}

void add_inlined_row(std::span<const float> part, std::span<float> row) {
    row[k_inlined_lanes] += part[k_inlined_lanes];
}

}  // namespace metol::gpu
