// The search space of one pipeline on one machine, in batches: the boundary between policy (Python) and mechanism.
//
// Enters: a PipelineDag, a Target, options. Leaves: states, costs, features. Everything here is deterministic: results
// do not depend on the number of threads or the shape of a batch. Source: Adams et al. 2019, §3 and §6.4.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "cost/cost_model.hpp"
#include "schedule/loop_nest.hpp"
#include "search/group_memo.hpp"
#include "search/trajectory.hpp"
#include "search/workers.hpp"
#include "targets/base.hpp"

namespace metol {

using State = std::shared_ptr<const LoopNest>;

// No candidate for a decision is legal.
struct DeadEnd : std::runtime_error {
    DeadEnd()
        : std::runtime_error("No candidate for the next decision is legal; switch fewer parts of the space off.") {}
};

struct Expansion {
    std::vector<State> children;
    std::vector<int32_t> parents;  // [children] index into the batch that was expanded
};

// What else could have been decided at a position of the way to a complete loop nest.
struct Crossroads {
    std::shared_ptr<const Trajectory> way;
    LoopNest before;
    std::vector<Decision> alternatives;
};

// The loop nests around one, each with what it costs. They themselves are made when they are taken, for most never are.
struct Surroundings {
    Crossroads here;
    std::vector<size_t> which;  // of the alternatives
    std::vector<double> costs;
};

// Loop nests that were completed, and what that took.
struct Completed {
    std::vector<State> states;
    std::vector<double> costs;
    int64_t candidates = 0;
};

class Space {
  public:
    Space(std::shared_ptr<const PipelineDag> dag, std::shared_ptr<const Target> target, const SpaceOptions& options,
          int threads);

    State root() const;
    bool is_complete(const LoopNest& nest) const { return static_cast<size_t>(nest.decisions_made) == steps_.size(); }
    const std::vector<DecisionStep>& steps() const { return steps_; }

    Expansion expand(std::span<const State> states);
    // Candidates of the next decision, legal or not.
    int64_t child_count(const LoopNest& nest) const;
    // The candidate by number: a state, or the reason it is none.
    std::pair<State, Pruned> child(const State& state, int64_t number);
    // One random legal child each; siblings are counted but never made. A state for each seed, or one for all, here and
    // below; throws std::invalid_argument otherwise, and DeadEnd where there is none.
    std::vector<State> sample(std::span<const State> states, std::span<const uint64_t> seeds);
    // Random completions.
    std::vector<State> rollout(std::span<const State> states, std::span<const uint64_t> seeds);

    // The same for one state, on the caller's thread: of these, many may run beside each other.
    std::vector<State> children(const State& state);
    State random_child(const State& state, uint64_t& seed);
    double cost_of(const State& state, const CostModelWeights& model);
    // The child that a decision made elsewhere leads to; null where it does not apply.
    State child_by(const State& state, const Decision& decision);
    // Goes over the children of one state in a random order, each candidate once, and makes none before it is asked
    // for.
    struct ChildWalk {
        int64_t count = -1;  // candidates; -1 before the first step
        int64_t tried = 0;
        int64_t start = 0;
        int64_t stride = 1;

        bool is_over() const { return tried == count; }
    };
    // The next legal one; null where there is none any more.
    State next_child(const State& state, ChildWalk& walk, uint64_t& seed);
    // Calls body(i) once for each i below count, on all threads.
    void parallel(size_t count, const std::function<void(size_t)>& body);

    std::vector<double> cost(std::span<const State> states, const CostModelWeights& model);
    // Seconds of each Stage of one state, [stages]; what is inlined has its own.
    std::vector<double> stage_costs(const State& state, const CostModelWeights& model);
    // [Funcs] what each Func adds to the cost of one state, inlined ones included.
    std::vector<double> func_seconds(const State& state, const CostModelWeights& model);
    // [states, stages, features]
    std::vector<float> featurize(std::span<const State> states);

    std::vector<uint64_t> structural_hash(std::span<const State> states, int depth);
    // Positions of log2 of each bucket of states that share a structural hash, chosen at random, in ascending order
    // (Anderson et al. 2021, §3.1).
    std::vector<size_t> representatives(std::span<const State> states, int depth, uint64_t seed) const;
    std::vector<uint64_t> identity_hash(std::span<const State> states) const;

    std::vector<Decision> path(const LoopNest& nest) const;
    // Replays decisions from the start; the first that does not apply gives its reason and position.
    struct Replayed {
        State state;
        Pruned reason = Pruned::None;
        size_t position = 0;
    };
    Replayed replay(std::span<const Decision> decisions);

    // Complete loop nests that differ from a complete one in the decision at `position`. The later decisions are made
    // as before; where one no longer applies, the Func goes to root, or keeps the tiling it has by default.
    std::vector<State> neighbours(const State& state, size_t position);
    // What costs more than `margin` times the least of them, or of `rival`, is told to cost infinity.
    Surroundings look_around(const State& state, size_t position, const CostModelWeights& model, double rival,
                             double margin);
    State take(const Surroundings& around, size_t number);

    // The child of least cost, null where none is legal; adds to `candidates` how many there are.
    State cheapest_child(const State& state, const CostModelWeights& model, int64_t& candidates);
    // Makes every decision that is left, the cheapest each time, for each state by itself. Those that come to a
    // decision of which nothing is legal are left out.
    Completed complete_greedily(std::span<const State> states, const CostModelWeights& model);

