#include "targets/gpu/tiling.hpp"

#include "schedule/nest_queries.hpp"
#include "schedule/tilings.hpp"

namespace metol::gpu {

namespace {

int64_t extent_of(const Box& loops, size_t loop) {
    return std::max<int64_t>(1, loops[static_cast<int>(loop)].extent());
}

Tile default_block_tile(const GpuParameters& machine, const Stage& stage, const Box& loops, int thread_loop) {
    Tile tile;
    tile.thread_loop = thread_loop;
    std::vector<int> order = parallel_loops(stage, thread_loop, Spread::Pure);
    order.resize(std::min(order.size(), kBlockDimensions));
    const auto threads = [&](int loop) {
        return divide_up(extent_of(loops, static_cast<size_t>(loop)), tile.points[static_cast<size_t>(loop)]);
    };
    // What the decision about its points can choose again (families.cpp).
    for (int32_t points = 1; points <= kMaxPoints; points *= 2) {
        int64_t total = 1;
        int longest = -1;
        for (int loop : order) {
            total *= threads(loop);
            // The loop along which warps lie comes last: its threads are to stay neighbours.
            const bool is_open = tile.points[static_cast<size_t>(loop)] < kPoints.back();
            const bool is_better = longest < 0 || longest == thread_loop || threads(loop) > threads(longest);
            longest = is_open && is_better && (loop != thread_loop || longest < 0) ? loop : longest;
        }
        if (total <= machine.max_threads_per_block || longest < 0 || points == kMaxPoints) {
            return tile;
        }
        tile.points[static_cast<size_t>(longest)] *= 2;
    }
    return tile;
}

// Can a Stage of a Func at root be spread over threads that update one place after the other, whoever comes first? The
// GPUs that Halide makes code for update words of 32 bits atomically.
bool can_be_atomic(const GpuParameters& machine, const PipelineIndex& index, const Stage& stage) {
    const Func& func = index.func(stage.func);
    return stage.index > 0 && stage.is_commutative && !stage.is_extern && !stage.is_undef &&
           func.value_bytes == std::vector<int32_t>{kAtomicBytes} && !machine.keeps_on_host(stage.func) &&
           std::ranges::any_of(stage.loops, [](const LoopDim& loop) { return !loop.is_parallelizable; });
}

// Are there no other loops, or too few turns of them for the threads of the device? Sums that stay where they are have
// partial results instead, if their places are few (rfactors.py): those of a scatter would be all of its places.
bool gains_by_atomics(const GpuParameters& machine, const Stage& stage, const Box& loops) {
    double threads = 1;
    bool is_any = false;
    for (int loop : parallel_loops(stage, -1, Spread::Free)) {
        threads *= static_cast<double>(extent_of(loops, static_cast<size_t>(loop)));
        is_any = true;
    }
    const double wanted = static_cast<double>(machine.multiprocessors) * machine.warps_to_hide_latency *
                          static_cast<double>(machine.warp_threads);
    bool is_scatter = false;
    for (const Access& store : stage.stores) {
        for (size_t i = 0; i < stage.loops.size(); i++) {
            is_scatter = is_scatter || (!stage.loops[i].is_parallelizable && moves_with(store, i));
        }
    }
    return loops.points() >= machine.warp_threads && (!is_any || (is_scatter && threads < wanted));
}

}  // namespace

std::vector<int> parallel_loops(const Stage& stage, int first, Spread spread) {
    std::vector<int> loops;
    if (stage.is_extern || stage.is_undef) {
        return loops;
    }
    for (int i = 0; i < static_cast<int>(stage.loops.size()); i++) {
        const LoopDim& loop = stage.loops[static_cast<size_t>(i)];
        const bool is_free = !loop.is_rvar || (spread == Spread::Free && loop.is_parallelizable);
        if ((is_free || spread == Spread::Atomic) && i != first) {
            loops.push_back(i);
        }
    }
    if (first >= 0) {
        loops.insert(loops.begin(), first);
    }
    return loops;
}

Spread spread_of(const StageNest& nest) {
    return nest.is_atomic ? Spread::Atomic : nest.is_parallel ? Spread::Free : Spread::Pure;
}

Spread plain_spread(const FuncSchedule& schedule) {
    return schedule.placement == Placement::Root ? Spread::Free : Spread::Pure;
}

std::vector<std::vector<int32_t>> thread_choices(const GpuParameters& machine, const Stage& stage, const Box& loops,
                                                 const StageNest& nest) {
    std::vector<std::vector<int32_t>> all(stage.loops.size(), {1});
    const std::vector<int> order = parallel_loops(stage, nest.vector_loop, spread_of(nest));
    for (size_t d = 0; d < std::min(order.size(), kBlockDimensions); d++) {
        const auto loop = static_cast<size_t>(order[d]);
        const int64_t tiles = divide_up(extent_of(loops, loop), nest.levels[kPoint][loop]);
        const int32_t most = std::min(power_of_two_at_least(tiles), machine.max_threads_per_block);
        std::vector<int32_t>& choices = all[loop];
        choices.clear();
        const std::span<const int32_t> counts =
            d == 0 ? std::span<const int32_t>(kFirstThreads) : std::span<const int32_t>(kOtherThreads);
        std::copy_if(counts.begin(), counts.end(), std::back_inserter(choices),
                     [&](int32_t count) { return count <= most; });
        if (choices.empty()) {
            choices.push_back(most);
        }
    }
    return all;
}

bool may_be_atomic(const GpuParameters& machine, const PipelineIndex& index, const Stage& stage, const Box& loops,
                   const FuncSchedule& schedule) {
    return schedule.placement == Placement::Root && can_be_atomic(machine, index, stage) &&
           gains_by_atomics(machine, stage, loops);
}

StageNest make_nest(const Stage& stage, const Box& loops, const FuncSchedule& schedule, const Tile& tile) {
    StageNest nest;
    const bool is_alone = tile.thread_loop < 0 || is_in_thread(schedule);
    nest.vector_loop = static_cast<int8_t>(is_alone ? -1 : tile.thread_loop);
    nest.is_parallel = !is_alone && schedule.placement == Placement::Root;
    nest.is_atomic = nest.is_parallel && tile.spread == Spread::Atomic;
    nest.levels.assign(3, unit_trips());
    const std::vector<int> order = is_alone ? std::vector<int>{} : parallel_loops(stage, tile.thread_loop, tile.spread);
    for (size_t i = 0; i < stage.loops.size(); i++) {
        const auto extent = static_cast<int32_t>(std::min<int64_t>(extent_of(loops, i), 1 << 30));
        const auto rank =
            static_cast<size_t>(std::find(order.begin(), order.end(), static_cast<int>(i)) - order.begin());
        const bool is_whole = rank == order.size();
        if (is_whole || (!nest.is_parallel && rank >= kBlockDimensions)) {
            nest.levels[kPoint][i] = extent;
            continue;
        }
        // A guard inside of it would be reckoned out together with the condition, as where that is unrolled.
        const int32_t points = stage.has_loading_condition && !nest.is_atomic ? 1 : std::min(tile.points[i], extent);
        nest.levels[kPoint][i] = points;
        nest.levels[kThreads][i] = nest.is_parallel ? tile.threads[i] : divide_up(extent, points);
        nest.levels[kBlocks][i] = nest.is_parallel ? divide_up(extent, points * tile.threads[i]) : 1;
    }
    return nest;
}

int64_t unrolled_iterations(const Stage& stage, const FuncSchedule& schedule, const StageNest& nest) {
    const bool is_own = is_in_thread(schedule);
    if (nest.vector_loop < 0 && !is_own) {
        return 1;
    }
    int64_t points = 1;
    int64_t unrolled = 1;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        if (is_serial(stage, nest, i)) {
            continue;
        }
        const bool has_threads = static_cast<int>(i) == nest.vector_loop || nest.levels[kThreads][i] > 1;
        points *= nest.levels[kPoint][i];
        unrolled *= is_own || has_threads || schedule.placement == Placement::Root ? nest.levels[kPoint][i] : 1;
    }
    if (is_own && points > kMostUnrolled) {
        return 1;
    }
    for (size_t i = 0; i < stage.loops.size() && !stage.has_loading_condition; i++) {
        if (!is_serial(stage, nest, i)) {
            continue;
        }
        points *= nest.levels[kPoint][i];
        if (!stage.loops[i].has_constant_extent || points > kMostUnrolled) {
            break;
        }
        unrolled *= nest.levels[kPoint][i];
    }
    return unrolled;
}

