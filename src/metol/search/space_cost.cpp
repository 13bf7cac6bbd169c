// What loop nests look like and what they cost: rows from the target, remembered where nothing they depend on changed.
#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <stdexcept>

#include "schedule/hashing.hpp"
#include "search/looks.hpp"
#include "search/space_shared.hpp"

namespace metol {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_negative(double value) {
    return value < 0;
}

const RowReader kReadAll = [](size_t) { return true; };

}  // namespace

Space::Costing Space::costing(const CostModelWeights& model) const {
    const Network* network = model.network.get();
    if (network != nullptr && (network->feature_count() != target_->feature_columns().size() ||
                               network->term_count() != target_->term_columns().size())) {
        throw std::invalid_argument("the network is for other features or terms than this space has");
    }
    Shared::Known& known = shared_->known_of(model, *index_->dag);
    if ((network != nullptr) != !known.stage_parts.empty()) {
        throw std::invalid_argument("two cost models share an id, one of them with a network");
    }
    return {model, known.memo, known.stage_parts, known.latest,
            std::ranges::none_of(model.coefficients, is_negative) && std::ranges::none_of(model.factors, is_negative)};
}

double Space::cost_row(int stage, std::span<const float> row, const Costing& costing) const {
    const CostModelWeights& model = costing.model;
    const size_t count = target_->term_columns().size();
    thread_local std::vector<double> terms;
    thread_local std::vector<double> coefficients;
    terms.resize(count);
    coefficients.resize(count);
    target_->terms(row, terms);
    if (model.coefficients.empty()) {
        target_->analytical_coefficients(stage, row, coefficients);
        for (size_t t = 0; t < model.factors.size(); t++) {
            coefficients[t] *= model.factors[t];
        }
        if (model.network != nullptr) {
            model.network->apply(row, costing.stage_parts[static_cast<size_t>(stage)], coefficients);
        }
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

namespace {

// What costing a sub-nest needs, kept from one to the next for its memory.
struct Scratch {
    std::vector<int32_t> members;
    std::vector<int32_t> stages;
    std::vector<uint64_t> keys;    // [stages]
    std::vector<GroupCost> costs;  // [stages]
    // Stages whose rows are not known: where they are in `stages`, and what each cost the last time.
    std::vector<std::pair<float, size_t>> unknown;
    std::vector<int32_t> missing;  // [unknown] Stages
    std::vector<StageRow> rows;    // [unknown], and more
};

// Loop nests whose keys are looked up together, at most; fewer where there are not so many blocks, for one takes a
// hundred times as long as another.
constexpr size_t kBlock = 8;
constexpr size_t kBlocks = 16;

// By no more than this share does a sum change with the order of what is added up.
constexpr double kRounding = 1e-9;

// Moves a row by a share of the way from `base` to another: what is the same in all stays exactly that.
void shift(std::span<float> row, std::span<const float> base, std::span<const float> other, float share) {
    for (size_t column = 0; column < row.size(); column++) {
        row[column] += share * (other[column] - base[column]);
    }
}

}  // namespace

void Space::featurize_group(SubNest sub_nest, std::span<const int32_t> stages, bool is_analytical,
                            std::span<StageRow> rows, const RowReader& read) const {
    const bool may_differ = options_.allow_iterations && !stages.empty();
    const std::vector<Look> looks = may_differ ? looks_at(sub_nest, stages) : std::vector<Look>{};
    if (looks.empty()) {
        target_->featurize(sub_nest, stages, is_analytical, rows, read);
        return;
    }
    std::vector<StageRow> base(rows.size());
    sub_nest.iteration = looks.front().iteration;
    target_->featurize(sub_nest, stages, is_analytical, base, kReadAll);
    std::ranges::copy(base, rows.begin());
    for (const Look& look : std::span(looks).subspan(1)) {
        std::vector<StageRow> others(rows.size());
        sub_nest.iteration = look.iteration;
        target_->featurize(sub_nest, stages, is_analytical, others, kReadAll);
        for (size_t i = 0; i < rows.size(); i++) {
            shift(rows[i].row, base[i].row, others[i].row, look.weights[i]);
            for (size_t part = 0; part < rows[i].inlined.size(); part++) {
                shift(rows[i].inlined[part].row, base[i].inlined[part].row, others[i].inlined[part].row,
                      look.weights[i]);
            }
        }
    }
    for (size_t i = 0; i < rows.size(); i++) {
        read(i);
    }
}

std::optional<GroupCost> Space::cost_group(const LoopNest& nest, const Groups& groups, size_t group,
                                           const Costing& costing, double most) const {
    GroupMemo& memo = costing.memo;
    thread_local Scratch scratch;
    auto& [members, stages, keys, costs, unknown, missing, rows] = scratch;
    groups.members(*index_, group, members);
    const uint64_t context = groups.context_of(*index_, nest, members, target_->rows_see_siblings());
    stages.clear();
    keys.clear();
    for (int32_t func : members) {
        for (int32_t stage : index_->func(func).stages) {
            stages.push_back(stage);
            keys.push_back(groups.row_key(*index_, nest, stage, context));
            memo.prefetch(keys.back());
        }
    }
    costs.assign(stages.size(), {});
    unknown.clear();
    missing.clear();
    double known = 0;
    for (size_t i = 0; i < stages.size(); i++) {
        if (memo.find(keys[i], costs[i])) {
            known += costs[i].seconds;
        } else {
            unknown.emplace_back(costing.latest[static_cast<size_t>(stages[i])].load(std::memory_order_relaxed), i);
        }
    }
    if (known > most) {
        return std::nullopt;
    }
    if (most < kInfinity) {
        // Whatever costs too much shows soonest in what cost most before.
        std::ranges::sort(unknown, std::greater{});
    }
    for (const auto& [seconds, i] : unknown) {
        missing.push_back(stages[i]);
    }
    if (rows.size() < missing.size()) {
        rows.resize(missing.size());
    }
    const std::span<StageRow> made = std::span(rows).first(missing.size());
    for (StageRow& row : made) {
        row.inlined.clear();
    }
    size_t count = 0;
    const auto read = [&](size_t row) {
        const size_t i = unknown[row].second;
        std::vector<const InlinedRow*> inlined;
        for (StageRow::Inlined& part : rows[row].inlined) {
            inlined.push_back(
                memo.keep({part.stage, combine(keys[i], static_cast<uint64_t>(part.stage)), std::move(part.row)}));
        }
        costs[i] = memo.store(keys[i], cost_row(stages[i], rows[row].row, costing), std::move(inlined));
        costing.latest[static_cast<size_t>(stages[i])].store(static_cast<float>(costs[i].seconds),
                                                             std::memory_order_relaxed);
        known += costs[i].seconds;
        count++;
        return known <= most;
    };
    featurize_group({*index_, nest, members}, missing, costing.model.is_analytical(), made, std::ref(read));
    if (count < missing.size()) {
        return std::nullopt;
    }
    double seconds = 0;
    std::vector<const InlinedRow*> inlined;
    for (const GroupCost& cost : costs) {
        seconds += cost.seconds;
        if (cost.inlined != nullptr) {
            inlined.insert(inlined.end(), cost.inlined->begin(), cost.inlined->end());
        }
    }
    return memo.store(groups.key(group), seconds, std::move(inlined));
}

double Space::cost_inlined(std::span<const InlinedRow* const> parts, const Costing& costing) const {
    GroupMemo& memo = costing.memo;
    uint64_t key = parts.size();
    for (const InlinedRow* part : parts) {
        key = combine(key, part->key);
    }
    GroupCost known;
    if (memo.find(key, known)) {
        return known.seconds;
    }
    std::vector<float> row = parts.front()->row;
    for (const InlinedRow* part : parts.subspan(1)) {
        target_->add_inlined(part->row, row);
    }
    return memo.store(key, cost_row(parts.front()->stage, row, costing), {}).seconds;
}

double Space::cost_one(const LoopNest& nest, const Groups& groups, const Costing& costing, double limit) {
    if (options_.memoize) {
        return cost_remembered(nest, groups, costing, limit);
    }
    // The same sums in the same order, and so the same cost; but nothing lasts beyond this loop nest.
    thread_local GroupMemo own;
    own.clear();
    return cost_remembered(nest, groups, {costing.model, own, costing.stage_parts, costing.latest, costing.only_adds},
                           limit);
}

double Space::cost_remembered(const LoopNest& nest, const Groups& groups, const Costing& costing, double limit) {
    thread_local std::vector<GroupCost> costs;
    thread_local std::vector<size_t> missing;
    const double most = costing.only_adds ? limit * (1 + kRounding) : kInfinity;
    costs.resize(groups.count());
    missing.clear();
    double known = 0;
    for (size_t group = 0; group < groups.count(); group++) {
        if (costing.memo.find(groups.key(group), costs[group])) {
            known += costs[group].seconds;
        } else {
            missing.push_back(group);
        }
    }
    for (const size_t group : missing) {
        const std::optional<GroupCost> found = cost_group(nest, groups, group, costing, most - known);
        if (!found) {
            return kInfinity;
        }
        costs[group] = *found;
        known += found->seconds;
    }
    if (known > most) {
        return kInfinity;
    }
    thread_local std::vector<const InlinedRow*> inlined;
    inlined.clear();
    double total = 0;
    for (const GroupCost& cost : costs) {
        total += cost.seconds;
        if (cost.inlined != nullptr) {
            inlined.insert(inlined.end(), cost.inlined->begin(), cost.inlined->end());
        }
    }
    std::sort(inlined.begin(), inlined.end(), [](const InlinedRow* a, const InlinedRow* b) {
        return a->stage != b->stage ? a->stage < b->stage : a->key < b->key;
    });
    const std::span<const InlinedRow* const> parts(inlined);
    for (size_t begin = 0; begin < parts.size();) {
        size_t end = begin + 1;
        while (end < parts.size() && parts[end]->stage == parts[begin]->stage) {
            end++;
        }
        total += cost_inlined(parts.subspan(begin, end - begin), costing);
        begin = end;
    }
    return total;
}

std::vector<double> Space::cost(std::span<const State> states, const CostModelWeights& model) {
    std::vector<double> costs(states.size());
    const Costing how = costing(model);
    const size_t length = std::clamp<size_t>(states.size() / kBlocks, 1, kBlock);
    shared_->workers.run((states.size() + length - 1) / length, [&](size_t block) {
        thread_local std::array<Groups, kBlock> groups;
        const size_t begin = block * length;
        const size_t end = std::min(states.size(), begin + length);
        for (size_t i = begin; i < end; i++) {
            groups[i - begin].find(*index_, *states[i]);
            for (size_t group = 0; group < groups[i - begin].count(); group++) {
                how.memo.prefetch(groups[i - begin].key(group));
            }
        }
        for (size_t i = begin; i < end; i++) {
            costs[i] = cost_one(*states[i], groups[i - begin], how, kInfinity);
        }
    });
    return costs;
}

double Space::cost_of(const LoopNest& nest, const Costing& costing, double limit) {
    thread_local Groups groups;
    groups.find(*index_, nest);
    return cost_one(nest, groups, costing, limit);
}

double Space::cost_of(const State& state, const CostModelWeights& model) {
    return cost_of(*state, costing(model), kInfinity);
}

std::vector<double> Space::stage_costs(const State& state, const CostModelWeights& model) {
    const std::vector<float> rows = featurize({&state, 1});
    const Costing how = costing(model);
    const size_t columns = target_->feature_columns().size();
    std::vector<double> costs(static_cast<size_t>(index_->stage_count()), 0.0);
    for (size_t stage = 0; stage < costs.size(); stage++) {
        const std::span<const float> row(rows.data() + stage * columns, columns);
        if (std::any_of(row.begin(), row.end(), [](float value) { return value != 0; })) {
            costs[stage] = cost_row(static_cast<int>(stage), row, how);
        }
    }
    return costs;
}

std::vector<double> Space::func_seconds(const State& state, const CostModelWeights& model) {
    std::vector<double> seconds(static_cast<size_t>(index_->func_count()), 0.0);
    const std::vector<double> stages = stage_costs(state, model);
    for (size_t stage = 0; stage < stages.size(); stage++) {
        seconds[static_cast<size_t>(index_->stage(static_cast<int>(stage)).func)] += stages[stage];
    }
    return seconds;
}

std::vector<float> Space::featurize_stages(std::span<const State> states, std::span<const int32_t> stages) {
    const size_t columns = target_->feature_columns().size();
    const size_t size = stages.size() * columns;
    std::vector<float> features(states.size() * size, 0.0F);
    shared_->workers.run(states.size(), [&](size_t i) {
        const std::span<float> all(features.data() + i * size, size);
        const auto place_of = [&](int32_t stage) {
            return static_cast<size_t>(std::ranges::find(stages, stage) - stages.begin());
        };
        Groups groups;
        groups.find(*index_, *states[i]);
        std::vector<int32_t> members;
        for (size_t group = 0; group < groups.count(); group++) {
            groups.members(*index_, group, members);
            std::vector<int32_t> wanted;
            for (int32_t func : members) {
                std::ranges::copy_if(index_->func(func).stages, std::back_inserter(wanted),
                                     [&](int32_t stage) { return place_of(stage) < stages.size(); });
            }
            if (wanted.empty()) {
                continue;
            }
            std::vector<StageRow> rows(wanted.size());
            featurize_group({*index_, *states[i], members}, wanted, false, rows, kReadAll);
            for (size_t s = 0; s < wanted.size(); s++) {
                std::ranges::copy(rows[s].row, all.subspan(place_of(wanted[s]) * columns, columns).begin());
            }
            for (const StageRow& row : rows) {
                for (const StageRow::Inlined& part : row.inlined) {
                    if (const size_t place = place_of(part.stage); place < stages.size()) {
                        target_->add_inlined(part.row, all.subspan(place * columns, columns));
                    }
                }
            }
        }
    });
    return features;
}

std::vector<float> Space::featurize(std::span<const State> states) {
    const size_t columns = target_->feature_columns().size();
    const size_t size = static_cast<size_t>(index_->stage_count()) * columns;
    std::vector<float> features(states.size() * size, 0.0F);
    shared_->workers.run(states.size(), [&](size_t i) {
        const std::span<float> all(features.data() + i * size, size);
        const auto row_of = [&](int32_t stage) { return all.subspan(static_cast<size_t>(stage) * columns, columns); };
        Groups groups;
        groups.find(*index_, *states[i]);
        for (size_t group = 0; group < groups.count(); group++) {
            std::vector<int32_t> members;
            groups.members(*index_, group, members);
            std::vector<int32_t> stages;
            for (int32_t func : members) {
                stages.insert(stages.end(), index_->func(func).stages.begin(), index_->func(func).stages.end());
            }
            std::vector<StageRow> rows(stages.size());
            featurize_group({*index_, *states[i], members}, stages, false, rows, kReadAll);
            for (size_t s = 0; s < stages.size(); s++) {
                std::copy(rows[s].row.begin(), rows[s].row.end(), row_of(stages[s]).begin());
                for (const StageRow::Inlined& part : rows[s].inlined) {
                    target_->add_inlined(part.row, row_of(part.stage));
                }
            }
        }
        target_->patch_whole_program(*index_, *states[i], all);
    });
    return features;
}

}  // namespace metol
