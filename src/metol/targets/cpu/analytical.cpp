#include "targets/cpu/analytical.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "targets/cpu/feature_table.hpp"

namespace metol::cpu {

namespace {

// Of two kinds of work that different ports of a core do at once, the lesser still costs this share: they never
// overlap perfectly, and a schedule that does less of it should win.
constexpr double kOverlapShare = 0.3;
// The same of lines that come from a core's own caches and the last one: the core runs ahead of them only so far.
constexpr double kLineOverlapShare = 0.6;
// The same of memory traffic: the prefetchers run ahead of whole tiles.
constexpr double kMemoryOverlapShare = 0.4;
// By how much the time of one task differs from the next.
constexpr double kStragglerShare = 0.2;

// Points that are on their way into a cache at once: four vectors of 64 bytes.
constexpr double kPointsInFlight = 64;

// The share of `hidden` seconds that show beside `shown` ones.
double visible_share(double hidden, double shown, double overlap) {
    return hidden <= 0 ? 0 : (std::max(0.0, hidden - shown) + overlap * std::min(hidden, shown)) / hidden;
}

}  // namespace

void analytical_coefficients(const CpuParameters& machine, int stage, std::span<const float> row,
                             std::span<double> out) {
    std::fill(out.begin(), out.end(), 0.0);
    const auto feature = [&](Feature column) { return static_cast<double>(row[static_cast<size_t>(column)]); };
    const double tasks = std::max(1.0, feature(k_inner_parallelism) * feature(k_outer_parallelism));
    // With few tasks a core, the last one to end is waited for: the others idle half of a task's time on average, and
    // more when something else runs on the machine.
    const double idle = tasks > 1 ? kStragglerShare * machine.cores / tasks : 0;
    const double workers = std::min<double>(tasks, machine.cores) / (1 + idle);
    const auto s = static_cast<size_t>(stage);

    // A vector that fills no register costs as much as one that does.
    const double registers = std::max(1.0, feature(k_registers_per_vector));
    const double lane = machine.register_seconds[s] * registers / std::max(1.0, feature(k_vector_size)) / workers;
    const double scalar = machine.scalar_point_seconds[s] / workers;
    out[t_inlined_vector_compute] = out[t_vector_compute] = lane;
    out[t_inlined_scalar_compute] = out[t_scalar_compute] = scalar;

    const double vectors = feature(k_num_vectors);
    // What is inlined has rows of its own, and runs between the loads of this one.
    const double inlined = 1e-6 * feature(k_inlined_compute) / workers;
    const double own = vectors * feature(k_vector_size) * lane;
    const double compute = own + inlined;
    const double dense = vectors * feature(k_vector_loads_per_vector) * machine.seconds_per_vector_load / workers;
    const double gathers =
        vectors * feature(k_scalar_loads_per_vector) * machine.seconds_per_gathered_element / workers;
    const double visible = visible_share(dense + gathers, compute, kOverlapShare);
    // Elements are put together by the ports that compute.
    const double visible_gathers = visible_share(dense + gathers, own, kOverlapShare);
    const double busy = compute + feature(k_num_scalars) * scalar;
    const double lines = (feature(k_bytes_into_l1) * machine.seconds_per_byte_into_l1 +
                          feature(k_bytes_into_l2) * machine.seconds_per_byte_into_l2) /
                         workers;
    const double visible_lines = visible_share(lines, busy, kLineOverlapShare);
    out[t_vector_loads] = visible * machine.seconds_per_vector_load / workers;
    out[t_scalar_loads_of_vectors] = visible_gathers * machine.seconds_per_gathered_element / workers;
    out[t_scalar_loads_of_scalars] = machine.seconds_per_scalar_load / workers;
    // A core stores half as many scalars as it loads.
    out[t_vector_stores] =
        (feature(k_vector_size) > 1 ? machine.seconds_per_vector_store : 2 * machine.seconds_per_scalar_load) / workers;
    // The steps of a reduction cannot take less time than an addition takes until its result is there, whatever else is
    // done meanwhile.
    const double chained = feature(k_chained_steps) * machine.chained_step_seconds[s] / workers;
    const double spilled = feature(k_spilled_steps) * machine.seconds_per_spill / workers;
    const double waited = visible_share(chained + spilled, busy + visible * dense + visible_gathers * gathers, 0);
    out[t_chained_steps] = waited * machine.chained_step_seconds[s] / workers;
    out[t_spilled_steps] = waited * machine.seconds_per_spill / workers;
    out[t_loop_iterations] = machine.seconds_per_loop_iteration / workers;
    out[t_outer_iterations] = machine.seconds_per_outer_iteration / workers;
    // While many points are computed, the first are stored.
    const double soon = std::min(1.0, kPointsInFlight / std::max(1.0, feature(k_points_computed_per_production)));
    out[t_productions] = (machine.seconds_per_production + soon * machine.seconds_per_read_back) / workers;

    // Memory and the system's page tables are shared: their rates for all threads together are wall-clock already.
    const bool is_shared = tasks > 1 && machine.cores > 1;
    out[t_bytes_into_l1] = visible_lines * machine.seconds_per_byte_into_l1 / workers;
    out[t_bytes_into_l2] = visible_lines * machine.seconds_per_byte_into_l2 / workers;
    out[t_bytes_into_l3] = is_shared ? machine.seconds_per_byte_into_l3_all_cores : machine.seconds_per_byte_into_l3;
    out[t_segments_into_l2] = machine.seconds_per_segment / workers;
    out[t_segments_written_beyond_l3] = machine.seconds_per_written_segment / workers;
    // Halide makes a loop of prefetches, one a line.
    out[t_lines_prefetched] = (machine.seconds_per_scalar_load + machine.seconds_per_loop_iteration) / workers;
    out[t_bytes_written_beyond_l2] = machine.seconds_per_byte_out_of_l2 / workers;
    out[t_bytes_written_beyond_l3] =
        is_shared ? machine.seconds_per_byte_to_memory_all_cores : machine.seconds_per_byte_to_memory;
    const double slowdown = (is_shared ? machine.tiled_slowdown_all_cores : machine.tiled_slowdown) - 1;
    out[t_tiled_bytes_into_l3] = out[t_bytes_into_l3] * slowdown;
    out[t_tiled_bytes_written_beyond_l3] = out[t_bytes_written_beyond_l3] * slowdown;
    const std::array memory = {std::pair{k_bytes_into_l3, t_bytes_into_l3},
                               std::pair{k_tiled_bytes_into_l3, t_tiled_bytes_into_l3},
                               std::pair{k_bytes_written_beyond_l2, t_bytes_written_beyond_l2},
                               std::pair{k_bytes_written_beyond_l3, t_bytes_written_beyond_l3},
                               std::pair{k_tiled_bytes_written_beyond_l3, t_tiled_bytes_written_beyond_l3}};
    double moving = 0;
    for (const auto& [bytes, term] : memory) {
        moving += feature(bytes) * out[term];
    }
    const double visible_memory = visible_share(moving, busy, kMemoryOverlapShare);
    for (const auto& [bytes, term] : memory) {
        out[term] *= visible_memory;
    }
    out[t_bytes_faulted] = is_shared ? machine.seconds_per_fault_byte_all_cores : machine.seconds_per_fault_byte;

    out[t_allocations] = feature(k_inlined_calls) > 0 ? 0 : machine.seconds_per_allocation / workers;
    out[t_parallel_launches] = machine.seconds_per_parallel_launch;
    out[t_parallel_tasks] = machine.seconds_per_task / workers;
    out[t_contested_stores] = machine.seconds_per_contested_store / workers;
    // A line at the border of two tasks goes from one core to the other.
    out[t_false_sharing] = machine.seconds_per_byte_out_of_l2 * static_cast<double>(machine.cache_line_bytes) / workers;
}

}  // namespace metol::cpu
