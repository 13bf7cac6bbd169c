#include "targets/gpu/kernels.hpp"

#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "targets/gpu/guards.hpp"

namespace metol::gpu {

namespace {

// Addresses, counters and the like of any kernel; and how many values a point of a tile keeps alive.
constexpr double kBaseRegisters = 24;
constexpr double kRegistersPerPoint = 2;
constexpr double kRegisterBytes = 4;

int64_t product(const Trips& trips) {
    int64_t total = 1;
    for (int32_t count : trips) {
        total *= count;
    }
    return total;
}

// The blocks and threads around a Stage and of its own, outermost first.
std::vector<Site> places(const PipelineIndex& index, const LoopNest& nest, int stage_id) {
    const Stage& stage = index.stage(stage_id);
    const FuncSchedule& schedule = nest[stage.func];
    const StageNest& own = nest_of(index, nest, stage_id);
    std::vector<Site> sites;
    const bool is_closed = index.is_closed[static_cast<size_t>(stage.func)];
    if (stage.is_extern || stage.is_undef || is_closed || spreads_reductions(stage, own)) {
        return sites;
    }
    if (schedule.placement == Placement::At) {
        for (const Site& site : places(index, nest, schedule.compute.stage)) {
            if (site.stage == schedule.compute.stage && site.level > schedule.compute.level) {
                break;
            }
            sites.push_back(site);
        }
    }
    const auto id = static_cast<int16_t>(stage_id);
    const bool has_threads = own.vector_loop >= 0 && !is_in_thread(schedule);
    if (has_threads && schedule.placement == Placement::Root) {
        sites.push_back({id, kBlocks, Site::kAllLoops});
    }
    if (has_threads) {
        sites.push_back({id, kThreads, Site::kAllLoops});
    }
    return sites;
}

// Is a bound the lesser or greater of the end of a loop that `is_cut` and something else?
template <typename IsCut>
bool is_clamped(const BoundExpr& bound, const IsCut& is_cut) {
    bool is_choice = false;
    bool moves = false;
    for (const BoundInstruction& one : bound.program) {
        is_choice = is_choice || one.op == BoundOp::Min || one.op == BoundOp::Max;
        moves = moves || ((one.op == BoundOp::PushMin || one.op == BoundOp::PushMax) && is_cut(one.value));
    }
    return is_choice && moves;
}

// Is a Func read at coordinates that are clamped, so that one block needs more of it than another? Halide 21 then takes
// for the extent of the region that blocks need the distance from the least to the greatest of all of them.
bool is_read_clamped(const PipelineIndex& index, const LoopNest& nest, int func, std::vector<uint8_t>& seen) {
    seen.resize(index.dag->funcs.size());
    if (std::exchange(seen[static_cast<size_t>(func)], 1) != 0) {
        return false;
    }
    for (const Consumer& consumer : index.consumers[static_cast<size_t>(func)]) {
        const Stage& stage = index.stage(consumer.stage);
        const FuncSchedule& reader = nest[stage.func];
        const bool is_root = reader.placement == Placement::Root;
        // What one block of a kernel, and all that is inside it, sees of a loop that no other block has a part of.
        const auto is_cut = [&](int64_t loop) {
            return !is_root || nest_of(index, nest, consumer.stage).levels[kBlocks][static_cast<size_t>(loop)] > 1;
        };
        for (const BoundPair& bounds : stage.edges[static_cast<size_t>(consumer.edge)].bounds) {
            if (is_clamped(bounds.min, is_cut) || is_clamped(bounds.max, is_cut)) {
                return true;
            }
        }
        if (reader.placement == Placement::Inline && is_read_clamped(index, nest, stage.func, seen)) {
            return true;
        }
    }
    return false;
}

// How many different places a Func is read at, through what is inlined, and whether a parameter says where one of them
// is.
struct Places {
    int reads = 0;
    bool has_parameter = false;
};

Places places_read(const PipelineIndex& index, const LoopNest& nest, int func, std::map<int, Places>& known) {
    if (const auto found = known.find(func); found != known.end()) {
        return found->second;
    }
    Places places;
    for (const Consumer& consumer : index.consumers[static_cast<size_t>(func)]) {
        const Stage& stage = index.stage(consumer.stage);
        Places through{1, false};
        if (nest[stage.func].placement == Placement::Inline) {
            through = places_read(index, nest, stage.func, known);
        }
        for (const Access& access : stage.edges[static_cast<size_t>(consumer.edge)].accesses) {
            places.reads += std::min(2, access.count) * std::min(2, through.reads);
            places.has_parameter = places.has_parameter || access.has_parameter || through.has_parameter;
        }
    }
    places.reads = std::min(2, places.reads);  // more are as many
    return known[func] = places;
}

// Do places at which a Func is read lie as far apart as a parameter says, which may be farther than its estimate?
bool is_read_apart(const PipelineIndex& index, const LoopNest& nest, int func) {
    std::map<int, Places> known;
    const Places places = places_read(index, nest, func, known);
    return places.has_parameter && places.reads > 1;
}

// [dimensions of a Func][loops of a Stage]: how a coordinate moves with a loop.
using Slopes = std::vector<std::array<double, kMaxLoops>>;

// How the places at which a Func is read move with the loops of the Stage inside which it is; nothing where two reads
// move apart, or nobody knows.
class ReadMotion {
  public:
    ReadMotion(const PipelineIndex& index, const LoopNest& nest, int host) : index_(index), nest_(nest), host_(host) {}

