#include "schedule/reads.hpp"

#include <algorithm>
#include <limits>

namespace metol {

double slope_of(const JacobianRow& row, size_t loop) {
    return row.is_known[loop] ? static_cast<double>(row.numerator[loop]) / row.denominator[loop]
                              : std::numeric_limits<double>::quiet_NaN();
}

EffectiveAccess direct_access(const Access& access, int producer) {
    EffectiveAccess out;
    out.producer = producer;
    out.count = access.count;
    for (size_t d = 0; d < access.jacobian.size(); d++) {
        const JacobianRow& row = access.jacobian[d];
        std::array<double, kMaxLoops> derivatives{};
        std::bitset<kMaxLoops> phases;
        for (size_t i = 0; i < row.numerator.size(); i++) {
            derivatives[i] = slope_of(row, i);
            phases[i] = row.has_phase[i] != 0;
        }
        out.jacobian.push_back(derivatives);
        out.phases.push_back(phases);
        out.distinct.push_back(access.distinct_offsets[d]);
    }
    return out;
}

namespace {

std::bitset<kMaxLoops> moving_loops(const std::array<double, kMaxLoops>& slopes) {
    std::bitset<kMaxLoops> loops;
    for (size_t k = 0; k < kMaxLoops; k++) {
        loops[k] = slopes[k] != 0;
    }
    return loops;
}

// `outer` reads an inlined Func whose definition reads through `inner`: chain rule, and offsets that add up.
EffectiveAccess through(const Stage& inlined, const EffectiveAccess& outer, const EffectiveAccess& inner) {
    EffectiveAccess out;
    out.producer = inner.producer;
    double positions = 1;
    for (size_t d = 0; d < inner.jacobian.size(); d++) {
        std::array<double, kMaxLoops> derivatives{};
        std::bitset<kMaxLoops> phases;
        double distinct = inner.distinct[d];
        for (size_t i = 0; i < inlined.loops.size(); i++) {
            const double slope = inner.jacobian[d][i];
            const auto dim = static_cast<size_t>(inlined.loops[i].pure_dim);
            if (slope != 0) {
                phases |= outer.phases[dim];
            }
            if (inner.phases[d][i]) {
                phases |= outer.phases[dim] | moving_loops(outer.jacobian[dim]);
            }
            if (slope == 0) {
                continue;
            }
            for (size_t k = 0; k < kMaxLoops; k++) {
                derivatives[k] += outer.jacobian[dim][k] == 0 ? 0 : slope * outer.jacobian[dim][k];
            }
            distinct += outer.distinct[dim] - 1;
        }
        out.jacobian.push_back(derivatives);
        out.phases.push_back(phases);
        out.distinct.push_back(distinct);
        positions *= distinct;
    }
    out.count = std::max(1.0, std::min(outer.count * inner.count, positions));
    return out;
}

void collect(const PipelineIndex& index, const LoopNest& nest, const EffectiveAccess& access, double calls,
             StageReads& reads) {
    if (nest[access.producer].placement != Placement::Inline) {
        reads.accesses.push_back(access);
        return;
    }
    const double uses = calls * access.count;
    const auto same = std::find_if(reads.inlined.begin(), reads.inlined.end(),
                                   [&](const InlinedUse& use) { return use.func == access.producer; });
    if (same != reads.inlined.end()) {
        same->calls_per_point += uses;
    } else if (!index.func(access.producer).is_wrapper) {  // a wrapper that is inlined is not there
        reads.inlined.push_back({access.producer, uses});
    }
    const Stage& inlined = index.stage(index.func(access.producer).stages.front());
    for (const Edge& edge : inlined.edges) {
        for (const Access& inner : edge.accesses) {
            EffectiveAccess combined = through(inlined, access, direct_access(inner, edge.producer));
            combined.is_clamped = access.is_clamped || index.func(access.producer).is_boundary_condition;
            collect(index, nest, combined, calls * access.count, reads);
        }
    }
}

}  // namespace

StageReads effective_reads(const PipelineIndex& index, const LoopNest& nest, int stage_id) {
    StageReads reads;
    for (const Edge& edge : index.stage(stage_id).edges) {
        for (const Access& access : edge.accesses) {
            collect(index, nest, direct_access(access, edge.producer), 1, reads);
        }
    }
    return reads;
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

}  // namespace metol
