// Runs Halide's bounds inference on the expressions of one Stage and turns its answers into BoundNodes.
#include <cmath>

#include "halide_reader.hpp"

namespace metol {
namespace {

using Halide::Expr;
using hi::Call;

// A bound that cannot be written as a program; the caller knows what it is a bound of.
class NotConvertible : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A value that is masked is no greater than the mask, which Halide's bounds do not know of one without bounds.
Expr within_mask(const Expr& masked, const Expr& mask) {
    const auto value = hi::as_const_int(mask);
    const auto unsigned_value = hi::as_const_uint(mask);
    const bool is_mask = value ? *value >= 0 : unsigned_value.has_value();
    return is_mask ? hi::Max::make(hi::Min::make(masked, mask), hi::make_zero(masked.type())) : masked;
}

// Puts estimates in, and makes reads of images calls to Funcs: a read at a constant coordinate has bounds of its type
// then, not a symbolic value.
class PutEstimatesIn : public hi::IRGraphMutator {
  public:
    explicit PutEstimatesIn(Estimates& estimates) : estimates_(estimates) {}
    using hi::IRGraphMutator::mutate;

  protected:
    using hi::IRGraphMutator::visit;
    Expr visit(const hi::Variable* op) override {
        const auto value = estimates_.value(*op);
        return value ? hi::make_const(op->type, *value) : Expr(op);
    }
    Expr visit(const Call* op) override {
        const Expr expr = hi::IRGraphMutator::visit(op);
        const Call* call = expr.as<Call>();
        if (call && call->is_intrinsic(Call::bitwise_and)) {
            return within_mask(within_mask(expr, call->args[0]), call->args[1]);
        }
        if (!call || call->call_type != Call::Image) {
            return expr;
        }
        return Call::make(call->type, call->name, call->args, Call::Halide, {}, call->value_index);
    }

  private:
    Estimates& estimates_;
};

// Counts the nodes of an expression as a tree, and gives up at a limit.
class TreeCounter : public hi::IRGraphVisitor {
  public:
    using hi::IRGraphVisitor::include;
    void include(const Expr& expr) override {
        if (++count_ < kLimit) {
            expr.accept(this);
        }
    }
    static bool is_large(const Expr& expr) {
        TreeCounter counter;
        counter.include(expr);
        return counter.count_ >= kLimit;
    }

  private:
    // Beyond this, trees are shared by lets before Halide walks them; below, plain trees give tighter bounds.
    static constexpr size_t kLimit = 2000;
    size_t count_ = 0;
};

Expr share_if_large(const Expr& expr) {
    return TreeCounter::is_large(expr) ? hi::common_subexpression_elimination(expr) : expr;
}

class BoundReader {
  public:
    BoundReader(const std::map<std::string, std::pair<int32_t, bool>>& ends, const Estimates& estimates)
        : ends_(ends), estimates_(estimates) {}

    BoundRef read(const Expr& expr) {
        if (const auto it = seen_.find(expr); it != seen_.end()) {
            return it->second;
        }
        BoundRef result = read_node(expr);
        seen_.emplace(expr, result);
        return result;
    }

  private:
    template <typename T>
    BoundRef binary(const T* op, BoundOp code) {
        return bound_apply(code, {read(op->a), read(op->b)});
    }

    // An integer multiple of a float division is not the floor of it.
    BoundRef divide(const hi::Div* op) { return binary(op, op->type.is_float() ? BoundOp::FloatDiv : BoundOp::Div); }

    BoundRef read_cast(const hi::Cast* op) {
        const BoundRef value = read(op->value);
        const bool is_rounding = op->value.type().is_float() && !op->type.is_float();
        return is_rounding ? bound_apply(BoundOp::Trunc, {value}) : value;
    }

    BoundRef read_let(const hi::Let* op) {
        lets_[op->name] = read(op->value);  // names of lets are unique after common subexpression elimination
        return read(op->body);
    }

    BoundRef read_variable(const hi::Variable* op) {
        if (const auto it = ends_.find(op->name); it != ends_.end()) {
            return bound_loop(it->second.first, it->second.second);
        }
        if (const auto it = lets_.find(op->name); it != lets_.end()) {
            return it->second;
        }
        estimates_.require(*op);
        throw NotConvertible("it depends on `" + op->name + "`");
    }

    BoundRef clamp(const BoundRef& value, const BoundRef& low, const BoundRef& high) {
        return bound_apply(BoundOp::Max, {bound_apply(BoundOp::Min, {value, high}), low});
    }

