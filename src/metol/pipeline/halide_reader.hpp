// Private to extraction: everything that reads Halide's data structures. The only header here that includes Halide.
//
// Enters: Halide Functions, Exprs and Parameters. Leaves: ExprGraphs, symbolic bounds, estimates.
#pragma once

#include <Halide.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bound_node.hpp"
#include "dag.hpp"
#include "expr_graph.hpp"
#include "extract.hpp"
#include "unbounded.hpp"

namespace metol {

namespace hi = Halide::Internal;

// The pipeline inside a Python object. Throws PipelineError for anything else.
Halide::Pipeline to_pipeline(PyObject* object);
std::vector<hi::Function> outputs_of(const Halide::Pipeline& pipeline);

// Takes every directive off one Func. What `rfactor` made cannot be undone.
void strip_function(hi::Function& function);

// Where a Func of a rewritten pipeline comes from.
struct Origin {
    int32_t number = -1;      // Func::origin
    bool is_wrapper = false;  // a staging made it
    Joint joint;              // what it was made of
};

// A copy of a pipeline, without its schedule and rewritten, and where its Funcs come from, by name.
struct RewrittenPipeline {
    std::vector<hi::Function> outputs;
    std::map<std::string, Origin> origins;  // empty where nothing was rewritten
    std::vector<hi::Function> joined;       // outputs that are part of others; what all read lives as long as they
};
RewrittenPipeline rewrite(const Halide::Pipeline& pipeline, const Rewrites& rewrites);

// The pure Vars that the left-hand side of a definition keeps, in storage order.
std::vector<std::string> pure_args(const hi::Function& function, const hi::Definition& definition);

// Runs `work` and gives what Halide throws the name of an error of ours.
template <typename Work>
auto translate_halide_errors(const Work& work) {
    try {
        return work();
    } catch (const Halide::Error& error) {
        throw PipelineError(PipelineError::Kind::Extraction,
                            std::string("Halide refuses the pipeline: ") + error.what());
    }
}

// Sizes and scalars that stand for what is only known when the pipeline runs.
class Estimates {
  public:
    explicit Estimates(const UserEstimates& user) : user_(user) {}

    // Throw PipelineError(MissingEstimate) naming the dimension that lacks one, or that has two that differ.
    std::vector<Interval> of_output(const hi::Function& func);
    std::vector<Interval> of_input(const Halide::Parameter& param);
    // Which points lie side by side: `dense_dim`, whose stride is constrained to 1 as that of the first dimension is
    // until the user says otherwise, or -1; `row_dim`, and `interleaved`.
    static void read_layout(const Halide::Parameter& param, Func& func);
    static std::vector<Interval> of_image(const Halide::Buffer<>& image);
    // What an extern stage reads of this Func, as far as anybody said; empty if nobody did.
    std::vector<Interval> of_extern_input(const hi::Function& func);

    // The value of a scalar parameter, or of the size of an image; nothing if it is no such variable or has no
    // estimate.
    std::optional<double> value(const hi::Variable& variable);

    // Throws PipelineError(MissingEstimate) if `variable` is a parameter without an estimate.
    void require(const hi::Variable& variable) const;

    // Raises an error for estimates that name nothing in the pipeline.
    void check_all_used(const std::vector<std::string>& known_names) const;

    const std::map<std::string, ScalarParameter>& scalars() const { return scalars_; }
    // Images of which the algorithm asks how large they are.
    const std::set<std::string>& sizes_read() const { return sizes_read_; }

  private:
    void check_rank(const std::string& name, int dimensions) const;
    std::optional<double> scalar(const Halide::Parameter& param);
    const std::vector<Interval>* user_region(const std::string& name) const;

    const UserEstimates& user_;
    std::map<std::string, std::vector<Interval>> shapes_;  // by name of the image or output buffer
    std::map<std::string, ScalarParameter> scalars_;
    std::set<std::string> sizes_read_;
};

// Which Func id a call or an image goes by.
class FuncIds {
  public:
    void add(const std::string& name, int32_t id) { ids_[name] = id; }
    // The name of an input for people: that of the image, not of its wrapper.
    void show_as(const std::string& name, const std::string& shown) { shown_[name] = shown; }
    std::string shown(const std::string& name) const {
        const auto it = shown_.find(name);
        return without_suffixes(it == shown_.end() ? name : it->second);
    }
    // An expression as its author wrote it: without the wrappers that Halide puts around inputs.
    std::string shown_in(std::string text) const {
        for (const auto& [name, shown] : shown_) {
            for (size_t at = text.find(name + "("); at != std::string::npos; at = text.find(name + "(", at + 1)) {
                text.replace(at, name.size(), shown);
            }
        }
        return text;
    }
    std::optional<int32_t> find(const std::string& name) const {
        const auto it = ids_.find(name);
        return it == ids_.end() ? std::nullopt : std::optional(it->second);
    }

