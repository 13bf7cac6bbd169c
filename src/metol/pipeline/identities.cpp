#include "identities.hpp"

#include <algorithm>

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

class SelectFinder : public hi::IRGraphVisitor {
  public:
    bool has_select = false;

  protected:
    using hi::IRGraphVisitor::visit;
    void visit(const hi::Select*) override { has_select = true; }
};

// Does Halide 21 compare the identities of an associative update rightly with what it reduces? The place of an extremum
// is found by comparing, and a partial result of no points is the least or greatest number of its type. Signed integers
// of 32 bits and more are taken never to overflow, so that x + 1 < y becomes x < y - 1, which is wrong of the least
// number. Only what is read, or made of narrower types, is compared as it is: Funcs may be inlined.
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

// What an update picks by comparing is of the first or the last of those that compare equal, as the place of an
// extremum that there is twice: Halide 21 takes such an update for commutative.
bool picks_by_comparing(const hi::AssociativeOp& proof) {
    SelectFinder finder;
    for (const Halide::Expr& op : proof.pattern.ops) {
        op.accept(&finder);
    }
    return finder.has_select;
}

// What is widened to 32 bits here; no type where nothing is.
Halide::Type widened_type(const Halide::Expr& value) {
    const auto* cast = value.as<hi::Cast>();
    const bool is_widened = cast != nullptr && cast->type == Halide::Int(32) && cast->value.type().bits() <= 16 &&
                            cast->value.type().is_int_or_uint() && !cast->value.type().is_bool();
    return is_widened ? cast->value.type() : Halide::Type();
}

// How wide that is which steps load that may be lanes of vectors. Halide reduces across these what is there already,
// and products of narrow numbers, of which processors multiply and add several at once: x86 has an instruction for
// signed words, and a newer one for unsigned bytes by signed ones. Of absolute differences it makes wrong sums.
int32_t lane_bytes_of(const hi::AssociativeOp& proof) {
    if (proof.pattern.ops.size() != 1 || proof.pattern.ops.front().type().bits() != 32) {
        return 0;
    }
    const Halide::Expr& op = proof.pattern.ops.front();
    const Halide::Expr& step = proof.ys.front().expr;
    const auto* call = step.as<hi::Call>();
    const bool is_there =
        call != nullptr && (call->call_type == hi::Call::Halide || call->call_type == hi::Call::Image);
    if (is_there && (op.as<hi::Add>() || op.as<hi::Min>() || op.as<hi::Max>())) {
        return kValueBytes;
    }
    const auto* product = step.as<hi::Mul>();
    if (product == nullptr || op.as<hi::Add>() == nullptr) {
        return 0;
    }
    const Halide::Type a = widened_type(product->a);
    const Halide::Type b = widened_type(product->b);
    if (a.bits() == 8 && b.bits() == 8 && a.is_int() != b.is_int()) {
        return 1;
    }
    const auto fits_words = [](const Halide::Type& type) {
        return type.bits() == 8 || (type.bits() == 16 && type.is_int());
    };
    return fits_words(a) && fits_words(b) ? 2 : 0;
}

}  // namespace

Associativity associativity_of(const hi::Function& function, const hi::Definition& update,
                               const Environment& environment, bool is_strict) {
    const auto is_float = [](const Halide::Expr& value) { return value.type().is_float(); };
    if (is_strict && std::ranges::any_of(update.values(), is_float)) {
        return {};
    }
    const hi::AssociativeOp proof = hi::prove_associativity(function.name(), update.args(), update.values());
    const bool is_proven = proof.associative() && proof.commutative();
    return {is_proven, is_proven && !picks_by_comparing(proof), is_proven && has_safe_identities(proof, environment),
            is_proven ? lane_bytes_of(proof) : 0};
}

bool has_strict_floats(const std::string& target) {
    return !target.empty() && Halide::Target(target).has_feature(Halide::Target::StrictFloat);
}

}  // namespace metol
