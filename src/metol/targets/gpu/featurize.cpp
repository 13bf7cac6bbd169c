#include "targets/gpu/featurize.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "schedule/reads.hpp"
#include "targets/gpu/feature_table.hpp"
#include "targets/gpu/footprints.hpp"
#include "targets/gpu/kernels.hpp"
#include "targets/gpu/memory.hpp"
#include "targets/gpu/occupancy.hpp"
#include "targets/gpu/tiling.hpp"

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
          memory_(machine, index_, nest_, regions_, stage_id, kernel_),
          group_(sub_nest.group),
          blocks_held_(static_cast<double>(
              blocks_held(machine, kernel_.threads_per_block(), kernel_.registers, kernel_.shared_bytes))) {}

    void run(bool is_analytical, StageRow& row) {
        row.row.assign(kFeatureCount, 0.0F);
        float* out = row.row.data();
        count_points(out);
        count_threads(out);
        measure_occupancy(out);
        memory_.count_accesses(out);
        memory_.measure_bytes(blocks_held_, out);
        out[k_blocks_waited_for] = is_root() ? static_cast<float>(blocks_waited_for(out)) : 0.0F;
        if (!is_analytical) {
            StageFootprints footprints(index_, nest_, regions_, id_, kernel_);
            footprints.measure_reads(memory_.points_per_thread(), out);
            footprints.measure_storage(static_cast<double>(out[k_num_threads_per_block]), out);
            measure_working_sets(out);
        }
        add_inlined(row);
    }

  private:
    const FuncSchedule& schedule() const { return nest_[stage_.func]; }
    const StageNest& own() const { return nest_of(index_, nest_, id_); }
    bool is_root() const { return schedule().placement == Placement::Root; }

    void count_points(float* out) {
        const auto productions = static_cast<double>(regions_.iterations(schedule().compute));
        const auto realizations = static_cast<double>(regions_.iterations(schedule().store));
        const auto points = static_cast<double>(regions_.loops(id_, schedule().compute).points());
        double tile = 1;
        for (size_t i = 0; i < stage_.loops.size(); i++) {
            tile *= is_serial(stage_, own(), i) ? 1 : own().levels[kPoint][i];
        }
        const double serial = memory_.points_per_thread();
        out[k_num_realizations] = static_cast<float>(realizations);
        out[k_num_productions] = static_cast<float>(productions);
        out[k_points_computed_per_production] = static_cast<float>(points);
        out[k_points_computed_per_realization] = static_cast<float>(points * productions / std::max(1.0, realizations));
        out[k_points_computed_total] = out[k_num_scalars] = static_cast<float>(productions * points);
        out[k_points_computed_minimum] = static_cast<float>(index_.minimum_points[static_cast<size_t>(id_)]);
        out[k_innermost_loop_extent] = static_cast<float>(serial);
        out[k_points_computed_per_thread] = static_cast<float>(serial * memory_.turns());
        out[k_innermost_pure_loop_extent] = static_cast<float>(tile);
        out[k_unrolled_loop_extent] = static_cast<float>(unrolled_iterations(stage_, schedule(), own()));
        out[k_expr_branching] = static_cast<float>(stage_.expr_branching);
        out[k_launches] = is_root() ? 1 : 0;
        out[k_atomic_turns] = own().is_atomic ? static_cast<float>(atomic_turns(productions * points)) : 0.0F;
    }

    // Updates are taken to go to all places alike, and wait for those of the same place; and for the second cache,
    // which makes so many at once. What the lanes of a warp add to one place may be one update.
    double atomic_turns(double updates) {
        const Box& places = regions_.computed(stage_.func, schedule().store);
        const double apart = machine_.atomic_lanes.empty() ? 1 : machine_.atomic_lanes[static_cast<size_t>(id_)];
        const double waiting = updates / std::max(apart, static_cast<double>(places.points()));
        return std::max(waiting, updates / std::max(1.0, apart * machine_.atomics_per_turn));
    }

    void count_threads(float* out) {
        const Lanes lanes = memory_.lanes();
        const double serial = memory_.points_per_thread() * memory_.turns();
        const auto warps = static_cast<double>(active_warps(lanes).count);
        const double active = static_cast<double>(lanes.active[0]) * lanes.active[1] * lanes.active[2];
        const double busiest = std::ceil(kernel_.blocks / machine_.multiprocessors);
        const double resident = warps * std::min(busiest, std::max(1.0, blocks_held_));
        const double issued = warps * machine_.warp_threads;
        const auto most_threads = static_cast<double>(machine_.max_threads_per_block);
        out[k_num_blocks] = static_cast<float>(kernel_.blocks);
        out[k_inner_parallelism] = static_cast<float>(is_root() ? kernel_.blocks : 1);
        out[k_outer_parallelism] = static_cast<float>(is_root() ? 1 : kernel_.blocks);
        out[k_threads_per_block] = static_cast<float>(kernel_.threads_per_block());
        out[k_num_threads_per_block] = static_cast<float>(active);
        out[k_num_warps_per_block] = static_cast<float>(warps_of_kernel());
        out[k_num_active_warps_per_block] = static_cast<float>(warps);
        out[k_block_occupancy] = static_cast<float>(active / most_threads);
        out[k_warp_lane_utilization] = static_cast<float>(active / issued);
        out[k_idle_lane_wastage] = static_cast<float>((issued - active) / most_threads);
        out[k_lanes_issued] = static_cast<float>(kernel_.blocks * issued * serial);
        out[k_resident_warps] = static_cast<float>(resident);
        const double in_a_row = memory_.turns_in_a_row();
        const double at_once = std::max(1.0, blocks_held_) * machine_.multiprocessors;
        out[k_turns_in_a_row] = static_cast<float>(std::ceil(kernel_.blocks / at_once) * in_a_row);
        const double exposed = in_a_row > 0 ? 1 : machine_.warps_to_hide_latency / resident;
        out[k_exposed_latency] = static_cast<float>(std::max(1.0, exposed));
        const bool is_shared = !is_root() && !is_in_thread(schedule());
        out[k_barriers] = is_shared ? static_cast<float>(kernel_.blocks * barriers_of_block()) : 0.0F;
    }

    // Blocks are handed out while others compute: that takes time of its own only where these are done before.
    double blocks_waited_for(const float* out) const {
        double lane_seconds = machine_.seconds_per_loop_turn + machine_.point_seconds[static_cast<size_t>(id_)];
        for (const InlinedUse& use : memory_.reads().inlined) {
            const auto inlined_stage = static_cast<size_t>(index_.func(use.func).stages.front());
            lane_seconds += use.calls_per_point * machine_.point_seconds[inlined_stage];
        }
        const double sectors = static_cast<double>(out[k_num_global_mem_loads_per_block]) +
                               static_cast<double>(out[k_num_global_mem_stores_per_block]);
        const double busy_seconds = static_cast<double>(out[k_lanes_issued]) * lane_seconds +
                                    kernel_.blocks * sectors * machine_.seconds_per_sector;
        const double handed_out = machine_.seconds_per_block > 0 ? busy_seconds / machine_.seconds_per_block : 0;
        return std::max(0.0, kernel_.blocks - handed_out);
    }

    // Its threads wait for what it computes; where a block has several turns, those of the next one wait, too.
    double barriers_of_block() const { return memory_.turns() > 1 ? 2 * memory_.turns() : 1; }

    int64_t warps_of_kernel() const {
        return (kernel_.threads_per_block() + machine_.warp_threads - 1) / machine_.warp_threads;
    }

    void measure_occupancy(float* out) const {
        const double most_blocks = machine_.max_blocks_per_multiprocessor;
        const double most_warps = static_cast<double>(machine_.max_threads_per_multiprocessor) / machine_.warp_threads;
        const auto with_shared = static_cast<double>(blocks_with_shared(machine_, kernel_.shared_bytes));
        out[k_shared_bytes] = static_cast<float>(kernel_.shared_bytes);
        out[k_registers] = static_cast<float>(kernel_.registers);
        out[k_shared_mem_occupancy] =
            is_root() ? static_cast<float>(kernel_.shared_bytes / machine_.shared_bytes_per_block) : 0.0F;
        out[k_shared_mem_block_limit_factor] = static_cast<float>(with_shared / most_blocks);
        out[k_max_warp_occupancy] =
            static_cast<float>(blocks_held_ * static_cast<double>(warps_of_kernel()) / most_warps);
        out[k_max_block_occupancy] = static_cast<float>(blocks_held_ / most_blocks);
    }

    void measure_working_sets(float* out) {
        const auto threads = static_cast<double>(kernel_.threads_per_block());
        double own = 0;
        for (int32_t func : group_) {
            const Box& stored = regions_.computed(func, nest_[func].store);
            const double copies = is_in_thread(nest_[func]) ? threads : 1;
            const double points = is_inside(func) ? static_cast<double>(stored.points()) : 0;
            own += copies * points * index_.func(func).bytes_per_point();
        }
        const double at_task = kernel_.shared_bytes + threads * kernel_.thread_bytes;
        out[k_working_set] = static_cast<float>(own);
        out[k_working_set_at_task] = static_cast<float>(at_task);
        out[k_working_set_at_thread] = static_cast<float>(kernel_.thread_bytes);
        const double of_thread = is_in_thread(schedule()) ? kernel_.thread_bytes : 0;
        const double in_scope = is_root() ? 0 : kernel_.shared_bytes + of_thread;
        out[k_working_set_at_production] = out[k_working_set_at_realization] = static_cast<float>(in_scope);
    }

    // Is a Func computed inside the blocks or threads of this Stage, or of what is?
    bool is_inside(int func) const {
        for (const FuncSchedule* one = &nest_[func]; one->placement == Placement::At;) {
            if (one->compute.stage == id_) {
                return true;
            }
            one = &nest_[index_.stage(one->compute.stage).func];
        }
        return false;
    }

    // What is inlined into it runs in its threads.
    void add_inlined(StageRow& row) const {
        const std::vector<float>& out = row.row;
        const double blocks = std::max(1.0, kernel_.blocks) / machine_.multiprocessors;
        const double slowdown = std::ceil(blocks) / blocks * static_cast<double>(out[k_exposed_latency]);
        for (const InlinedUse& use : memory_.reads().inlined) {
            const int inlined_stage = index_.func(use.func).stages.front();
            const auto calls = static_cast<float>(use.calls_per_point);
            std::vector<float> part(kFeatureCount, 0.0F);
            for (Feature shared : {k_inner_parallelism, k_outer_parallelism, k_num_blocks, k_num_warps_per_block,
                                   k_num_active_warps_per_block, k_num_threads_per_block, k_block_occupancy}) {
                part[shared] = out[shared];
            }
            part[k_inlined_calls] = calls * out[k_points_computed_total];
            part[k_num_scalars] = calls * out[k_num_scalars];
            part[k_points_computed_per_thread] = calls * out[k_points_computed_per_thread];
            part[k_points_computed_minimum] =
                static_cast<float>(index_.minimum_points[static_cast<size_t>(inlined_stage)]);
            part[k_bytes_at_root] = static_cast<float>(index_.root_points[static_cast<size_t>(use.func)] *
                                                       index_.func(use.func).bytes_per_point());
            part[k_expr_branching] = static_cast<float>(index_.stage(inlined_stage).expr_branching);
            part[k_inlined_lanes] =
                static_cast<float>(use.calls_per_point * static_cast<double>(out[k_lanes_issued]) * slowdown);
            row.inlined.push_back({inlined_stage, std::move(part)});
        }
    }

    const GpuParameters& machine_;
    const PipelineIndex& index_;
    const LoopNest& nest_;
    int id_;
    const Stage& stage_;
    Regions regions_;
    Kernel kernel_;
    StageMemory memory_;
    std::span<const int32_t> group_;
    double blocks_held_;  // by a multiprocessor
};

}  // namespace

