#include "targets/gpu/featurize.hpp"

#include <algorithm>
#include <cmath>

#include "schedule/reads.hpp"
#include "targets/gpu/decisions.hpp"
#include "targets/gpu/feature_table.hpp"

namespace metol::gpu {

namespace {

double product(const Trips& trips) {
    double total = 1;
    for (int32_t count : trips) {
        total *= count;
    }
    return total;
}

// How one warp lies over the threads of a block: `along` side by side on the vector loop, in so many `rows`.
struct Warp {
    int vector_loop;
    double along;
    double rows;
};

// Does a coordinate of the access move with a loop? Unknown derivatives count as moving.
bool moves(const EffectiveAccess& access, size_t loop) {
    return std::ranges::any_of(access.jacobian, [&](const auto& row) { return row[loop] != 0; }) ||
           std::ranges::any_of(access.phases, [&](const auto& phases) { return phases[loop]; });
}

// Sectors that one load or store of a warp touches: lanes side by side share them where they go to neighbouring places.
double sectors_of(const EffectiveAccess& access, const Trips& threads, const Warp& warp, int innermost_dim,
                  double sectors_per_element) {
    double rows = 1;
    for (size_t i = 0; i < kMaxLoops; i++) {
        const bool is_row = threads[i] > 1 && static_cast<int>(i) != warp.vector_loop && moves(access, i);
        rows = is_row ? warp.rows : rows;
    }
    const double least = std::max(1.0, std::ceil(sectors_per_element));
    if (warp.vector_loop < 0 || !moves(access, static_cast<size_t>(warp.vector_loop))) {
        return rows * least;
    }
    double stride = 0;
    for (size_t d = 0; d < access.jacobian.size(); d++) {
        const auto v = static_cast<size_t>(warp.vector_loop);
        const double slope = std::abs(access.jacobian[d][v]);
        if (slope == 0 && !access.phases[d][v]) {
            continue;
        }
        const bool is_scattered = std::isnan(slope) || static_cast<int>(d) != innermost_dim;
        stride = is_scattered ? INFINITY : std::max(stride, slope);
    }
    return rows * std::min(warp.along * least, std::max(1.0, std::ceil(warp.along * stride * sectors_per_element)));
}

class StageFeaturizer {
  public:
    StageFeaturizer(const GpuParameters& machine, const SubNest& sub_nest, int stage_id, const StageNest& tiling)
        : machine_(machine),
          index_(sub_nest.index),
          nest_(sub_nest.nest),
          id_(stage_id),
          stage_(index_.stage(stage_id)),
          tiling_(tiling),
          regions_(index_, nest_, sub_nest.iteration) {}

    void run(StageRow& row) {
        row.row.assign(kFeatureCount, 0.0F);
        float* out = row.row.data();
        count_threads(out);
        count_sectors(out);
        measure_bytes(out);
        out[k_launches] = 1;
        const double slowdown = static_cast<double>(out[k_sm_imbalance]) * static_cast<double>(out[k_exposed_latency]);
        for (const InlinedUse& use : reads_->inlined) {
            std::vector<float> part(kFeatureCount, 0.0F);
            part[k_inlined_lanes] =
                static_cast<float>(use.calls_per_point * static_cast<double>(out[k_lanes_issued]) * slowdown);
            row.inlined.push_back({index_.func(use.func).stages.front(), std::move(part)});
        }
    }

  private:
    int innermost_dim(int func) const { return index_.func(func).is_input ? 0 : nest_[func].innermost_dim; }

    bool is_known(int func) const {
        return index_.func(func).is_input || nest_[func].placement != Placement::Unscheduled;
    }

    double sectors_per_element(int func) const {
        return static_cast<double>(index_.func(func).bytes_per_point()) / machine_.sector_bytes;
    }

    void count_threads(float* out) {
        blocks_ = product(tiling_.levels[kBlocks]);
        const double threads = product(tiling_.levels[kThreads]);
        warps_ = std::ceil(threads / machine_.warp_threads);
        serial_ = product(tiling_.levels[kPoints]);
        const double held =
            std::min<double>(machine_.max_blocks_per_multiprocessor,
                             std::floor(machine_.max_threads_per_multiprocessor / (warps_ * machine_.warp_threads)));
        const double average = blocks_ / machine_.multiprocessors;
        const double busiest = std::ceil(average);
        const double resident = warps_ * std::min(busiest, std::max(1.0, held));
        out[k_points_computed] = static_cast<float>(regions_.loops(id_, Site{}).points());
        out[k_blocks] = static_cast<float>(blocks_);
        out[k_threads_per_block] = static_cast<float>(threads);
        out[k_points_per_thread] = static_cast<float>(serial_);
        out[k_lanes_issued] = static_cast<float>(blocks_ * warps_ * machine_.warp_threads * serial_);
        out[k_sm_imbalance] = static_cast<float>(busiest / average);
        out[k_resident_warps] = static_cast<float>(resident);
        out[k_exposed_latency] = static_cast<float>(std::max(1.0, machine_.warps_to_hide_latency / resident));
    }

