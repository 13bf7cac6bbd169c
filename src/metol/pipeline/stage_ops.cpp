#include "stage_ops.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "branching.hpp"
#include "chains.hpp"
#include "seams.hpp"
#include "shared_ops.hpp"

namespace metol {
namespace {

// One group of loads with the same Jacobian, while it is being collected.
struct AccessGroup {
    std::vector<JacobianRow> jacobian;
    int32_t count = 0;
    bool has_parameter = false;
    bool has_floats = false;
    std::vector<uint8_t> is_clamped;                            // [dimensions]
    std::vector<std::set<std::pair<double, int32_t>>> offsets;  // [dimensions] known ones, or one a load where unknown
    std::set<uint64_t> step_ways;                               // of loads that step, how
    std::set<Offset> positions;                                 // those of loads all of whose offsets are whole numbers
};

// The offsets of one load; none where one of them is not a known whole number, or something beside them moves.
std::optional<Offset> whole_offsets(const ExprGraph& graph, std::span<const int32_t> coordinates) {
    if (coordinates.size() > kOffsetDims) {
        return std::nullopt;
    }
    Offset offsets{};
    for (size_t d = 0; d < coordinates.size(); d++) {
        const LinearForm& form = graph.linear(coordinates[d]);
        const auto is_set = [](uint8_t flag) { return flag != 0; };
        if (!form.has_offset || form.offset.denominator != 1 || std::ranges::any_of(form.has_phase, is_set) ||
            !std::ranges::all_of(form.is_known, is_set)) {
            return std::nullopt;
        }
        offsets[d] = static_cast<int32_t>(form.offset.numerator);
    }
    return offsets;
}

JacobianRow to_row(const LinearForm& form) {
    JacobianRow row;
    for (const Rational& r : form.coefficients) {
        row.numerator.push_back(static_cast<int32_t>(r.numerator));
        row.denominator.push_back(static_cast<int32_t>(r.denominator));
    }
    row.is_known = form.is_known;
    row.has_phase = form.has_phase;
    row.has_float = form.has_float;
    return row;
}

std::vector<JacobianRow> jacobian_of(const ExprGraph& graph, std::span<const int32_t> coordinates) {
    std::vector<JacobianRow> jacobian;
    for (int32_t coordinate : coordinates) {
        jacobian.push_back(to_row(graph.linear(coordinate)));
    }
    return jacobian;
}

void collect(const ExprGraph& graph, std::span<const int32_t> coordinates, std::vector<AccessGroup>& groups) {
    const std::vector<JacobianRow> jacobian = jacobian_of(graph, coordinates);
    auto group = std::ranges::find(groups, jacobian, &AccessGroup::jacobian);
    if (group == groups.end()) {
        group = groups.insert(groups.end(), AccessGroup{});
        group->jacobian = jacobian;
        group->offsets.resize(coordinates.size());
        group->is_clamped.resize(coordinates.size());
    }
    group->count++;
    group->has_parameter = group->has_parameter || std::ranges::any_of(coordinates, [&](int32_t coordinate) {
                               return graph.has_parameter(coordinate);
                           });
    if (const std::optional<Offset> offsets = whole_offsets(graph, coordinates)) {
        group->positions.insert(*offsets);
    }
    uint64_t steps = 0;
    for (size_t d = 0; d < coordinates.size(); d++) {
        const LinearForm& form = graph.linear(coordinates[d]);
        const double offset = static_cast<double>(form.offset.numerator) / static_cast<double>(form.offset.denominator);
        steps = form.steps == 0 ? steps : after_steps(steps, after_steps(form.steps, d));
        group->has_floats = group->has_floats || std::ranges::any_of(form.has_float, std::identity{});
        group->is_clamped[d] |= form.is_clamped;
        group->offsets[d].insert({form.has_offset ? offset : 0.0, form.has_offset ? -1 : coordinates[d]});
    }
    if (steps != 0) {
        group->step_ways.insert(steps);
    }
}

std::vector<Access> finish(const std::vector<AccessGroup>& groups) {
    std::vector<Access> accesses;
    for (const AccessGroup& group : groups) {
        Access access;
        access.jacobian = group.jacobian;
        access.count = group.count;
        access.has_parameter = group.has_parameter;
        access.step_ways = static_cast<int32_t>(group.step_ways.size());
        access.has_floats = group.has_floats;
        access.is_clamped = group.is_clamped;
        for (const auto& offsets : group.offsets) {
            const double span = offsets.rbegin()->first - offsets.begin()->first;
            access.offset_span.push_back(static_cast<int32_t>(std::ceil(span)));
            access.distinct_offsets.push_back(static_cast<int32_t>(offsets.size()));
        }
        if (group.positions.size() == static_cast<size_t>(group.count) && group.positions.size() <= kMaxOffsets) {
            access.offsets.assign(group.positions.begin(), group.positions.end());
        }
        accesses.push_back(std::move(access));
    }
    return accesses;
}

OpClass classify_load(const Access& access, size_t loop_count) {
    bool is_strided = false, is_window = access.count > 1, is_transposed = false;
    int32_t last_loop = -1;
    std::vector<bool> is_used(loop_count);
    for (const JacobianRow& row : access.jacobian) {
        int32_t moving = 0;
        for (size_t i = 0; i < loop_count; i++) {
            if (!row.is_known[i]) {
                return OpClass::LoadGather;
            }
            if (row.numerator[i] == 0) {
                continue;
            }
            is_used[i] = true;
            is_strided = is_strided || std::abs(row.numerator[i]) != 1 || row.denominator[i] != 1;
            if (moving++ == 0) {
                is_transposed = is_transposed || static_cast<int32_t>(i) < last_loop;
                last_loop = static_cast<int32_t>(i);
            }
        }
        is_window = is_window || moving > 1;
    }
    if (is_strided || is_transposed) {
        return is_strided ? OpClass::LoadStrided : OpClass::LoadTranspose;
    }
    if (std::find(is_used.begin(), is_used.end(), false) != is_used.end()) {
        return OpClass::LoadBroadcast;
    }
    return is_window ? OpClass::LoadStencil : OpClass::LoadPointwise;
}

// Walks the graph once, telling apart nodes that are values from nodes that only make up addresses.
class StageWalk {
  public:
    explicit StageWalk(const ExprGraph& graph) : graph_(graph), state_(static_cast<size_t>(graph.size())) {}