void featurize(const GpuParameters& machine, const SubNest& sub_nest, std::span<const int32_t> stages,
               bool is_analytical, std::span<StageRow> rows, const RowReader& read) {
    for (size_t i = 0; i < stages.size(); i++) {
        if (sub_nest.index.stage(stages[i]).is_undef) {
            rows[i].row.assign(kFeatureCount, 0.0F);
        } else {
            StageFeaturizer(machine, sub_nest, stages[i]).run(is_analytical, rows[i]);
        }
        if (!read(i)) {
            return;
        }
    }
}

void add_inlined_row(std::span<const float> part, std::span<float> row) {
    const auto threads = [](std::span<const float> of) { return of[k_num_blocks] * of[k_num_threads_per_block]; };
    const float points =
        threads(row) * row[k_points_computed_per_thread] + threads(part) * part[k_points_computed_per_thread];
    std::array<float, kFeatureCount> sums{};
    for (Feature summed : {k_inlined_calls, k_num_scalars, k_inlined_lanes}) {
        sums[summed] = row[summed] + part[summed];
    }
    for (size_t column = 0; column < row.size(); column++) {
        row[column] = std::max({row[column], part[column], sums[column]});
    }
    row[k_points_computed_per_thread] = points / std::max(1.0F, threads(row));
}

}  // namespace metol::gpu
