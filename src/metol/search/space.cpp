#include "search/space.hpp"

#include <algorithm>

#include "schedule/hashing.hpp"
#include "schedule/structural_hash.hpp"

namespace metol {

namespace {

// Random candidates tried before sampling falls back on looking at all of them.
constexpr int kSampleTries = 16;

// Is `decision` one of a kind that `step` asks for, about the same Func and Stage?
bool fits(const DecisionStep& step, const Decision& decision) {
    const bool is_location = decision.kind == DecisionKind::Inline || decision.kind == DecisionKind::Root ||
                             decision.kind == DecisionKind::At;
    if (decision.func != step.func || is_location != (step.kind == DecisionStep::Kind::Location)) {
        return false;
    }
    const bool is_inner = decision.kind == DecisionKind::Inner && step.kind == DecisionStep::Kind::Inner;
    const bool is_parallel = decision.kind == DecisionKind::Parallel && step.kind == DecisionStep::Kind::Parallel;
    return is_location ||
           (decision.stage == step.stage && (is_inner || is_parallel || decision.kind == DecisionKind::Keep));
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

struct Space::Shared {
    explicit Shared(int threads) : workers(threads) {}
    Pool pool;
    Workers workers;
    std::mutex memo_mutex;
    std::unordered_map<uint64_t, std::unique_ptr<GroupMemo>> memos;  // by cost model

    GroupMemo& memo(uint64_t model) {
        const std::lock_guard lock(memo_mutex);
        auto& slot = memos[model];
        if (!slot) {
            slot = std::make_unique<GroupMemo>();
        }
        return *slot;
    }
};

Space::Space(std::shared_ptr<const PipelineDag> dag, std::shared_ptr<const Target> target, SpaceOptions options,
             int threads)
    : index_(std::make_shared<const PipelineIndex>(std::move(dag), options.closed)),
      target_(std::move(target)),
      options_(std::move(options)),
      steps_(target_->steps(*index_)),
      shared_(std::make_shared<Shared>(threads)) {}

State Space::root() const {
    auto nest = std::make_shared<LoopNest>();
    for (int func = 0; func < index_->func_count(); func++) {
        FuncSchedule schedule;
        schedule.func = static_cast<int16_t>(func);
        nest->funcs.push_back(shared_->pool.intern(schedule));
    }
    return nest;
}

std::vector<DecisionFamily> Space::families(const LoopNest& nest) const {
    if (is_complete(nest)) {
        return {};
    }
    const DecisionStep& step = steps_[static_cast<size_t>(nest.decisions_made)];
    const auto func = static_cast<size_t>(step.func);
    if (func < options_.frozen.size() && !options_.frozen[func].empty()) {
        // The n-th decision of a frozen Func is the n-th of its list.
        size_t position = 0;
        for (size_t i = static_cast<size_t>(nest.decisions_made); i > 0 && steps_[i - 1].func == step.func; i--) {
            position++;
        }
        if (position < options_.frozen[func].size()) {
            return {{options_.frozen[func][position], {}}};
        }
    }
    return target_->families(*index_, nest, step, options_);
}

State Space::make_child(const State& state, const Decision& decision, Pruned& reason) {
    auto nest = std::make_shared<LoopNest>();
    reason = target_->apply(*index_, shared_->pool, *state, decision, *nest);
    if (reason != Pruned::None) {
        pruned_[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
        return nullptr;
    }
    nest->path = std::make_shared<const PathNode>(PathNode{state->path, decision});
    return nest;
}

Expansion Space::expand(std::span<const State> states) {
    std::vector<std::vector<State>> made(states.size());
    shared_->workers.run(states.size(), [&](size_t i) {
        for (const DecisionFamily& family : families(*states[i])) {
            for (int64_t number = 0; number < family.count(); number++) {
                Pruned reason = Pruned::None;
                if (State made_child = make_child(states[i], family.decode(number), reason)) {
                    made[i].push_back(std::move(made_child));
                }
            }
        }
    });
    Expansion expansion;
    for (size_t i = 0; i < made.size(); i++) {
        expansion.parents.insert(expansion.parents.end(), made[i].size(), static_cast<int32_t>(i));
        std::move(made[i].begin(), made[i].end(), std::back_inserter(expansion.children));
    }
    return expansion;
}

int64_t Space::child_count(const LoopNest& nest) const {
    int64_t total = 0;
    for (const DecisionFamily& family : families(nest)) {
        total += family.count();
    }
    return total;
}

std::pair<State, Pruned> Space::child(const State& state, int64_t number) {
    if (number < 0) {
        return {nullptr, Pruned::InvalidDecision};
    }
    for (const DecisionFamily& family : families(*state)) {
        if (number < family.count()) {
            Pruned reason = Pruned::None;
            State made = make_child(state, family.decode(number), reason);
            return {std::move(made), reason};
        }
        number -= family.count();
    }
    return {nullptr, Pruned::InvalidDecision};
}

State Space::sample_one(const State& state, uint64_t& seed) {
    const std::vector<DecisionFamily> all = families(*state);
    int64_t total = 0;
    for (const DecisionFamily& family : all) {
        total += family.count();
    }
    const auto made_by_number = [&](int64_t number) -> State {
        for (const DecisionFamily& family : all) {
            if (number < family.count()) {
                Pruned reason = Pruned::None;
                return make_child(state, family.decode(number), reason);
            }
            number -= family.count();
        }
        return nullptr;
    };
    for (int attempt = 0; attempt < kSampleTries && total > 0; attempt++) {
        seed = mix(seed);
        if (State made = made_by_number(static_cast<int64_t>(seed % static_cast<uint64_t>(total)))) {
            return made;
        }
    }
    // Few are legal: start anywhere and take the first that is, so that a child is always found where there is one.
    for (int64_t i = 0; i < total; i++) {
        if (State made = made_by_number(
                static_cast<int64_t>((seed + static_cast<uint64_t>(i)) % static_cast<uint64_t>(total)))) {
            return made;
        }
    }
    return nullptr;
}

std::vector<State> Space::sample(std::span<const State> states, std::span<const uint64_t> seeds) {
    std::vector<State> children(states.size());
    shared_->workers.run(states.size(), [&](size_t i) {
        uint64_t seed = seeds[i];
        children[i] = sample_one(states[i], seed);
    });
    return children;
}

std::vector<State> Space::rollout(std::span<const State> states, std::span<const uint64_t> seeds) {
    std::vector<State> leaves(states.size());
    shared_->workers.run(states.size(), [&](size_t i) {
        uint64_t seed = seeds[i];
        State state = states[i];
        while (state && !is_complete(*state)) {
            state = sample_one(state, seed);
        }
        leaves[i] = std::move(state);
    });
    return leaves;
}

double Space::cost_row(int stage, std::span<const float> row, const CostModelWeights& model) const {
    const size_t count = target_->term_columns().size();
    thread_local std::vector<double> terms;
    thread_local std::vector<double> coefficients;
    terms.resize(count);
    coefficients.resize(count);
    target_->terms(row, terms);
    if (model.coefficients.empty()) {
        target_->analytical_coefficients(stage, row, coefficients);
    } else {
        const auto first =
            model.coefficients.begin() + static_cast<std::ptrdiff_t>(stage) * static_cast<std::ptrdiff_t>(count);
        std::copy_n(first, count, coefficients.begin());
    }
    double seconds = 0;
    for (size_t t = 0; t < count; t++) {
        seconds += coefficients[t] * terms[t];
    }
    return seconds;
}

GroupCost Space::cost_group(const LoopNest& nest, const Group& group, const CostModelWeights& model) const {
    const size_t columns = target_->feature_columns().size();
    thread_local std::vector<float> rows;
    rows.assign(static_cast<size_t>(index_->stage_count()) * columns, 0.0F);
    target_->featurize(*index_, nest, group.funcs, rows);
    GroupCost cost;
    for (int stage = 0; stage < index_->stage_count(); stage++) {
        const std::span<const float> row(rows.data() + static_cast<size_t>(stage) * columns, columns);
        if (std::all_of(row.begin(), row.end(), [](float value) { return value == 0; })) {
            continue;
        }
        if (nest[index_->stage(stage).func].placement == Placement::Inline) {
            cost.inlined.push_back({stage, {row.begin(), row.end()}});
        } else {
            cost.seconds += cost_row(stage, row, model);
        }
    }
    return cost;
}

double Space::cost_one(const LoopNest& nest, const CostModelWeights& model) {
    GroupMemo& memo = shared_->memo(model.id);
    std::vector<GroupCost::Inlined> inlined;
    double total = 0;
    for (const Group& group : groups_of(*index_, nest)) {
        const GroupCost* cost = memo.find(group.key);
        cost = cost ? cost : memo.store(group.key, cost_group(nest, group, model));
        total += cost->seconds;
        for (const GroupCost::Inlined& part : cost->inlined) {
            const auto same = std::find_if(inlined.begin(), inlined.end(),
                                           [&](const GroupCost::Inlined& other) { return other.stage == part.stage; });
            if (same == inlined.end()) {
                inlined.push_back(part);
            } else {
                target_->add_inlined(part.row, same->row);
            }
        }
    }
    for (const GroupCost::Inlined& part : inlined) {
        total += cost_row(part.stage, part.row, model);
    }
    return total;
}

std::vector<double> Space::cost(std::span<const State> states, const CostModelWeights& model) {
    std::vector<double> costs(states.size());
    shared_->workers.run(states.size(), [&](size_t i) { costs[i] = cost_one(*states[i], model); });
    return costs;
}

std::vector<float> Space::featurize(std::span<const State> states) {
    const size_t size = static_cast<size_t>(index_->stage_count()) * target_->feature_columns().size();
    std::vector<float> features(states.size() * size, 0.0F);
    shared_->workers.run(states.size(), [&](size_t i) {
        const std::span<float> rows(features.data() + i * size, size);
        for (const Group& group : groups_of(*index_, *states[i])) {
            target_->featurize(*index_, *states[i], group.funcs, rows);
        }
        target_->patch_whole_program(*index_, *states[i], rows);
    });
    return features;
}

std::vector<uint64_t> Space::structural_hash(std::span<const State> states, int depth) const {
    std::vector<uint64_t> hashes(states.size());
    for (size_t i = 0; i < states.size(); i++) {
        hashes[i] = metol::structural_hash(*index_, *states[i], depth);
    }
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
    for (const PathNode* node = nest.path.get(); node != nullptr; node = node->previous.get()) {
        decisions.push_back(node->decision);
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

State Space::follow(State state, std::span<const Decision> decisions) {
    for (const Decision& wanted : decisions) {
        const DecisionStep& step = steps_[static_cast<size_t>(state->decisions_made)];
        const bool is_location = step.kind == DecisionStep::Kind::Location;
        const Placement placement = (*state)[step.func].placement;
        const bool has_choice = is_location || placement == Placement::Root ||
                                (placement == Placement::At && step.kind == DecisionStep::Kind::Inner);
        Decision keep;
        keep.func = step.func;
        keep.stage = step.stage;
        Pruned reason = Pruned::None;
        const bool is_offered = target_->is_offered(*index_, *state, wanted);
        State next = is_offered ? make_child(state, has_choice ? wanted : keep, reason) : nullptr;
        if (!next && is_location) {
            keep.kind = DecisionKind::Root;
        }
        state = next ? std::move(next) : make_child(state, keep, reason);
        if (!state) {
            return nullptr;
        }
    }
    return state;
}

std::vector<State> Space::neighbours(const State& state, size_t position) {
    const std::vector<Decision> decisions = path(*state);
    const std::span<const Decision> all(decisions);
    const State before = follow(root(), all.first(position));
    if (!before) {
        return {};
    }
    std::vector<Decision> alternatives;
    for (const DecisionFamily& family : families(*before)) {
        for (int64_t number = 0; number < family.count(); number++) {
            if (const Decision other = family.decode(number); other != decisions[position]) {
                alternatives.push_back(other);
            }
        }
    }
    std::vector<State> made(alternatives.size());
    shared_->workers.run(alternatives.size(), [&](size_t i) {
        Pruned reason = Pruned::None;
        if (State changed = make_child(before, alternatives[i], reason)) {
            made[i] = follow(std::move(changed), all.subspan(position + 1));
        }
    });
    std::erase(made, nullptr);
    return made;
}

std::shared_ptr<Space> Space::restricted(SpaceOptions options) const {
    auto space = std::make_shared<Space>(index_->dag, target_, std::move(options), 1);
    space->shared_ = shared_;
    space->index_ = index_;
    return space;
}

std::array<int64_t, static_cast<size_t>(Pruned::Count)> Space::pruned_counts() const {
    std::array<int64_t, static_cast<size_t>(Pruned::Count)> counts{};
    for (size_t i = 0; i < counts.size(); i++) {
        counts[i] = pruned_[i].load(std::memory_order_relaxed);
    }
    return counts;
}

}  // namespace metol
