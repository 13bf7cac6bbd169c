// Rewrites a copy of a pipeline as `rfactor` and `in` do, so that the Funcs they make can be searched like any other.
//
// Enters: a pipeline, what to factor out of which update, and what to copy for which consumer. Leaves: the outputs of a
// copy that carries no schedule; the pipeline itself is not touched.
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

}  // namespace

RewrittenPipeline rewrite(const Halide::Pipeline& pipeline, const std::vector<Rfactor>& rfactors,
                          const std::vector<Staging>& stagings) {
    const std::vector<hi::Function> given = outputs_of(pipeline);
    const std::map<std::string, hi::Function> environment = hi::build_environment(given);
    const std::vector<std::string> order = hi::topological_order(given, environment);
    auto [outputs, copies] = hi::deep_copy(given, environment);
    RewrittenPipeline result{outputs, {}, {}};
    std::vector<hi::Function> numbered;  // by origin
    for (size_t f = 0; f < order.size(); f++) {
        result.origins[order[f]] = static_cast<int32_t>(f);
        hi::Function& copy = copies.at(order[f]);
        if (copy.has_pure_definition() || copy.has_extern_definition()) {
            strip_function(copy);
        }
        numbered.push_back(copy);
    }
    const auto add = [&](const hi::Function& made) {
        result.origins[made.name()] = static_cast<int32_t>(numbered.size());
        numbered.push_back(made);
    };
    for (const Rfactor& rfactor : rfactors) {
        const bool is_there = rfactor.func >= 0 && static_cast<size_t>(rfactor.func) < order.size();
        hi::Function* copy = is_there ? &copies.at(order[static_cast<size_t>(rfactor.func)]) : nullptr;
        if (copy == nullptr || rfactor.update < 0 || static_cast<size_t>(rfactor.update) >= copy->updates().size()) {
            throw PipelineError(PipelineError::Kind::Extraction,
                                "There is no update " + std::to_string(rfactor.update) + " of Func " +
                                    std::to_string(rfactor.func) + " to factor a reduction out of.");
        }
        add(factor_out(*copy, rfactor));
    }
    const size_t wrappable = numbered.size();
    for (const Staging& staging : stagings) {
        const auto func = static_cast<size_t>(staging.func);
        const auto consumer = static_cast<size_t>(staging.consumer);
        const bool is_there = std::max(func, consumer) < wrappable;  // a negative number is a large one here
        if (!is_there || !can_wrap(numbered[func], numbered[consumer])) {
            throw PipelineError(PipelineError::Kind::Extraction,
                                "Func " + std::to_string(staging.consumer) + " does not read Func " +
                                    std::to_string(staging.func) + ", so there is nothing to copy for it.");
        }
        add(wrap(numbered[func], numbered[consumer]));
        result.wrappers.insert(numbered.back().name());
    }
    return result;
}

}  // namespace metol