  private:
    std::map<std::string, int32_t> ids_;
    std::map<std::string, std::string> shown_;
};

// Marks the inputs that these images are.
void mark_sizes_read(const std::set<std::string>& images, const FuncIds& ids, std::vector<Func>& funcs);

// Adds Halide expressions to an ExprGraph.
class ExprReader {
  public:
    ExprReader(ExprGraph& graph, const std::vector<std::string>& loops, const FuncIds& ids, Estimates& estimates);

    int32_t read(const Halide::Expr& expr);

    // Call sites by producer id, counted without sharing; saturates at 2^31 - 1.
    std::map<int32_t, int64_t> count_calls(const std::vector<Halide::Expr>& exprs);

    // Nodes, of all that was read, of which Halide is promised how large they are.
    const std::vector<int32_t>& promised() const { return promised_; }

  private:
    int32_t read_node(const Halide::Expr& expr);
    int32_t read_call(const hi::Call& call);
    int32_t read_variable(const hi::Variable& variable);
    int32_t emit(const Halide::Type& type, ExprKind kind, std::vector<int32_t> args, const std::string& name = "");

    ExprGraph& graph_;
    std::map<std::string, int32_t> loops_;
    const FuncIds& ids_;
    Estimates& estimates_;
    std::map<Halide::Expr, int32_t, Halide::ExprCompare> seen_;
    std::vector<int32_t> promised_;
};

// The first call of a Func or image in some expressions as text; of its name alone if there is none.
std::string first_call_text(const std::vector<Halide::Expr>& exprs, const std::string& name, const FuncIds& ids);

// The regions that some expressions read, as symbolic bounds over the loops of their Stage.
class RegionReader {
  public:
    RegionReader(std::string stage_name, const std::vector<std::string>& loops, const FuncIds& ids,
                 Estimates& estimates, const hi::FuncValueBounds& value_bounds);

    // Regions by Func id. `exprs` are evaluated only where `predicate` (may be undefined) holds.
    std::map<int32_t, std::vector<BoundRefPair>> regions(const std::vector<Halide::Expr>& exprs,
                                                         const Halide::Expr& predicate);

    // The region of all calls of `name`, without asking whether they are ever made.
    std::vector<BoundRefPair> region_of_calls(const std::vector<Halide::Expr>& exprs, const std::string& name);

    // The same, of the calls that `number` gives the same number, by that number.
    std::map<int32_t, std::vector<BoundRefPair>> regions_of_calls(
        const std::vector<Halide::Expr>& exprs, const std::string& name,
        const std::function<int32_t(const std::vector<Halide::Expr>&)>& number);

    // The values that one expression may take: a coordinate written, the bounds of an RVar.
    BoundRefPair range(const Halide::Expr& expr, const std::string& what);

    // Reads found so far at coordinates that nothing bounds; such a side stands at kFar.
    const std::vector<UnboundedRead>& unbounded_reads() const { return unbounded_reads_; }

  private:
    BoundRefPair convert_read(const hi::Interval& interval, const std::string& what);
    std::string describe_access(const std::vector<Halide::Expr>& exprs, const std::string& name, size_t dimension);
    Halide::Expr prepare(const Halide::Expr& expr);
    BoundRefPair convert(const hi::Interval& interval, const std::string& what);
    BoundRef convert(const Halide::Expr& expr, hi::Direction direction, const std::string& what);

    std::string stage_name_;
    std::map<std::string, std::pair<int32_t, bool>> ends_;  // variable that stands for a loop's end
    const FuncIds& ids_;
    Estimates& estimates_;
    const hi::FuncValueBounds& value_bounds_;
    hi::Scope<hi::Interval> scope_;
    std::vector<UnboundedRead> unbounded_reads_;
};

}  // namespace metol