    const std::optional<Slopes>& of(int func) {
        const auto known = motions_.find(func);
        return known != motions_.end() ? known->second : motions_[func] = find(func);
    }

  private:
    std::optional<Slopes> find(int func) {
        std::optional<Slopes> motion;
        for (int reader : readers_of(index_, nest_, func)) {
            if (index_.stage(reader).func == func) {
                continue;
            }
            for (const EffectiveAccess& access : effective_reads(index_, nest_, reader)->accesses) {
                if (access.producer != func) {
                    continue;
                }
                std::optional<Slopes> moved = motion_of(access, reader);
                if (!moved || (motion && *motion != *moved)) {
                    return std::nullopt;
                }
                motion = std::move(moved);
            }
        }
        return motion;
    }

    std::optional<Slopes> motion_of(const EffectiveAccess& access, int reader) {
        const Stage& stage = index_.stage(reader);
        const bool is_host = reader == host_;
        if (!is_host && !of(stage.func)) {
            return std::nullopt;
        }
        Slopes slopes(access.jacobian.size());
        for (size_t d = 0; d < slopes.size(); d++) {
            for (size_t i = 0; i < stage.loops.size(); i++) {
                const double slope = access.jacobian[d][i];
                if (slope == 0 || stage.loops[i].is_rvar) {
                    continue;
                }
                for (size_t k = 0; k < kMaxLoops && !is_host; k++) {
                    slopes[d][k] += slope * (*of(stage.func))[static_cast<size_t>(stage.loops[i].pure_dim)][k];
                }
                slopes[d][i] += is_host ? slope : 0;
            }
        }
        return slopes;
    }

