#include "targets/cpu/fusing.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "schedule/reads.hpp"
#include "schedule/tilings.hpp"
#include "targets/cpu/nest_queries.hpp"

namespace metol::cpu {

namespace {

// The Funcs, inputs included, that `func` depends on.
std::vector<uint8_t> ancestors(const PipelineIndex& index, int func) {
    std::vector<uint8_t> is_found(static_cast<size_t>(index.func_count()), 0);
    std::vector<int> pending = {func};
    while (!pending.empty()) {
        const int next = pending.back();
        pending.pop_back();
        for (int stage : index.func(next).stages) {
            for (const Edge& edge : index.stage(stage).edges) {
                if (edge.producer != next && !is_found[static_cast<size_t>(edge.producer)]) {
                    is_found[static_cast<size_t>(edge.producer)] = 1;
                    pending.push_back(edge.producer);
                }
            }
        }
    }
    return is_found;
}

// Has a Func loops that we schedule as any? Those of an output that another Func reads are split the other way round,
// and several outputs share theirs already.
bool has_loops(const PipelineIndex& index, int func) {
    const auto f = static_cast<size_t>(func);
    const Func& described = index.func(func);
    const bool is_other_output = described.is_output && (!index.consumers[f].empty() || !described.joint.empty());
    return !described.is_input && !described.is_extern && !index.must_inline[f] && !index.is_closed[f] &&
           !is_other_output;
}

// Loops of the same names and kinds: Halide compares the names. The condition of a `where` would be a guard as those
// of splits are, below. Which of two RVars goes further is not looked at.
bool has_same_loops(const Stage& one, const Stage& other) {
    const bool is_plain = !one.is_undef && !other.is_undef && !one.has_predicate && !other.has_predicate;
    return is_plain && !one.loops.empty() &&
           std::equal(one.loops.begin(), one.loops.end(), other.loops.begin(), other.loops.end(),
                      [](const LoopDim& a, const LoopDim& b) {
                          return a.name == b.name && a.is_rvar == b.is_rvar && a.is_reduction == a.is_rvar &&
                                 b.is_reduction == b.is_rvar && a.pure_dim == b.pure_dim;
                      });
}

// Points along each loop that one iteration of a level covers.
Trips points_inside(const StageNest& nest, int level) {
    Trips points = unit_trips();
    for (int inner = level + 1; inner <= nest.inner_level(); inner++) {
        for (size_t i = 0; i < kMaxLoops; i++) {
            points[i] *= nest.levels[static_cast<size_t>(inner)][i];
        }
    }
    return points;
}

// The levels at which a loop has a part of its own, outermost first, as lower/nest_loops.py splits it.
std::vector<int> parts_of(const StageNest& nest, size_t loop) {
    const int tile = nest.inner_level();
    std::vector<int> levels;
    for (int level = 0; level < tile; level++) {
        if (nest.levels[static_cast<size_t>(level)][loop] > 1) {
            levels.push_back(level);
        }
    }
    if (levels.empty()) {
        levels.push_back(tile - 1);
    }
    const int32_t points = nest.levels.back()[loop];
    const bool is_vector = static_cast<int>(loop) == nest.vector_loop;
    if (points > 1) {
        levels.push_back(tile);
    }
    if (points > 1 && is_vector && points > nest.vector_width) {
        levels.push_back(tile);
    }
    return levels;
}

// Do both split the loops down to the body of `level` alike? Where several parallel loops become one, that has a name
// of its own.
bool has_same_levels(const Stage& stage, const StageNest& leader, const StageNest& follower, int level) {
    if (leader.is_parallel != follower.is_parallel || leader.vector_loop != follower.vector_loop ||
        points_inside(leader, level) != points_inside(follower, level)) {
        return false;
    }
    const bool is_one_loop = level == 0 && leader.is_parallel && loops_that_turn(leader.levels.front()) > 1;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        const std::vector<int> parts = parts_of(leader, i);
        const std::vector<int> others = parts_of(follower, i);
        if (parts.front() <= level && !is_one_loop && parts.size() != others.size()) {
            return false;
        }
        for (int l = 0; l <= level; l++) {
            const bool is_outermost = l == parts.front();
            const int32_t count = leader.levels[static_cast<size_t>(l)][i];
            const int32_t other = follower.levels[static_cast<size_t>(l)][i];
            if (std::count(parts.begin(), parts.end(), l) != std::count(others.begin(), others.end(), l) ||
                (count != other && !is_outermost)) {
                return false;
            }
        }
    }
    // A loop of several dimensions counts through them: their lengths decide which iterations meet.
    return !is_one_loop || leader.levels.front() == follower.levels.front();
}

// Does nothing but the code of the leader lie behind its guards? Halide 21 puts the condition that a split leaves just
// inside the loops that it depends on. Where those are all shared, and another shared loop lies further in, it guards
// that loop with the follower in it, whose rows beyond the leader's are lost then.
bool keeps_guards_inside(const PipelineIndex& index, int stage, const StageNest& leader, int level) {
    int innermost = -1;
    for (int loop : index.nest_order(stage, leader.vector_loop)) {
        const std::vector<int> parts = parts_of(leader, static_cast<size_t>(loop));
        innermost = std::find(parts.begin(), parts.end(), level) != parts.end() ? loop : innermost;
    }
    for (size_t i = 0; i < index.stage(stage).loops.size(); i++) {
        const std::vector<int> parts = parts_of(leader, i);
        if (parts.size() > 1 && parts.back() <= level && static_cast<int>(i) != innermost) {
            return false;
        }
    }
    return true;
}

bool hosts_others(const LoopNest& nest, int stage) {
    return std::any_of(nest.funcs.begin(), nest.funcs.end(), [&](const FuncSchedule* schedule) {
        return schedule->placement == Placement::At && schedule->compute.stage == stage;
    });
}

// `nest` with the levels of the leader around a tile of the same size.
StageNest with_levels_of(const StageNest& leader, StageNest nest, const Box& loops) {
    const Trips inside = points_inside(leader, 0);
    nest.levels = leader.levels;
    nest.is_parallel = leader.is_parallel;
    for (int i = 0; i < loops.dimensions; i++) {
        const auto loop = static_cast<size_t>(i);
        nest.levels.front()[loop] = divide_up(std::max<int64_t>(1, loops[i].extent()), inside[loop]);
    }
    return nest;
}

// The Func whose loops the Stages of `func` share, itself where they share none.
int leading_func(const PipelineIndex& index, const LoopNest& nest, int func) {
    const int leader = nest[func].leader();
    return leader >= 0 ? index.stage(leader).func : func;
}

// Would Funcs that run together wait for each other? Halide orders whole sets of Funcs.
bool waits_for_itself(const PipelineIndex& index, const LoopNest& nest, int leader, int follower) {
    const auto set_of = [&](int func) {
        const int leading = leading_func(index, nest, func);
        return leading == follower ? leader : leading;
    };
    std::vector<uint8_t> is_found(static_cast<size_t>(index.func_count()), 0);
    std::vector<int> pending = {leader};
    while (!pending.empty()) {
        const int next = pending.back();
        pending.pop_back();
        for (int member = 0; member < index.func_count(); member++) {
            if (set_of(member) != next) {
                continue;
            }
            for (int stage : index.func(member).stages) {
                for (const Edge& edge : index.stage(stage).edges) {
                    const int producer = set_of(edge.producer);
                    if (producer == leader && edge.producer != member) {
                        return true;
                    }
                    if (!is_found[static_cast<size_t>(producer)] && producer != next) {
                        is_found[static_cast<size_t>(producer)] = 1;
                        pending.push_back(producer);
                    }
                }
            }
        }
    }
    return false;
}

// Do both load from the same memory, what is inlined into them looked through?
bool reads_the_same(const PipelineIndex& index, const LoopNest& nest, int stage, int other) {
    const auto own = effective_reads(index, nest, stage);
    const auto others = effective_reads(index, nest, other);
    return std::ranges::any_of(own->accesses, [&](const EffectiveAccess& access) {
        return std::ranges::find(others->accesses, access.producer, &EffectiveAccess::producer) !=
               others->accesses.end();
    });
}

bool can_share(const PipelineIndex& index, const LoopNest& nest, int leader_stage, int stage_id) {
    const int leader = index.stage(leader_stage).func;
    const int follower = index.stage(stage_id).func;
    const bool is_at_root = nest[leader].placement == Placement::Root && nest[follower].placement == Placement::Root;
    const int led_by = leading_func(index, nest, follower);
    return is_at_root && leading_func(index, nest, leader) == leader && (led_by == follower || led_by == leader) &&
           !is_leader(index, nest, follower) && !waits_for_itself(index, nest, leader, follower);
}

}  // namespace

