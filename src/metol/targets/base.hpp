// All that a machine decides about the search: which decisions a state offers, what they do to it, and what a loop
// nest looks like to the cost model. A target is one implementation of this; search/space.cpp knows no other.
#pragma once

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
    std::vector<int32_t> closed;                // Funcs in whose loops nothing may be computed
    std::vector<std::vector<Decision>> frozen;  // [Funcs] the decisions of a frozen Func; empty for a free one
};

// What is to be decided next.
struct DecisionStep {
    enum class Kind : uint8_t { Location, Inner, Parallel } kind;
    int16_t func;
    int16_t stage;  // Stage id; -1 for a location
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

class Target {
  public:
    virtual ~Target() = default;

    // Every decision of a search, in order.
    virtual std::vector<DecisionStep> steps(const PipelineIndex& index) const = 0;
    virtual std::vector<DecisionFamily> families(const PipelineIndex& index, const LoopNest& nest,
                                                 const DecisionStep& step, const SpaceOptions& options) const = 0;
    // Would `families` offer this decision's place? Asked of decisions that were made in another state.
    virtual bool is_offered(const PipelineIndex& index, const LoopNest& nest, const Decision& decision) const = 0;
    // Applies a decision that is offered; on Pruned::None `child` is the new state (without its path).
    virtual Pruned apply(const PipelineIndex& index, Pool& pool, const LoopNest& nest, const Decision& decision,
                         LoopNest& child) const = 0;

    virtual std::span<const FeatureColumn> feature_columns() const = 0;
    virtual std::span<const FeatureColumn> term_columns() const = 0;
    virtual std::span<const FeatureColumn> quantity_columns() const = 0;
    // Fills the rows of the Stages of `group` (Funcs that share a root ancestor, and what is inlined into them).
    // `rows` is [stages, feature_columns]; rows of other Stages are left alone.
    virtual void featurize(const PipelineIndex& index, const LoopNest& nest, std::span<const int32_t> group,
                           std::span<float> rows) const = 0;
    // Adds to the row of a Func what another sub-nest that inlines it does with it.
    virtual void add_inlined(std::span<const float> part, std::span<float> row) const = 0;
    // Fills the columns that depend on all groups at once, in the rows of a whole state.
    virtual void patch_whole_program(const PipelineIndex& index, const LoopNest& nest, std::span<float> rows) const = 0;
    // The hand-designed terms of one row, to be multiplied by coefficients and summed.
    virtual void terms(std::span<const float> row, std::span<double> out) const = 0;
    // Seconds of one row of a Stage under the analytical model.
    virtual void analytical_coefficients(int stage, std::span<const float> row, std::span<double> out) const = 0;
};

}  // namespace metol
