#include "targets/gpu/memory.hpp"

#include <algorithm>
#include <cmath>

#include "targets/gpu/feature_table.hpp"

namespace metol::gpu {

namespace {

constexpr Motion kStill = {0, 0, 0};
// Pictures are smooth: where their values are put into so few places, so many neighbours go to one.
constexpr int64_t kFewPlaces = 32;
constexpr int32_t kAlikeLanes = 4;
// A turn that waits for what the one before it has written takes three times as long where what it reads besides comes
// from the second cache: 820 cycles and 280 for the scatter of a histogram on an H200.
constexpr double kTurnsOfFetch = 2;

// NaN, not zero times NaN.
double times(double slope, double step) {
    return slope == 0 || step == 0 ? 0 : slope * step;
}

// The dimension that comes in memory after so many others, of which `inner` is the first.
size_t stored_dim(int rank, int inner) {
    return static_cast<size_t>(rank == 0 ? inner : rank <= inner ? rank - 1 : rank);
}

// Of the bytes that the transactions bring, how many were asked for; 1 where there are none.
float efficiency(const Transactions& transactions, double bytes_of_one) {
    const double moved = transactions.count * bytes_of_one;
    return moved > 0 ? static_cast<float>(transactions.bytes / moved) : 1.0F;
}

}  // namespace

Memory memory_of(const PipelineIndex& index, const LoopNest& nest, int func) {
    const FuncSchedule& schedule = nest[func];
    if (index.func(func).is_input || schedule.placement == Placement::Root) {
        return Memory::Global;
    }
    if (schedule.placement != Placement::At) {
        // A copy that is not decided about yet is where it does most good; all else that is not, costs nothing yet.
        const bool is_open_copy = schedule.placement == Placement::Unscheduled && index.func(func).is_wrapper;
        return is_open_copy ? Memory::Shared : Memory::None;
    }
    return is_in_thread(schedule) ? Memory::Registers : Memory::Shared;
}

int innermost_dim(const PipelineIndex& index, const LoopNest& nest, int func) {
    return index.func(func).is_input ? std::max(0, index.func(func).dense_dim) : nest[func].innermost_dim;
}

std::vector<int64_t> stored_extents(const PipelineIndex& index, const LoopNest& nest, Regions& regions, int func) {
    const Func& one = index.func(func);
    const bool is_given = one.is_input && !one.estimate.empty();
    const Box& box = one.is_input ? regions.required(func, Site{}) : regions.computed(func, nest[func].store);
    std::vector<int64_t> extents;
    for (int d = 0; d < one.dimensions(); d++) {
        const int64_t extent = is_given ? one.estimate[static_cast<size_t>(d)].extent() : box[d].extent();
        extents.push_back(std::max<int64_t>(1, extent));
    }
    return extents;
}

double loads_per_thread(const Stage& stage, const StageNest& nest, const EffectiveAccess& access) {
    Trips tile = unit_trips();
    double count = 1;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        bool is_moving = false;
        for (size_t d = 0; d < access.jacobian.size(); d++) {
            is_moving = is_moving || access.jacobian[d][i] != 0 || access.phases[d][i];
        }
        const bool is_turning = is_serial(stage, nest, i);
        tile[i] = is_turning ? 1 : nest.levels[kPoint][i];
        count *= is_turning && is_moving ? nest.levels[kPoint][i] : 1;
    }
    return count * distinct_loads(access, stage.loops.size(), tile, -1);
}

StageMemory::StageMemory(const GpuParameters& machine, const PipelineIndex& index, const LoopNest& nest,
                         Regions& regions, int stage, const Kernel& kernel)
    : machine_(machine),
      index_(index),
      nest_(nest),
      regions_(regions),
      id_(stage),
      stage_(index.stage(stage)),
      own_(nest_of(index, nest, stage)),
      kernel_(kernel),
      turns_(turns_of_block(index, nest, stage)),
      reads_(effective_reads(index, nest, stage)),
      motion_(motion_of_loops(stage)) {}

