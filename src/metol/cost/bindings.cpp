// Python bindings of cost models.
#include "cost/bindings.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <span>
#include <utility>

#include "cost/cost_model.hpp"

namespace py = pybind11;

namespace {

using Matrix = py::array_t<float, py::array::c_style | py::array::forcecast>;

metol::Layer to_layer(const std::pair<Matrix, Matrix>& arrays) {
    const auto& [weights, biases] = arrays;
    if (weights.ndim() != 2 || biases.ndim() != 1) {
        throw std::invalid_argument("a layer is a matrix [inputs, outputs] and a vector [outputs]");
    }
    return {static_cast<int>(weights.shape(0)),
            static_cast<int>(weights.shape(1)),
            {weights.data(), weights.data() + weights.size()},
            {biases.data(), biases.data() + biases.size()}};
}

}  // namespace

void bind_cost(py::module_& m) {
    using metol::Network;
    using LayerArrays = std::pair<Matrix, Matrix>;
    py::class_<Network, std::shared_ptr<Network>>(
        m, "Network", "The learned part of a cost model: what the analytical coefficients are multiplied by.")
        .def(py::init([](const LayerArrays& schedule, const LayerArrays& algorithm, const LayerArrays& gains,
                         std::vector<double> units) {
                 return Network(to_layer(schedule), to_layer(algorithm), to_layer(gains), std::move(units));
             }),
             py::arg("schedule"), py::arg("algorithm"), py::arg("gains"), py::arg("units"),
             "Layers, each as weights [inputs, outputs] and biases [outputs]; the seconds of a unit of each term that "
             "the "
             "analytical model does not know, [terms], 0 for the others.")
        .def(
            "coefficients",
            [](const Network& network, const Matrix& rows, const std::vector<float>& op_histogram,
               const py::array_t<double, py::array::c_style | py::array::forcecast>& analytical) {
                if (rows.ndim() != 2 || static_cast<size_t>(rows.shape(1)) != network.feature_count() ||
                    analytical.ndim() != 2 || static_cast<size_t>(analytical.shape(1)) != network.term_count() ||
                    analytical.shape(0) != rows.shape(0)) {
                    throw std::invalid_argument("rows are [rows, features], analytical coefficients [rows, terms]");
                }
                const std::vector<float> part = network.stage_part(op_histogram);
                std::vector<double> all(analytical.data(), analytical.data() + analytical.size());
                {
                    const py::gil_scoped_release release;
                    for (py::ssize_t row = 0; row < rows.shape(0); row++) {
                        network.apply({rows.data(row, 0), network.feature_count()}, part,
                                      std::span(all).subspan(static_cast<size_t>(row) * network.term_count(),
                                                             network.term_count()));
                    }
                }
                return py::array_t<double>({rows.shape(0), static_cast<py::ssize_t>(network.term_count())}, all.data());
            },
            py::arg("rows"), py::arg("op_histogram"), py::arg("analytical"),
            "Coefficients of rows of one Stage, [rows, terms], from its features, operations and analytical ones.");
    py::class_<metol::CostModelWeights>(
        m, "CostModel",
        "Coefficients of the cost terms, [stages, terms]; analytical where there are none, multiplied by `factors`, "
        "[terms], if any, and corrected by a network, if any. `id` keys the memo.")
        .def(py::init([](uint64_t id, std::vector<double> coefficients, std::vector<double> factors,
                         std::shared_ptr<Network> network) {
                 return metol::CostModelWeights{id, std::move(coefficients), std::move(factors), std::move(network)};
             }),
             py::arg("id") = 0, py::arg("coefficients") = std::vector<double>{},
             py::arg("factors") = std::vector<double>{}, py::arg("network") = nullptr)
        .def_readonly("id", &metol::CostModelWeights::id);
}
