// Reads a Halide pipeline into a PipelineDag, and takes the schedule off one. No Halide type appears here.
//
// Enters: the Python object that holds an hl.Pipeline or hl.Func, and estimates that it lacks. Leaves: a PipelineDag.
// Nothing is ever lowered: an unscheduled pipeline inlines everything, which may need unbounded time.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "dag.hpp"

typedef struct _object PyObject;

namespace metol {

// Estimates given from outside, by name of an output Func, an input or a scalar parameter, with or without its `$n`
// suffix.
struct UserEstimates {
    std::map<std::string, std::vector<Interval>> regions;
    std::map<std::string, double> scalars;
};

// A text with names as their author wrote them: Halide appends `$1`, `$2`, ... where one is used again.
std::string without_suffixes(const std::string& text);

// The end of a message about a missing estimate: what a user does about it.
std::string ways_to_estimate(const std::string& name);

// Bad input from a person. The binding code raises the class of metol.errors that `kind` names.
class PipelineError : public std::runtime_error {
  public:
    enum class Kind { Undefined, MissingEstimate, ContradictoryEstimate, Extraction, UnsupportedTarget };
    PipelineError(Kind kind, const std::string& message) : std::runtime_error(without_suffixes(message)), kind_(kind) {}
    Kind kind() const { return kind_; }

  private:
    Kind kind_;
};

// A reduction loop that is split in two before one of the parts is factored out.
struct ReductionSplit {
    std::string old;
    std::string outer;
    std::string inner;
    int32_t factor = 1;
};

// An associative update computed in two steps, as Halide's `rfactor` makes them: a Func of its own reduces over some
// RVars for every value of the others, which are `preserved`, each as a Var; the update combines the partial results.
struct Rfactor {
    int32_t func = -1;  // position in `Pipeline::get_func` of the pipeline as it was given
    int32_t update = 0;
    std::vector<ReductionSplit> splits;
    std::vector<std::pair<std::string, std::string>> preserved;  // RVar, Var
};

// A Func that is copied for one of its consumers, as Halide's `in` does it: the copy has a schedule of its own.
struct Staging {
    int32_t func = -1;      // Func::origin of what is copied
    int32_t consumer = -1;  // Func::origin of what reads the copy; what an rfactor made may
};

// Outputs that are computed in the same loops, as Halide's `compute_with` makes them, and read as one Func whose values
// are all of theirs: positions in `Pipeline::get_func`, that of the Func whose loops they are first.
using Joint = std::vector<int32_t>;

// What becomes of a pipeline before it is read, in this order; it is done to a copy.
struct Rewrites {
    std::vector<Joint> joints;
    std::vector<Rfactor> rfactors;
    std::vector<Staging> stagings;
    bool empty() const { return joints.empty() && rfactors.empty() && stagings.empty(); }
};

// Reads the pipeline as it is after `rewrites`. `target` is checked for being a target, and tells whether floats keep
// their order; it may be empty. Throws PipelineError.
std::shared_ptr<PipelineDag> extract(PyObject* pipeline, const UserEstimates& estimates, const std::string& target,
                                     const Rewrites& rewrites);

// Takes every directive off every Func that the pipeline reaches, in place, but for those at these positions of
// `func_names` and their wrappers. What `rfactor` made cannot be undone.
void strip_schedules(PyObject* pipeline, const std::vector<int>& kept);

// May Halide's runtime in this process keep memory of a device that was given back, for what asks next?
void reuse_device_allocations(bool is_reused);

// Where a Func's schedule puts it.
struct ScheduledAt {
    enum class Kind { Inline, Root, At } kind;
    // The Funcs whose loops the schedule names: to compute or store at, or to be fused with.
    std::vector<std::string> hosts;
};

// One a Func, in the order of `func_names`.
std::vector<ScheduledAt> placements(PyObject* pipeline);

// Makes `target`, an empty hl.Pipeline, a pipeline of the same algorithm and schedule that shares no Func with
// `source`.
void copy_pipeline(PyObject* source, PyObject* target);

// Gives the buffers of outputs the estimates of their Funcs, where they have none, in place: serialization keeps those
// of Funcs alone.
void restore_output_estimates(PyObject* pipeline);

// Names of the Funcs in the order of Halide's `Pipeline::get_func`.
std::vector<std::string> func_names(PyObject* pipeline);

// The number that a Halide Expr in a Python object holds; nothing where it is not a constant, or there is none.
std::optional<std::variant<int64_t, uint64_t, double>> constant_value(PyObject* expr);

}  // namespace metol
