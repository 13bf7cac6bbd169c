// The rows of one sub-nest of the root, feature by feature; private to featurize.
#pragma once

#include <span>
#include <unordered_map>

#include "targets/cpu/cpu_parameters.hpp"
#include "targets/cpu/feature_table.hpp"
#include "targets/cpu/loads.hpp"

namespace metol::cpu {

struct Footprint {
    double bytes = 0;     // whole cache lines
    double segments = 0;  // contiguous runs
};

class GroupFeaturizer {
  public:
    GroupFeaturizer(const CpuParameters& machine, const PipelineIndex& index, const LoopNest& nest,
                    std::span<const int32_t> group, std::span<float> rows)
        : machine_(machine), index_(index), nest_(nest), group_(group), rows_(rows), regions_(index, nest) {}

    void run();

  private:
    struct StageContext {
        int id;
        const StageNest& nest;
        std::vector<Site> chain;
        double iterations_of_tile;  // tiles computed in the whole run
        double tile_points;
        StageReads reads;
    };

    int innermost_dim(int func) const { return index_.func(func).is_input ? 0 : nest_[func].innermost_dim; }

    bool is_known(int func) const {
        return index_.func(func).is_input || nest_[func].placement != Placement::Unscheduled;
    }

    float* row(int stage) { return rows_.data() + static_cast<size_t>(stage) * kFeatureCount; }

    Footprint footprint_of(int func, const Box& box) const;

    // Storage of a computed Func; a window that slides is folded to what is alive at once.
    double storage_bytes(int func);

    const std::vector<ReadBox>& reads_at(int stage, const Site& site);

    // Bytes that one iteration of a site touches: what it reads from outside, what is stored inside, what it writes.
    double touched_bytes(const Site& site);

    bool is_stored_in(int func, const Site& site) const;

    // The part of its own Func that a Stage writes in one iteration of a site.
    Box written_box(int stage_id, const Site& site);

    // Bytes of `producer` that come into a cache of `capacity` while `context` reads it. The data stays from one
    // iteration to the next of the innermost loop whose body fits; everything outside it brings it in again.
    Footprint traffic(const StageContext& context, int producer, double capacity);

    void featurize_stage(int stage_id, const StageNest& nest);
    void count_events(const StageContext& context, float* out);
    void measure_storage(const StageContext& context, float* out);
    void measure_reads(const StageContext& context, float* out);
    void count_loads(const StageContext& context, float* out);
    bool returns_memory();
    bool writes_densely(const StageContext& context) const;
    void measure_traffic(const StageContext& context, float* out);
    void measure_working_sets(const StageContext& context, float* out);
    void add_inlined(const StageContext& context, const float* out);
    Site task_site(const StageContext& context) const;
    Footprint read_footprint(int stage, const Site& site, double* allocations);

    const CpuParameters& machine_;
    const PipelineIndex& index_;
    const LoopNest& nest_;
    std::span<const int32_t> group_;
    std::span<float> rows_;
    Regions regions_;
    std::unordered_map<uint64_t, std::vector<ReadBox>> reads_;
    std::unordered_map<uint64_t, double> touched_;
};

}  // namespace metol::cpu