    const PipelineIndex& index_;
    const LoopNest& nest_;
    int host_;
    std::map<int, std::optional<Slopes>> motions_;
};

// Do all that read a Func inside a Stage of a kernel, the one that `host_of` tells of any of them, move alike, so that
// they stay as far apart as they are?
template <typename HostOf>
bool is_read_together(const PipelineIndex& index, const LoopNest& nest, int func, const HostOf& host_of) {
    const std::vector<int> readers = readers_of(index, nest, func);
    return readers.empty() || ReadMotion(index, nest, host_of(index, nest, readers.front())).of(func).has_value();
}

// Does what a block needs of a Func inside it move with the block in steps, as of f(x / 2)?
bool is_needed_in_steps(const PipelineIndex& index, const LoopNest& nest, int func, std::vector<uint8_t>& seen) {
    seen.resize(index.dag->funcs.size());
    if (std::exchange(seen[static_cast<size_t>(func)], 1) != 0 || nest[func].placement != Placement::At) {
        return false;
    }
    return std::ranges::any_of(readers_of(index, nest, func), [&](int reader) {
        const auto has_steps = [&](const EffectiveAccess& access) {
            return access.producer == func && access.step_ways > 0;
        };
        const int own = index.stage(reader).func;
        return own != func && (std::ranges::any_of(effective_reads(index, nest, reader)->accesses, has_steps) ||
                               is_needed_in_steps(index, nest, own, seen));
    });
}

// Is the number of points of a thread along a loop one that Halide knows, where guards cut off some of them? It does of
// what is split off a loop. Inside blocks, loops without threads are not split; and in the version of an output for
// sizes below a block, it puts the size for what is split off the only loop.
bool has_known_points(const PipelineIndex& index, const LoopNest& nest, int stage_id, size_t loop) {
    const Stage& stage = index.stage(stage_id);
    const FuncSchedule& schedule = nest[stage.func];
    const StageNest& own = nest_of(index, nest, stage_id);
    if (own.levels[kPoint][loop] <= 1 || is_in_thread(schedule)) {
        return true;
    }
    if (schedule.placement == Placement::At) {
        return own.levels[kThreads][loop] > 1 || own.vector_loop == static_cast<int8_t>(loop);
    }
    return !index.func(stage.func).is_output || index.func(stage.func).dimensions() > 1;
}

// Values of one thread's tile that are in registers at once, 32 bits each.
double tile_registers(const Stage& stage, const StageNest& nest) {
    double points = 1;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        points *= is_serial(stage, nest, i) ? 1 : nest.levels[kPoint][i];
    }
    const double words = std::max(1.0, std::ceil(stage.widest_bytes / kRegisterBytes));
    return kRegistersPerPoint * std::min<double>(points, kMaxPoints) * words;
}

// Is a Func computed inside the kernel of a Stage at root?
bool is_inside_kernel(const PipelineIndex& index, const LoopNest& nest, int func, int stage) {
    const FuncSchedule& schedule = nest[func];
    return schedule.placement == Placement::At && kernel_of(index, nest, schedule.compute.stage) == stage;
}

// What one block, or thread, stores of a Func inside a kernel.
double bytes_inside(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func) {
    const int64_t points = regions.computed(func, nest[func].compute).points();
    return static_cast<double>(points) * index.func(func).bytes_per_point();
}

// Is a block of a Stage at root longer than some loop of it?
bool outgrows_its_loops(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int stage_id) {
    const Stage& stage = index.stage(stage_id);
    const StageNest& own = nest_of(index, nest, stage_id);
    const Box& loops = regions.loops(stage_id, Site{});
    for (int i = 0; i < loops.dimensions; i++) {
        const auto loop = static_cast<size_t>(i);
        const int64_t size = int64_t{own.levels[kThreads][loop]} * own.levels[kPoint][loop];
        if (!stage.loops[loop].is_rvar && size > loops[i].extent()) {
            return true;
        }
    }
    return false;
}

}  // namespace

int64_t Kernel::threads_per_block() const {
    return static_cast<int64_t>(threads[0]) * threads[1] * threads[2];
}

std::array<int8_t, kBlockDimensions> thread_loops(const Stage& stage, const StageNest& nest) {
    std::array<int8_t, kBlockDimensions> loops;
    loops.fill(-1);
    if (nest.vector_loop < 0) {
        return loops;
    }
    loops[0] = nest.vector_loop;
    size_t dimension = 1;
    for (size_t i = 0; i < stage.loops.size() && dimension < kBlockDimensions; i++) {
        if (static_cast<int>(i) != nest.vector_loop && nest.levels[kThreads][i] > 1) {
            loops[dimension++] = static_cast<int8_t>(i);
        }
    }
    return loops;
}

ThreadCounts thread_counts(const Stage& stage, const StageNest& nest) {
    const auto loops = thread_loops(stage, nest);
    ThreadCounts counts;
    for (size_t d = 0; d < kBlockDimensions; d++) {
        counts[d] = loops[d] < 0 ? 1 : nest.levels[kThreads][static_cast<size_t>(loops[d])];
    }
    return counts;
}