    BoundRef shift(const Call* op, bool is_left) {
        const auto amount = hi::as_const_int(op->args[1]);
        const auto unsigned_amount = hi::as_const_uint(op->args[1]);
        const int64_t by = amount ? *amount : unsigned_amount ? static_cast<int64_t>(*unsigned_amount) : 64;
        if (by <= -32 || by >= 32) {
            throw NotConvertible("it shifts by what is not a constant");
        }
        const BoundRef factor = bound_constant(int64_t{1} << std::abs(by));
        return bound_apply((by >= 0) == is_left ? BoundOp::Mul : BoundOp::Div, {read(op->args[0]), factor});
    }

    BoundRef read_call(const Call* op) {
        const auto arg = [&](size_t i) { return read(op->args[i]); };
        if (op->is_tag() || op->is_intrinsic(Call::saturating_cast)) {
            return arg(0);
        }
        if (op->is_intrinsic({Call::promise_clamped, Call::unsafe_promise_clamped})) {
            return clamp(arg(0), arg(1), arg(2));
        }
        if (op->is_intrinsic({Call::shift_left, Call::shift_right})) {
            return shift(op, op->is_intrinsic(Call::shift_left));
        }
        if (op->is_intrinsic(Call::abs)) {
            return bound_apply(BoundOp::Max, {arg(0), bound_apply(BoundOp::Mul, {arg(0), bound_constant(-1)})});
        }
        if (op->is_intrinsic(Call::if_then_else) && op->args.size() == 3) {
            return bound_apply(BoundOp::Select, {arg(0), arg(1), arg(2)});
        }
        static const std::map<std::string, BoundOp> functions = {
            {"floor", BoundOp::Floor}, {"ceil", BoundOp::Ceil}, {"round", BoundOp::Round}, {"trunc", BoundOp::Trunc},
            {"sqrt", BoundOp::Sqrt},   {"exp", BoundOp::Exp},   {"log", BoundOp::Log}};
        const size_t suffix = op->name.rfind("_f");
        const std::string name = suffix == std::string::npos ? op->name : op->name.substr(0, suffix);
        if (const auto it = functions.find(name); it != functions.end()) {
            return bound_apply(it->second, {arg(0)});
        }
        throw NotConvertible("it calls `" + op->name + "`");
    }

    BoundRef negate(const BoundRef& truth) { return bound_apply(BoundOp::Not, {truth}); }

    BoundRef read_node(const Expr& expr) {
        switch (expr.node_type()) {
            case hi::IRNodeType::IntImm:
                return bound_constant(expr.as<hi::IntImm>()->value);
            case hi::IRNodeType::UIntImm:
                return bound_constant(static_cast<int64_t>(expr.as<hi::UIntImm>()->value));
            case hi::IRNodeType::FloatImm:
                return bound_number(expr.as<hi::FloatImm>()->value);
            case hi::IRNodeType::Variable:
                return read_variable(expr.as<hi::Variable>());
            case hi::IRNodeType::Cast:
                return read_cast(expr.as<hi::Cast>());
            case hi::IRNodeType::Add:
                return binary(expr.as<hi::Add>(), BoundOp::Add);
            case hi::IRNodeType::Sub:
                return binary(expr.as<hi::Sub>(), BoundOp::Sub);
            case hi::IRNodeType::Mul:
                return binary(expr.as<hi::Mul>(), BoundOp::Mul);
            case hi::IRNodeType::Div:
                return divide(expr.as<hi::Div>());
            case hi::IRNodeType::Mod:
                return binary(expr.as<hi::Mod>(), BoundOp::Mod);
            case hi::IRNodeType::Min:
                return binary(expr.as<hi::Min>(), BoundOp::Min);
            case hi::IRNodeType::Max:
                return binary(expr.as<hi::Max>(), BoundOp::Max);
            case hi::IRNodeType::EQ:
                return binary(expr.as<hi::EQ>(), BoundOp::Eq);
            case hi::IRNodeType::NE:
                return binary(expr.as<hi::NE>(), BoundOp::Ne);
            case hi::IRNodeType::LT:
                return binary(expr.as<hi::LT>(), BoundOp::Lt);
            case hi::IRNodeType::LE:
                return binary(expr.as<hi::LE>(), BoundOp::Le);
            case hi::IRNodeType::GT:
                return negate(binary(expr.as<hi::GT>(), BoundOp::Le));
            case hi::IRNodeType::GE:
                return negate(binary(expr.as<hi::GE>(), BoundOp::Lt));
            case hi::IRNodeType::And:
                return binary(expr.as<hi::And>(), BoundOp::And);
            case hi::IRNodeType::Or:
                return binary(expr.as<hi::Or>(), BoundOp::Or);
            case hi::IRNodeType::Not:
                return negate(read(expr.as<hi::Not>()->a));
            case hi::IRNodeType::Select: {
                const auto* op = expr.as<hi::Select>();
                return bound_apply(BoundOp::Select, {read(op->condition), read(op->true_value), read(op->false_value)});
            }
            case hi::IRNodeType::Let:
                return read_let(expr.as<hi::Let>());
            case hi::IRNodeType::Call:
                return read_call(expr.as<Call>());
            default:
                throw NotConvertible("it is no integer arithmetic");
        }
    }

