#include "search/looks.hpp"

#include <algorithm>

#include "schedule/nest_queries.hpp"
#include "schedule/regions.hpp"

namespace metol {

namespace {

// How far from both ends of a dimension of the Func at root far more is needed, by something in the sub-nest.
struct Ends {
    int dimension;
    int64_t first, last;
};

// Dimensions with borders that are told apart: each doubles how many iterations are looked at.
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
    std::vector<Ends> ends;
    for (const Border& border : sub_nest.index.borders[static_cast<size_t>(root)]) {
        // What is computed elsewhere takes no longer to read there.
        if (std::ranges::find(sub_nest.group, border.producer) == sub_nest.group.end()) {
            continue;
        }
        const auto known = std::ranges::find(ends, border.dimension, &Ends::dimension);
        if (known != ends.end()) {
            known->first = std::max(known->first, border.first);
            known->last = std::max(known->last, border.last);
        } else if (ends.size() < kMostEnds) {
            ends.push_back({border.dimension, border.first, border.last});
        }
    }
    return ends;
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

// Of the iterations of a site, the share that reaches into a border.
double share_at(const SubNest& sub_nest, Regions& regions, const Site& site, const Ends& ends) {
    const std::vector<LoopDim>& loops = sub_nest.index.stage(site.stage).loops;
    for (size_t i = 0; i < loops.size(); i++) {
        if (loops[i].is_reduction || loops[i].pure_dim != ends.dimension) {
            continue;
        }
        const int64_t whole = regions.loops(site.stage, Site{})[static_cast<int>(i)].extent();
        const int64_t tile = std::max<int64_t>(1, regions.loops(site.stage, site)[static_cast<int>(i)].extent());
        const auto tiles = [&](int64_t places) { return (places + tile - 1) / tile; };
        // A single tile is the whole, whichever is looked at.
        return std::min(1.0,
                        static_cast<double>(tiles(ends.first) + tiles(ends.last)) / static_cast<double>(tiles(whole)));
    }
    return 0;
}

std::vector<Look> looks_at_borders(const SubNest& sub_nest, std::span<const int32_t> stages,
                                   const std::vector<Ends>& ends) {
    Regions regions(sub_nest.index, sub_nest.nest);
    std::vector<double> shares;  // [stages, ends]
    for (const int32_t stage : stages) {
        const Site site = site_at_root(sub_nest, stage);
        for (const Ends& one : ends) {
            shares.push_back(share_at(sub_nest, regions, site, one));
        }
    }
    std::vector<Look> looks;
    for (uint32_t subset = 0; subset < 1U << ends.size(); subset++) {
        uint32_t dimensions = 0;
        for (size_t e = 0; e < ends.size(); e++) {
            dimensions |= (subset >> e & 1) << ends[e].dimension;
        }
        Look look{dimensions == 0 ? 0 : iteration_at_borders(dimensions), std::vector<float>(stages.size(), 1)};
        for (size_t s = 0; s < stages.size(); s++) {
            for (size_t e = 0; e < ends.size(); e++) {
                const double share = shares[s * ends.size() + e];
                look.weights[s] *= static_cast<float>(subset >> e & 1 ? share : 1 - share);
            }
        }
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
    const auto root = std::ranges::find_if(sub_nest.group, [&](int32_t func) {
        return sub_nest.nest[func].placement == Placement::Root &&
               !sub_nest.index.borders[static_cast<size_t>(func)].empty();
    });
    if (root == sub_nest.group.end()) {
        return {};
    }
    const std::vector<Ends> ends = ends_of(sub_nest, *root);
    return ends.empty() ? std::vector<Look>{} : looks_at_borders(sub_nest, stages, ends);
}

}  // namespace metol