Lanes StageMemory::lanes() const {
    const int around = host_of_threads(index_, nest_, id_);
    return {kernel_.threads, thread_counts(index_.stage(around), nest_of(index_, nest_, around)),
            machine_.warp_threads};
}

double StageMemory::points_per_thread() const {
    double points = 1;
    for (size_t i = 0; i < stage_.loops.size(); i++) {
        points *= own_.levels[kPoint][i];
    }
    return points;
}

std::vector<Motion> StageMemory::motion_of_loops(int stage_id) const {
    const Stage& stage = index_.stage(stage_id);
    std::vector<Motion> motion(stage.loops.size(), kStill);
    if (is_in_thread(nest_[stage.func])) {
        const std::vector<Motion> coordinates = motion_of_func(stage.func);
        for (size_t i = 0; i < stage.loops.size(); i++) {
            if (!stage.loops[i].is_rvar) {
                motion[i] = coordinates[static_cast<size_t>(stage.loops[i].pure_dim)];
            }
        }
        return motion;
    }
    const StageNest& nest = nest_of(index_, nest_, stage_id);
    const auto loops = thread_loops(stage, nest);
    for (size_t d = 0; d < kBlockDimensions; d++) {
        if (loops[d] >= 0) {
            const auto loop = static_cast<size_t>(loops[d]);
            motion[loop][d] = nest.levels[kPoint][loop];
        }
    }
    return motion;
}

std::vector<Motion> StageMemory::motion_of_func(int func) const {
    std::vector<Motion> motion(static_cast<size_t>(index_.func(func).dimensions()), kStill);
    for (int reader : readers_of(index_, nest_, func)) {
        for (const EffectiveAccess& access : effective_reads(index_, nest_, reader)->accesses) {
            if (access.producer != func) {
                continue;
            }
            const std::vector<Motion> loops = motion_of_loops(reader);
            for (size_t d = 0; d < access.jacobian.size(); d++) {
                for (size_t i = 0; i < loops.size(); i++) {
                    for (size_t k = 0; k < kBlockDimensions; k++) {
                        motion[d][k] += times(access.jacobian[d][i], loops[i][k]);
                    }
                }
            }
            return motion;  // all readers are in one thread, and move alike
        }
    }
    return motion;
}

LaneStrides StageMemory::strides_of(const EffectiveAccess& access) {
    const int func = access.producer;
    const Func& producer = index_.func(func);
    const std::vector<int64_t> stored = stored_extents(index_, nest_, regions_, func);
    LaneStrides strides;
    const int inner = innermost_dim(index_, nest_, func);
    double distance = producer.value_bytes.empty() ? producer.bytes_per_point() : producer.value_bytes.front();
    for (int rank = 0; rank < static_cast<int>(access.jacobian.size()); rank++) {
        const size_t dim = stored_dim(rank, inner);
        LaneStride& stride = strides.emplace_back();
        stride.bytes = distance;
        stride.alike_lanes = stored[dim] <= kFewPlaces ? kAlikeLanes : 1;
        for (size_t i = 0; i < motion_.size(); i++) {
            for (size_t k = 0; k < kBlockDimensions; k++) {
                const bool turns = access.phases[dim][i] && motion_[i][k] != 0;
                stride.steps[k] += turns ? NAN : times(access.jacobian[dim][i], motion_[i][k]);
            }
        }
        distance *= static_cast<double>(stored[dim]);
    }
    return strides;
}

void StageMemory::add_traffic(const EffectiveAccess& access, double per_thread, Traffic& sum) {
    const Memory memory = memory_of(index_, nest_, access.producer);
    if (memory != Memory::Global && memory != Memory::Shared) {
        return;
    }
    const Lanes all = lanes();
    const LaneStrides strides = strides_of(access);
    for (int32_t bytes : index_.func(access.producer).value_bytes) {
        const bool is_global = memory == Memory::Global;
        const Transactions once = is_global ? sectors_of_access(machine_, all, strides, bytes)
                                            : bank_turns_of_access(all, strides, bytes, machine_.shared_banks);
        Transactions& total = is_global ? sum.global : sum.shared;
        total.count += per_thread * once.count;
        total.bytes += per_thread * once.bytes;
        total.waits += per_thread * once.waits;
    }
}