    // What a complete loop nest becomes where decisions about some of its Funcs are made anew, each variant by itself;
    // null where one is illegal. All other Funcs stay as they are, whether or not that still fits: for what looks at
    // those in question alone. States made so have no path.
    std::vector<State> amended(const State& base, std::span<const std::vector<Decision>> variants);
    // The rows of some Stages, [states, stages, features], as their own sub-nests alone make them: those of inlined
    // Funcs, too, as far as they are inlined there.
    std::vector<float> featurize_stages(std::span<const State> states, std::span<const int32_t> stages);

    std::shared_ptr<Space> restricted(SpaceOptions options) const;
    const SpaceOptions& options() const { return options_; }
    // Of this space, what it was restricted from, and what was restricted from that.
    std::array<int64_t, static_cast<size_t>(Pruned::Count)> pruned_counts() const;

    const PipelineIndex& index() const { return *index_; }
    const Target& target() const { return *target_; }

  private:
    struct Shared;  // what restricted spaces share: pool, memo, workers

    Space(std::shared_ptr<const PipelineIndex> index, std::shared_ptr<const Target> target, const SpaceOptions& options,
          std::shared_ptr<Shared> shared);

    std::optional<Decision> frozen_decision(const LoopNest& nest) const;
    std::vector<DecisionFamily> families(const LoopNest& nest) const;
    // All candidates of the next decision, legal or not.
    std::vector<Decision> decisions_of(const LoopNest& nest) const;
    // Keeps the representatives of the children of one state.
    void keep_sample(std::vector<State>& children) const;
    // The decisions up to a state, where its children can share them.
    static std::shared_ptr<const PathNode> path_through(const LoopNest& nest);
    Pruned decide(const LoopNest& nest, const Decision& decision, LoopNest& child);
    // Makes a decision in place, and says whether that could be done; `scratch` is overwritten.
    bool advance(LoopNest& nest, const Decision& decision, LoopNest& scratch);
    State make_child(const State& state, const Decision& decision, Pruned& reason);
    State make_child(const LoopNest& nest, const std::shared_ptr<const PathNode>& path, const Decision& decision,
                     Pruned& reason);
    // A state that decisions have led to from another one, whose way there is `before`.
    static State with_path(const LoopNest& nest, const std::shared_ptr<const PathNode>& before,
                           std::vector<Decision> decisions);
    bool follow_one(const Decision& wanted, LoopNest& nest, LoopNest& scratch, std::vector<Decision>& made);
    struct Walk;
    // Sets out from a loop nest, beside another one of as many decisions, or none.
    void begin(Walk& walk, const LoopNest& nest, const Trajectory* other) const;
    // Makes a decision as far as it applies; false where nothing does.
    bool follow_next(const Decision& wanted, Walk& walk);
    Crossroads crossroads_at(const State& state, size_t position);
    // Goes the way again but for one decision; false where that leads nowhere.
    bool turn_off(const Crossroads& here, size_t alternative, Walk& walk);
    State made_by_turning_off(const Crossroads& here, size_t alternative);
    // The way to a complete loop nest; null where it is not of this space.
    std::shared_ptr<const Trajectory> trajectory_of(const State& state);
    // A cost model, what it remembers of this pipeline, and what it makes of the operations of each Stage.
    struct Costing {
        const CostModelWeights& model;
        GroupMemo& memo;
        std::span<const std::vector<float>> stage_parts;  // [stages][terms]; empty without a network
        // [stages] What a row cost the last time: no more than a hint, for all threads write it.
        std::span<std::atomic<float>> latest;
        bool only_adds;  // no row costs less than nothing
    };

    Costing costing(const CostModelWeights& model) const;
    // Here and below, a cost above `limit` may come out as infinity, as soon as it is known to be above; all others are
    // exact.
    double cost_of(const LoopNest& nest, const Costing& costing, double limit);
    double cost_one(const LoopNest& nest, const Groups& groups, const Costing& costing, double limit);
    double cost_remembered(const LoopNest& nest, const Groups& groups, const Costing& costing, double limit);
    // None where it is known to be above `most`.
    std::optional<GroupCost> cost_group(const LoopNest& nest, const Groups& groups, size_t group,
                                        const Costing& costing, double most) const;
    double cost_row(int stage, std::span<const float> row, const Costing& costing) const;
    double cost_inlined(std::span<const InlinedRow* const> parts, const Costing& costing) const;
    // The rows of a sub-nest, averaged over several iterations where they differ; where they do, all are made.
    void featurize_group(SubNest sub_nest, std::span<const int32_t> stages, bool is_analytical,
                         std::span<StageRow> rows, const RowReader& read) const;
    // The cheapest child of a loop nest, which it becomes, and the decision that makes it; `candidates` counts all.
    std::optional<Decision> take_cheapest(LoopNest& nest, const Costing& costing, int64_t& candidates);

    std::shared_ptr<const PipelineIndex> index_;
    std::shared_ptr<const Target> target_;
    SpaceOptions options_;
    std::vector<DecisionStep> steps_;
    std::shared_ptr<Shared> shared_;
    std::mutex trajectory_mutex_;
    State trajectory_end_;  // whose way was asked for last
    std::shared_ptr<const Trajectory> trajectory_;
};

}  // namespace metol
