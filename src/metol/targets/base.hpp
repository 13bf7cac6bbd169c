// All that a machine decides about the search: which decisions a state offers, what they do to it, and what a loop
// nest looks like to the cost model. A target is one implementation of this; search/space.cpp knows no other.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "schedule/loop_nest.hpp"
#include "schedule/pipeline_index.hpp"

namespace metol {

// Parts of the space that can be switched off, and Funcs whose decisions are given.
struct SpaceOptions {
    bool allow_inline = true;
    bool allow_compute_at = true;  // false: every Func at root or inline
    bool allow_split = true;       // false: one level of tiling (Adams et al. 2019, §6.3)
    bool allow_sliding = true;
    bool allow_unroll = true;
    bool allow_reductions = true;               // false: reduction loops stay whole, inside the serial loops
    bool allow_vector_widths = true;            // false: native for the narrowest type
    bool allow_storage = true;                  // false: storage stays where Halide puts it
    bool allow_nested_parallel = true;          // false: only Stages at root are parallel
    bool allow_fuse = false;                    // true: Stages may share the outer loops of others
    bool allow_align_storage = false;           // true: rows may be padded to whole vectors
    bool allow_prefetch = false;                // true: Stages may ask ahead for what they read
    bool allow_iterations = true;               // false: one iteration of each loop stands for all, always
    std::vector<int32_t> closed;                // Funcs in whose loops nothing may be computed
    std::vector<int32_t> at_root;               // Funcs that are computed at root, even where that is pointless
    std::vector<int32_t> off_root;              // Funcs that are not computed at root where another place is offered
    std::vector<int32_t> kept_inline;           // Funcs that are inline where that is offered
    std::vector<std::vector<Decision>> frozen;  // [Funcs] the decisions of a frozen Func; empty for a free one
    // Of the children of a state that share a structural hash of this depth, only log2 are offered, chosen at random
    // (Anderson et al. 2021, §3.1); below 0 for all of them.
    int32_t sample_depth = -1;
    uint64_t sample_seed = 0;
    bool sample_deepens = false;   // true: a strategy with passes samples at the depth of each pass instead
    bool memoize = true;           // false: nothing is remembered of a loop nest that was costed (§3.3)
    bool has_fixed_sizes = false;  // outputs are always as large as estimated, and Halide is told so
};

// What is to be decided next.
struct DecisionStep {
    enum class Kind : uint8_t { Location, Inner, Reduction, Parallel, Storage, Fuse, Align, Prefetch } kind;
    int16_t func;
    int16_t stage;  // Stage id; -1 for a location, for storage and its rows
};

// Candidates that differ only in numbers: `base` with trips[i] from choices[i]. Candidates are counted and decoded
// by number without making them, so that one can be sampled alone.
struct DecisionFamily {
    Decision base;
    std::vector<std::vector<int32_t>> choices;  // [loops]; empty: `base` alone

    int64_t count() const;
    Decision decode(int64_t number) const;
};

struct FeatureColumn {
    const char* name;
    const char* unit;
    const char* meaning;
};

// A number of the machine that the expressions of the terms name.
struct TermConstant {
    const char* name;
    double value;
};

// The feature row of one Stage that is computed, and what it adds to the rows of the Funcs inlined into it.
struct StageRow {
    struct Inlined {
        int32_t stage;
        std::vector<float> row;  // [feature_columns]
    };
    std::vector<float> row;  // [feature_columns]
    std::vector<Inlined> inlined;
};

// The Funcs of a loop nest that share a root ancestor, and which iteration of their loops is looked at.
struct SubNest {
    const PipelineIndex& index;
    const LoopNest& nest;
    std::span<const int32_t> group;
    int iteration = 0;  // as Regions numbers them; 0 is the middle one
};

// Told of each row as soon as it is filled, by its position; false where no more are wanted.
using RowReader = std::function<bool(size_t)>;

class Target {
  public:
    virtual ~Target() = default;

    // Every decision of a search, in order.
    virtual std::vector<DecisionStep> steps(const PipelineIndex& index, const SpaceOptions& options) const = 0;
    virtual std::vector<DecisionFamily> families(const PipelineIndex& index, const LoopNest& nest,
                                                 const DecisionStep& step, const SpaceOptions& options) const = 0;
    // Would `families` offer this decision's place, or kind? Asked of decisions that were made in another state.
    virtual bool is_offered(const PipelineIndex& index, const LoopNest& nest, const Decision& decision) const = 0;
    // Do decisions about a Func depend, of the loop nest, on the sub-nests of the root that read it or that it is part
    // of, and on no others?
    virtual bool decides_by_sub_nests() const = 0;
    // Applies a decision that is offered; on Pruned::None `child` is the new state (without its path).
    virtual Pruned apply(const PipelineIndex& index, Pool& pool, const LoopNest& nest, const Decision& decision,
                         LoopNest& child) const = 0;

    virtual std::span<const FeatureColumn> feature_columns() const = 0;
    virtual std::span<const FeatureColumn> term_columns() const = 0;
    virtual std::span<const FeatureColumn> quantity_columns() const = 0;
    virtual std::vector<TermConstant> term_constants() const = 0;
    // Fills the rows of `stages`, which belong to Funcs of the sub-nest. A row depends on the loop nest only as far as
    // search/group_memo.hpp says. Where the rows are for `analytical_coefficients` alone, columns that these multiply
    // by zero may be left at zero. Which rows of inlined Funcs there are does not depend on the iteration.
    virtual void featurize(const SubNest& sub_nest, std::span<const int32_t> stages, bool is_analytical,
                           std::span<StageRow> rows, const RowReader& read) const = 0;
    // Do the rows of all Stages of a sub-nest depend on the tilings of each of them?
    virtual bool rows_see_siblings() const = 0;
    // Adds to the row of a Func what another sub-nest that inlines it does with it.
    virtual void add_inlined(std::span<const float> part, std::span<float> row) const = 0;
    // Fills the columns that depend on all groups at once, in the rows of a whole state.
    virtual void patch_whole_program(const PipelineIndex& index, const LoopNest& nest, std::span<float> rows) const = 0;
    // The hand-designed terms of one row, to be multiplied by coefficients and summed.
    virtual void terms(std::span<const float> row, std::span<double> out) const = 0;
    // Seconds of one row of a Stage under the analytical model.
    virtual void analytical_coefficients(int stage, std::span<const float> row, std::span<double> out) const = 0;
};

// The numbers of one machine, which Python fills in: what a Space is told of the machine, and all that it knows of it.
struct MachineParameters {
    virtual ~MachineParameters() = default;
    virtual std::unique_ptr<const Target> make_target() const = 0;
};

}  // namespace metol