bool StageMemory::keeps_sums() {
    const Box& loops = regions_.loops(id_, nest_[stage_.func].compute);
    bool is_alone = true;
    bool divides = true;
    for (size_t i = 0; i < stage_.loops.size(); i++) {
        const int32_t points = own_.levels[kPoint][i];
        is_alone = is_alone && (is_serial(stage_, own_, i) || points == 1);
        divides = divides && loops[static_cast<int>(i)].extent() % points == 0;
    }
    const FuncSchedule& schedule = nest_[stage_.func];
    const bool is_known = index_.has_fixed_sizes || (schedule.placement == Placement::At && !kernel_.is_guarded);
    return is_alone || is_in_thread(schedule) || (divides && is_known);
}

// Of the turns of the innermost reduction loop, how many fetch a sector that no turn before them has.
double StageMemory::fetches_a_turn() {
    size_t loop = 0;
    while (loop < stage_.loops.size() && !is_serial(stage_, own_, loop)) {
        loop++;
    }
    double most = 0;
    for (const EffectiveAccess& access : reads_->accesses) {
        if (loop == stage_.loops.size() || memory_of(index_, nest_, access.producer) != Memory::Global) {
            continue;
        }
        const LaneStrides strides = strides_of(access);
        const int inner = innermost_dim(index_, nest_, access.producer);
        double step = 0;
        for (int rank = 0; rank < static_cast<int>(strides.size()); rank++) {
            step += access.jacobian[stored_dim(rank, inner)][loop] * strides[static_cast<size_t>(rank)].bytes;
        }
        most = std::max(most, std::isnan(step) ? 1 : std::min(1.0, std::abs(step) / machine_.sector_bytes));
    }
    return most;
}

double StageMemory::turns_in_a_row() {
    if (own_.is_atomic || memory_of(index_, nest_, stage_.func) != Memory::Global) {
        return 0;
    }
    bool waits = false;
    for (const Access& self : stage_.self_accesses) {
        for (size_t i = 0; i < stage_.loops.size(); i++) {
            waits = waits || (is_serial(stage_, own_, i) && moves_with(self, i));
        }
    }
    return waits ? turns_ * points_per_thread() * (1 + kTurnsOfFetch * fetches_a_turn()) : 0;
}

void StageMemory::count_accesses(float* out) {
    // What stays where it is over all chunks is loaded again in each, after a barrier.
    const auto per_thread = [&](const EffectiveAccess& access) {
        return turns_ * loads_per_thread(stage_, own_, access);
    };
    Traffic loaded;
    Traffic stored;
    const auto add = [&](Traffic& sum, const EffectiveAccess& access) { add_traffic(access, per_thread(access), sum); };
    for (const EffectiveAccess& access : reads_->accesses) {
        add(loaded, access);
    }
    sectors_read_ = loaded.global.count;
    // An atomic update goes to memory each time, and brings nothing back.
    const bool is_read_back = !own_.is_atomic;
    const bool keeps_all = is_read_back && keeps_sums();
    const auto of_sums = [&](const EffectiveAccess& access) {
        return keeps_all ? per_thread(access) : turns_ * points_per_thread();
    };
    for (size_t i = 0; is_read_back && i < stage_.self_accesses.size(); i++) {
        const EffectiveAccess load = direct_access(stage_.self_accesses[i], stage_.func);
        add_traffic(load, of_sums(load), loaded);
    }
    for (const Access& access : stage_.stores) {
        const EffectiveAccess store = direct_access(access, stage_.func);
        add_traffic(store, of_sums(store), stored);
    }
    // All banks deliver a word of four bytes a turn.
    const double turn_bytes = 4.0 * machine_.shared_banks;
    out[k_num_global_mem_loads_per_block] = static_cast<float>(loaded.global.count);
    out[k_num_shared_mem_loads_per_block] = static_cast<float>(loaded.shared.count);
    out[k_num_global_mem_stores_per_block] = static_cast<float>(stored.global.count);
    out[k_num_shared_mem_stores_per_block] = static_cast<float>(stored.shared.count);
    out[k_l1_waits_per_block] = static_cast<float>(loaded.global.waits + stored.global.waits);
    loaded_bytes_ = loaded.global.bytes;
    out[k_global_mem_load_efficiency] = efficiency(loaded.global, machine_.sector_bytes);
    out[k_shared_mem_load_efficiency] = efficiency(loaded.shared, turn_bytes);
    out[k_global_mem_store_efficiency] = efficiency(stored.global, machine_.sector_bytes);
    out[k_shared_mem_store_efficiency] = efficiency(stored.shared, turn_bytes);
}