bool asks_for_more_in_joint(const PipelineIndex& index, const LoopNest& nest, int func) {
    int host = func;
    while (nest[host].placement == Placement::At) {
        host = index.stage(nest[host].compute.stage).func;
    }
    if (host == func || index.func(host).joint.empty()) {
        return false;
    }
    return std::ranges::any_of(index.growth.readers(), [&](const Growth::Reader& reader) {
        for (int d = 0; d < index.func(func).dimensions(); d++) {
            if ((index.growth.of(func, d, reader.func) & reader.open_dims).any()) {
                return true;
            }
        }
        return false;
    });
}

bool is_leader(const PipelineIndex& index, const LoopNest& nest, int func) {
    return std::any_of(nest.funcs.begin(), nest.funcs.end(), [&](const FuncSchedule* schedule) {
        return schedule->leader() >= 0 && index.stage(schedule->leader()).func == func;
    });
}

std::vector<int> possible_leaders(const PipelineIndex& index, int stage_id) {
    const Stage& stage = index.stage(stage_id);
    std::vector<int> leaders;
    if (!has_loops(index, stage.func)) {
        return leaders;
    }
    const std::vector<uint8_t> own = ancestors(index, stage.func);
    for (int32_t func : index.order) {
        if (func == stage.func) {
            break;
        }
        const auto& stages = index.func(func).stages;
        if (!has_loops(index, func) || static_cast<size_t>(stage.index) >= stages.size()) {
            continue;
        }
        const int leader = stages[static_cast<size_t>(stage.index)];
        if (!has_same_loops(index.stage(leader), stage)) {
            continue;
        }
        const std::vector<uint8_t> others = ancestors(index, func);
        const bool is_path = own[static_cast<size_t>(func)] || others[static_cast<size_t>(stage.func)];
        const bool is_related = std::inner_product(own.begin(), own.end(), others.begin(), false, std::logical_or<>(),
                                                   std::logical_and<>());
        if (!is_path && is_related) {
            leaders.push_back(leader);
        }
    }
    return leaders;
}

