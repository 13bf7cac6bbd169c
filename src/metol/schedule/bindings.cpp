// Python bindings of what a loop nest says of each Func.
#include "schedule/bindings.hpp"

#include <pybind11/stl.h>

#include "schedule/borders.hpp"
#include "schedule/loop_nest.hpp"

namespace py = pybind11;

void bind_loop_nest(py::module_& m) {
    py::enum_<metol::Placement>(m, "Placement", "Where a Func is computed.")
        .value("UNSCHEDULED", metol::Placement::Unscheduled)
        .value("INLINE", metol::Placement::Inline)
        .value("ROOT", metol::Placement::Root)
        .value("AT", metol::Placement::At);
    py::enum_<metol::Storage>(m, "Storage", "Where the storage of a Func computed inside another lies.")
        .value("PLAIN", metol::Storage::Plain)
        .value("STACK", metol::Storage::Stack)
        .value("HOISTED", metol::Storage::Hoisted);
    py::class_<metol::Site>(m, "Site", "The body of a level of a Stage; stage -1 is the root.")
        .def_readonly("stage", &metol::Site::stage)
        .def_readonly("level", &metol::Site::level)
        .def_property_readonly("is_root", &metol::Site::is_root);
    py::class_<metol::StageNest>(m, "StageNest", "The tiling of one Stage; levels[-1] counts points, the others trips.")
        .def_readonly("levels", &metol::StageNest::levels)
        .def_readonly("vector_loop", &metol::StageNest::vector_loop)
        .def_readonly("vector_width", &metol::StageNest::vector_width)
        .def_readonly("is_parallel", &metol::StageNest::is_parallel)
        .def_readonly("is_atomic", &metol::StageNest::is_atomic)
        .def_readonly("leader", &metol::StageNest::leader)
        .def_readonly("shared_level", &metol::StageNest::shared_level)
        .def_readonly("prefetched", &metol::StageNest::prefetched)
        .def_readonly("prefetch_level", &metol::StageNest::prefetch_level)
        .def_readonly("prefetch_loop", &metol::StageNest::prefetch_loop);
    py::class_<metol::FuncSchedule>(m, "FuncSchedule", "All that has been decided about one Func.")
        .def_readonly("func", &metol::FuncSchedule::func)
        .def_readonly("placement", &metol::FuncSchedule::placement)
        .def_readonly("compute", &metol::FuncSchedule::compute)
        .def_readonly("store", &metol::FuncSchedule::store)
        .def_readonly("slide_dim", &metol::FuncSchedule::slide_dim)
        .def_readonly("innermost_dim", &metol::FuncSchedule::innermost_dim)
        .def_readonly("storage", &metol::FuncSchedule::storage)
        .def_readonly("row_alignment", &metol::FuncSchedule::row_alignment)
        .def_readonly("stages", &metol::FuncSchedule::stages);
    py::class_<metol::Border>(m, "Border", "Places at both ends of a dimension that need far more of a Func.")
        .def_readonly("producer", &metol::Border::producer)
        .def_readonly("dimension", &metol::Border::dimension)
        .def_readonly("first", &metol::Border::first)
        .def_readonly("last", &metol::Border::last);
}
