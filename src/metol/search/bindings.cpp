// Python bindings of the search: Space and States (Decisions are in decision_bindings.cpp).
#include "search/bindings.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <limits>
#include <tuple>

#include "search/decision_bindings.hpp"
#include "search/states.hpp"

namespace py = pybind11;
using metol::States;

namespace {

std::vector<int> of_steps(const metol::Space& space, int16_t metol::DecisionStep::* number) {
    std::vector<int> numbers;
    for (const metol::DecisionStep& step : space.steps()) {
        numbers.push_back(step.*number);
    }
    return numbers;
}

template <typename T>
py::array_t<T> to_array(const std::vector<T>& values) {
    return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

py::dict table_of(std::span<const metol::FeatureColumn> columns) {
    py::dict table;
    for (const metol::FeatureColumn& column : columns) {
        table[column.name] = py::make_tuple(column.unit, column.meaning);
    }
    return table;
}

const metol::LoopNest& only(const States& states) {
    if (states.values.size() != 1) {
        throw py::value_error("this call takes one state, not a batch of " + std::to_string(states.values.size()));
    }
    return *states.values.front();
}

void require_neighbours(const metol::Space& space, const States& state, size_t position) {
    if (!space.is_complete(only(state)) || position >= space.steps().size()) {
        throw py::value_error("neighbours are those of a complete loop nest at the position of a decision");
    }
}

void bind_options(py::module_& m) {
    py::class_<metol::SpaceOptions>(m, "SpaceOptions", "Parts of the space that can be switched off.")
        .def(py::init<>())
        .def_readwrite("allow_inline", &metol::SpaceOptions::allow_inline)
        .def_readwrite("allow_compute_at", &metol::SpaceOptions::allow_compute_at)
        .def_readwrite("allow_split", &metol::SpaceOptions::allow_split)
        .def_readwrite("allow_sliding", &metol::SpaceOptions::allow_sliding)
        .def_readwrite("allow_unroll", &metol::SpaceOptions::allow_unroll)
        .def_readwrite("allow_reductions", &metol::SpaceOptions::allow_reductions)
        .def_readwrite("allow_vector_widths", &metol::SpaceOptions::allow_vector_widths)
        .def_readwrite("allow_storage", &metol::SpaceOptions::allow_storage)
        .def_readwrite("allow_nested_parallel", &metol::SpaceOptions::allow_nested_parallel)
        .def_readwrite("allow_fuse", &metol::SpaceOptions::allow_fuse)
        .def_readwrite("allow_align_storage", &metol::SpaceOptions::allow_align_storage)
        .def_readwrite("allow_prefetch", &metol::SpaceOptions::allow_prefetch)
        .def_readwrite("allow_iterations", &metol::SpaceOptions::allow_iterations)
        .def_readwrite("sample_depth", &metol::SpaceOptions::sample_depth)
        .def_readwrite("sample_seed", &metol::SpaceOptions::sample_seed)
        .def_readwrite("sample_deepens", &metol::SpaceOptions::sample_deepens)
        .def_readwrite("memoize", &metol::SpaceOptions::memoize)
        .def_readwrite("has_fixed_sizes", &metol::SpaceOptions::has_fixed_sizes)
        .def(
            "freeze",
            [](metol::SpaceOptions& options, int func, const std::vector<std::vector<int>>& decisions) {
                const auto f = static_cast<size_t>(func);
                options.frozen.resize(std::max(options.frozen.size(), f + 1));
                options.frozen[f].clear();
                for (const std::vector<int>& numbers : decisions) {
                    options.frozen[f].push_back(decode(numbers));
                }
            },
            py::arg("func"), py::arg("decisions"), "Fixes the decisions of a Func, encoded as `Space.path` gives them.")
        .def(
            "pin",
            [](metol::SpaceOptions& options, int func, bool is_inline) {
                const auto f = static_cast<size_t>(func);
                metol::Decision decision;
                decision.kind = is_inline ? metol::DecisionKind::Inline : metol::DecisionKind::Root;
                decision.func = static_cast<int16_t>(func);
                options.frozen.resize(std::max(options.frozen.size(), f + 1));
                options.frozen[f] = {decision};
                if (!is_inline) {
                    options.closed.push_back(func);
                }
            },
            py::arg("func"), py::arg("is_inline"),
            "Leaves the schedule of a Func to somebody else: it is inline, or has loops in which nothing is computed.")
        .def(
            "hold_at_root", [](metol::SpaceOptions& options, int func) { options.at_root.push_back(func); },
            py::arg("func"), "Has a Func computed at root, unless Halide compiles it inline alone.")
        .def(
            "keep_off_root", [](metol::SpaceOptions& options, int func) { options.off_root.push_back(func); },
            py::arg("func"), "Has a Func computed elsewhere than at root, where another place is offered.")
        .def(
            "keep_inline", [](metol::SpaceOptions& options, int func) { options.kept_inline.push_back(func); },
            py::arg("func"), "Has a Func inline, where that is offered.");
}

void bind_states(py::module_& m) {
    py::class_<States>(m, "States", "A batch of loop nests: an opaque, immutable handle.")
        .def("__len__", [](const States& states) { return states.values.size(); })
        .def(
            "take",
            [](const States& states, const std::vector<size_t>& indices) {
                States taken{states.space, {}};
                for (size_t i : indices) {
                    taken.values.push_back(states.values.at(i));
                }
                return taken;
            },
            py::arg("indices"), "The states at these positions, as a new batch.")
        .def(
            "concat",
            [](const States& states, const States& others) {
                States all = states;
                all.values.insert(all.values.end(), others.values.begin(), others.values.end());
                return all;
            },
            py::arg("others"), "This batch followed by another.")
        .def_property_readonly("decisions_made",
                               [](const States& states) {
                                   std::vector<int32_t> made;
                                   for (const metol::State& state : states.values) {
                                       made.push_back(state->decisions_made);
                                   }
                                   return to_array(made);
                               })
        .def(
            "describe",
            [](const States& states) {
                std::vector<metol::FuncSchedule> schedules;
                for (const metol::FuncSchedule* schedule : only(states).funcs) {
                    schedules.push_back(*schedule);
                }
                return schedules;
            },
            "One FuncSchedule a Func, of a batch of one.");
}

// What Python holds of the loop nests around one.
struct Around {
    std::shared_ptr<metol::Space> space;
    metol::Surroundings found;
};

void bind_surroundings(py::module_& m) {
    py::class_<Around>(m, "Surroundings", "The loop nests around one, which are made when they are taken.")
        .def("__len__", [](const Around& around) { return around.found.costs.size(); })
        .def_property_readonly(
            "costs", [](const Around& around) { return to_array(around.found.costs); }, "Seconds of each, [B].")
        .def(
            "take",
            [](const Around& around, size_t which) {
                if (which >= around.found.costs.size()) {
                    throw py::index_error("there are " + std::to_string(around.found.costs.size()) + " loop nests");
                }
                return States{around.space, {around.space->take(around.found, which)}};
            },
            py::arg("which"), "One of them, a batch of one.");
}

void bind_space(py::module_& m) {
    using metol::Space;

    py::class_<Space, std::shared_ptr<Space>>(m, "Space",
                                              "The search space of one pipeline on one machine, in batches.")
        .def(py::init([](std::shared_ptr<const metol::PipelineDag> dag, const metol::MachineParameters& machine,
                         const metol::SpaceOptions& options, int threads) {
                 return std::make_shared<Space>(std::move(dag), machine.make_target(), options, threads);
             }),
             py::arg("dag"), py::arg("machine"), py::arg("options"), py::arg("threads"))
        .def_property_readonly(
            "options", [](const Space& space) { return space.options(); }, "A copy of what the space was made with.")
        .def_property_readonly(
            "decision_count", [](const Space& space) { return space.steps().size(); },
            "Decisions of a complete loop nest.")
        .def_property_readonly(
            "decision_funcs", [](const Space& space) { return of_steps(space, &metol::DecisionStep::func); },
            "The Func that each decision is about, in order.")
        .def_property_readonly(
            "decision_stages", [](const Space& space) { return of_steps(space, &metol::DecisionStep::stage); },
            "The Stage that each decision is about, in order; -1 for one about a whole Func.")
        .def(
            "root", [](const std::shared_ptr<Space>& space) { return States{space, {space->root()}}; },
            "The state in which nothing is decided.")
        .def(
            "expand",
            [](const std::shared_ptr<Space>& space, const States& states) {
                metol::Expansion expansion;
                {
                    const py::gil_scoped_release release;
                    expansion = space->expand(states.values);
                }
                return py::make_tuple(States{space, std::move(expansion.children)}, to_array(expansion.parents));
            },
            py::arg("states"), "Every legal child for the next decision, and the parent of each, [children] int32.")
        .def(
            "child_count",
            [](const Space& space, const States& state) {
                const metol::LoopNest& nest = only(state);
                const py::gil_scoped_release release;
                return space.child_count(nest);
            },
            py::arg("state"), "Candidates of the next decision of one state, legal or not.")
        .def(
            "child",
            [](const std::shared_ptr<Space>& space, const States& state, int64_t number) {
                only(state);
                metol::State made;
                metol::Pruned reason;
                {
                    const py::gil_scoped_release release;
                    std::tie(made, reason) = space->child(state.values.front(), number);
                }
                return made ? py::object(py::cast(States{space, {made}}))
                            : py::object(py::str(metol::pruned_name(reason)));
            },
            py::arg("state"), py::arg("number"),
            "One candidate: a batch of one, or the name of the reason it is pruned.")
        .def(
            "sample",
            [](const std::shared_ptr<Space>& space, const States& states, const std::vector<uint64_t>& seeds) {
                const py::gil_scoped_release release;
                return States{space, space->sample(states.values, seeds)};
            },
            py::arg("states"), py::arg("seeds"),
            "One random legal child a state, or as many of one state as there are seeds; siblings are not made.")
        .def(
            "rollout",
            [](const std::shared_ptr<Space>& space, const States& states, const std::vector<uint64_t>& seeds) {
                const py::gil_scoped_release release;
                return States{space, space->rollout(states.values, seeds)};
            },
            py::arg("states"), py::arg("seeds"),
            "A random completion of each state, or as many of one as there are seeds.")
        .def(
            "cost",
            [](Space& space, const States& states, const metol::CostModelWeights& model) {
                std::vector<double> costs;
                {
                    const py::gil_scoped_release release;
                    costs = space.cost(states.values, model);
                }
                return to_array(costs);
            },
            py::arg("states"), py::arg("model"), "Predicted seconds, [B] float64.")
        .def(
            "func_seconds",
            [](Space& space, const States& state, const metol::CostModelWeights& model) {
                only(state);
                std::vector<double> seconds;
                {
                    const py::gil_scoped_release release;
                    seconds = space.func_seconds(state.values.front(), model);
                }
                return to_array(seconds);
            },
            py::arg("state"), py::arg("model"), "What each Func adds to the cost of one state, [Funcs] float64.")
        .def(
            "featurize",
            [](Space& space, const States& states) {
                std::vector<float> features;
                {
                    const py::gil_scoped_release release;
                    features = space.featurize(states.values);
                }
                const auto stages = static_cast<py::ssize_t>(space.index().stage_count());
                const auto columns = static_cast<py::ssize_t>(space.target().feature_columns().size());
                return py::array_t<float>({static_cast<py::ssize_t>(states.values.size()), stages, columns},
                                          features.data());
            },
            py::arg("states"), "Feature rows, [B, S, F] float32.")
        .def(
            "amended",
            [](const std::shared_ptr<Space>& space, const States& base,
               const std::vector<std::vector<std::vector<int>>>& variants) {
                only(base);
                std::vector<std::vector<metol::Decision>> decisions(variants.size());
                for (size_t i = 0; i < variants.size(); i++) {
                    std::ranges::transform(variants[i], std::back_inserter(decisions[i]), decode);
                }
                std::vector<metol::State> made;
                {
                    const py::gil_scoped_release release;
                    made = space->amended(base.values.front(), decisions);
                }
                std::vector<int32_t> numbers;
                for (size_t i = 0; i < made.size(); i++) {
                    if (made[i]) {
                        numbers.push_back(static_cast<int32_t>(i));
                    }
                }
                std::erase(made, nullptr);
                return py::make_tuple(States{space, std::move(made)}, to_array(numbers));
            },
            py::arg("base"), py::arg("variants"),
            "A complete loop nest with some Funcs decided about anew, and which variants are legal, [states] int32.")
        .def(
            "featurize_stages",
            [](Space& space, const States& states, const std::vector<int32_t>& stages) {
                std::vector<float> features;
                {
                    const py::gil_scoped_release release;
                    features = space.featurize_stages(states.values, stages);
                }
                const auto columns = static_cast<py::ssize_t>(space.target().feature_columns().size());
                return py::array_t<float>(
                    {static_cast<py::ssize_t>(states.values.size()), static_cast<py::ssize_t>(stages.size()), columns},
                    features.data());
            },
            py::arg("states"), py::arg("stages"), "Feature rows of some Stages alone, [B, stages, F] float32.")
        .def_property_readonly(
            "dag", [](const Space& space) { return space.index().dag; }, "The pipeline.")
        .def(
            "terms",
            [](const Space& space, const py::array_t<float, py::array::c_style | py::array::forcecast>& row) {
                std::vector<double> terms(space.target().term_columns().size());
                space.target().terms({row.data(), static_cast<size_t>(row.size())}, terms);
                return to_array(terms);
            },
            py::arg("row"), "The cost terms of one feature row, [T] float64.")
        .def(
            "analytical_coefficients",
            [](const Space& space, int stage,
               const py::array_t<float, py::array::c_style | py::array::forcecast>& row) {
                std::vector<double> coefficients(space.target().term_columns().size());
                space.target().analytical_coefficients(stage, {row.data(), static_cast<size_t>(row.size())},
                                                       coefficients);
                return to_array(coefficients);
            },
            py::arg("stage"), py::arg("row"), "Seconds per unit of each term under the analytical model, [T] float64.")
        .def(
            "stage_costs",
            [](Space& space, const States& state, const metol::CostModelWeights& model) {
                only(state);
                return to_array(space.stage_costs(state.values.front(), model));
            },
            py::arg("state"), py::arg("model"), "Predicted seconds of each Stage of one state, [S] float64.")
        .def(
            "structural_hash",
            [](Space& space, const States& states, int depth) {
                std::vector<uint64_t> hashes;
                {
                    const py::gil_scoped_release release;
                    hashes = space.structural_hash(states.values, depth);
                }
                return to_array(hashes);
            },
            py::arg("states"), py::arg("depth"), "Deliberately coarse hashes, [B] uint64.")
        .def(
            "representatives",
            [](const Space& space, const States& states, int depth, uint64_t seed) {
                const py::gil_scoped_release release;
                return space.representatives(states.values, depth, seed);
            },
            py::arg("states"), py::arg("depth"), py::arg("seed"),
            "Positions of log2 of the states in each structural bucket, drawn at random.")
        .def(
            "identity_hash",
            [](const Space& space, const States& states) { return to_array(space.identity_hash(states.values)); },
            py::arg("states"), "Hashes that are equal only for the same loop nest, [B] uint64.")
        .def(
            "path",
            [](const Space& space, const States& state) {
                py::list decisions;
                for (const metol::Decision& decision : space.path(only(state))) {
                    decisions.append(encode(decision));
                }
                return decisions;
            },
            py::arg("state"), "The decisions that lead to one state, each a tuple of integers.")
        .def(
            "replay",
            [](const std::shared_ptr<Space>& space, const std::vector<std::vector<int>>& encoded) {
                std::vector<metol::Decision> decisions;
                for (const std::vector<int>& numbers : encoded) {
                    decisions.push_back(decode(numbers));
                }
                const Space::Replayed replayed = space->replay(decisions);
                if (replayed.reason != metol::Pruned::None) {
                    throw py::value_error("decision " + std::to_string(replayed.position) +
                                          " does not apply: " + metol::pruned_name(replayed.reason));
                }
                return States{space, {replayed.state}};
            },
            py::arg("path"), "The state that a path leads to; ValueError where it does not apply.")
        .def(
            "neighbours",
            [](const std::shared_ptr<Space>& space, const States& state, size_t position) {
                require_neighbours(*space, state, position);
                const py::gil_scoped_release release;
                return States{space, space->neighbours(state.values.front(), position)};
            },
            py::arg("state"), py::arg("position"),
            "Complete loop nests that differ from one in the decision at a position, the others made as before.")
        .def(
            "look_around",
            [](const std::shared_ptr<Space>& space, const States& state, size_t position,
               const metol::CostModelWeights& model, double rival, double margin) {
                require_neighbours(*space, state, position);
                const py::gil_scoped_release release;
                return Around{space, space->look_around(state.values.front(), position, model, rival, margin)};
            },
            py::arg("state"), py::arg("position"), py::arg("model"),
            py::arg("rival") = std::numeric_limits<double>::infinity(),
            py::arg("margin") = std::numeric_limits<double>::infinity(),
            "The `neighbours` at a position and what each costs; none is made before it is taken.")
        .def(
            "complete_greedily",
            [](const std::shared_ptr<Space>& space, const States& states, const metol::CostModelWeights& model) {
                metol::Completed completed;
                {
                    const py::gil_scoped_release release;
                    completed = space->complete_greedily(states.values, model);
                }
                return py::make_tuple(States{space, std::move(completed.states)}, to_array(completed.costs),
                                      completed.candidates);
            },
            py::arg("states"), py::arg("model"),
            "Makes every decision that is left, the cheapest each time, for each state by itself: the complete loop "
            "nests, what each costs, and how many candidates were costed.")
        .def(
            "restrict",
            [](const Space& space, const metol::SpaceOptions& options) { return space.restricted(options); },
            py::arg("options"), "The same space with other parts switched off; states and costs are shared.")
        .def_property_readonly(
            "crosswise", [](const Space& space) { return space.index().crosswise; },
            "[Funcs] ids of the Funcs that each needs at places that move apart, directly or through others.")
        .def_property_readonly(
            "borders", [](const Space& space) { return space.index().borders; },
            "[Funcs] where each needs far more of another than in its middle.")
        .def(
            "pruned_counts",
            [](const Space& space) {
                py::dict counts;
                const auto numbers = space.pruned_counts();
                for (size_t i = 1; i < numbers.size(); i++) {
                    counts[metol::pruned_name(static_cast<metol::Pruned>(i))] = numbers[i];
                }
                return counts;
            },
            "Candidates that were not states, by reason.")
        .def(
            "feature_table", [](const Space& space) { return table_of(space.target().feature_columns()); },
            "Feature columns in order: name -> (unit, meaning).")
        .def(
            "quantity_table", [](const Space& space) { return table_of(space.target().quantity_columns()); },
            "What the expressions of several terms share, in order: name -> (expression, meaning).")
        .def(
            "term_constants",
            [](const Space& space) {
                py::dict constants;
                for (const metol::TermConstant& constant : space.target().term_constants()) {
                    constants[constant.name] = constant.value;
                }
                return constants;
            },
            "Numbers of the machine that the expressions of terms name.")
        .def(
            "term_table", [](const Space& space) { return table_of(space.target().term_columns()); },
            "Cost terms in order: name -> (expression, meaning).");
}

}  // namespace

void bind_search(py::module_& m) {
    bind_options(m);
    bind_states(m);
    bind_surroundings(m);
    bind_space(m);
    bind_decisions(m);
}
