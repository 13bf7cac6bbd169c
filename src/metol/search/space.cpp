#include "search/space.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>

#include "schedule/hashing.hpp"
#include "schedule/structural_hash.hpp"
#include "search/space_shared.hpp"

namespace metol {

namespace {

// Random candidates tried before sampling falls back on looking at all of them.
constexpr int kSampleTries = 16;

// What decides a step; of a location, one of three.
DecisionKind kind_of(DecisionStep::Kind step) {
    switch (step) {
        case DecisionStep::Kind::Location:
            return DecisionKind::Root;
        case DecisionStep::Kind::Inner:
            return DecisionKind::Inner;
        case DecisionStep::Kind::Reduction:
            return DecisionKind::Reduction;
        case DecisionStep::Kind::Parallel:
            return DecisionKind::Parallel;
        case DecisionStep::Kind::Storage:
            return DecisionKind::Storage;
        case DecisionStep::Kind::Fuse:
            return DecisionKind::Fuse;
        case DecisionStep::Kind::Align:
            return DecisionKind::Align;
        case DecisionStep::Kind::Prefetch:
            return DecisionKind::Prefetch;
    }
    return DecisionKind::Keep;
}

// Is `decision` one of a kind that `step` asks for, about the same Func and Stage?
bool fits(const DecisionStep& step, const Decision& decision) {
    const bool is_location = decision.kind == DecisionKind::Inline || decision.kind == DecisionKind::Root ||
                             decision.kind == DecisionKind::At;
    if (decision.func != step.func || is_location != (step.kind == DecisionStep::Kind::Location)) {
        return false;
    }
    const bool is_kind = decision.kind == kind_of(step.kind) || decision.kind == DecisionKind::Keep;
    return is_location || (decision.stage == step.stage && is_kind);
}

int64_t total_of(std::span<const DecisionFamily> families) {
    int64_t total = 0;
    for (const DecisionFamily& family : families) {
        total += family.count();
    }
    return total;
}

// One of the candidates of all families, numbered through.
Decision decode(std::span<const DecisionFamily> families, int64_t number) {
    size_t family = 0;
    for (; number >= families[family].count(); family++) {
        number -= families[family].count();
    }
    return families[family].decode(number);
}

State existing(State state) {
    return state ? state : throw DeadEnd();
}

// How far on the state of the next seed is: one state serves all seeds. Throws where there is no seed a state.
size_t step_of_states(std::span<const State> states, std::span<const uint64_t> seeds) {
    if (states.size() != 1 && states.size() != seeds.size()) {
        throw std::invalid_argument("There must be one seed a state, or one state: there are " +
                                    std::to_string(states.size()) + " states and " + std::to_string(seeds.size()) +
                                    " seeds.");
    }
    return states.size() == 1 ? 0 : 1;
}

}  // namespace

int64_t DecisionFamily::count() const {
    int64_t product = 1;
    for (const auto& sizes : choices) {
        product *= static_cast<int64_t>(sizes.size());
    }
    return product;
}

Decision DecisionFamily::decode(int64_t number) const {
    Decision decision = base;
    for (size_t i = 0; i < choices.size(); i++) {
        const auto length = static_cast<int64_t>(choices[i].size());
        decision.trips[i] = choices[i][static_cast<size_t>(number % length)];
        number /= length;
    }
    return decision;
}

Space::Space(std::shared_ptr<const PipelineDag> dag, std::shared_ptr<const Target> target, const SpaceOptions& options,
             int threads)
    : Space(std::make_shared<const PipelineIndex>(std::move(dag), options.closed, options.has_fixed_sizes,
                                                  options.at_root),
            std::move(target), options, std::make_shared<Shared>(threads)) {}

Space::Space(std::shared_ptr<const PipelineIndex> index, std::shared_ptr<const Target> target,
             const SpaceOptions& options, std::shared_ptr<Shared> shared)
    : index_(std::move(index)),
      target_(std::move(target)),
      options_(options),
      steps_(target_->steps(*index_, options_)),
      shared_(std::move(shared)) {}

State Space::root() const {
    auto nest = std::make_shared<LoopNest>();
    for (int func = 0; func < index_->func_count(); func++) {
        FuncSchedule schedule;
        schedule.func = static_cast<int16_t>(func);
        nest->funcs.push_back(shared_->pool.intern(schedule));
    }
    return nest;
}

std::optional<Decision> Space::frozen_decision(const LoopNest& nest) const {
    const DecisionStep& step = steps_[static_cast<size_t>(nest.decisions_made)];
    const auto func = static_cast<size_t>(step.func);
    const bool is_last = step.kind == DecisionStep::Kind::Fuse || step.kind == DecisionStep::Kind::Prefetch;
    if (func >= options_.frozen.size() || is_last) {
        return std::nullopt;
    }
    // The n-th decision of a frozen Func is the n-th of its list.
    size_t position = 0;
    for (size_t i = static_cast<size_t>(nest.decisions_made); i > 0 && steps_[i - 1].func == step.func; i--) {
        position++;
    }
    if (position >= options_.frozen[func].size()) {
        return std::nullopt;
    }
    return options_.frozen[func][position];
}

std::vector<DecisionFamily> Space::families(const LoopNest& nest) const {
    if (is_complete(nest)) {
        return {};
    }
    if (const std::optional<Decision> frozen = frozen_decision(nest)) {
        // What was frozen beside other decisions may not be legal beside these: then the Func is free.
        LoopNest child;
        if (target_->apply(*index_, shared_->pool, nest, *frozen, child) == Pruned::None) {
            return {{*frozen, {}}};
        }
    }
    return target_->families(*index_, nest, steps_[static_cast<size_t>(nest.decisions_made)], options_);
}

std::vector<Decision> Space::decisions_of(const LoopNest& nest) const {
    std::vector<Decision> decisions;
    for (const DecisionFamily& family : families(nest)) {
        const int64_t count = family.count();
        for (int64_t number = 0; number < count; number++) {
            decisions.push_back(family.decode(number));
        }
    }
    return decisions;
}

std::vector<size_t> Space::representatives(std::span<const State> states, int depth, uint64_t seed) const {
    struct Ranked {
        uint64_t bucket;
        uint64_t rank;  // random, but the same for the same loop nest
        size_t position;
    };
    std::vector<Ranked> ranked;
    ranked.reserve(states.size());
    for (size_t i = 0; i < states.size(); i++) {
        ranked.push_back(
            {metol::sampling_hash(*index_, *states[i], depth), combine(seed, metol::identity_hash(*states[i])), i});
    }
    std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
        return std::tie(a.bucket, a.rank, a.position) < std::tie(b.bucket, b.rank, b.position);
    });
    std::vector<size_t> kept;
    for (size_t begin = 0; begin < ranked.size();) {
        size_t end = begin + 1;
        while (end < ranked.size() && ranked[end].bucket == ranked[begin].bucket) {
            end++;
        }
        // log2 of a bucket of one is 0, but nothing stands for it then.
        const size_t count = std::max<size_t>(1, static_cast<size_t>(std::bit_width(end - begin)) - 1);
        for (size_t i = begin; i < begin + count; i++) {
            kept.push_back(ranked[i].position);
        }
        begin = end;
    }
    std::sort(kept.begin(), kept.end());
    return kept;
}