bool is_serial(const Stage& stage, const StageNest& nest, size_t loop) {
    const LoopDim& one = stage.loops[loop];
    return one.is_rvar && !(nest.is_parallel && (nest.is_atomic || one.is_parallelizable));
}

bool spreads_reductions(const Stage& stage, const StageNest& nest) {
    for (size_t i = 0; i < stage.loops.size(); i++) {
        if (stage.loops[i].is_rvar && !is_serial(stage, nest, i)) {
            return true;
        }
    }
    return false;
}

bool is_in_thread(const FuncSchedule& schedule) {
    return schedule.placement == Placement::At && schedule.compute.level == kThreads;
}

int host_of_threads(const PipelineIndex& index, const LoopNest& nest, int stage) {
    while (is_in_thread(nest[index.stage(stage).func])) {
        stage = nest[index.stage(stage).func].compute.stage;
    }
    return stage;
}

double turns_of_block(const PipelineIndex& index, const LoopNest& nest, int stage) {
    double turns = 1;
    while (stage >= 0) {
        const Stage& one = index.stage(stage);
        const StageNest& own = nest_of(index, nest, stage);
        for (size_t i = 0; i < one.loops.size(); i++) {
            turns *= is_serial(one, own, i) ? own.levels[kBlocks][i] : 1;
        }
        const FuncSchedule& schedule = nest[one.func];
        stage = schedule.placement == Placement::At ? schedule.compute.stage : -1;
    }
    return turns;
}

int kernel_of(const PipelineIndex& index, const LoopNest& nest, int stage) {
    const FuncSchedule* schedule = &nest[index.stage(stage).func];
    while (schedule->placement == Placement::At) {
        stage = schedule->compute.stage;
        schedule = &nest[index.stage(stage).func];
    }
    return stage;
}

std::vector<Site> kernel_sites(const PipelineIndex& index, const LoopNest& nest, int func) {
    return common_places(index, nest, func, [&](int stage) { return places(index, nest, stage); });
}

bool has_constant_region(const PipelineIndex& index, const LoopNest& nest, int func) {
    std::vector<uint8_t> seen;
    if (!index.has_identity_computed[static_cast<size_t>(func)] || is_read_clamped(index, nest, func, seen) ||
        is_read_apart(index, nest, func)) {
        return false;
    }
    int ways = 0;
    bool has_steps = false;
    std::vector<uint8_t> visited;
    for (int reader : readers_of(index, nest, func)) {
        const Stage& stage = index.stage(reader);
        has_steps = has_steps || is_needed_in_steps(index, nest, stage.func, visited);
        for (const EffectiveAccess& access : effective_reads(index, nest, reader)->accesses) {
            if (access.producer != func) {
                continue;
            }
            // Halide proves of no float, and of no two ways with steps on one of them, that both ends of what is read
            // move together; a region then takes the extent of all blocks.
            ways += std::max(1, access.step_ways);
            has_steps = has_steps || access.step_ways > 0;
            if (access.has_floats || (has_steps && ways > 1)) {
                return false;
            }
            for (const auto& row : access.jacobian) {
                for (size_t i = 0; i < stage.loops.size(); i++) {
                    const bool is_open = stage.loops[i].is_rvar && !stage.loops[i].has_constant_extent;
                    if (std::isnan(row[i]) || (row[i] != 0 && is_open)) {
                        return false;
                    }
                }
            }
        }
    }
    return is_read_together(index, nest, func, kernel_of);
}

bool has_constant_share(const PipelineIndex& index, const LoopNest& nest, int func) {
    const auto is_ended_by_a_load = [&](int32_t stage) { return index.stage(stage).has_loading_condition; };
    if (std::ranges::any_of(index.func(func).stages, is_ended_by_a_load)) {
        return false;
    }
    if (!is_read_together(index, nest, func, host_of_threads)) {
        return false;
    }
    for (int reader : readers_of(index, nest, func)) {
        const Stage& stage = index.stage(reader);
        for (const EffectiveAccess& access : effective_reads(index, nest, reader)->accesses) {
            if (access.producer != func) {
                continue;
            }
            // Of f(2 * (x / 2)) and its neighbours, every other thread needs more: the slope is 1, and tells nothing.
            if (access.is_clamped || access.step_ways > 0 || access.has_floats) {
                return false;
            }
            for (size_t d = 0; d < access.jacobian.size(); d++) {
                for (size_t i = 0; i < stage.loops.size(); i++) {
                    const double slope = access.jacobian[d][i];
                    const bool is_rvar = stage.loops[i].is_rvar;
                    // Where `k <= y` ends a reduction, threads further on need more than others.
                    const bool is_cut =
                        slope != 0 && (is_rvar ? stage.ends_by_point : !has_known_points(index, nest, reader, i));
                    if (access.phases[d][i] || slope != std::floor(slope) || is_cut) {
                        return false;
                    }
                }
            }
        }
    }
    return true;
}