// Distinct bytes of global memory that are read while the loops of the Stage cover `loops`, in whole sectors.
double StageMemory::bytes_read(const Box& loops) {
    double bytes = 0;
    std::vector<ReadBox> found;
    read_boxes(index_, nest_, id_, loops, found);
    for (const ReadBox& read : found) {
        if (memory_of(index_, nest_, read.producer) != Memory::Global || read.box.is_empty) {
            continue;
        }
        const double element = index_.func(read.producer).bytes_per_point();
        const int inner = innermost_dim(index_, nest_, read.producer);
        const double run = read.box.dimensions > 0 ? static_cast<double>(read.box[inner].extent()) : 1;
        const double runs = static_cast<double>(read.box.points()) / std::max(1.0, run);
        bytes += runs * std::ceil(run * element / machine_.sector_bytes) * machine_.sector_bytes;
    }
    return bytes;
}

// Of what the warps of a block read twice, what the part of the first cache that a block has holds no longer.
double StageMemory::bytes_fetched_again(double read_in_turn, double blocks_held) const {
    const double resident = std::max(1.0, std::min(blocks_held, std::ceil(kernel_.blocks / machine_.multiprocessors)));
    const double shared = machine_.is_shared_in_l1 ? kernel_.shared_bytes : 0;
    const double held = std::max(0.0, machine_.l1_bytes / resident - shared);
    const double lost = read_in_turn > held ? 1 - held / read_in_turn : 0;
    // What a warp itself reads twice, it reads at once: each of them brings no more than all there is.
    const auto warps = static_cast<double>(active_warps(lanes()).count);
    return kernel_.blocks * lost *
           std::max(0.0, std::min(loaded_bytes_, warps * read_in_turn * turns_) - read_in_turn * turns_);
}

void StageMemory::measure_bytes(double blocks_held, float* out) {
    const Box whole = regions_.loops(id_, Site{});
    const Site block = {static_cast<int16_t>(kernel_.stage), kBlocks, Site::kAllLoops};
    double written = nest_[stage_.func].placement == Placement::Root ? index_.func(stage_.func).bytes_per_point() : 0;
    const auto moves = [&](size_t loop) {
        return std::ranges::any_of(stage_.stores, [&](const Access& store) {
            return std::ranges::any_of(store.jacobian,
                                       [&](const JacobianRow& row) { return surely_moves_with(row, loop); });
        });
    };
    for (size_t i = 0; i < stage_.loops.size(); i++) {
        const bool is_elsewhere = !stage_.loops[i].is_rvar || moves(i);
        written *= is_elsewhere ? static_cast<double>(whole[static_cast<int>(i)].extent()) : 1.0;
    }
    // Threads that step through memory together leave gaps between what one block reads: it is in fewer sectors than
    // the box around all has.
    const double loaded = sectors_read_ * machine_.sector_bytes / turns_;
    const double read_in_turn = std::min(bytes_read(regions_.loops(id_, block)), loaded);
    out[k_bytes_read] = static_cast<float>(bytes_read(whole));
    out[k_bytes_read_by_blocks] = static_cast<float>(read_in_turn * kernel_.blocks * turns_);
    out[k_bytes_fetched_again] = static_cast<float>(bytes_fetched_again(read_in_turn, blocks_held));
    out[k_bytes_written] = static_cast<float>(written);
}

}  // namespace metol::gpu
