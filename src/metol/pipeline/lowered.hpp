// A scheduled pipeline, lowered by Halide without generating code, and the regions that it asks of its buffers.
//
// Enters: the Python object of a scheduled pipeline. Leaves: the answer of its bounds query for given sizes, which is
// what running it would check its buffers against; no LLVM is involved.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dag.hpp"

typedef struct _object PyObject;

namespace metol {

// (min, max) of each dimension of a buffer, by its name; nothing for an end that only a run can tell.
using Regions = std::map<std::string, std::vector<Interval>>;
using RequiredRegions = std::map<std::string, std::vector<std::optional<Interval>>>;

class LoweredPipeline {
  public:
    // Lowers, with the ends of loops split off as code that runs has them, or without, which is quicker. Throws
    // PipelineError with what Halide says where it refuses.
    LoweredPipeline(PyObject* pipeline, const std::string& target, bool has_partitions);

    // The region of every input and output that the code needs, if its buffers were those of `regions` and its scalar
    // parameters had these values.
    RequiredRegions required(const Regions& regions, const std::map<std::string, double>& scalars) const;

    // An access outside of what it is to, with dense buffers of these sizes, or nothing (walk.hpp).
    std::string beyond(const Regions& regions, const std::map<std::string, double>& scalars) const;

  private:
    struct Code;
    std::shared_ptr<const Code> code_;
};

// Makes `target`, an empty hl.Pipeline, a pipeline of the same algorithm and schedule that shares no Func with
// `source`.
void copy_pipeline(PyObject* source, PyObject* target);

}  // namespace metol