bool can_be_padded(const PipelineIndex& index, int func) {
    const Func& asked = index.func(func);
    if (asked.dimensions() > 0) {
        return true;
    }
    const int32_t narrowest = std::ranges::min(asked.value_bytes);
    return std::ranges::all_of(index.dag->funcs, [&](const Func& other) {
        return other.is_input || std::ranges::max(other.value_bytes) <= narrowest;
    });
}

Kernel kernel(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int stage_id,
              std::span<const int32_t> funcs) {
    const Stage& root = index.stage(stage_id);
    const StageNest& own = nest_of(index, nest, stage_id);
    Kernel made;
    made.stage = stage_id;
    made.threads = thread_counts(root, own);
    made.blocks = static_cast<double>(product(own.levels[kBlocks])) / turns_of_block(index, nest, stage_id);
    made.is_guarded = is_guarded(index, nest, stage_id);
    double tile = tile_registers(root, own);
    for (int32_t func : funcs) {
        const FuncSchedule& schedule = nest[func];
        if (!is_inside_kernel(index, nest, func, stage_id)) {
            continue;
        }
        made.members++;
        made.is_guarded =
            made.is_guarded || (!index.func(root.func).is_output && reads_moving_input(index, nest, func));
        const double bytes = bytes_inside(index, nest, regions, func);
        if (is_in_thread(schedule)) {
            made.thread_bytes += bytes;
            continue;
        }
        made.shared_bytes += bytes;
        for (size_t s = 0; s < schedule.stages.size(); s++) {
            const Stage& stage = index.stage(index.func(func).stages[s]);
            const ThreadCounts counts = thread_counts(stage, schedule.stages[s]);
            for (size_t d = 0; d < kBlockDimensions; d++) {
                made.threads[d] = std::max(made.threads[d], counts[d]);
            }
            tile = std::max(tile, tile_registers(stage, schedule.stages[s]));
        }
    }
    made.registers = kBaseRegisters + tile + made.thread_bytes / kRegisterBytes;
    return made;
}

Kernel with_whole_blocks(const PipelineIndex& index, const LoopNest& nest, Regions& regions, Kernel kernel,
                         std::span<const int32_t> funcs) {
    if (!outgrows_its_loops(index, nest, regions, kernel.stage)) {
        return kernel;
    }
    Regions whole(index, nest, kWholeTile);
    kernel.shared_bytes = 0;
    for (int32_t func : funcs) {
        const FuncSchedule& schedule = nest[func];
        if (!is_inside_kernel(index, nest, func, kernel.stage) || is_in_thread(schedule)) {
            continue;
        }
        kernel.shared_bytes += bytes_inside(index, nest, whole, func);
        for (size_t s = 0; s < schedule.stages.size(); s++) {
            const int stage = index.func(func).stages[s];
            const auto spread = thread_loops(index.stage(stage), schedule.stages[s]);
            const Box& loops = whole.loops(stage, schedule.compute);
            for (size_t d = 0; d < kBlockDimensions && spread[d] >= 0; d++) {
                const int32_t points = schedule.stages[s].levels[kPoint][static_cast<size_t>(spread[d])];
                const int64_t count = divide_up(loops[spread[d]].extent(), points);
                kernel.threads[d] = std::max(kernel.threads[d], static_cast<int32_t>(count));
            }
        }
    }
    return kernel;
}

}  // namespace metol::gpu
