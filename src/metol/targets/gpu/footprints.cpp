#include "targets/gpu/footprints.hpp"

#include <set>

#include "targets/gpu/feature_table.hpp"

namespace metol::gpu {

namespace {

// The columns of a quantity follow each other, one for each memory, in the order of Memory.
int column(Feature of_global, Memory memory) {
    return static_cast<int>(of_global) + static_cast<int>(memory) - static_cast<int>(Memory::Global);
}
static_assert(k_unique_register_bytes_read_per_thread == k_unique_global_bytes_read_per_thread + 2);
static_assert(k_register_innermost_bytes_at_task == k_global_innermost_bytes_at_task + 2);

constexpr std::array kReadable = {Memory::Global, Memory::Shared, Memory::Registers};

}  // namespace

StageFootprints::Footprints StageFootprints::read(const Site& site) {
    std::vector<ReadBox> found;
    read_boxes(index_, nest_, id_, regions_.loops(id_, site), found);
    Footprints total;
    for (const ReadBox& one : found) {
        Footprint& of_memory = total[static_cast<size_t>(memory_of(index_, nest_, one.producer))];
        const double element = index_.func(one.producer).bytes_per_point();
        if (one.box.is_empty) {
            continue;
        }
        if (one.box.dimensions == 0) {
            of_memory.bytes += element;
            of_memory.lines += 1;
            continue;
        }
        const int64_t run = std::max<int64_t>(1, one.box[innermost_dim(index_, nest_, one.producer)].extent());
        of_memory.bytes += static_cast<double>(one.box.points()) * element;
        of_memory.lines += static_cast<double>(one.box.points()) / static_cast<double>(run);
    }
    // What is not scheduled yet is nowhere.
    total[static_cast<size_t>(Memory::None)] = {};
    return total;
}

Site StageFootprints::block_site() const {
    return {static_cast<int16_t>(kernel_.stage), kBlocks, Site::kAllLoops};
}

Site StageFootprints::thread_site() const {
    const FuncSchedule& schedule = nest_[stage_.func];
    return is_in_thread(schedule) ? schedule.compute : Site{static_cast<int16_t>(id_), kThreads, Site::kAllLoops};
}

double StageFootprints::allocated_bytes(int func) {
    double bytes = index_.func(func).bytes_per_point();
    for (int64_t extent : stored_extents(index_, nest_, regions_, func)) {
        bytes *= static_cast<double>(extent);
    }
    return bytes;
}

void StageFootprints::measure_reads(double points_per_thread, float* out) {
    const Footprints realization = read(nest_[stage_.func].store);
    const Footprints block = read(block_site());
    const Footprints thread = read(thread_site());
    for (Memory memory : kReadable) {
        const auto m = static_cast<size_t>(memory);
        const auto put = [&](Feature of_global, double value) {
            out[column(of_global, memory)] = static_cast<float>(value);
        };
        put(k_unique_global_bytes_read_per_realization, realization[m].bytes);
        put(k_unique_global_lines_read_per_realization, realization[m].lines);
        put(k_unique_global_bytes_read_per_thread, thread[m].bytes);
        put(k_unique_global_lines_read_per_thread, thread[m].lines);
    }
    const auto sum = [](const Footprints& parts) {
        Footprint total;
        for (const Footprint& part : parts) {
            total.bytes += part.bytes;
            total.lines += part.lines;
        }
        return total;
    };
    out[k_unique_bytes_read_per_task] = static_cast<float>(sum(block).bytes);
    out[k_unique_lines_read_per_task] = static_cast<float>(sum(block).lines);
    out[k_unique_bytes_read_per_point] = static_cast<float>(sum(thread).bytes / points_per_thread);
    out[k_unique_lines_read_per_point] = static_cast<float>(sum(thread).lines / points_per_thread);
    std::set<int> producers;
    for (const EffectiveAccess& access : effective_reads(index_, nest_, id_)->accesses) {
        producers.insert(access.producer);
    }
    for (int producer : producers) {
        const Memory memory = memory_of(index_, nest_, producer);
        if (memory != Memory::None) {
            out[column(k_global_allocation_bytes_read_per_realization, memory)] +=
                static_cast<float>(allocated_bytes(producer));
        }
    }
}

StageFootprints::Written StageFootprints::written(const Box& box) const {
    const double element = index_.func(stage_.func).bytes_per_point();
    const int inner = nest_[stage_.func].innermost_dim;
    const double run = box.dimensions == 0 ? 1.0 : static_cast<double>(box[inner].extent());
    return {static_cast<double>(box.points()) * element, run * element};
}

void StageFootprints::measure_storage(double active_threads, float* out) {
    const FuncSchedule& schedule = nest_[stage_.func];
    const Written realized = written(regions_.computed(stage_.func, schedule.store));
    const Written produced = written(regions_.production(stage_.func));
    const Written at_root = written(regions_.computed(stage_.func, Site{}));
    out[k_bytes_at_realization] = static_cast<float>(realized.bytes);
    out[k_innermost_bytes_at_realization] = static_cast<float>(realized.innermost_bytes);
    out[k_bytes_at_production] = static_cast<float>(produced.bytes);
    out[k_innermost_bytes_at_production] = static_cast<float>(produced.innermost_bytes);
    out[k_bytes_at_root] = static_cast<float>(at_root.bytes);
    out[k_innermost_bytes_at_root] = static_cast<float>(at_root.innermost_bytes);
    const Memory memory = memory_of(index_, nest_, stage_.func);
    const Written block = memory == Memory::Global ? written(regions_.written(id_, block_site())) : produced;
    const double threads = memory == Memory::Registers ? active_threads : 1;
    out[column(k_global_bytes_at_task, memory)] = static_cast<float>(block.bytes * threads);
    out[column(k_global_innermost_bytes_at_task, memory)] = static_cast<float>(block.innermost_bytes);
}

}  // namespace metol::gpu