void Space::keep_sample(std::vector<State>& children) const {
    std::vector<State> kept;
    for (const size_t position : representatives(children, options_.sample_depth, options_.sample_seed)) {
        kept.push_back(std::move(children[position]));
    }
    children.swap(kept);
}

std::shared_ptr<const PathNode> Space::path_through(const LoopNest& nest) {
    return nest.decisions_made == 0 ? nullptr : std::make_shared<const PathNode>(nest.path, std::vector{nest.last});
}

Pruned Space::decide(const LoopNest& nest, const Decision& decision, LoopNest& child) {
    const Pruned reason = target_->apply(*index_, shared_->pool, nest, decision, child);
    if (reason != Pruned::None) {
        shared_->pruned[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
    }
    return reason;
}

State Space::make_child(const LoopNest& nest, const std::shared_ptr<const PathNode>& path, const Decision& decision,
                        Pruned& reason) {
    // Most candidates of some families are illegal: only what becomes a state is allocated.
    thread_local LoopNest scratch;
    reason = decide(nest, decision, scratch);
    if (reason != Pruned::None) {
        return nullptr;
    }
    auto child = std::make_shared<LoopNest>(scratch);
    child->path = path;
    child->last = decision;
    return child;
}

State Space::make_child(const State& state, const Decision& decision, Pruned& reason) {
    return make_child(*state, path_through(*state), decision, reason);
}

Expansion Space::expand(std::span<const State> states) {
    std::vector<std::vector<State>> made(states.size());
    shared_->workers.run(states.size(), [&](size_t i) { made[i] = children(states[i]); });
    Expansion expansion;
    for (size_t i = 0; i < made.size(); i++) {
        expansion.parents.insert(expansion.parents.end(), made[i].size(), static_cast<int32_t>(i));
        std::move(made[i].begin(), made[i].end(), std::back_inserter(expansion.children));
    }
    return expansion;
}

std::vector<State> Space::children(const State& state) {
    std::vector<State> made;
    const auto path = path_through(*state);
    for (const Decision& decision : decisions_of(*state)) {
        Pruned reason = Pruned::None;
        if (State child = make_child(*state, path, decision, reason)) {
            made.push_back(std::move(child));
        }
    }
    if (options_.sample_depth >= 0) {
        keep_sample(made);
    }
    return made;
}

int64_t Space::child_count(const LoopNest& nest) const {
    return total_of(families(nest));
}

std::pair<State, Pruned> Space::child(const State& state, int64_t number) {
    const std::vector<DecisionFamily> all = families(*state);
    if (number < 0 || number >= total_of(all)) {
        return {nullptr, Pruned::InvalidDecision};
    }
    Pruned reason = Pruned::None;
    State made = make_child(state, decode(all, number), reason);
    return {std::move(made), reason};
}

State Space::random_child(const State& state, uint64_t& seed) {
    const std::vector<DecisionFamily> all = families(*state);
    const auto total = static_cast<uint64_t>(total_of(all));
    const auto made_by_number = [&](uint64_t number) {
        Pruned reason = Pruned::None;
        return make_child(state, decode(all, static_cast<int64_t>(number)), reason);
    };
    for (int attempt = 0; attempt < kSampleTries && total > 0; attempt++) {
        seed = mix(seed);
        if (State made = made_by_number(seed % total)) {
            return made;
        }
    }
    // Few are legal: start anywhere and take the first that is, so that a child is always found where there is one.
    for (uint64_t i = 0; i < total; i++) {
        if (State made = made_by_number((seed + i) % total)) {
            return made;
        }
    }
    return nullptr;
}

State Space::next_child(const State& state, ChildWalk& walk, uint64_t& seed) {
    const std::vector<DecisionFamily> all = families(*state);
    if (walk.count < 0) {
        walk.count = total_of(all);
        if (walk.count > 0) {
            seed = mix(seed);
            walk.start = static_cast<int64_t>(seed % static_cast<uint64_t>(walk.count));
            // Steps of a size that shares no factor with the count come to every number once.
            do {
                seed = mix(seed);
                walk.stride = 1 + static_cast<int64_t>(seed % static_cast<uint64_t>(walk.count));
            } while (std::gcd(walk.stride, walk.count) != 1);
        }
    }
    while (!walk.is_over()) {
        const int64_t number = (walk.start + walk.tried * walk.stride) % walk.count;
        walk.tried++;
        Pruned reason = Pruned::None;
        if (State made = make_child(state, decode(all, number), reason)) {
            return made;
        }
    }
    return nullptr;
}

std::vector<State> Space::sample(std::span<const State> states, std::span<const uint64_t> seeds) {
    const size_t step = step_of_states(states, seeds);
    std::vector<State> children(seeds.size());
    shared_->workers.run(seeds.size(), [&](size_t i) {
        uint64_t seed = seeds[i];
        children[i] = existing(random_child(states[i * step], seed));
    });
    return children;
}

std::vector<State> Space::rollout(std::span<const State> states, std::span<const uint64_t> seeds) {
    const size_t step = step_of_states(states, seeds);
    std::vector<State> leaves(seeds.size());
    shared_->workers.run(seeds.size(), [&](size_t i) {
        uint64_t seed = seeds[i];
        State state = states[i * step];
        while (!is_complete(*state)) {
            state = existing(random_child(state, seed));
        }
        leaves[i] = std::move(state);
    });
    return leaves;
}

std::vector<uint64_t> Space::structural_hash(std::span<const State> states, int depth) {
    std::vector<uint64_t> hashes(states.size());
    shared_->workers.run(states.size(),
                         [&](size_t i) { hashes[i] = metol::structural_hash(*index_, *states[i], depth); });
    return hashes;
}

std::vector<uint64_t> Space::identity_hash(std::span<const State> states) const {
    std::vector<uint64_t> hashes(states.size());
    for (size_t i = 0; i < states.size(); i++) {
        hashes[i] = metol::identity_hash(*states[i]);
    }
    return hashes;
}

std::vector<Decision> Space::path(const LoopNest& nest) const {
    std::vector<Decision> decisions;
    if (nest.decisions_made > 0) {
        decisions.push_back(nest.last);
    }
    for (const PathNode* node = nest.path.get(); node != nullptr; node = node->previous.get()) {
        decisions.insert(decisions.end(), node->decisions.rbegin(), node->decisions.rend());
    }
    std::reverse(decisions.begin(), decisions.end());
    return decisions;
}

Space::Replayed Space::replay(std::span<const Decision> decisions) {
    Replayed result{root(), Pruned::None, 0};
    for (; result.position < decisions.size(); result.position++) {
        const Decision& decision = decisions[result.position];
        const auto made = static_cast<size_t>(result.state->decisions_made);
        if (made >= steps_.size() || !fits(steps_[made], decision)) {
            result.reason = Pruned::InvalidDecision;
            return result;
        }
        if (!target_->is_offered(*index_, *result.state, decision)) {
            result.reason = Pruned::InvalidDecision;
            return result;
        }
        State next = make_child(result.state, decision, result.reason);
        if (!next) {
            return result;
        }
        result.state = std::move(next);
    }
    return result;
}

State Space::child_by(const State& state, const Decision& decision) {
    const auto made = static_cast<size_t>(state->decisions_made);
    if (made >= steps_.size() || !fits(steps_[made], decision) || !target_->is_offered(*index_, *state, decision)) {
        return nullptr;
    }
    Pruned reason = Pruned::None;
    return make_child(state, decision, reason);
}

void Space::parallel(size_t count, const std::function<void(size_t)>& body) {
    shared_->workers.run(count, body);
}

std::shared_ptr<Space> Space::restricted(SpaceOptions options) const {
    // Rows are remembered for all of them, so all look at the same iterations.
    options.allow_iterations = options_.allow_iterations;
    return std::shared_ptr<Space>(new Space(index_, target_, options, shared_));
}

std::array<int64_t, static_cast<size_t>(Pruned::Count)> Space::pruned_counts() const {
    std::array<int64_t, static_cast<size_t>(Pruned::Count)> counts{};
    for (size_t i = 0; i < counts.size(); i++) {
        counts[i] = shared_->pruned[i].load(std::memory_order_relaxed);
    }
    return counts;
}

}  // namespace metol
