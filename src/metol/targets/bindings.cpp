// Python bindings of what a Space is told of a machine: one class a target.
#include "targets/bindings.hpp"

#include <pybind11/stl.h>

#include <tuple>
#include <utility>
#include <vector>

#include "schedule/pipeline_index.hpp"
#include "targets/cpu/arithmetic.hpp"
#include "targets/cpu/borders.hpp"
#include "targets/cpu/cpu_parameters.hpp"
#include "targets/cpu/loads.hpp"
#include "targets/cpu/steps_in_lanes.hpp"
#include "targets/cpu/tile_order.hpp"
#include "targets/gpu/gpu_parameters.hpp"
#include "targets/gpu/kernels.hpp"
#include "targets/gpu/limits.hpp"

namespace py = pybind11;

void bind_targets(py::module_& m) {
    py::class_<metol::MachineParameters>(m, "MachineParameters", "What the core needs to know of a machine.");
    py::class_<metol::ArithmeticPart>(m, "ArithmeticPart", "Operations of a Stage that move with the same loops.")
        .def(py::init<uint32_t, uint32_t, double>(), py::arg("loops"), py::arg("picked_by"), py::arg("share"))
        .def_readwrite("loops", &metol::ArithmeticPart::loops)
        .def_readwrite("picked_by", &metol::ArithmeticPart::picked_by)
        .def_readwrite("share", &metol::ArithmeticPart::share);
    py::class_<metol::LaneSteps>(m, "LaneSteps", "The arithmetic of a Stage whose steps are lanes.")
        .def(py::init<int32_t, double, double>(), py::arg("steps") = 1, py::arg("share") = 1,
             py::arg("scalar_share") = 1)
        .def_readwrite("steps", &metol::LaneSteps::steps)
        .def_readwrite("share", &metol::LaneSteps::share)
        .def_readwrite("scalar_share", &metol::LaneSteps::scalar_share);
    py::class_<metol::CpuParameters, metol::MachineParameters>(m, "CpuParameters",
                                                               "What the core needs to know of a CPU.")
        .def(py::init<>())
#define METOL_FIELD(name) .def_readwrite(#name, &metol::CpuParameters::name)
            METOL_FIELD(cores) METOL_FIELD(vector_bytes) METOL_FIELD(cache_line_bytes) METOL_FIELD(l1_bytes)
                METOL_FIELD(l2_bytes) METOL_FIELD(l3_bytes) METOL_FIELD(seconds_per_byte_into_l1)
                    METOL_FIELD(seconds_per_byte_into_l2) METOL_FIELD(seconds_per_byte_out_of_l2) METOL_FIELD(
                        seconds_per_byte_into_l3) METOL_FIELD(seconds_per_byte_into_l3_all_cores)
                        METOL_FIELD(seconds_per_vector_load) METOL_FIELD(seconds_per_vector_store)
                            METOL_FIELD(seconds_per_scalar_load) METOL_FIELD(seconds_per_gathered_element) METOL_FIELD(
                                seconds_per_loop_iteration) METOL_FIELD(seconds_per_outer_iteration)
                                METOL_FIELD(seconds_per_production) METOL_FIELD(seconds_per_read_back) METOL_FIELD(
                                    seconds_per_parallel_launch) METOL_FIELD(seconds_per_task)
                                    METOL_FIELD(seconds_per_allocation) METOL_FIELD(seconds_per_fault_byte) METOL_FIELD(
                                        seconds_per_fault_byte_all_cores) METOL_FIELD(seconds_per_byte_to_memory)
                                        METOL_FIELD(seconds_per_byte_to_memory_all_cores)
                                            METOL_FIELD(seconds_per_segment) METOL_FIELD(seconds_per_written_segment)
                                                METOL_FIELD(seconds_per_contested_store) METOL_FIELD(seconds_per_spill)
                                                    METOL_FIELD(tiled_slowdown) METOL_FIELD(tiled_slowdown_all_cores)
                                                        METOL_FIELD(fault_threshold_bytes) METOL_FIELD(vector_registers)
                                                            METOL_FIELD(register_seconds) METOL_FIELD(arithmetic)
                                                                METOL_FIELD(lane_steps) METOL_FIELD(added_seconds_share)
                                                                    METOL_FIELD(chained_step_seconds)
                                                                        METOL_FIELD(scalar_point_seconds);
    py::class_<metol::GpuParameters, metol::MachineParameters>(m, "GpuParameters",
                                                               "What the core needs to know of a GPU.")
        .def(py::init<>())
#undef METOL_FIELD
#define METOL_FIELD(name) .def_readwrite(#name, &metol::GpuParameters::name)
            METOL_FIELD(multiprocessors) METOL_FIELD(warp_threads) METOL_FIELD(sector_bytes)
                METOL_FIELD(max_threads_per_block) METOL_FIELD(max_threads_per_multiprocessor)
                    METOL_FIELD(max_blocks_per_multiprocessor) METOL_FIELD(max_registers_per_thread)
                        METOL_FIELD(registers_per_multiprocessor) METOL_FIELD(max_registers_per_block)
                            METOL_FIELD(register_unit) METOL_FIELD(warp_unit) METOL_FIELD(shared_bytes_per_block)
                                METOL_FIELD(shared_bytes_per_multiprocessor) METOL_FIELD(shared_unit_bytes)
                                    METOL_FIELD(shared_reserved_bytes) METOL_FIELD(l1_bytes)
                                        METOL_FIELD(is_shared_in_l1) METOL_FIELD(sectors_per_turn)
                                            METOL_FIELD(shared_banks) METOL_FIELD(seconds_per_shared_turn)
                                                METOL_FIELD(seconds_per_barrier) METOL_FIELD(warps_to_hide_latency)
                                                    METOL_FIELD(seconds_per_launch) METOL_FIELD(seconds_per_block)
                                                        METOL_FIELD(seconds_per_turn_in_a_row) METOL_FIELD(atomic_lanes)
                                                            METOL_FIELD(seconds_per_atomic)
                                                                METOL_FIELD(atomics_per_turn)
                                                                    METOL_FIELD(seconds_per_loop_turn)
                                                                        METOL_FIELD(seconds_per_sector)
                                                                            METOL_FIELD(seconds_per_l2_byte)
                                                                                METOL_FIELD(seconds_per_memory_byte)
                                                                                    METOL_FIELD(point_seconds)
                                                                                        METOL_FIELD(is_on_host);
#undef METOL_FIELD
    m.def(
        "cpu_loop_plans",
        [](const std::shared_ptr<metol::PipelineDag>& dag, const std::vector<const metol::FuncSchedule*>& schedules) {
            metol::LoopNest nest;
            nest.funcs = schedules;
            const metol::PipelineIndex index(dag);
            return std::tuple(metol::cpu::tile_orders(index, nest), metol::cpu::whole_lane_levels(index, nest),
                              metol::cpu::picking_loops(index, nest), metol::cpu::loops_in_lanes(index, nest));
        },
        py::arg("dag"), py::arg("schedules"),
        "How the loops of tiles nest, innermost first: [Stages][loops]; at which levels a loop along the vectors is "
        "never split, for what is inside has the borders: [Stages][levels]; which loops pick among values: "
        "[Stages][loops]; and of which the steps in the tile are lanes of vectors: [Stages], -1 for none.");
    m.def("is_serial_on_gpu", &metol::gpu::is_serial, py::arg("stage"), py::arg("nest"), py::arg("loop"),
          "Does each thread run a loop of a Stage by itself?");
    m.attr("VALUE_BYTES") = metol::kValueBytes;
    m.attr("CPU_MOST_DENSE_STRIDE") = metol::cpu::kMaxDenseStride;
    m.attr("GPU_MOST_UNROLLED") = metol::gpu::kMostUnrolled;
}
