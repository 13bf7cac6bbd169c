// A scheduled pipeline, lowered by Halide without generating code, and the regions that it asks of its buffers.
//
// Enters: the Python object of a scheduled pipeline. Leaves: the answer of its bounds query for given sizes, which is
// what running it would check its buffers against; no LLVM is involved.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dag.hpp"

typedef struct _object PyObject;

namespace metol {

// (min, max) of each dimension of a buffer, by its name; nothing for an end that only a run can tell.
using BufferRegions = std::map<std::string, std::vector<Interval>>;
// Elements from one place to the next along each dimension of a buffer.
using BufferStrides = std::map<std::string, std::vector<int64_t>>;
using RequiredRegions = std::map<std::string, std::vector<std::optional<Interval>>>;

// How a kernel is launched, along the three dimensions of a grid and of a block; nothing for what only a run can tell.
struct KernelLaunch {
    std::string kernel;  // its name in the device code
    std::string func;    // the Func that its outermost loop belongs to; empty where that cannot be told
    int32_t stage = -1;  // 0 for the pure definition, then the updates; -1 where that cannot be told
    std::array<std::optional<int64_t>, 3> blocks;
    std::array<std::optional<int64_t>, 3> threads;
    std::optional<int64_t> shared_bytes;  // of a block, told at the launch
    bool is_taken = true;                 // false where a condition lies before it that these sizes do not meet
};

class LoweredPipeline {
  public:
    // Lowers, with the ends of loops split off as code that runs has them, or without, which is quicker. Throws
    // PipelineError with what Halide says where it refuses.
    LoweredPipeline(PyObject* pipeline, const std::string& target, bool has_partitions);

    // The region of every input and output that the code needs, if its buffers were those of `regions` and its scalar
    // parameters had these values.
    RequiredRegions required(const BufferRegions& regions, const std::map<std::string, double>& scalars) const;

    // An access outside of what it is to, with buffers of these sizes, dense as far as the pipeline does not say what
    // their strides are, or nothing (walk.hpp).
    std::string beyond(const BufferRegions& regions, const std::map<std::string, double>& scalars) const;

    // The strides of buffers of these sizes, with those that the pipeline says.
    BufferStrides strides(const BufferRegions& regions, const std::map<std::string, double>& scalars) const;

    // What a load reads that Halide lowers, and then makes no code of; empty where there is none.
    std::string unfit_load() const;

    // The kernels that the code launches, if its buffers and scalar parameters were these, in the order of the code.
    std::vector<KernelLaunch> launches(const BufferRegions& regions,
                                       const std::map<std::string, double>& scalars) const;

    // The kernels as the compiler of the device gets them: PTX, for CUDA. Empty where there are none.
    const std::string& device_code() const;

  private:
    struct Code;
    std::shared_ptr<const Code> code_;
};

}  // namespace metol
