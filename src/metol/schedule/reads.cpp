#include "schedule/reads.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>

namespace metol {

double slope_of(const JacobianRow& row, size_t loop) {
    return row.is_known[loop] ? static_cast<double>(row.numerator[loop]) / row.denominator[loop]
                              : std::numeric_limits<double>::quiet_NaN();
}

bool moves_with(const JacobianRow& row, size_t loop) {
    return !row.is_known[loop] || row.numerator[loop] != 0;
}

bool surely_moves_with(const JacobianRow& row, size_t loop) {
    return row.is_known[loop] && row.numerator[loop] != 0;
}

bool moves_with(const Access& access, size_t loop) {
    return std::ranges::any_of(access.jacobian, [&](const JacobianRow& row) { return moves_with(row, loop); });
}

bool moves_while_reducing(const Stage& stage, const Access& access) {
    for (size_t i = 0; i < stage.loops.size(); i++) {
        if (stage.loops[i].is_reduction && moves_with(access, i)) {
            return true;
        }
    }
    return false;
}

EffectiveAccess direct_access(const Access& access, int producer) {
    EffectiveAccess out;
    out.producer = producer;
    out.count = access.count;
    out.step_ways = access.step_ways;
    out.has_floats = access.has_floats;
    out.part = access.part;
    for (size_t d = 0; d < access.jacobian.size(); d++) {
        const JacobianRow& row = access.jacobian[d];
        std::array<double, kMaxLoops> derivatives{};
        std::bitset<kMaxLoops> phases;
        std::bitset<kMaxLoops> floats;
        for (size_t i = 0; i < row.numerator.size(); i++) {
            derivatives[i] = slope_of(row, i);
            phases[i] = row.has_phase[i] != 0;
            floats[i] = row.has_float[i] != 0;
        }
        out.jacobian.push_back(derivatives);
        out.phases.push_back(phases);
        out.floats.push_back(floats);
        out.distinct.push_back(access.distinct_offsets[d]);
        out.clamped[d] = !access.is_clamped.empty() && access.is_clamped[d];
    }
    return out;
}

namespace {

// What Stages read that a thread keeps.
constexpr size_t kKeptReads = 1024;

// Pairs of an offset outside and one inside that are looked at.
constexpr size_t kMaxPairs = 1024;

std::bitset<kMaxLoops> moving_loops(const std::array<double, kMaxLoops>& slopes) {
    std::bitset<kMaxLoops> loops;
    for (size_t k = 0; k < kMaxLoops; k++) {
        loops[k] = slopes[k] != 0;
    }
    return loops;
}

// What an Access says by itself, with offsets to tell equal positions by.
EffectiveAccess with_offsets(const Access& access, const Edge& edge) {
    EffectiveAccess out = direct_access(access, edge.producer);
    out.offsets = access.offsets;
    out.added_share = edge.added_share;
    return out;
}

// The offsets of `inner`, a read by the definition of `inlined`, at all positions where `outer` evaluates that; none
// where they are not known, or there are too many.
std::vector<Offset> offsets_through(const Stage& inlined, const EffectiveAccess& outer, const EffectiveAccess& inner) {
    if (outer.offsets.empty() || inner.offsets.empty() || outer.offsets.size() * inner.offsets.size() > kMaxPairs) {
        return {};
    }
    const auto is_whole = [&](size_t d, size_t i) { return inner.jacobian[d][i] == std::floor(inner.jacobian[d][i]); };
    for (size_t d = 0; d < inner.jacobian.size(); d++) {
        for (size_t i = 0; i < inlined.loops.size(); i++) {
            if (!is_whole(d, i)) {  // or not known
                return {};
            }
        }
    }
    std::vector<Offset> found;
    found.reserve(outer.offsets.size() * inner.offsets.size());
    for (const Offset& position : outer.offsets) {
        Offset moved{};
        for (size_t d = 0; d < inner.jacobian.size(); d++) {
            for (size_t i = 0; i < inlined.loops.size(); i++) {
                const auto slope = static_cast<int32_t>(inner.jacobian[d][i]);
                moved[d] += slope * position[static_cast<size_t>(inlined.loops[i].pure_dim)];
            }
        }
        for (Offset offset : inner.offsets) {
            std::ranges::transform(offset, moved, offset.begin(), std::plus<>());
            found.push_back(offset);
        }
    }
    std::ranges::sort(found);
    const auto rest = std::ranges::unique(found);
    found.erase(rest.begin(), rest.end());
    return found.size() <= kMaxOffsets ? found : std::vector<Offset>();
}

// How many positions there are, and how many along each dimension.
void count_offsets(EffectiveAccess& access) {
    access.count = static_cast<double>(access.offsets.size());
    for (size_t d = 0; d < access.distinct.size(); d++) {
        std::vector<int32_t> along;
        for (const Offset& offset : access.offsets) {
            along.push_back(offset[d]);
        }
        std::ranges::sort(along);
        access.distinct[d] = static_cast<double>(std::unique(along.begin(), along.end()) - along.begin());
    }
}

// Of values that are asked for so often in all, the share that is asked for once: what several expressions share is
// kept in a register, and is part of no one addition.
double once_share(double values, double asked) {
    return std::clamp(2 - asked / values, 0.0, 1.0);
}

// Values that are read at each position: several of a Tuple.
double values_per_position(const EffectiveAccess& access) {
    double positions = 1;
    for (double distinct : access.distinct) {
        positions *= distinct;
    }
    return std::max(1.0, access.count / positions);
}

// `outer` evaluates an inlined Func whose definition reads through `inner`: chain rule, and offsets that add up.
EffectiveAccess through(const Stage& inlined, const EffectiveAccess& outer, const EffectiveAccess& inner) {
    EffectiveAccess out;
    out.producer = inner.producer;
    const bool has_steps = outer.step_ways > 0 || inner.step_ways > 0;
    out.step_ways = has_steps ? std::max(outer.step_ways, 1) * std::max(inner.step_ways, 1) : 0;
    out.has_floats = outer.has_floats || inner.has_floats;
    out.part = outer.part;
    double positions = 1;
    for (size_t d = 0; d < inner.jacobian.size(); d++) {
        std::array<double, kMaxLoops> derivatives{};
        std::bitset<kMaxLoops> phases;
        std::bitset<kMaxLoops> floats;
        double distinct = inner.distinct[d];
        out.clamped[d] = inner.clamped[d];
        for (size_t i = 0; i < inlined.loops.size(); i++) {
            const double slope = inner.jacobian[d][i];
            const auto dim = static_cast<size_t>(inlined.loops[i].pure_dim);
            if (slope != 0) {
                phases |= outer.phases[dim];
                floats |= outer.floats[dim];
            }
            if (inner.phases[d][i]) {
                phases |= outer.phases[dim] | moving_loops(outer.jacobian[dim]);
            }
            if (inner.floats[d][i]) {
                floats |= moving_loops(outer.jacobian[dim]);
            }
            if (slope == 0) {
                continue;
            }
            out.clamped[d] = out.clamped[d] || outer.clamped[dim];
            for (size_t k = 0; k < kMaxLoops; k++) {
                derivatives[k] += outer.jacobian[dim][k] == 0 ? 0 : slope * outer.jacobian[dim][k];
            }
            distinct += outer.distinct[dim] - 1;
        }
        out.jacobian.push_back(derivatives);
        out.phases.push_back(phases);
        out.floats.push_back(floats);
        out.distinct.push_back(distinct);
        positions *= distinct;
    }
    out.offsets = offsets_through(inlined, outer, inner);
    if (out.offsets.empty()) {
        out.count = std::max(1.0, std::min(outer.count * inner.count, positions * values_per_position(inner)));
    } else {
        count_offsets(out);
    }
    out.added_share = inner.added_share * once_share(out.count, outer.count * inner.count);
    return out;
}

// Adds the reads of one Access; where others of the same Jacobian read at the same positions, nothing is read twice,
// unless they are of two outputs.
void include(std::vector<EffectiveAccess>& accesses, EffectiveAccess&& access) {
    const auto same = std::ranges::find_if(accesses, [&](const EffectiveAccess& other) {
        return other.producer == access.producer && other.part == access.part &&
               other.is_clamped == access.is_clamped && !other.offsets.empty() && !access.offsets.empty() &&
               other.jacobian == access.jacobian && other.phases == access.phases && other.floats == access.floats;
    });
    if (same == accesses.end()) {
        accesses.push_back(std::move(access));
        return;
    }
    std::vector<Offset> both;
    std::ranges::set_union(same->offsets, access.offsets, std::back_inserter(both));
    if (both.size() > kMaxOffsets) {
        accesses.push_back(std::move(access));
        return;
    }
    const double asked = same->count + access.count;
    const double added = same->count * same->added_share + access.count * access.added_share;
    same->added_share = added / asked * once_share(static_cast<double>(both.size()), asked);
    same->offsets = std::move(both);
    same->step_ways = std::max(same->step_ways, access.step_ways);
    same->clamped |= access.clamped;
    same->has_floats = same->has_floats || access.has_floats;
    count_offsets(*same);
}

StageReads find_reads(const PipelineIndex& index, const LoopNest& nest, int stage_id) {
    StageReads reads;
    const std::vector<Edge>& edges = index.stage(stage_id).edges;
    if (std::ranges::none_of(edges, [&](const Edge& e) { return nest[e.producer].placement == Placement::Inline; })) {
        for (const Edge& edge : edges) {
            for (const Access& access : edge.accesses) {
                reads.accesses.push_back(direct_access(access, edge.producer));
            }
        }
        return reads;
    }
    std::vector<EffectiveAccess> pending;  // of what is inlined
    const auto add = [&](EffectiveAccess&& access) {
        const bool is_inline = nest[access.producer].placement == Placement::Inline;
        include(is_inline ? pending : reads.accesses, std::move(access));
    };
    for (const Edge& edge : edges) {
        for (const Access& access : edge.accesses) {
            add(with_offsets(access, edge));
        }
    }
    while (!pending.empty()) {
        // Ids are topological: nothing that is still to be looked through reads the largest one.
        const int func = std::ranges::max_element(pending, {}, &EffectiveAccess::producer)->producer;
        const auto is_other = [&](const EffectiveAccess& access) { return access.producer != func; };
        const auto first = std::stable_partition(pending.begin(), pending.end(), is_other);
        std::vector<EffectiveAccess> evaluated(std::make_move_iterator(first), std::make_move_iterator(pending.end()));
        pending.erase(first, pending.end());
        double calls = 0;
        double added = 0;
        const Stage& inlined = index.stage(index.func(func).stages.front());
        for (EffectiveAccess& outer : evaluated) {
            // Who reads one value of a Tuple evaluates that alone.
            outer.count /= static_cast<double>(index.func(func).value_bytes.size());
            calls += outer.count;
            added += inlined.ends_in_product ? outer.count * outer.added_share : 0;
            for (const Edge& edge : inlined.edges) {
                for (const Access& inner : edge.accesses) {
                    EffectiveAccess combined = through(inlined, outer, with_offsets(inner, edge));
                    combined.is_clamped = outer.is_clamped || index.func(func).is_boundary_condition;
                    add(std::move(combined));
                }
            }
        }
        if (!index.func(func).is_wrapper) {  // a wrapper that is inlined is not there
            for (EffectiveAccess& outer : evaluated) {
                outer.offsets.clear();
            }
            reads.inlined.push_back({func, calls, added, std::move(evaluated)});
        }
    }
    return reads;
}

}  // namespace

std::shared_ptr<const StageReads> effective_reads(const PipelineIndex& index, const LoopNest& nest, int stage,
                                                  FuncTable& inlined) {
    thread_local SiteTable<std::shared_ptr<const StageReads>, kKeptReads> kept;
    kept.lend();
    const uint64_t key = site_key(0, stage, Site{}) ^ inlined_hash(index, nest, index.stage(stage).func, inlined);
    return kept.find_or_make(key, [&] { return std::make_shared<const StageReads>(find_reads(index, nest, stage)); });
}

std::shared_ptr<const StageReads> effective_reads(const PipelineIndex& index, const LoopNest& nest, int stage) {
    Borrowed<FuncTable> inlined;
    return effective_reads(index, nest, stage, *inlined);
}

std::vector<int> readers_of(const PipelineIndex& index, const LoopNest& nest, int func) {
    std::vector<int> readers;
    std::vector<int> read = {func};
    for (size_t i = 0; i < read.size(); i++) {
        for (const Consumer& consumer : index.consumers[static_cast<size_t>(read[i])]) {
            const int consuming = index.stage(consumer.stage).func;
            const bool is_inline = nest[consuming].placement == Placement::Inline;
            std::vector<int>& known = is_inline ? read : readers;
            const int next = is_inline ? consuming : consumer.stage;
            if (std::ranges::find(known, next) == known.end()) {
                known.push_back(next);
            }
        }
    }
    return readers;
}

uint64_t inlined_hash(const PipelineIndex& index, const LoopNest& nest, int func, FuncTable& known) {
    if (const uint64_t hash = known.of(func, index.func_count())) {
        return hash;
    }
    uint64_t hash = combine(index.id, static_cast<uint64_t>(func));
    for (int32_t stage : index.func(func).stages) {
        for (const Edge& edge : index.stage(stage).edges) {
            if (nest[edge.producer].placement == Placement::Inline) {
                hash = mix(hash + inlined_hash(index, nest, edge.producer, known));
            }
        }
    }
    return known.of(func, index.func_count()) = hash;
}

bool include(Box& existing, const Box& box, bool may_be_apart) {
    if (may_be_apart) {
        Box hull = existing;
        hull.include(box);
        if (hull.points() > existing.points() + box.points()) {
            return false;
        }
    }
    existing.include(box);
    return true;
}

void include(const PipelineIndex& index, std::vector<ReadBox>& boxes, int producer, const Box& box) {
    const bool may_be_apart = index.is_read_crosswise[static_cast<size_t>(producer)];
    int count = 0;
    auto end = boxes.end();  // behind the last of this producer
    for (auto existing = boxes.begin(); existing != boxes.end(); ++existing) {
        if (existing->producer == producer) {
            if (include(existing->box, box, may_be_apart && ++count < kBoxesApart)) {
                return;
            }
            end = existing + 1;
        }
    }
    boxes.insert(end, {producer, box});
}

void read_boxes(const PipelineIndex& index, const LoopNest& nest, int stage_id, const Box& loops,
                std::vector<ReadBox>& found) {
    thread_local std::vector<ReadBox> pending;
    pending.clear();
    found.clear();
    const auto add = [&](const Stage& stage, const Box& consumed) {
        for (const Edge& edge : stage.edges) {
            const bool is_inline = nest[edge.producer].placement == Placement::Inline;
            std::vector<ReadBox>& boxes = is_inline ? pending : found;
            if (!index.is_read_crosswise[static_cast<size_t>(edge.producer)]) {
                include(index, boxes, edge.producer, read_box(edge, consumed));
                continue;
            }
            for (const Access& access : edge.accesses) {
                include(index, boxes, edge.producer, read_box(edge, access, consumed));
            }
        }
    };
    add(index.stage(stage_id), loops);
    while (!pending.empty()) {
        // Ids are topological: the largest pending one has no consumer left that could enlarge its box.
        const auto next = std::max_element(pending.begin(), pending.end(),
                                           [](const ReadBox& a, const ReadBox& b) { return a.producer < b.producer; });
        const ReadBox inlined = *next;
        pending.erase(next);
        add(index.stage(index.func(inlined.producer).stages.front()), inlined.box);
    }
}

bool moves_with(const EffectiveAccess& access, size_t loop) {
    for (size_t d = 0; d < access.jacobian.size(); d++) {
        if (access.jacobian[d][loop] != 0 || access.phases[d][loop]) {
            return true;
        }
    }
    return false;
}

double places_after(double places, double slope, double turns) {
    return std::min(places * turns, places + std::abs(slope) * (turns - 1));
}

double distinct_loads(const EffectiveAccess& access, size_t loops, const Trips& steps, int apart, DimSet unknown) {
    double positions = 1;
    double per_point = 1;
    for (size_t d = 0; d < access.jacobian.size(); d++) {
        double distinct = access.distinct[d];
        per_point *= distinct;
        for (size_t i = 0; i < loops; i++) {
            const double slope = access.jacobian[d][i];
            if (slope == 0 || steps[i] <= 1) {
                continue;
            }
            if (static_cast<int>(i) == apart || std::isnan(slope) || unknown[d]) {
                distinct *= steps[i];
            } else {
                distinct = places_after(distinct, slope, steps[i]);
            }
        }
        positions *= distinct;
    }
    const double fill = per_point > 0 ? access.count / per_point : 1;
    return std::max(1.0, positions * fill);
}

}  // namespace metol
