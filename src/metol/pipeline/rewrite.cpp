// Rewrites a copy of a pipeline as `rfactor` and `in` do, so that the Funcs they make can be searched like any other,
// and outputs in the loops of another as one Func of several values.
//
// Enters: a pipeline, which outputs to join, what to factor out of which update, and what to copy for which consumer.
// Leaves: the outputs of a copy that carries no schedule; the pipeline itself is not touched.
#include <algorithm>

#include "halide_reader.hpp"

namespace metol {

namespace {

// Does the rfactor to a Func of the copy and returns the Func that it makes.
hi::Function factor_out(hi::Function& function, const Rfactor& rfactor) {
    Halide::Stage update = Halide::Func(function).update(rfactor.update);
    for (const ReductionSplit& split : rfactor.splits) {
        update.split(Halide::RVar(split.old), Halide::RVar(split.outer), Halide::RVar(split.inner), split.factor,
                     Halide::TailStrategy::GuardWithIf);
    }
    std::vector<std::pair<Halide::RVar, Halide::Var>> preserved;
    for (const auto& [rvar, var] : rfactor.preserved) {
        preserved.emplace_back(Halide::RVar(rvar), Halide::Var(var));
    }
    return update.rfactor(preserved).function();
}

// Makes `consumer` read `producer` through a copy and returns that. Halide does the second step when it lowers.
hi::Function wrap(hi::Function& producer, hi::Function& consumer) {
    hi::Function wrapper = Halide::Func(producer).in(Halide::Func(consumer)).function();
    consumer.substitute_calls(producer, wrapper);
    producer.schedule().wrappers().clear();
    return wrapper;
}

// Can Halide compute a copy of one for the other? Extern stages name what they read, and are not rewritten.
bool can_wrap(const hi::Function& producer, const hi::Function& consumer) {
    const std::map<std::string, hi::Function> calls = hi::find_direct_calls(consumer);
    return !consumer.has_extern_definition() && consumer.name() != producer.name() && calls.count(producer.name()) > 0;
}

// Can a Func be one of several that are read as one: is it an output, which nothing else reads, defined by values
// alone, over the same loops?
bool can_join(const std::vector<hi::Function>& outputs, const hi::Function& function, const hi::Function& first) {
    const auto is_it = [&](const hi::Function& output) { return output.name() == function.name(); };
    const auto calls_it = [&](const auto& named) {
        return hi::find_direct_calls(named.second).contains(function.name());
    };
    return std::ranges::any_of(outputs, is_it) && function.has_pure_definition() && !function.has_update_definition() &&
           function.args() == first.args() && std::ranges::none_of(hi::build_environment(outputs), calls_it);
}

// Says of the memory of one output what is known of that of another.
void tell_layout(const Halide::Parameter& from, Halide::Parameter to) {
    for (int d = 0; d < from.dimensions(); d++) {
        to.set_min_constraint(d, from.min_constraint(d));
        to.set_extent_constraint(d, from.extent_constraint(d));
        to.set_stride_constraint(d, from.stride_constraint(d));
        to.set_min_constraint_estimate(d, from.min_constraint_estimate(d));
        to.set_extent_constraint_estimate(d, from.extent_constraint_estimate(d));
    }
}

// A Func with the values of all `members`, in their order, under the name of the first.
hi::Function join(const std::vector<hi::Function>& members) {
    const hi::Function& first = members.front();
    std::vector<Halide::Expr> values;
    for (const hi::Function& member : members) {
        values.insert(values.end(), member.values().begin(), member.values().end());
    }
    hi::Function made(first.name());
    made.define(first.args(), values);
    made.schedule().estimates() = first.schedule().estimates();
    for (const Halide::Parameter& buffer : made.output_buffers()) {
        tell_layout(first.output_buffers().front(), buffer);
    }
    return made;
}

// Puts one Func where the outputs of a joint are.
void put_joint(RewrittenPipeline& result, std::vector<hi::Function>& numbered, const Joint& joint) {
    if (joint.size() < 2) {
        throw PipelineError(PipelineError::Kind::Extraction, "A joint is of two outputs at least.");
    }
    std::vector<hi::Function> members;
    for (const int32_t number : joint) {
        const auto at = static_cast<size_t>(number);  // a negative number is a large one here
        const bool is_there = at < numbered.size() && std::ranges::count(joint, number) == 1;
        if (!is_there || !result.origins.at(numbered[at].name()).joint.empty() ||
            !can_join(result.outputs, numbered[at], members.empty() ? numbered[at] : members.front())) {
            throw PipelineError(PipelineError::Kind::Extraction,
                                "Func " + std::to_string(number) + " cannot share all its loops with another output.");
        }
        members.push_back(numbered[at]);
    }
    const hi::Function made = join(members);
    const auto is_first = [&](const hi::Function& output) { return output.name() == made.name(); };
    const auto is_other = [&](const hi::Function& output) {
        return !is_first(output) &&
               std::ranges::any_of(members, [&](const auto& one) { return one.name() == output.name(); });
    };
    std::ranges::replace_if(result.outputs, is_first, made);
    std::erase_if(result.outputs, is_other);
    numbered[static_cast<size_t>(joint.front())] = made;
    result.origins[made.name()] = {joint.front(), false, joint};
    result.joined.insert(result.joined.end(), members.begin(), members.end());
}

}  // namespace

RewrittenPipeline rewrite(const Halide::Pipeline& pipeline, const Rewrites& rewrites) {
    const std::vector<hi::Function> given = outputs_of(pipeline);
    const std::map<std::string, hi::Function> environment = hi::build_environment(given);
    const std::vector<std::string> order = hi::topological_order(given, environment);
    auto [outputs, copies] = hi::deep_copy(given, environment);
    RewrittenPipeline result{outputs, {}, {}};
    std::vector<hi::Function> numbered;  // by origin
    for (size_t f = 0; f < order.size(); f++) {
        result.origins[order[f]] = {static_cast<int32_t>(f), false, {}};
        hi::Function& copy = copies.at(order[f]);
        if (copy.has_pure_definition() || copy.has_extern_definition()) {
            strip_function(copy);
        }
        numbered.push_back(copy);
    }
    for (const Joint& joint : rewrites.joints) {
        put_joint(result, numbered, joint);
    }
    const auto add = [&](const hi::Function& made, bool is_wrapper) {
        result.origins[made.name()] = {static_cast<int32_t>(numbered.size()), is_wrapper, {}};
        numbered.push_back(made);
    };
    for (const Rfactor& rfactor : rewrites.rfactors) {
        const bool is_there = rfactor.func >= 0 && static_cast<size_t>(rfactor.func) < order.size();
        hi::Function* copy = is_there ? &copies.at(order[static_cast<size_t>(rfactor.func)]) : nullptr;
        if (copy == nullptr || rfactor.update < 0 || static_cast<size_t>(rfactor.update) >= copy->updates().size()) {
            throw PipelineError(PipelineError::Kind::Extraction,
                                "There is no update " + std::to_string(rfactor.update) + " of Func " +
                                    std::to_string(rfactor.func) + " to factor a reduction out of.");
        }
        add(factor_out(*copy, rfactor), false);
    }
    const size_t wrappable = numbered.size();
    for (const Staging& staging : rewrites.stagings) {
        const auto func = static_cast<size_t>(staging.func);
        const auto consumer = static_cast<size_t>(staging.consumer);
        const bool is_there = std::max(func, consumer) < wrappable;  // a negative number is a large one here
        const bool is_one = is_there && result.origins.at(numbered[consumer].name()).joint.empty();
        if (!is_one || !can_wrap(numbered[func], numbered[consumer])) {
            throw PipelineError(PipelineError::Kind::Extraction,
                                "Func " + std::to_string(staging.consumer) + " alone does not read Func " +
                                    std::to_string(staging.func) + ", so there is nothing to copy for it.");
        }
        add(wrap(numbered[func], numbered[consumer]), true);
    }
    return result;
}

}  // namespace metol
