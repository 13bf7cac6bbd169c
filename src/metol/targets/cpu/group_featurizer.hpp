// From a loop nest to the feature rows of features.def, for one sub-nest of the root (Adams et al. 2019, §4.1 and
// appendix A).
#pragma once

#include <span>
#include <vector>

#include "targets/base.hpp"
#include "targets/cpu/conflicts.hpp"
#include "targets/cpu/cpu_parameters.hpp"
#include "targets/cpu/feature_table.hpp"
#include "targets/cpu/loads.hpp"
#include "targets/cpu/nest_queries.hpp"
#include "targets/cpu/rows.hpp"

namespace metol::cpu {

struct Footprint {
    double bytes = 0;     // whole cache lines
    double segments = 0;  // contiguous runs
};

class GroupFeaturizer {
  public:
    GroupFeaturizer(const CpuParameters& machine, const SubNest& sub_nest)
        : machine_(machine),
          index_(sub_nest.index),
          nest_(sub_nest.nest),
          group_(sub_nest.group),
          regions_(sub_nest.index, sub_nest.nest, sub_nest.iteration) {
        for (int32_t func : group_) {
            is_shared_ = is_shared_ || nest_[func].leader() >= 0;
        }
    }

    // Fills the rows of these Stages of the group. Where the coefficients of the terms are to be analytical, columns
    // that would meet none but zeros stay zero. Ends early where the reader wants no more.
    void run(std::span<const int32_t> stages, bool is_analytical, std::span<StageRow> rows, const RowReader& read);

  private:
    struct StageContext {
        int id;
        const StageNest& nest;
        std::span<const Site> chain;
        double iterations_of_tile;  // tiles computed in the whole run
        double tile_points;
        const StageReads& reads;
        Trips tile;              // unrolled: one vector where lowering unrolls nothing
        int loop_in_lanes = -1;  // of which the steps in the tile are lanes
    };
    struct Turns {
        int loop = -1;  // -1: there is none
        int level = 0;
        int32_t count = 1;
    };
    // The regions that a site touches outside of what is stored in it, while they are being added up.
    struct Outside {
        struct Part {
            int func;
            Box box;
            int32_t next;  // of the same Func, apart from this one; -1 for none
        };
        std::vector<Part> parts;
        std::vector<int32_t> places;  // [Funcs] of the first in `parts`, -1 for none
        void lend() {}
        void include(int func, const Box& box, bool may_be_apart);
        void clear();
    };
    struct Chain {
        std::vector<Site> sites;
        void lend() { sites.clear(); }
    };
    static constexpr size_t kKeptReads = 512;

    int innermost_dim(int func) const { return cpu::innermost_dim(index_, nest_, func); }

    bool is_known(int func) const {
        return index_.func(func).is_input || nest_[func].placement != Placement::Unscheduled;
    }

    bool is_read_apart(int func) const { return index_.is_read_crosswise[static_cast<size_t>(func)]; }

    Footprint footprint_of(int func, const Box& box);

    double row_period(int func) { return cpu::row_period(machine_, index_, nest_, regions_, func); }

    // Storage of a computed Func; a window that slides is folded to what is alive at once, where Halide does that.
    double storage_bytes(int func);
    // Of those, what a Stage writes, and what any does: all, but where updates write to places of their own.
    double written_bytes(int stage);
    double used_bytes(int func);

    const std::vector<ReadBox>& reads_at(int stage, const Site& site);

    // Bytes that one iteration of a site touches: what it reads from outside, what is stored inside, what it writes.
    // Past the size of the largest cache, as much as is found at first.
    double touched_bytes(const Site& site);

    // Adds what this Stage's loops touch in it to `outside_`, and returns the bytes of what is stored inside; more than
    // `enough` as soon as it is found to touch more.
    double touch(const Site& site, double enough);

    // The same place in the loops of every Stage that shares them; the site alone where none does.
    std::vector<Site> shared_sites(const Site& site) const;

    // Of what `context` reads of `producer` in one iteration of a site, in whole lines, what no Stage before it in
    // shared loops has read there already, if that is still in a cache of `capacity`.
    Footprint first_read(const StageContext& context, int producer, const Site& site, double capacity);

    // What some reads of `producer` add to the one of the `known` boxes that is nearest to each, in whole lines.
    Footprint new_of(int producer, std::span<const ReadBox> reads, std::span<const ReadBox> known);

    bool is_stored_in(int func, const Site& site) const;

    // Has what `context` reads of `producer` in one iteration of a site room in the sets of a cache that it falls into?
    bool stays_in(const StageContext& context, int producer, const Site& site, double capacity);