    const std::map<std::string, std::pair<int32_t, bool>>& ends_;
    const Estimates& estimates_;
    std::map<std::string, BoundRef> lets_;
    std::map<Expr, BoundRef, Halide::ExprCompare> seen_;
};

// The calls of one Func or image.
class CallFinder : public hi::IRGraphVisitor {
  public:
    explicit CallFinder(std::string name) : name_(std::move(name)) {}
    using hi::IRGraphVisitor::visit;
    void visit(const Call* op) override {
        if (op->name == name_) {
            calls.push_back(op);
        }
        hi::IRGraphVisitor::visit(op);
    }
    std::vector<const Call*> calls;

  private:
    std::string name_;
};

std::string to_text(const Expr& expr) {
    std::ostringstream text;
    text << expr;
    const std::string full = text.str();
    return full.size() <= 200 ? full : full.substr(0, 200) + "...";
}

}  // namespace

std::string first_call_text(const std::vector<Expr>& exprs, const std::string& name, const FuncIds& ids) {
    CallFinder finder(name);
    for (const Expr& expr : exprs) {
        expr.accept(&finder);
    }
    return finder.calls.empty() ? ids.shown(name) : ids.shown_in(to_text(finder.calls.front()));
}

RegionReader::RegionReader(std::string stage_name, const std::vector<std::string>& loops, const FuncIds& ids,
                           Estimates& estimates, const hi::FuncValueBounds& value_bounds)
    : stage_name_(std::move(stage_name)), ids_(ids), estimates_(estimates), value_bounds_(value_bounds) {
    for (size_t i = 0; i < loops.size(); i++) {
        // No Var or parameter of a pipeline has a name with a dot before a digit and `loop`.
        const std::string base = "loop." + std::to_string(i);
        ends_[base + ".min"] = {static_cast<int32_t>(i), false};
        ends_[base + ".max"] = {static_cast<int32_t>(i), true};
        const hi::Interval ends(hi::Variable::make(Halide::Int(32), base + ".min"),
                                hi::Variable::make(Halide::Int(32), base + ".max"));
        scope_.push(loops[i], ends);
    }
}

Expr RegionReader::prepare(const Expr& expr) {
    return share_if_large(PutEstimatesIn(estimates_).mutate(expr));
}

BoundRef RegionReader::convert(const Expr& expr, hi::Direction direction, const std::string& what) {
    // The value bounds of a producer may bring parameters back in.
    const Expr bound = hi::simplify(share_if_large(PutEstimatesIn(estimates_).mutate(expr)));
    std::string difficulty = "its program is too long";
    try {
        const BoundRef result = BoundReader(ends_, estimates_).read(bound);
        if (finish_bound(result)) {
            return result;
        }
    } catch (const NotConvertible& e) {
        difficulty = e.what();
    }
    const Expr constant = hi::find_constant_bound(bound, direction);
    const auto value = constant.defined() ? hi::as_const_int(constant) : std::nullopt;
    if (!value) {
        throw PipelineError(PipelineError::Kind::Extraction, stage_name_ + " " + what + " whose bound `" +
                                                                 to_text(bound) + "` is too difficult: " + difficulty +
                                                                 "; clamp the coordinate to a simpler range.");
    }
    return bound_constant(*value);
}

BoundRefPair RegionReader::convert(const hi::Interval& interval, const std::string& what) {
    if (!interval.is_bounded()) {
        throw PipelineError(
            PipelineError::Kind::Extraction,
            stage_name_ + " " + what +
                " that is unbounded; clamp the coordinate, for example with hl.clamp(i, 0, extent - 1).");
    }
    return {convert(interval.min, hi::Direction::Lower, what), convert(interval.max, hi::Direction::Upper, what)};
}

BoundRefPair RegionReader::convert_read(const hi::Interval& interval, const std::string& what) {
    return {interval.has_lower_bound() ? convert(interval.min, hi::Direction::Lower, what) : bound_constant(-kFar),
            interval.has_upper_bound() ? convert(interval.max, hi::Direction::Upper, what) : bound_constant(kFar)};
}

std::string RegionReader::describe_access(const std::vector<Expr>& exprs, const std::string& name, size_t dimension) {
    CallFinder finder(name);
    for (const Expr& expr : exprs) {
        expr.accept(&finder);
    }
    for (const Call* call : finder.calls) {
        const Expr coordinate = dimension < call->args.size() ? call->args[dimension] : Expr();
        const bool is_bounded = !coordinate.defined() ||
                                hi::bounds_of_expr_in_scope(prepare(coordinate), scope_, value_bounds_).is_bounded();
        if (!is_bounded) {
            return ids_.shown_in(to_text(call));
        }
    }
    return first_call_text(exprs, name, ids_);
}

BoundRefPair RegionReader::range(const Expr& expr, const std::string& what) {
    return convert(hi::bounds_of_expr_in_scope(prepare(expr), scope_, value_bounds_), what);
}

std::map<int32_t, std::vector<BoundRefPair>> RegionReader::regions(const std::vector<Expr>& exprs,
                                                                   const Expr& predicate) {
    std::map<std::string, hi::Box> boxes;
    for (const Expr& expr : exprs) {
        Expr guarded = expr;
        if (predicate.defined() && !hi::is_const_one(predicate)) {
            // Halide infers what a guarded definition needs in the same way.
            guarded =
                Call::make(expr.type(), Call::if_then_else, {Halide::likely(predicate), expr}, Call::PureIntrinsic);
        }
        for (const auto& [name, box] : hi::boxes_required(prepare(guarded), scope_, value_bounds_)) {
            hi::merge_boxes(boxes[name], box);
        }
    }
    std::map<int32_t, std::vector<BoundRefPair>> result;
    for (const auto& [name, box] : boxes) {
        const auto id = ids_.find(name);
        if (!id) {
            continue;
        }
        std::vector<BoundRefPair> region;
        for (size_t d = 0; d < box.size(); d++) {
            const std::string what =
                "reads `" + ids_.shown(name) + "` in dimension " + std::to_string(d) + " at a coordinate";
            region.push_back(convert_read(box[d], what));
            if (!box[d].is_bounded()) {
                unbounded_reads_.push_back({stage_name_, describe_access(exprs, name, d), *id, d});
            }
        }
        // An image that is read both directly and through its wrapper has two names.
        auto& whole = result[*id];
        for (size_t d = 0; d < whole.size(); d++) {
            region[d] = {bound_apply(BoundOp::Min, {whole[d].min, region[d].min}),
                         bound_apply(BoundOp::Max, {whole[d].max, region[d].max})};
        }
        whole = std::move(region);
    }
    return result;
}

std::vector<BoundRefPair> RegionReader::region_of_calls(const std::vector<Expr>& exprs, const std::string& name) {
    return regions_of_calls(exprs, name, [](const std::vector<Expr>&) { return 0; })[0];
}

std::map<int32_t, std::vector<BoundRefPair>> RegionReader::regions_of_calls(
    const std::vector<Expr>& exprs, const std::string& name,
    const std::function<int32_t(const std::vector<Expr>&)>& number) {
    CallFinder finder(name);
    std::vector<Expr> written_out;  // what is found points into these
    for (const Expr& expr : exprs) {
        written_out.push_back(hi::substitute_in_all_lets(expr));
        written_out.back().accept(&finder);
    }
    std::map<int32_t, std::vector<BoundRefPair>> regions;
    for (const Call* call : finder.calls) {
        std::vector<BoundRefPair>& region = regions[number(call->args)];
        for (size_t d = 0; d < call->args.size(); d++) {
            const BoundRefPair bounds = range(call->args[d], "reads `" + ids_.shown(name) + "` at a coordinate");
            if (d == region.size()) {
                region.push_back(bounds);
                continue;
            }
            region[d] = {bound_apply(BoundOp::Min, {region[d].min, bounds.min}),
                         bound_apply(BoundOp::Max, {region[d].max, bounds.max})};
        }
    }
    return regions;
}

}  // namespace metol
