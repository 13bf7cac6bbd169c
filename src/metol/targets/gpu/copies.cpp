#include "targets/gpu/copies.hpp"

#include <algorithm>

#include "targets/gpu/memory.hpp"

namespace metol::gpu {

namespace {

// The Stage at root that alone reads a copy and whose reduction loops can be cut around its threads; -1 without one.
int host_of_chunks(const PipelineIndex& index, const LoopNest& nest, int func) {
    const std::vector<int> readers = readers_of(index, nest, func);
    if (!index.func(func).is_wrapper || readers.size() != 1) {
        return -1;
    }
    const int host = readers.front();
    const Stage& stage = index.stage(host);
    const StageNest& own = nest_of(index, nest, host);
    const bool has_threads = own.vector_loop >= 0 && !spreads_reductions(stage, own);
    const bool is_closed = index.is_closed[static_cast<size_t>(stage.func)];
    if (!has_threads || is_closed || nest[stage.func].placement != Placement::Root || stage.has_predicate) {
        return -1;
    }
    // What is in its blocks already was made for whole loops.
    const auto is_inside = [&](const FuncSchedule* schedule) {
        return schedule->placement == Placement::At && schedule->compute.stage == host;
    };
    return std::ranges::any_of(nest.funcs, is_inside) ? -1 : host;
}

// Iterations of a chunk of a loop: what divides it, as a remainder would guard what is unrolled inside.
std::vector<int32_t> chunk_choices(const Stage& stage, const StageNest& own, size_t loop) {
    std::vector<int32_t> choices;
    const int32_t extent = own.levels[kPoint][loop];
    if (!stage.loops[loop].is_rvar || !stage.loops[loop].has_constant_extent) {
        return choices;
    }
    // The order of reduction loops changes where others turn inside the chunks.
    for (size_t i = loop + 1; i < stage.loops.size() && !stage.is_commutative; i++) {
        if (stage.loops[i].is_rvar) {
            return choices;
        }
    }
    for (int32_t chunk : kChunks) {
        if (chunk < extent && extent % chunk == 0) {
            choices.push_back(chunk);
        }
    }
    return choices;
}

// Does the copy hold less where a loop is cut?
bool is_read_along(const PipelineIndex& index, const LoopNest& nest, int host, int func, size_t loop) {
    for (const EffectiveAccess& access : effective_reads(index, nest, host)->accesses) {
        for (size_t d = 0; access.producer == func && d < access.jacobian.size(); d++) {
            if (access.jacobian[d][loop] != 0) {
                return true;
            }
        }
    }
    return false;
}

}  // namespace

std::vector<DecisionFamily> chunk_families(const PipelineIndex& index, const LoopNest& nest, int func) {
    std::vector<DecisionFamily> families;
    const int host = host_of_chunks(index, nest, func);
    if (host < 0) {
        return families;
    }
    const Stage& stage = index.stage(host);
    Decision decision;
    decision.kind = DecisionKind::At;
    decision.func = static_cast<int16_t>(func);
    decision.stage = static_cast<int16_t>(host);
    decision.level = kBlocks;
    decision.is_split = 1;
    decision.trips.fill(1);
    for (size_t loop = 0; loop < stage.loops.size(); loop++) {
        std::vector<int32_t> choices = chunk_choices(stage, nest_of(index, nest, host), loop);
        if (!choices.empty() && is_read_along(index, nest, host, func, loop)) {
            DecisionFamily family{decision, std::vector<std::vector<int32_t>>(stage.loops.size(), {1})};
            family.choices[loop] = std::move(choices);
            families.push_back(std::move(family));
        }
    }
    return families;
}

bool is_chunk_offered(const PipelineIndex& index, const LoopNest& nest, const Decision& decision) {
    for (const DecisionFamily& family : chunk_families(index, nest, decision.func)) {
        for (int64_t number = 0; number < family.count(); number++) {
            if (family.decode(number) == decision) {
                return true;
            }
        }
    }
    return false;
}

void cut_into_chunks(const PipelineIndex& index, Pool& pool, const Decision& decision, LoopNest& child) {
    const Stage& stage = index.stage(decision.stage);
    FuncSchedule schedule = child[stage.func];
    StageNest& own = schedule.stages[static_cast<size_t>(stage.index)];
    for (size_t i = 0; i < stage.loops.size(); i++) {
        if (decision.trips[i] > 1) {
            own.levels[kBlocks][i] = own.levels[kPoint][i] / decision.trips[i];
            own.levels[kPoint][i] = decision.trips[i];
        }
    }
    child.funcs[static_cast<size_t>(stage.func)] = pool.intern(std::move(schedule));
}

Tile default_copy_tile(const PipelineIndex& index, const LoopNest& nest, const Stage& stage, const Box& loops,
                       const Site& site) {
    const int dense = innermost_dim(index, nest, stage.edges.front().producer);
    int thread_loop = -1;
    for (int loop : parallel_loops(stage, -1, Spread::Pure)) {
        const bool is_dense = stage.loops[static_cast<size_t>(loop)].pure_dim == dense;
        thread_loop = thread_loop < 0 || is_dense ? loop : thread_loop;
    }
    Tile tile;
    tile.thread_loop = thread_loop;
    if (thread_loop < 0) {
        return tile;
    }
    const ThreadCounts most = thread_counts(index.stage(site.stage), nest_of(index, nest, site.stage));
    const std::vector<int> order = parallel_loops(stage, thread_loop, Spread::Pure);
    int32_t together = 1;
    // The points of a thread keep it apart from its neighbour: those along their loop come last.
    for (size_t d = std::min(order.size(), kBlockDimensions); d-- > 0;) {
        int32_t& points = tile.points[static_cast<size_t>(order[d])];
        while (loops[order[d]].extent() > static_cast<int64_t>(points) * most[d] && points < kPoints.back() &&
               together < kMaxPoints) {
            points *= 2;
            together *= 2;
        }
    }
    return tile;
}

Pruned check_copy(const PipelineIndex& index, const LoopNest& nest, int func) {
    Regions regions(index, nest);
    const bool is_of_thread = is_in_thread(nest[func]);
    double loads = 0;
    for (int reader : readers_of(index, nest, func)) {
        const Stage& stage = index.stage(reader);
        const StageNest& own = nest_of(index, nest, reader);
        const StageNest& around = nest_of(index, nest, host_of_threads(index, nest, reader));
        double threads = 1;
        for (int32_t count : around.levels[kThreads]) {
            threads *= is_of_thread ? 1 : count;
        }
        for (const EffectiveAccess& access : effective_reads(index, nest, reader)->accesses) {
            loads += access.producer == func ? threads * loads_per_thread(stage, own, access) : 0;
        }
    }
    const auto copied = static_cast<double>(regions.production(func).points());
    return loads < kLeastReuse * copied ? Pruned::NothingShared : Pruned::None;
}

}  // namespace metol::gpu
