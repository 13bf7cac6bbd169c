// Python bindings of the trees of Monte Carlo search.
#include <pybind11/stl.h>

#include <algorithm>

#include "search/bindings.hpp"
#include "search/states.hpp"
#include "search/tree.hpp"

namespace py = pybind11;
using metol::States;
using metol::Tree;
using metol::TreeOptions;

namespace {

// A tree with the Space that it is about, which the States it tells of need.
struct BoundTree {
    std::shared_ptr<metol::Space> space;
    std::unique_ptr<Tree> tree;
};

py::object states_or_none(const std::shared_ptr<metol::Space>& space, const metol::State& state) {
    return state ? py::object(py::cast(States{space, {state}})) : py::object(py::none());
}

}  // namespace

void bind_trees(py::module_& m) {
    py::enum_<TreeOptions::Formula>(m, "TreeFormula", "How exploration joins the value of a child.")
        .value("PRODUCT", TreeOptions::Formula::Product)
        .value("SUM", TreeOptions::Formula::Sum);
    py::enum_<TreeOptions::Value>(m, "TreeValue", "What a child is worth.")
        .value("MEAN_TIME", TreeOptions::Value::MeanTime)
        .value("MEAN_SPEED", TreeOptions::Value::MeanSpeed)
        .value("BEST", TreeOptions::Value::Best)
        .value("WINS", TreeOptions::Value::Wins);
    py::class_<TreeOptions>(m, "TreeOptions", "How a tree selects, widens and simulates.")
        .def(py::init<>())
        .def_readwrite("formula", &TreeOptions::formula)
        .def_readwrite("value", &TreeOptions::value)
        .def_readwrite("exploration", &TreeOptions::exploration)
        .def_readwrite("greedy_share", &TreeOptions::greedy_share)
        .def_readwrite("own_steps", &TreeOptions::own_steps)
        .def_readwrite("widening", &TreeOptions::widening)
        .def_readwrite("widening_power", &TreeOptions::widening_power)
        .def_readwrite("shares_equal", &TreeOptions::shares_equal);
    py::class_<Tree::Child>(m, "TreeChild", "What is known of a child of the root.")
        .def_readonly("best_seconds", &Tree::Child::best_seconds)
        .def_readonly("mean_seconds", &Tree::Child::mean_seconds)
        .def_readonly("visits", &Tree::Child::visits);
    py::class_<BoundTree>(m, "SearchTree", "A Monte Carlo search tree over the decisions of a Space.")
        .def(py::init([](const std::shared_ptr<metol::Space>& space, const metol::CostModelWeights& model,
                         const TreeOptions& options, uint64_t seed) {
                 return BoundTree{space, std::make_unique<Tree>(space, model, options, seed)};
             }),
             py::arg("space"), py::arg("model"), py::arg("options"), py::arg("seed"))
        .def(
            "advance",
            [](BoundTree& self, const States& child) {
                if (child.values.size() != 1) {
                    throw py::value_error("a tree goes on from one state");
                }
                const py::gil_scoped_release release;
                self.tree->advance(child.values.front());
            },
            py::arg("child"), "Goes on from a child of the root, and forgets what is not below it.")
        .def(
            "learn",
            [](BoundTree& self, const States& leaf, bool repeats) {
                if (leaf.values.size() != 1 || !self.space->is_complete(*leaf.values.front())) {
                    throw py::value_error("a tree learns one complete loop nest");
                }
                const py::gil_scoped_release release;
                self.tree->learn(leaf.values.front(), repeats);
            },
            py::arg("leaf"), py::arg("repeats") = false,
            "Takes a complete loop nest below the root for one of its own; simulations may repeat it from now on.")
        .def(
            "children", [](const BoundTree& self) { return self.tree->children(); },
            "The children of the root that were visited.")
        .def(
            "state_of",
            [](const BoundTree& self, const Tree::Child& child) { return States{self.space, {child.state}}; },
            py::arg("child"), "The loop nest of a child, a batch of one.")
        .def(
            "best_state_of",
            [](const BoundTree& self, const Tree::Child& child) { return States{self.space, {child.best_state}}; },
            py::arg("child"), "The best complete loop nest below a child, a batch of one.")
        .def(
            "best_leaves",
            [](const BoundTree& self, double limit_seconds) {
                States states{self.space, {}};
                std::vector<double> seconds;
                for (Tree::Leaf& leaf : self.tree->best_leaves(limit_seconds)) {
                    states.values.push_back(std::move(leaf.state));
                    seconds.push_back(leaf.seconds);
                }
                return py::make_tuple(std::move(states), seconds);
            },
            py::arg("limit_seconds"),
            "Complete loop nests that are best below some node and take no longer, and their predicted seconds.")
        .def_property_readonly(
            "root", [](const BoundTree& self) { return States{self.space, {self.tree->root()}}; },
            "Where the tree begins, a batch of one.")
        .def_property_readonly(
            "best_state", [](const BoundTree& self) { return states_or_none(self.space, self.tree->best_state()); },
            "The best complete loop nest so far, a batch of one; None before the first iteration.")
        .def_property_readonly("best_seconds", [](const BoundTree& self) { return self.tree->best_seconds(); })
        .def_property_readonly("is_exhausted", [](const BoundTree& self) { return self.tree->is_exhausted(); })
        .def_property_readonly("iterations", [](const BoundTree& self) { return self.tree->iterations(); })
        .def_property_readonly("costed", [](const BoundTree& self) { return self.tree->costed(); })
        .def("__len__", [](const BoundTree& self) { return self.tree->size(); });
    m.def(
        "iterate_trees",
        [](const std::vector<BoundTree*>& bound, const std::vector<int64_t>& counts) {
            if (bound.size() != counts.size()) {
                throw py::value_error("a count for each tree");
            }
            std::vector<Tree*> trees;
            for (BoundTree* one : bound) {
                if (one->space != bound.front()->space || std::ranges::find(trees, one->tree.get()) != trees.end()) {
                    throw py::value_error("trees that iterate together are distinct, and of one space");
                }
                trees.push_back(one->tree.get());
            }
            const py::gil_scoped_release release;
            if (!trees.empty()) {
                metol::iterate(*bound.front()->space, trees, counts);
            }
        },
        py::arg("trees"), py::arg("counts"),
        "Every tree makes its count of iterations, beside each other on the threads of their space.");
}