    // Bytes of `producer` that come into a cache of `capacity` while `context` reads it. The data stays from one
    // iteration to the next of the innermost loop whose body fits; everything outside it brings it in again.
    Footprint traffic(const StageContext& context, int producer, double capacity);

    // Does `context` go through the memory of `func` in runs shorter than its rows? `box` is what it touches at once.
    bool is_tiled(int func, const Box& box);

    // The outermost loop of which one iteration stays in a cache of `capacity`; the innermost where none does.
    Site resident_site(const StageContext& context, double capacity);

    void featurize_stage(int stage_id, bool is_analytical, StageRow& row);
    void count_events(const StageContext& context, float* out);
    void measure_storage(const StageContext& context, float* out);
    void measure_reads(const StageContext& context, float* out);
    void roll(StageContext& context, float* out) const;
    bool are_apart(const StageContext& context);
    bool adds_up_beforehand(const StageContext& context) const;
    // How many of `steps` of a reduction whose `sums`, in registers, wait for each other through `turns` steps on end.
    void count_waits(const StageContext& context, double sums, double steps, double turns, float* out);
    // The same of an update that reads what an earlier step of its own has stored.
    void count_waits_of_scan(const StageContext& context, const Scan& scan, float* out);
    bool is_carried_over(const StageContext& context, const Scan& scan);
    void count_loads(const StageContext& context, float* out);
    Layout layout_of(int func);
    bool returns_memory();
    bool is_in_registers(int func);
    bool writes_densely(const StageContext& context) const;
    bool has_lanes_apart(const StageContext& context) const;
    // The share of the vectors of a Stage that the end of a loop with a guard cuts through, where a condition of each
    // lane says whether it is loaded and stored.
    double masked_share(const StageContext& context);
    double masked_lanes(int producer, int width, const TileLoads& loads) const;
    bool masks_loads_alone(const StageContext& context) const;
    double evicted_steps(const StageContext& context, double points);
    void measure_traffic(const StageContext& context, float* out);
    // The same as `footprint_of`, where rows that are whole go on to the next.
    Footprint runs_of(int func, const Box& box);
    // What a Stage reads of `producer`, or writes, in one iteration of the outermost loop around it in which that goes
    // along so few runs of memory at once that the prefetcher follows each of them.
    Footprint followed_reads(const StageContext& context, int producer);
    Footprint followed_writes(const StageContext& context);
    // Lines that a Stage asks for ahead, in all.
    double lines_prefetched(const StageContext& context);
    void measure_working_sets(const StageContext& context, float* out);
    TileShape tile_of(const StageContext& context);
    // The share of the vectors of a Stage that are in the turns which Halide splits off a loop, at the borders of what
    // the Stage computes along one of its own.
    double border_share(const StageContext& context, size_t own_loop);
    // The share that clamp their lanes, where a coordinate which they move has bounds.
    double clamped_share(const StageContext& context);
    Turns innermost_turns(const StageContext& context) const;
    DimSet loops_inside(const StageContext& context, const Turns& turns, DimSet known) const;
    double turns_loaded_for(const EffectiveAccess& access, const Turns& turns, int stage) const;
    // Dimensions of an inlined Func along which the compiler does not see that two points ask for the same value.
    DimSet untold_dimensions(int func);
    // How much of what a tile of so many vectors asks of an inlined Func is computed: once a place.
    double computed_share(const StageContext& context, const TileShape& tile, double vectors, const InlinedUse& use);
    DimSet known_loops(const StageContext& context, const TileShape& tile);
    // Counts vectors and points by the arithmetic that the tile does: of what a loop picks among, each once.
    void share_arithmetic(const StageContext& context, float* out);
    double arithmetic_share(const StageContext& context);
    void add_inlined(const StageContext& context, StageRow& row);
    Site task_site(const StageContext& context) const;
    double contested_share(const StageContext& context);
    Footprint read_footprint(int stage, const Site& site, double* allocations);

    const CpuParameters& machine_;
    const PipelineIndex& index_;
    const LoopNest& nest_;
    std::span<const int32_t> group_;
    Regions regions_;
    bool is_shared_ = false;  // does any Stage of the group share the loops of another?
    Borrowed<SiteTable<std::vector<ReadBox>, kKeptReads>> reads_;
    Borrowed<SiteTable<double>> touched_;
    Borrowed<SiteTable<double>> storage_;  // bytes, whether in registers, and dimensions that are not known
    Borrowed<FuncTable> inlined_;
    Borrowed<Chain> chain_;
    Borrowed<Outside> outside_;
};

}  // namespace metol::cpu