Tile tile_of(const StageNest& nest) {
    return {nest.vector_loop, spread_of(nest), nest.levels[kPoint], nest.levels[kThreads]};
}

Tile default_root_tile(const GpuParameters& machine, const Stage& stage, const Box& loops, int thread_loop,
                       Spread spread) {
    Tile tile;
    tile.thread_loop = thread_loop;
    tile.spread = spread;
    int32_t left = std::min(kDefaultThreads, machine.max_threads_per_block);
    size_t dimension = 0;
    for (int loop : parallel_loops(stage, thread_loop, spread)) {
        if (dimension == kBlockDimensions) {
            break;
        }
        const int32_t most = dimension == 0 ? machine.warp_threads : kOtherThreads.back();
        const int32_t count = std::min({left, most, power_of_two_at_least(loops[loop].extent())});
        tile.threads[static_cast<size_t>(loop)] = count;
        left /= count;
        dimension++;
    }
    return tile;
}

Tile default_tile(const GpuParameters& machine, const PipelineIndex& index, const Stage& stage, const Box& loops,
                  const FuncSchedule& schedule, int dim) {
    const Spread spread = plain_spread(schedule);
    int thread_loop = -1;
    std::vector<int> candidates = parallel_loops(stage, -1, spread);
    if (candidates.empty() && may_be_atomic(machine, index, stage, loops, schedule)) {
        return default_root_tile(machine, stage, loops, 0, Spread::Atomic);
    }
    candidates.resize(std::min(candidates.size(), kBlockDimensions));
    for (int loop : candidates) {
        const bool is_preferred = stage.loops[static_cast<size_t>(loop)].pure_dim == dim;
        thread_loop = thread_loop < 0 || is_preferred ? loop : thread_loop;
    }
    if (thread_loop < 0 || is_in_thread(schedule)) {
        return {};
    }
    return schedule.placement == Placement::Root ? default_root_tile(machine, stage, loops, thread_loop, spread)
                                                 : default_block_tile(machine, stage, loops, thread_loop);
}

int dimension_of_most_loads(const PipelineIndex& index, const LoopNest& nest, int func) {
    Votes votes = votes_of_readers(index, nest, func);
    const Stage& stage = index.stage(index.func(func).stages.front());
    for (const Edge& edge : stage.edges) {
        const Func& producer = index.func(edge.producer);
        const auto inner = static_cast<size_t>(producer.is_input ? std::max(0, producer.dense_dim) : 0);
        for (const Access& access : edge.accesses) {
            for (size_t i = 0; i < stage.loops.size() && inner < access.jacobian.size(); i++) {
                votes[static_cast<size_t>(stage.loops[i].pure_dim)] +=
                    surely_moves_with(access.jacobian[inner], i) ? access.count : 0;
            }
        }
    }
    return most_votes(votes);
}

}  // namespace metol::gpu
