#include "targets/cpu/tile_order.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include "targets/cpu/arithmetic.hpp"
#include "targets/cpu/nest_queries.hpp"

namespace metol::cpu {

namespace {

// Values that are used once and at once: the two operands of an operation, at most.
constexpr double kOperands = 2;

int32_t steps_of(const StageNest& nest, int loop) {
    const int32_t points = nest.levels.back()[static_cast<size_t>(loop)];
    return loop == nest.vector_loop ? points / nest.vector_width : points;
}

// Values of one load that are used again after another one has been loaded: 0 where each is used at once, and no more.
double held_values(const StageNest& nest, const EffectiveAccess& access, std::span<const int> order) {
    size_t shared = order.size();  // the outermost loop whose steps share values
    while (shared > 0 && moves_with(access, static_cast<size_t>(order[shared - 1]))) {
        shared--;
    }
    if (shared == 0) {
        return 0;
    }
    double values = access.count;
    for (size_t i = 0; i + 1 < shared; i++) {
        values *= moves_with(access, static_cast<size_t>(order[i])) ? steps_of(nest, order[i]) : 1;
    }
    return values;
}

// Values alive at once, where one along the vectors of the tile counts as `vector` and one of all lanes as 1.
double values_in(const StageNest& nest, const StageReads& reads, std::span<const int> order, double vector) {
    double held = 0;
    double passing = 0;
    for (const EffectiveAccess& access : reads.accesses) {
        const double size = moves_with(access, static_cast<size_t>(nest.vector_loop)) ? vector : 1;
        const double values = held_values(nest, access, order);
        held += size * values;
        passing += values > 0 ? 0 : size;
    }
    return held + std::min(passing, kOperands * vector);
}

// Some loops innermost, then the vectors.
template <typename Predicate>
std::vector<int> these_first(const Stage& stage, const StageNest& nest, const Predicate& is_first) {
    std::vector<int> order;
    for (int loop = 0; loop < static_cast<int>(stage.loops.size()); loop++) {
        if (loop == nest.vector_loop || steps_of(nest, loop) > 1) {
            order.push_back(loop);
        }
    }
    const auto place = [&](int loop) {
        return is_first(static_cast<size_t>(loop)) ? 0 : loop == nest.vector_loop ? 1 : 2;
    };
    std::ranges::stable_sort(order, {}, place);
    return order;
}

}  // namespace

TileOrder tile_order(const Stage& stage, const StageNest& nest, const StageReads& reads, double registers_per_vector) {
    std::vector<int> order;
    std::vector<int> reductions;
    for (int loop = 0; loop < static_cast<int>(stage.loops.size()); loop++) {
        if (steps_of(nest, loop) > 1) {
            (stage.loops[static_cast<size_t>(loop)].is_reduction ? reductions : order).push_back(loop);
        }
    }
    const auto count = static_cast<std::ptrdiff_t>(order.size());
    std::ranges::stable_partition(order, [&](int loop) { return loop == nest.vector_loop; });
    order.insert(order.end(), reductions.begin(), reductions.end());
    const std::vector<int> usual = order;
    std::vector<int> best = order;
    double fewest = values_in(nest, reads, order, 1);
    std::array<int, kMaxLoops> places{};
    std::iota(places.begin(), places.begin() + count, 0);
    while (std::next_permutation(places.begin(), places.begin() + count)) {
        for (size_t i = 0; i < static_cast<size_t>(count); i++) {
            order[i] = usual[static_cast<size_t>(places[i])];
        }
        if (const double values = values_in(nest, reads, order, 1); values < fewest) {
            fewest = values;
            best = order;
        }
    }
    const double registers = values_in(nest, reads, best, registers_per_vector);
    best.resize(static_cast<size_t>(count));
    return {std::move(best), registers};
}

std::vector<std::vector<int>> tile_orders(const PipelineIndex& index, const LoopNest& nest) {
    std::vector<std::vector<int>> orders(static_cast<size_t>(index.stage_count()));
    for (size_t id = 0; id < orders.size(); id++) {
        const Stage& stage = index.stage(static_cast<int>(id));
        if (!nest[stage.func].is_computed()) {
            continue;
        }
        const StageNest& own = nest_of(index, nest, static_cast<int>(id));
        const bool has_vectors =
            own.vector_loop >= 0 && !stage.loops[static_cast<size_t>(own.vector_loop)].is_reduction;
        const bool reduces = std::ranges::any_of(stage.loops, &LoopDim::is_reduction);
        if (has_vectors && !reduces && index.func(stage.func).interleaved > 1) {
            // The channels of a pixel one after the other: Halide stores them together if nothing is between them.
            const int dense = index.func(stage.func).dense_dim;
            orders[id] = these_first(stage, own, [&](size_t loop) { return stage.loops[loop].pure_dim == dense; });
        } else if (const DimSet picking = picking_loops(index, nest, static_cast<int>(id));
                   has_vectors && picking.any()) {
            orders[id] = these_first(stage, own, [&](size_t loop) { return picking[loop]; });
        } else if (has_vectors && reduces) {
            orders[id] = tile_order(stage, own, *effective_reads(index, nest, static_cast<int>(id)), 1).loops;
        }
    }
    return orders;
}

}  // namespace metol::cpu
