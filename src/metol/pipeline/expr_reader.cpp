// Turns Halide expressions into nodes of an ExprGraph: lets are expanded (the graph shares equal nodes anyway), tags
// dropped.
#include <algorithm>
#include <limits>

#include "halide_reader.hpp"

namespace metol {

using Halide::Expr;
using hi::Call;

ExprReader::ExprReader(ExprGraph& graph, const std::vector<std::string>& loops, const FuncIds& ids,
                       Estimates& estimates)
    : graph_(graph), ids_(ids), estimates_(estimates) {
    for (size_t i = 0; i < loops.size(); i++) {
        loops_[loops[i]] = static_cast<int32_t>(i);
    }
}

int32_t ExprReader::read(const Expr& expr) {
    return read_node(hi::substitute_in_all_lets(expr));
}

int32_t ExprReader::emit(const Halide::Type& type, ExprKind kind, std::vector<int32_t> args, const std::string& name) {
    ExprNode node;
    node.kind = kind;
    node.is_float = type.is_float();
    node.bits = type.bits();
    node.args = std::move(args);
    node.is_unsigned = type.is_uint();
    node.name = name;
    return graph_.intern(std::move(node));
}

int32_t ExprReader::read_variable(const hi::Variable& variable) {
    if (const auto it = loops_.find(variable.name); it != loops_.end() && !variable.param.defined()) {
        ExprNode node;
        node.kind = ExprKind::LoopVariable;
        node.loop = it->second;
        return graph_.intern(std::move(node));
    }
    ExprNode node;
    node.kind = ExprKind::Parameter;
    node.is_float = variable.type.is_float();
    node.is_unsigned = variable.type.is_uint();
    node.bits = variable.type.bits();
    node.name = without_suffixes(variable.name);
    if (const auto value = estimates_.value(variable)) {
        node.value = *value;
        node.has_value = true;
    }
    return graph_.intern(std::move(node));
}

int32_t ExprReader::read_call(const Call& call) {
    if (call.is_tag()) {
        return emit(call.type, ExprKind::Likely, {read_node(call.args[0])});
    }
    if (call.is_intrinsic({Call::promise_clamped, Call::unsafe_promise_clamped})) {
        promised_.push_back(read_node(call.args[0]));
        return promised_.back();
    }
    std::vector<int32_t> args;
    for (const Expr& arg : call.args) {
        args.push_back(read_node(arg));
    }
    if (call.call_type == Call::Halide || call.call_type == Call::Image) {
        ExprNode node;
        node.kind = ExprKind::Load;
        node.is_float = call.type.is_float();
        node.is_unsigned = call.type.is_uint();
        node.bits = call.type.bits();
        node.args = std::move(args);
        node.producer = ids_.find(call.name).value_or(-1);
        node.value_index = call.value_index;
        return graph_.intern(std::move(node));
    }
    if (call.is_intrinsic(Call::undef)) {
        return emit(call.type, ExprKind::Undef, {});
    }
    if (call.is_intrinsic(Call::if_then_else) && args.size() == 3) {
        return emit(call.type, ExprKind::Select, std::move(args));
    }
    static const std::map<std::string, ExprKind> strict = {
        {"strict_add", ExprKind::Add}, {"strict_sub", ExprKind::Sub}, {"strict_mul", ExprKind::Mul},
        {"strict_div", ExprKind::Div}, {"strict_min", ExprKind::Min}, {"strict_max", ExprKind::Max}};
    if (const auto it = strict.find(call.name); it != strict.end()) {
        return emit(call.type, it->second, std::move(args), "strict");
    }
    return emit(call.type, call.is_extern() ? ExprKind::Extern : ExprKind::Intrinsic, std::move(args), call.name);
}

int32_t ExprReader::read_node(const Expr& expr) {
    if (const auto it = seen_.find(expr); it != seen_.end()) {
        return it->second;
    }
    const auto literal = [&](double value) {
        ExprNode node;
        node.is_float = expr.type().is_float();
        node.is_unsigned = expr.type().is_uint();
        node.bits = expr.type().bits();
        node.value = value;
        node.has_value = true;
        return graph_.intern(std::move(node));
    };
    const auto binary = [&](const auto* op, ExprKind kind, const char* name = "") {
        const int32_t a = read_node(op->a), b = read_node(op->b);
        return emit(op->type, kind, {a, b}, name);
    };
    const auto dispatch = [&]() -> int32_t {
        switch (expr.node_type()) {
            case hi::IRNodeType::IntImm:
                return literal(static_cast<double>(expr.as<hi::IntImm>()->value));
            case hi::IRNodeType::UIntImm:
                return literal(static_cast<double>(expr.as<hi::UIntImm>()->value));
            case hi::IRNodeType::FloatImm:
                return literal(expr.as<hi::FloatImm>()->value);
            case hi::IRNodeType::StringImm:
                return emit(expr.type(), ExprKind::Undef, {}, expr.as<hi::StringImm>()->value);
            case hi::IRNodeType::Variable:
                return read_variable(*expr.as<hi::Variable>());
            case hi::IRNodeType::Cast:
                return emit(expr.type(), ExprKind::Cast, {read_node(expr.as<hi::Cast>()->value)});
            case hi::IRNodeType::Reinterpret:
                return emit(expr.type(), ExprKind::Cast, {read_node(expr.as<hi::Reinterpret>()->value)}, "reinterpret");
            case hi::IRNodeType::Add:
                return binary(expr.as<hi::Add>(), ExprKind::Add);
            case hi::IRNodeType::Sub:
                return binary(expr.as<hi::Sub>(), ExprKind::Sub);
            case hi::IRNodeType::Mul:
                return binary(expr.as<hi::Mul>(), ExprKind::Mul);
            case hi::IRNodeType::Div:
                return binary(expr.as<hi::Div>(), ExprKind::Div);
            case hi::IRNodeType::Mod:
                return binary(expr.as<hi::Mod>(), ExprKind::Mod);
            case hi::IRNodeType::Min:
                return binary(expr.as<hi::Min>(), ExprKind::Min);
            case hi::IRNodeType::Max:
                return binary(expr.as<hi::Max>(), ExprKind::Max);
            case hi::IRNodeType::EQ:
                return binary(expr.as<hi::EQ>(), ExprKind::Compare, "==");
            case hi::IRNodeType::NE:
                return binary(expr.as<hi::NE>(), ExprKind::Compare, "!=");
            case hi::IRNodeType::LT:
                return binary(expr.as<hi::LT>(), ExprKind::Compare, "<");
            case hi::IRNodeType::LE:
                return binary(expr.as<hi::LE>(), ExprKind::Compare, "<=");
            case hi::IRNodeType::GT:
                return binary(expr.as<hi::GT>(), ExprKind::Compare, ">");
            case hi::IRNodeType::GE:
                return binary(expr.as<hi::GE>(), ExprKind::Compare, ">=");
            case hi::IRNodeType::And:
                return binary(expr.as<hi::And>(), ExprKind::Logic, "and");
            case hi::IRNodeType::Or:
                return binary(expr.as<hi::Or>(), ExprKind::Logic, "or");
            case hi::IRNodeType::Not:
                return emit(expr.type(), ExprKind::Logic, {read_node(expr.as<hi::Not>()->a)}, "not");
            case hi::IRNodeType::Select: {
                const auto* op = expr.as<hi::Select>();
                const int32_t condition = read_node(op->condition), yes = read_node(op->true_value);
                return emit(op->type, ExprKind::Select, {condition, yes, read_node(op->false_value)});
            }
            case hi::IRNodeType::Call:
                return read_call(*expr.as<Call>());
            default:
                throw PipelineError(PipelineError::Kind::Extraction,
                                    "An expression of the pipeline uses vectors, which only schedules may: " +
                                        std::to_string(static_cast<int>(expr.node_type())) + ".");
        }
    };
    const int32_t id = dispatch();
    seen_.emplace(expr, id);
    return id;
}

std::map<int32_t, int64_t> ExprReader::count_calls(const std::vector<Expr>& exprs) {
    // Multiplicities flow from the roots down: each node is expanded once, in reverse order of creation.
    std::map<int32_t, int64_t> multiplicity, calls;
    constexpr int64_t limit = std::numeric_limits<int32_t>::max();
    for (const Expr& expr : exprs) {
        multiplicity[read(expr)]++;
    }
    for (auto it = multiplicity.rbegin(); it != multiplicity.rend(); ++it) {
        const ExprNode& node = graph_.node(it->first);
        for (int32_t arg : node.args) {
            int64_t& count = multiplicity[arg];
            count = std::min(limit, count + it->second);
        }
        if (node.kind == ExprKind::Load) {
            int64_t& count = calls[node.producer];
            count = std::min(limit, count + it->second);
        }
    }
    return calls;
}

}  // namespace metol