    void count_sectors(float* out) {
        const Trips& threads = tiling_.levels[kThreads];
        const double all = product(threads);
        Warp warp{tiling_.vector_loop, 1, 1};
        if (warp.vector_loop >= 0) {
            warp.along = std::min(threads[static_cast<size_t>(warp.vector_loop)], machine_.warp_threads);
            warp.rows = std::max(1.0, std::min<double>(all, machine_.warp_threads) / warp.along);
        }
        const double runs = blocks_ * warps_ * serial_;
        reads_ = effective_reads(index_, nest_, id_);
        double loaded = 0;
        for (const EffectiveAccess& access : reads_->accesses) {
            const double sectors =
                sectors_of(access, threads, warp, innermost_dim(access.producer), sectors_per_element(access.producer));
            loaded += is_known(access.producer) ? access.count * sectors : 0;
        }
        const auto own = [&](const std::vector<Access>& accesses) {
            double sectors = 0;
            for (const Access& access : accesses) {
                sectors += access.count * sectors_of(direct_access(access, stage_.func), threads, warp,
                                                     innermost_dim(stage_.func), sectors_per_element(stage_.func));
            }
            return sectors;
        };
        out[k_sectors_loaded] = static_cast<float>(runs * (loaded + own(stage_.self_accesses)));
        out[k_sectors_stored] = static_cast<float>(runs * own(stage_.stores));
    }

    // Distinct bytes read while the loops of the Stage cover `loops`, in whole sectors.
    double bytes_read(const Box& loops) const {
        double bytes = 0;
        std::vector<ReadBox> reads;
        read_boxes(index_, nest_, id_, loops, reads);
        for (const ReadBox& read : reads) {
            if (!is_known(read.producer) || read.box.is_empty) {
                continue;
            }
            const double element = index_.func(read.producer).bytes_per_point();
            const int inner = innermost_dim(read.producer);
            const double run = read.box.dimensions > 0 ? static_cast<double>(read.box[inner].extent()) : 1;
            const double runs = static_cast<double>(read.box.points()) / std::max(1.0, run);
            bytes += runs * std::ceil(run * element / machine_.sector_bytes) * machine_.sector_bytes;
        }
        return bytes;
    }

    void measure_bytes(float* out) {
        const Box whole = regions_.loops(id_, Site{});
        const Box block = regions_.loops(id_, {static_cast<int16_t>(id_), kBlocks, Site::kAllLoops});
        double written = index_.func(stage_.func).bytes_per_point();
        for (size_t i = 0; i < stage_.loops.size(); i++) {
            written *= stage_.loops[i].is_reduction ? 1.0 : static_cast<double>(whole[static_cast<int>(i)].extent());
        }
        out[k_bytes_read] = static_cast<float>(bytes_read(whole));
        out[k_bytes_read_by_blocks] = static_cast<float>(blocks_ * bytes_read(block));
        out[k_bytes_written] = static_cast<float>(written);
    }

    const GpuParameters& machine_;
    const PipelineIndex& index_;
    const LoopNest& nest_;
    int id_;
    const Stage& stage_;
    const StageNest& tiling_;
    Regions regions_;
    std::shared_ptr<const StageReads> reads_;
    double blocks_ = 1;
    double warps_ = 1;
    double serial_ = 1;
};

}  // namespace

void featurize(const GpuParameters& machine, const SubNest& sub_nest, std::span<const int32_t> stages,
               std::span<StageRow> rows) {
    for (size_t i = 0; i < stages.size(); i++) {
        const Stage& stage = sub_nest.index.stage(stages[i]);
        if (stage.is_undef) {
            rows[i].row.assign(kFeatureCount, 0.0F);
            continue;
        }
        const StageNest& tiling = sub_nest.nest[stage.func].stages[static_cast<size_t>(stage.index)];
        StageFeaturizer(machine, sub_nest, stages[i], tiling).run(rows[i]);
    }
}

void add_inlined_row(std::span<const float> part, std::span<float> row) {
    row[k_inlined_lanes] += part[k_inlined_lanes];
}

}  // namespace metol::gpu
