// Which class of operations each node of an expression graph belongs to, and which additions multiply, too.
//
// Source: Adams et al. 2019, §4.1 (histogram of classes).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "expr_graph.hpp"

namespace metol {

enum class OpClass : int32_t {
#define METOL_OP_CLASS(name, meaning) name,
#include "op_classes.def"
#undef METOL_OP_CLASS
};

struct OpClassInfo {
    const char* name;
    const char* meaning;
};
std::span<const OpClassInfo> op_classes();

// The class of anything but a load.
OpClass classify(const ExprGraph& graph, const ExprNode& node);

// Has Halide 21 no right code for it in OpenCL? Counting bits calls functions that nothing defines; `~` of a truth
// value is that of a whole number, which is always true; and a remainder of floats has the sign of what is divided.
bool is_unfit_for_opencl(const ExprNode& node);

// Is it one multiplication of floats, as a division by a literal is?
bool is_float_product(const ExprGraph& graph, int32_t id);

// Is it a division of floats, by something else than a literal?
bool is_float_quotient(const ExprGraph& graph, int32_t id);

// Additions of floats that are one instruction with a product that nothing else uses.
class FusedAdditions {
  public:
    explicit FusedAdditions(const ExprGraph& graph);

    // Does the instruction that adds here multiply, too?
    bool takes_product(const ExprNode& node) const;

    // The Funcs one of whose values is added here, and would be multiplied, too, if it were a product that is inlined.
    std::vector<int32_t> loads_taken(const ExprNode& node) const;

    bool is_used_once(int32_t id) const;

  private:
    const ExprGraph& graph_;
    std::vector<int32_t> uses_;
};

}  // namespace metol
