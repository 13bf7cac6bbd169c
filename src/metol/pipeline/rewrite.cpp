// Rewrites a copy of a pipeline as `rfactor` does, so that the Funcs it makes can be searched like any other.
//
// Enters: a pipeline and what to factor out of which update. Leaves: the outputs of a copy that carries no schedule;
// the pipeline itself is not touched.
#include "halide_reader.hpp"

namespace metol {

namespace {

// Does the rfactor to a Func of the copy and returns the name of the Func that it makes.
std::string factor_out(hi::Function& function, const Rfactor& rfactor) {
    Halide::Stage update = Halide::Func(function).update(rfactor.update);
    for (const ReductionSplit& split : rfactor.splits) {
        update.split(Halide::RVar(split.old), Halide::RVar(split.outer), Halide::RVar(split.inner), split.factor,
                     Halide::TailStrategy::GuardWithIf);
    }
    std::vector<std::pair<Halide::RVar, Halide::Var>> preserved;
    for (const auto& [rvar, var] : rfactor.preserved) {
        preserved.emplace_back(Halide::RVar(rvar), Halide::Var(var));
    }
    return update.rfactor(preserved).name();
}

}  // namespace

RewrittenPipeline rewrite(const Halide::Pipeline& pipeline, const std::vector<Rfactor>& rfactors) {
    const std::vector<hi::Function> given = outputs_of(pipeline);
    const std::map<std::string, hi::Function> environment = hi::build_environment(given);
    const std::vector<std::string> order = hi::topological_order(given, environment);
    auto [outputs, copies] = hi::deep_copy(given, environment);
    RewrittenPipeline result{outputs, {}};
    for (size_t f = 0; f < order.size(); f++) {
        result.origins[order[f]] = static_cast<int32_t>(f);
        hi::Function& copy = copies.at(order[f]);
        if (copy.has_pure_definition() || copy.has_extern_definition()) {
            strip_function(copy);
        }
    }
    auto next = static_cast<int32_t>(order.size());
    for (const Rfactor& rfactor : rfactors) {
        const bool is_there = rfactor.func >= 0 && static_cast<size_t>(rfactor.func) < order.size();
        hi::Function* copy = is_there ? &copies.at(order[static_cast<size_t>(rfactor.func)]) : nullptr;
        if (copy == nullptr || rfactor.update < 0 || static_cast<size_t>(rfactor.update) >= copy->updates().size()) {
            throw PipelineError(PipelineError::Kind::Extraction,
                                "There is no update " + std::to_string(rfactor.update) + " of Func " +
                                    std::to_string(rfactor.func) + " to factor a reduction out of.");
        }
        result.origins[factor_out(*copy, rfactor)] = next++;
    }
    return result;
}

}  // namespace metol