std::vector<DecisionFamily> fuse_families(const PipelineIndex& index, const LoopNest& nest, const DecisionStep& step) {
    Decision decision;
    decision.func = step.func;
    decision.stage = step.stage;
    std::vector<DecisionFamily> families = {{decision, {}}};
    if (nest[step.func].placement != Placement::Root) {
        return families;
    }
    decision.kind = DecisionKind::Fuse;
    for (int leader : possible_leaders(index, step.stage)) {
        if (!can_share(index, nest, leader, step.stage) || !reads_the_same(index, nest, leader, step.stage)) {
            continue;
        }
        const StageNest& around = nest_of(index, nest, leader);
        decision.trips.fill(1);
        decision.trips.front() = leader;
        for (int level = 0; level < around.inner_level(); level++) {
            if (loops_that_turn(around.levels[static_cast<size_t>(level)]) > 0) {
                decision.level = static_cast<int8_t>(level);
                families.push_back({decision, {}});
            }
        }
    }
    return families;
}

Pruned apply_fuse(const PipelineIndex& index, Pool& pool, const Decision& decision, LoopNest& child) {
    const int leader = decision.trips.front();
    const std::vector<int> leaders = possible_leaders(index, decision.stage);
    if (std::find(leaders.begin(), leaders.end(), leader) == leaders.end() ||
        !can_share(index, child, leader, decision.stage)) {
        return Pruned::CannotShareLoops;
    }
    const StageNest& around = nest_of(index, child, leader);
    const Stage& stage = index.stage(decision.stage);
    FuncSchedule schedule = child[stage.func];
    StageNest& own = schedule.stages[static_cast<size_t>(stage.index)];
    const int level = decision.level;
    if (level < 0 || level >= around.inner_level() || loops_that_turn(around.levels[static_cast<size_t>(level)]) == 0 ||
        !keeps_guards_inside(index, leader, around, level)) {
        return Pruned::CannotShareLoops;
    }
    const bool is_same = level < own.inner_level() && has_same_levels(stage, around, own, level);
    if (!is_same) {
        if (own.levels.back() != around.levels.back() || hosts_others(child, decision.stage)) {
            return Pruned::CannotShareLoops;
        }
        Regions regions(index, child);
        own = with_levels_of(around, own, regions.loops(decision.stage, schedule.compute));
        if (!has_same_levels(stage, around, own, level)) {
            return Pruned::CannotShareLoops;
        }
    }
    own.leader = static_cast<int16_t>(leader);
    own.shared_level = static_cast<int8_t>(level);
    child.funcs[static_cast<size_t>(stage.func)] = pool.intern(std::move(schedule));
    return Pruned::None;
}

std::vector<int> sharing_stages(const PipelineIndex& index, const LoopNest& nest, std::span<const int32_t> group,
                                int stage) {
    const int16_t leader = nest_of(index, nest, stage).leader;
    const int first = leader >= 0 ? leader : stage;
    std::vector<int> stages = {first};
    for (int32_t func : group) {
        const auto& nests = nest[func].stages;
        for (size_t s = 0; s < nests.size(); s++) {
            if (nests[s].leader == first) {
                stages.push_back(index.func(func).stages[s]);
            }
        }
    }
    return stages;
}

}  // namespace metol::cpu
