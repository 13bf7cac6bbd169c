#include "identities.hpp"

namespace metol {

namespace {

using Environment = std::map<std::string, hi::Function>;

bool may_move(const Halide::Type& type) {
    return type.is_int() && type.bits() >= 32;
}

// Is a value nothing that terms can be taken out of, once whatever can be inlined is?
bool is_whole(const Halide::Expr& value, const Environment& environment) {
    if (!may_move(value.type())) {
        return true;
    }
    if (const auto* cast = value.as<hi::Cast>()) {
        return is_whole(cast->value, environment);
    }
    const auto* call = value.as<hi::Call>();
    if (call == nullptr || call->call_type != hi::Call::Halide) {
        return call != nullptr || hi::is_const(value);
    }
    const auto found = environment.find(call->name);
    if (found == environment.end() || !found->second.has_pure_definition() || found->second.has_update_definition()) {
        return true;
    }
    return is_whole(found->second.values()[static_cast<size_t>(call->value_index)], environment);
}

// Finds the variables of a pattern that are compared.
class ComparedVariables : public hi::IRGraphVisitor {
  public:
    std::set<std::string> names;

  protected:
    using hi::IRGraphVisitor::visit;
    void visit(const hi::LT* op) override { add(op->a, op->b); }
    void visit(const hi::LE* op) override { add(op->a, op->b); }
    void visit(const hi::GT* op) override { add(op->a, op->b); }
    void visit(const hi::GE* op) override { add(op->a, op->b); }

  private:
    void add(const Halide::Expr& a, const Halide::Expr& b) {
        for (const Halide::Expr& side : {a, b}) {
            if (const auto* variable = side.as<hi::Variable>()) {
                names.insert(variable->name);
            }
        }
    }
};

}  // namespace

bool has_safe_identities(const hi::AssociativeOp& proof, const Environment& environment) {
    ComparedVariables compared;
    for (const Halide::Expr& op : proof.pattern.ops) {
        op.accept(&compared);
    }
    for (const hi::AssociativeOp::Replacement& reduced : proof.ys) {
        if (compared.names.count(reduced.var) > 0 && !is_whole(reduced.expr, environment)) {
            return false;
        }
    }
    return true;
}

}  // namespace metol
