// Reads stages that an external C function computes: what they read is known to that function alone.
//
// Enters: a Halide Function with an extern definition. Leaves: one Stage in the DAG, whose reads are those that the
// user estimates, the whole of an image, or the place that is written.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "halide_reader.hpp"

namespace metol {

// An image as a Function reads it: the parameter, or the buffer itself.
struct ImageRead {
    int32_t dimensions = 0;
    Halide::Type type;
    Halide::Parameter param;
    Halide::Buffer<> image;
};

// Images that a Function reads directly rather than through a wrapper, by name.
std::map<std::string, ImageRead> images_read(const hi::Function& function);

// Funcs that an extern definition takes as buffers; none for other Functions.
std::vector<hi::Function> funcs_read_by_extern(const hi::Function& function);

// What reading an extern stage draws on.
struct ExternContext {
    const FuncIds& ids;
    Estimates& estimates;
    PipelineDag& dag;
};

// Adds the Stage to the DAG, and returns its part of the signature of the algorithm.
std::string read_extern_stage(const hi::Function& function, int32_t id, const ExternContext& context);

}  // namespace metol
