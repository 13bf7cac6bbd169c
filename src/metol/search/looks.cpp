#include "search/looks.hpp"

#include <algorithm>
#include <utility>

#include "schedule/nest_queries.hpp"
#include "schedule/regions.hpp"

namespace metol {

namespace {

// Iterations at an end of a dimension of the Func at root, and at the other as well where they are alike: how many
// places these are, in all.
struct End {
    uint32_t bit;
    int64_t first, last;
};

// The ends of a dimension that are told apart, beside its middle.
struct Ends {
    int dimension;
    std::vector<End> ends;
};

// Dimensions with borders that are told apart: each doubles, or triples, how many iterations are looked at.
constexpr size_t kMostEnds = 3;

// Is `func` read in the sub-nest, perhaps through what is inlined into it?
bool is_read_in(const SubNest& sub_nest, int32_t func) {
    const auto& consumers = sub_nest.index.consumers[static_cast<size_t>(func)];
    return std::ranges::any_of(consumers, [&](const Consumer& consumer) {
        const int32_t reader = sub_nest.index.stage(consumer.stage).func;
        return sub_nest.nest[reader].placement == Placement::Inline
                   ? is_read_in(sub_nest, reader)
                   : std::ranges::find(sub_nest.group, reader) != sub_nest.group.end();
    });
}

bool reads_crosswise(const SubNest& sub_nest) {
    return std::ranges::any_of(sub_nest.group, [&](int32_t func) {
        return std::ranges::any_of(sub_nest.index.crosswise[static_cast<size_t>(func)],
                                   [&](int32_t producer) { return is_read_in(sub_nest, producer); });
    });
}

std::vector<Ends> ends_of(const SubNest& sub_nest, int32_t root) {
    std::vector<Ends> found;
    for (int d = 0; d < sub_nest.index.func(root).dimensions() && found.size() < kMostEnds; d++) {
        int64_t first = 0, last = 0;
        bool is_alike = true;  // what is needed at one end is at the other
        for (const Border& border : sub_nest.index.borders[static_cast<size_t>(root)]) {
            // What is computed elsewhere takes no longer to read there.
            if (border.dimension == d && std::ranges::find(sub_nest.group, border.producer) != sub_nest.group.end()) {
                first = std::max(first, border.first);
                last = std::max(last, border.last);
                is_alike = is_alike && border.first > 0 && border.last > 0;
            }
        }
        if (first + last == 0) {
            continue;
        }
        Ends ends{d, {}};
        if (first > 0) {
            ends.ends.push_back({border_bit(d, false), first, is_alike ? last : 0});
        }
        if (last > 0 && !is_alike) {
            ends.ends.push_back({border_bit(d, true), 0, last});
        }
        found.push_back(std::move(ends));
    }
    return found;
}

// The body of loops of the Func at root that a Stage is run in, or computed in.
Site site_at_root(const SubNest& sub_nest, int32_t stage) {
    const int inner = nest_of(sub_nest.index, sub_nest.nest, stage).inner_level();
    Site site{static_cast<int16_t>(stage), static_cast<int8_t>(inner - 1)};
    int func = sub_nest.index.stage(stage).func;
    while (sub_nest.nest[func].placement == Placement::At) {
        site = sub_nest.nest[func].compute;
        func = sub_nest.index.stage(site.stage).func;
    }
    return site;
}

// Of the iterations of a site, the share that reaches into an end.
double share_at(const SubNest& sub_nest, Regions& regions, const Site& site, int dimension, const End& end) {
    const std::vector<LoopDim>& loops = sub_nest.index.stage(site.stage).loops;
    for (size_t i = 0; i < loops.size(); i++) {
        if (loops[i].is_rvar || loops[i].pure_dim != dimension) {
            continue;
        }
        const int64_t whole = regions.loops(site.stage, Site{})[static_cast<int>(i)].extent();
        const int64_t tile = std::max<int64_t>(1, regions.loops(site.stage, site)[static_cast<int>(i)].extent());
        const auto tiles = [&](int64_t places) { return (places + tile - 1) / tile; };
        // A single tile is the whole, whichever is looked at.
        return std::min(1.0,
                        static_cast<double>(tiles(end.first) + tiles(end.last)) / static_cast<double>(tiles(whole)));
    }
    return 0;
}

std::vector<Look> looks_at_borders(const SubNest& sub_nest, std::span<const int32_t> stages,
                                   const std::vector<Ends>& dimensions) {
    Regions regions(sub_nest.index, sub_nest.nest);
    std::vector<Site> sites;
    for (const int32_t stage : stages) {
        sites.push_back(site_at_root(sub_nest, stage));
    }
    std::vector<std::pair<uint32_t, Look>> made{{0, {0, std::vector<float>(stages.size(), 1)}}};
    for (const Ends& along : dimensions) {
        const size_t known = made.size();
        std::vector<float> left(stages.size(), 1);  // share of the middle
        for (const End& end : along.ends) {
            std::vector<float> shares;
            for (size_t s = 0; s < stages.size(); s++) {
                const double share = share_at(sub_nest, regions, sites[s], along.dimension, end);
                shares.push_back(std::min(left[s], static_cast<float>(share)));
                left[s] -= shares.back();
            }
            for (size_t k = 0; k < known; k++) {
                auto [bits, look] = made[k];
                for (size_t s = 0; s < stages.size(); s++) {
                    look.weights[s] *= shares[s];
                }
                made.emplace_back(bits | end.bit, std::move(look));
            }
        }
        for (size_t k = 0; k < known; k++) {
            for (size_t s = 0; s < stages.size(); s++) {
                made[k].second.weights[s] *= left[s];
            }
        }
    }
    std::vector<Look> looks;
    for (auto& [bits, look] : made) {
        look.iteration = bits == 0 ? 0 : iteration_at_borders(bits);
        if (std::ranges::any_of(look.weights, [](float weight) { return weight > 0; })) {
            looks.push_back(std::move(look));
        }
    }
    return looks;
}

}  // namespace

std::vector<Look> looks_at(const SubNest& sub_nest, std::span<const int32_t> stages) {
    if (reads_crosswise(sub_nest)) {
        // Not the middle one: no other may be like it.
        std::vector<Look> looks;
        for (int iteration = 1; iteration <= kIterations; iteration++) {
            looks.push_back({iteration, std::vector<float>(stages.size(), 1.0F / kIterations)});
        }
        return looks;
    }
    for (const int32_t func : sub_nest.group) {
        if (sub_nest.nest[func].placement == Placement::Root &&
            !sub_nest.index.borders[static_cast<size_t>(func)].empty()) {
            if (const std::vector<Ends> ends = ends_of(sub_nest, func); !ends.empty()) {
                return looks_at_borders(sub_nest, stages, ends);
            }
        }
    }
    return {};
}

}  // namespace metol