    void visit(int32_t id, bool is_address) {
        const uint8_t flag = is_address ? kAddress : kValue;
        uint8_t& state = state_[static_cast<size_t>(id)];
        if (state & (flag | kValue)) {
            return;
        }
        state |= flag;
        const ExprNode& node = graph_.node(id);
        if (node.kind == ExprKind::Load) {
            state |= kValue;  // a load is work wherever its value goes
        }
        for (int32_t arg : node.args) {
            visit(arg, is_address || node.kind == ExprKind::Load);
        }
    }

    bool is_value(int32_t id) const { return state_[static_cast<size_t>(id)] & kValue; }
    bool is_address_only(int32_t id) const { return state_[static_cast<size_t>(id)] == kAddress; }

  private:
    static constexpr uint8_t kAddress = 1, kValue = 2;
    const ExprGraph& graph_;
    std::vector<uint8_t> state_;
};

// Whether an expression contains a node such as a predicate picks out; remembers what it has answered.
template <typename Predicate>
class NodeFinder {
  public:
    NodeFinder(const ExprGraph& graph, Predicate is_wanted)
        : graph_(graph), is_wanted_(std::move(is_wanted)), known_(static_cast<size_t>(graph.size()), -1) {}

    bool finds_in(int32_t id) {
        int8_t& answer = known_[static_cast<size_t>(id)];
        if (answer < 0) {
            const ExprNode& node = graph_.node(id);
            answer = is_wanted_(node) || std::ranges::any_of(node.args, [&](int32_t arg) { return finds_in(arg); });
        }
        return answer;
    }

