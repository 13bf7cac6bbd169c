// What a Stage computes of the Funcs that are inlined into it.
#include <algorithm>

#include "targets/cpu/arithmetic.hpp"
#include "targets/cpu/group_featurizer.hpp"

namespace metol::cpu {

namespace {

// Does a loop move an access along any of the dimensions?
bool may_move_along(const Access& access, size_t loop, DimSet dims) {
    for (size_t d = 0; d < access.jacobian.size(); d++) {
        if (dims[d] && moves_with(access.jacobian[d], loop)) {
            return true;
        }
    }
    return false;
}

}  // namespace

DimSet GroupFeaturizer::untold_dimensions(int func) {
    const uint64_t key = site_key(3, func, Site{});
    if (const double* found = storage_->find(key)) {
        return static_cast<unsigned long>(*found);
    }
    DimSet untold;
    const Stage& stage = index_.stage(index_.func(func).stages.front());
    for (const Edge& edge : stage.edges) {
        const bool is_inline = nest_[edge.producer].placement == Placement::Inline;
        const DimSet of_producer =
            is_inline ? untold_dimensions(edge.producer) : layout_of(edge.producer).unknown_strides;
        for (const Access& access : edge.accesses) {
            for (size_t i = 0; i < stage.loops.size(); i++) {
                const bool is_untold = may_move_along(access, i, of_producer);
                const auto dim = static_cast<size_t>(stage.loops[i].pure_dim);
                untold[dim] = untold[dim] || is_untold;
            }
        }
    }
    storage_->add(key) = static_cast<double>(untold.to_ulong());
    return untold;
}

double GroupFeaturizer::computed_share(const StageContext& context, const TileShape& tile, double vectors,
                                       const InlinedUse& use) {
    if (!machine_.arithmetic[static_cast<size_t>(index_.func(use.func).stages.front())].empty()) {
        const DimSet known = known_loops(context, tile);
        return inlined_share(machine_, index_, tile, vectors, use, known, untold_dimensions(use.func));
    }
    // Compilers make (x / y) * z a division of x * z, so that all who multiply by a quotient divide.
    if (vectors <= 1 || index_.stage(index_.func(use.func).stages.front()).ends_in_quotient) {
        return 1;
    }
    const DimSet untold = untold_dimensions(use.func);
    double places = 0;
    for (const EffectiveAccess& access : use.places) {
        places += places_in_tile(access, tile, untold);
    }
    return std::min(1.0, places / (vectors * use.calls_per_point));
}

void GroupFeaturizer::add_inlined(const StageContext& context, StageRow& row) {
    std::vector<float>& out = row.row;
    const TileShape tile = tile_of(context);
    const double vectors = context.tile_points / context.nest.vector_width;
    double seconds = 0;
    for (const InlinedUse& use : context.reads.inlined) {
        const int inlined_stage = index_.func(use.func).stages.front();
        const auto s = static_cast<size_t>(inlined_stage);
        const auto calls = static_cast<float>(use.calls_per_point);
        const double calls_alone = use.calls_per_point - (1 - machine_.added_seconds_share[s]) * use.added_per_point;
        const auto computed = static_cast<float>(calls_alone * computed_share(context, tile, vectors, use));
        std::vector<float> part(kFeatureCount, 0.0F);
        part[k_inlined_calls] = calls * out[k_points_computed_total];
        part[k_num_vectors] = computed * out[k_num_vectors];
        part[k_num_scalars] = computed * out[k_num_scalars];
        for (Feature shared : {k_vector_size, k_native_vector_size, k_inner_parallelism, k_outer_parallelism}) {
            part[shared] = out[shared];
        }
        part[k_points_computed_minimum] = static_cast<float>(index_.minimum_points[static_cast<size_t>(inlined_stage)]);
        part[k_bytes_at_root] = static_cast<float>(index_.root_points[static_cast<size_t>(use.func)] *
                                                   index_.func(use.func).bytes_per_point());
        seconds += static_cast<double>(part[k_num_vectors]) * machine_.register_seconds[s] +
                   static_cast<double>(part[k_num_scalars]) * machine_.scalar_point_seconds[s];
        row.inlined.push_back({inlined_stage, std::move(part)});
    }
    out[k_inlined_compute] = static_cast<float>(1e6 * seconds);
}

}  // namespace metol::cpu
