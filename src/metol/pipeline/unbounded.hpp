// Reads whose coordinates nothing bounds: data used as an index.
//
// Enters: a DAG whose unbounded sides stand at `kFar`, and the list of those reads. Leaves: the Funcs that Halide can
// compile only inlined, marked; or an error that names the access.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dag.hpp"

namespace metol {

// Where a side without bounds stands: beyond any image, and small enough for the points of three such dimensions to be
// counted in 64 bits.
inline constexpr int64_t kFar = int64_t{1} << 19;

struct UnboundedRead {
    std::string reader;  // the Stage in words: "Func `f`", "Update 0 of Func `f`"
    std::string access;  // the call as it reads, or the name of the producer
    int32_t producer = -1;
    size_t dimension = 0;
};

// Marks every Func that is asked for points without bounds as `must_inline`, and follows what those read in turn.
// Throws PipelineError where such a Func cannot be inlined, or is an input. `describe` gives the text of the first read
// that one Func makes of another.
using DescribeRead = std::function<std::string(int32_t reader, int32_t producer)>;
void inline_unbounded(PipelineDag& dag, const std::vector<UnboundedRead>& reads, const DescribeRead& describe);

}  // namespace metol