  private:
    const ExprGraph& graph_;
    Predicate is_wanted_;
    std::vector<int8_t> known_;
};

bool is_load(const ExprNode& node) {
    return node.kind == ExprKind::Load;
}

// Marks the loops that some nodes depend on, but for what is inside nodes of a kind.
class LoopMarks {
  public:
    LoopMarks(const ExprGraph& graph, std::optional<ExprKind> left_out, size_t loops)
        : graph_(graph), left_out_(left_out), seen_(static_cast<size_t>(graph.size())), marked_(loops) {}

    std::vector<uint8_t> of(std::span<const int32_t> ids) {
        for (int32_t id : ids) {
            mark(id);
        }
        return marked_;
    }

  private:
    void mark(int32_t id) {
        const ExprNode& node = graph_.node(id);
        if (std::exchange(seen_[static_cast<size_t>(id)], uint8_t{1}) || node.kind == left_out_) {
            return;
        }
        if (node.kind == ExprKind::LoopVariable) {
            marked_[static_cast<size_t>(node.loop)] = 1;
        }
        for (int32_t arg : node.args) {
            mark(arg);
        }
    }

    const ExprGraph& graph_;
    std::optional<ExprKind> left_out_;
    std::vector<uint8_t> seen_, marked_;
};

// Adding a literal folds into the address; leaves are no operations.
bool is_free_address(const ExprGraph& graph, const ExprNode& node) {
    if (node.args.empty() || node.kind == ExprKind::Likely) {
        return true;
    }
    return (node.kind == ExprKind::Add || node.kind == ExprKind::Sub) && graph.linear(node.args[1]).is_constant();
}

bool moves_by_known_steps(const LinearForm& form) {
    const auto is_whole = [](const Rational& step) { return step.denominator == 1; };
    return std::ranges::all_of(form.is_known, std::identity{}) && std::ranges::all_of(form.coefficients, is_whole) &&
           std::ranges::none_of(form.has_phase, std::identity{});
}

void note_width(const ExprNode& node, int32_t& narrowest, int32_t& widest) {
    if (node.bits < 8 || node.kind == ExprKind::Literal || node.kind == ExprKind::LoopVariable) {
        return;  // truth values and literals take the width of what they are used with
    }
    narrowest = std::min(narrowest, node.bits / 8);
    widest = std::max(widest, node.bits / 8);
}

}  // namespace

void describe_stage(const ExprGraph& graph, const StageRoots& roots, Stage& stage) {
    StageWalk walk(graph);
    for (const auto* group : {&roots.values, &roots.conditions}) {
        for (int32_t id : *group) {
            walk.visit(id, false);
        }
    }
    for (int32_t id : roots.coordinates) {
        walk.visit(id, true);
    }
    // Nothing turns where it is likely that it does not, as of a split, which rfactor takes along as a condition, that
    // it has not reached its end: Halide writes vectors out for the case that this holds for all of their lanes.
    stage.condition_loops = LoopMarks(graph, ExprKind::Likely, stage.loops.size()).of(roots.conditions);
    stage.ended_loops = LoopMarks(graph, {}, stage.loops.size()).of(roots.conditions);
    // Of a promise Halide believes that all is read within it, and makes no clamp. Of a value that is loaded it says
    // nothing about loops.
    stage.promised_loops = LoopMarks(graph, ExprKind::Load, stage.loops.size()).of(roots.promised);
    stage.seams = find_seams(graph, stage.loops.size());
    stage.op_histogram.assign(kOpClassCount, 0.0f);
    stage.unchanged_ops.assign(kOpClassCount, 0.0f);
    const auto count = [&](OpClass op, float n = 1) { stage.op_histogram[static_cast<size_t>(op)] += n; };
    NodeFinder changes(graph, [&](const ExprNode& node) {  // from one step of a reduction to the next
        return (node.kind == ExprKind::Load && node.producer == stage.func) ||
               (node.kind == ExprKind::LoopVariable && stage.loops[static_cast<size_t>(node.loop)].is_reduction);
    });
    const bool is_reduction = std::ranges::any_of(stage.loops, &LoopDim::is_reduction);
    NodeFinder loads(graph, is_load);
    NodeFinder own_loads(
        graph, [&](const ExprNode& node) { return node.kind == ExprKind::Load && node.producer == stage.func; });
    std::map<int32_t, std::vector<AccessGroup>> groups;
    std::map<int32_t, float> added;  // loads of each producer that go into an addition
    const FusedAdditions additions(graph);
    OpSharing sharing(graph, stage);
    int32_t narrowest = 8, widest = 1;
    for (int32_t id = 0; id < graph.size(); id++) {
        const ExprNode& node = graph.node(id);
        stage.is_unfit_for_opencl = stage.is_unfit_for_opencl || is_unfit_for_opencl(node);
        if (walk.is_address_only(id) && !is_free_address(graph, node)) {
            count(OpClass::Address);
            const float stepped = moves_by_known_steps(graph.linear(id)) ? 1.0F : 0.0F;
            stage.stepped_addresses += stepped;
            sharing.add(id, OpClass::Address, 1 - stepped);
        }
        if (!walk.is_value(id)) {
            continue;
        }
        if (node.kind == ExprKind::Likely) {
            continue;
        }
        if (sharing.moves_with_points(id)) {  // no vectors are made of the others
            note_width(node, narrowest, widest);
        }
        if (node.kind != ExprKind::Load) {
            const bool is_unchanged = is_reduction && !changes.finds_in(id);
            const auto count_both = [&](OpClass op, float n) {
                count(op, n);
                stage.unchanged_ops[static_cast<size_t>(op)] += is_unchanged ? n : 0;
                sharing.add(id, op, is_unchanged ? 0 : n);
            };
            count_both(classify(graph, node), 1);
            if (additions.takes_product(node)) {
                count_both(OpClass::MulFloat, -1);
                count_both(OpClass::MulAddFloat, 1);
            }
            for (int32_t producer : additions.loads_taken(node)) {
                added[producer]++;
            }
            continue;
        }
        collect(graph, node.args, groups[node.producer]);
        for (int32_t arg : node.args) {
            stage.has_data_dependent_read = stage.has_data_dependent_read || loads.finds_in(arg);
            stage.has_chained_read = stage.has_chained_read || own_loads.finds_in(arg);
        }
    }
    stage.picking_loops = sharing.picking_loops();
    stage.shared_ops = sharing.counted();
    for (int32_t value : roots.values) {
        const int32_t bytes = std::max(graph.node(value).bits / 8, 1);
        narrowest = std::min(narrowest, bytes);
        widest = std::max(widest, bytes);
    }
    stage.narrowest_bytes = narrowest;
    stage.widest_bytes = widest;
    stage.expr_branching = strahler_number(graph, roots.values);
    const ChainOfSteps chain = chain_of_steps(graph, roots.values, stage.func);
    stage.chained_cycles = chain.cycles;
    stage.chained_ops = chain.operations;
    for (int32_t coordinate : roots.coordinates) {
        stage.has_data_dependent_write = stage.has_data_dependent_write || loads.finds_in(coordinate);
    }
    NodeFinder places(graph, [&](const ExprNode& node) {  // what depends on where in its Func a point is
        return node.kind == ExprKind::LoopVariable && !stage.loops[static_cast<size_t>(node.loop)].is_reduction;
    });
    for (int32_t condition : roots.conditions) {
        const bool is_loading = loads.finds_in(condition);
        stage.has_loading_condition = stage.has_loading_condition || is_loading;
        stage.ends_by_place = stage.ends_by_place || (!is_loading && places.finds_in(condition));
    }
    count(stage.has_data_dependent_write ? OpClass::Scatter : OpClass::Store, static_cast<float>(roots.values.size()));
    for (const auto& [producer, found] : groups) {
        std::vector<Access> accesses = finish(found);
        float loads = 0;
        for (const Access& access : accesses) {
            loads += static_cast<float>(access.count);
            const bool is_self = producer == stage.func;
            count(is_self ? OpClass::LoadSelf : classify_load(access, stage.loops.size()),
                  static_cast<float>(access.count));
        }
        if (producer == stage.func) {
            stage.self_accesses = std::move(accesses);
            continue;
        }
        Edge edge;
        edge.producer = producer;
        edge.accesses = std::move(accesses);
        edge.added_share = std::min(1.0F, added[producer] / loads);
        stage.edges.push_back(std::move(edge));
    }
    std::vector<AccessGroup> stores;
    collect(graph, roots.coordinates, stores);
    stage.stores = finish(stores);
    const auto is_plain_load = [&](int32_t id) {
        const ExprNode& node = graph.node(graph.untagged(id));
        return node.kind == ExprKind::Load && std::all_of(node.args.begin(), node.args.end(), [&](int32_t arg) {
                   return walk.is_value(arg) || is_free_address(graph, graph.node(arg));
               });
    };
    stage.is_identity =
        !stage.has_data_dependent_read && std::all_of(roots.values.begin(), roots.values.end(), is_plain_load);
    stage.ends_in_product = roots.values.size() == 1 && is_float_product(graph, roots.values.front());
    stage.ends_in_quotient = roots.values.size() == 1 && is_float_quotient(graph, roots.values.front());
    stage.is_undef = std::all_of(roots.values.begin(), roots.values.end(),
                                 [&](int32_t id) { return graph.node(id).kind == ExprKind::Undef; });
    if (stage.is_undef) {
        stage.op_histogram.assign(kOpClassCount, 0.0f);  // it generates no code
        stage.unchanged_ops = stage.op_histogram;
        stage.shared_ops.clear();
        stage.stepped_addresses = 0;
    }
}

int32_t find_access(const ExprGraph& graph, std::span<const Access> accesses, std::span<const int32_t> coordinates) {
    const std::vector<JacobianRow> jacobian = jacobian_of(graph, coordinates);
    const auto found = std::ranges::find(accesses, jacobian, &Access::jacobian);
    return found == accesses.end() ? -1 : static_cast<int32_t>(found - accesses.begin());
}

bool is_boundary_condition(const ExprGraph& graph, std::span<const int32_t> values) {
    NodeFinder loads(graph, is_load);
    std::set<std::vector<int32_t>> coordinates;
    bool has_guard = false;
    // Whether `id` is selects, with conditions that load nothing, around loads or load-free values.
    const auto is_guarded_load = [&](const auto& self, int32_t id) -> bool {
        const ExprNode& node = graph.node(graph.untagged(id));
        if (!loads.finds_in(id)) {
            return true;
        }
        if (node.kind == ExprKind::Load) {
            coordinates.insert(node.args);
            for (int32_t arg : node.args) {
                const ExprKind kind = graph.node(graph.untagged(arg)).kind;
                has_guard = has_guard || kind == ExprKind::Min || kind == ExprKind::Max || kind == ExprKind::Select;
            }
            return std::none_of(node.args.begin(), node.args.end(), [&](int32_t arg) { return loads.finds_in(arg); });
        }
        if (node.kind != ExprKind::Select || loads.finds_in(node.args[0])) {
            return false;
        }
        has_guard = true;
        return self(self, node.args[1]) && self(self, node.args[2]);
    };
    for (int32_t value : values) {
        if (!is_guarded_load(is_guarded_load, value)) {
            return false;
        }
    }
    return has_guard && coordinates.size() == 1;
}

}  // namespace metol
