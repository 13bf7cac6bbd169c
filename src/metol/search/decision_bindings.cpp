#include "search/decision_bindings.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <map>
#include <string>

namespace py = pybind11;

namespace {

constexpr size_t kEncodedHead = 10;

using Numbers = std::map<int, int>;

int renumbered(const Numbers& numbers, int number) {
    const auto it = numbers.find(number);
    return it == numbers.end() ? -1 : it->second;
}

// The same decision where Funcs and Stages have other numbers; one that names what has none is not valid.
py::tuple renumber(const std::vector<int>& encoded, const Numbers& funcs, const Numbers& stages) {
    metol::Decision decision = decode(encoded);
    decision.func = static_cast<int16_t>(renumbered(funcs, decision.func));
    decision.stage = static_cast<int16_t>(renumbered(stages, decision.stage));
    if (decision.kind == metol::DecisionKind::Fuse) {
        decision.trips.front() = renumbered(stages, decision.trips.front());
    } else if (decision.kind == metol::DecisionKind::Prefetch) {
        decision.trips.front() = renumbered(funcs, decision.trips.front());
    }
    return encode(decision);
}

}  // namespace

py::tuple encode(const metol::Decision& decision) {
    py::list numbers;
    for (int value :
         {static_cast<int>(decision.kind), static_cast<int>(decision.func), static_cast<int>(decision.stage),
          static_cast<int>(decision.level), static_cast<int>(decision.is_split), static_cast<int>(decision.is_sliding),
          static_cast<int>(decision.vector_loop), static_cast<int>(decision.vector_width),
          static_cast<int>(decision.outside), static_cast<int>(decision.block)}) {
        numbers.append(value);
    }
    for (int32_t trips : decision.trips) {
        numbers.append(trips);
    }
    return py::tuple(numbers);
}

metol::Decision decode(const std::vector<int>& numbers) {
    if (numbers.size() != kEncodedHead + metol::kMaxLoops) {
        throw py::value_error("a decision is " + std::to_string(kEncodedHead + metol::kMaxLoops) + " integers, not " +
                              std::to_string(numbers.size()));
    }
    const auto in_range = [&](size_t position, int least, int most) {
        if (numbers[position] < least || numbers[position] > most) {
            throw py::value_error("integer " + std::to_string(position) + " of a decision must lie in [" +
                                  std::to_string(least) + ", " + std::to_string(most) + "], not be " +
                                  std::to_string(numbers[position]));
        }
    };
    in_range(0, 0, static_cast<int>(metol::DecisionKind::Prefetch));
    in_range(1, 0, INT16_MAX);
    in_range(2, -1, INT16_MAX);
    in_range(3, -1, INT8_MAX);
    in_range(4, 0, 1);
    in_range(5, 0, 1);
    in_range(6, -1, metol::kMaxLoops - 1);
    in_range(7, 1, INT16_MAX);
    in_range(8, 0, metol::kMaxLoops);
    in_range(9, 0, 1 << 24);
    for (size_t i = kEncodedHead; i < numbers.size(); i++) {
        in_range(i, 0, 1 << 24);
    }
    metol::Decision decision;
    decision.kind = static_cast<metol::DecisionKind>(numbers[0]);
    decision.func = static_cast<int16_t>(numbers[1]);
    decision.stage = static_cast<int16_t>(numbers[2]);
    decision.level = static_cast<int8_t>(numbers[3]);
    decision.is_split = static_cast<int8_t>(numbers[4]);
    decision.is_sliding = static_cast<int8_t>(numbers[5]);
    decision.vector_loop = static_cast<int8_t>(numbers[6]);
    decision.vector_width = static_cast<int16_t>(numbers[7]);
    decision.outside = static_cast<int8_t>(numbers[8]);
    decision.block = numbers[9];
    std::copy_n(numbers.begin() + kEncodedHead, metol::kMaxLoops, decision.trips.begin());
    return decision;
}

void bind_decisions(py::module_& m) {
    m.def("renumber", &renumber, py::arg("decision"), py::arg("funcs"), py::arg("stages"),
          "A decision of `Space.path` where Funcs and Stages have other numbers: old -> new.");
    m.attr("DECISION_VERSION") = metol::kDecisionVersion;
}
