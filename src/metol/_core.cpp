// The Python module metol._core: all binding code, one function a room.
#include <pybind11/operators.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <optional>
#include <sstream>

#include "cost/bindings.hpp"
#include "pipeline/bounds.hpp"
#include "pipeline/dag.hpp"
#include "pipeline/extract.hpp"
#include "pipeline/lowered.hpp"
#include "pipeline/stage_ops.hpp"
#include "schedule/bindings.hpp"
#include "search/bindings.hpp"
#include "search/space.hpp"
#include "targets/bindings.hpp"

namespace py = pybind11;

namespace {

const char* error_class(metol::PipelineError::Kind kind) {
    switch (kind) {
        case metol::PipelineError::Kind::Undefined:
            return "UndefinedPipelineError";
        case metol::PipelineError::Kind::MissingEstimate:
            return "MissingEstimateError";
        case metol::PipelineError::Kind::ContradictoryEstimate:
            return "ContradictoryEstimateError";
        case metol::PipelineError::Kind::Extraction:
            return "ExtractionError";
        case metol::PipelineError::Kind::UnsupportedTarget:
            return "UnsupportedTargetError";
    }
    return "MetolError";
}

void translate_error(std::exception_ptr error) {
    try {
        if (error) {
            std::rethrow_exception(error);
        }
    } catch (const metol::PipelineError& e) {
        py::set_error(py::module_::import("metol.errors").attr(error_class(e.kind())), e.what());
    } catch (const metol::DeadEnd& e) {
        py::set_error(py::module_::import("metol.errors").attr("DeadEndError"), e.what());
    }
}

std::string to_text(const metol::BoundExpr& bound) {
    static const char* const names[] = {"const", "min", "max",   "+",    "-",     "*",     "//",   "%",   "min2",
                                        "max2",  "<",   "<=",    "==",   "!=",    "and",   "or",   "not", "select",
                                        "float", "/",   "floor", "ceil", "round", "trunc", "sqrt", "exp", "log"};
    std::ostringstream text;
    if (bound.is_affine()) {
        for (const metol::BoundTerm& term : bound.terms) {
            text << term.coefficient << "*" << (term.is_max ? "max" : "min") << term.loop << " + ";
        }
        text << bound.constant;
        return text.str();
    }
    for (const metol::BoundInstruction& i : bound.program) {
        const bool is_push = i.op <= metol::BoundOp::PushMax || i.op == metol::BoundOp::PushFloat;
        text << (text.tellp() > 0 ? " " : "") << names[static_cast<size_t>(i.op)];
        if (is_push) {
            text << ":" << i.value;
        }
    }
    return text.str();
}

std::string describe(const metol::PipelineDag& dag) {
    std::ostringstream text;
    for (size_t f = 0; f < dag.funcs.size(); f++) {
        const metol::Func& func = dag.funcs[f];
        text << f << " " << func.name << (func.is_input ? " input" : "") << (func.is_output ? " output" : "")
             << (func.is_boundary_condition ? " boundary" : "");
        for (const metol::Interval& i : func.root_region) {
            text << " [" << i.min << ", " << i.max << "]";
        }
        text << "\n";
        for (int32_t s : func.stages) {
            const metol::Stage& stage = dag.stages[static_cast<size_t>(s)];
            text << "  stage " << stage.index << " loops";
            for (const metol::LoopDim& loop : stage.loops) {
                text << " " << loop.name;
            }
            text << "\n";
            for (const metol::Edge& edge : stage.edges) {
                text << "    reads " << dag.funcs[static_cast<size_t>(edge.producer)].name << " x" << edge.calls;
                for (const metol::BoundPair& b : edge.bounds) {
                    text << " [" << to_text(b.min) << ", " << to_text(b.max) << "]";
                }
                text << "\n";
            }
        }
    }
    return text.str();
}

metol::BufferRegions to_regions(const std::map<std::string, std::vector<std::pair<int64_t, int64_t>>>& sizes) {
    metol::BufferRegions regions;
    for (const auto& [name, dims] : sizes) {
        auto& region = regions[name];
        for (const auto& [min, extent] : dims) {
            region.push_back({min, min + extent - 1});
        }
    }
    return regions;
}

std::vector<metol::Interval> to_intervals(const std::vector<std::pair<int64_t, int64_t>>& pairs) {
    std::vector<metol::Interval> result;
    for (const auto& [min, max] : pairs) {
        result.push_back({min, max});
    }
    return result;
}

void bind_bounds(py::module_& m) {
    py::class_<metol::Interval>(m, "Interval")
        .def(py::init([](int64_t min, int64_t max) { return metol::Interval{min, max}; }), py::arg("min"),
             py::arg("max"))
        .def_readonly("min", &metol::Interval::min)
        .def_readonly("max", &metol::Interval::max)
        .def_property_readonly("extent", &metol::Interval::extent)
        .def(py::self == py::self)
        .def("__hash__", [](const metol::Interval& i) { return py::hash(py::make_tuple(i.min, i.max)); })
        .def("__repr__", [](const metol::Interval& i) {
            return "Interval(" + std::to_string(i.min) + ", " + std::to_string(i.max) + ")";
        });
    py::class_<metol::BoundExpr>(m, "BoundExpr")
        .def_readonly("constant", &metol::BoundExpr::constant)
        .def_property_readonly(
            "terms",
            [](const metol::BoundExpr& b) {
                std::vector<std::tuple<int32_t, bool, int64_t>> terms;
                for (const metol::BoundTerm& t : b.terms) {
                    terms.emplace_back(t.loop, t.is_max, t.coefficient);
                }
                return terms;
            },
            "Tuples (loop, is_max, coefficient).")
        .def_property_readonly("is_affine", &metol::BoundExpr::is_affine)
        .def_property_readonly("program_length", [](const metol::BoundExpr& b) { return b.program.size(); })
        .def(
            "evaluate",
            [](const metol::BoundExpr& b, const std::vector<std::pair<int64_t, int64_t>>& loops) {
                return metol::evaluate(b, to_intervals(loops));
            },
            py::arg("loops"), "Evaluate over the (min, max) of every loop.")
        .def("__repr__", &to_text);
    py::class_<metol::BoundPair>(m, "BoundPair")
        .def_readonly("min", &metol::BoundPair::min)
        .def_readonly("max", &metol::BoundPair::max)
        .def(
            "evaluate",
            [](const metol::BoundPair& b, const std::vector<std::pair<int64_t, int64_t>>& loops) {
                return metol::evaluate(b, to_intervals(loops));
            },
            py::arg("loops"), "Evaluate over the (min, max) of every loop.")
        .def("__repr__", [](const metol::BoundPair& b) { return "[" + to_text(b.min) + ", " + to_text(b.max) + "]"; });
}

void bind_dag(py::module_& m) {
    using namespace metol;
    py::class_<JacobianRow>(m, "JacobianRow")
        .def_readonly("numerator", &JacobianRow::numerator)
        .def_readonly("denominator", &JacobianRow::denominator)
        .def_property_readonly(
            "is_known", [](const JacobianRow& r) { return std::vector<bool>(r.is_known.begin(), r.is_known.end()); });
    py::class_<Access>(m, "Access")
        .def_readonly("jacobian", &Access::jacobian)
        .def_readonly("count", &Access::count)
        .def_readonly("offset_span", &Access::offset_span)
        .def_readonly("distinct_offsets", &Access::distinct_offsets)
        .def_property_readonly("offsets",
                               [](const Access& access) {
                                   std::vector<std::vector<int32_t>> offsets;
                                   for (const Offset& offset : access.offsets) {
                                       const auto end = offset.begin() + static_cast<ptrdiff_t>(access.jacobian.size());
                                       offsets.emplace_back(offset.begin(), end);
                                   }
                                   return offsets;
                               })
        .def_readonly("bounds", &Access::bounds);
    py::class_<Edge>(m, "Edge")
        .def_readonly("producer", &Edge::producer)
        .def_readonly("bounds", &Edge::bounds)
        .def_readonly("accesses", &Edge::accesses)
        .def_readonly("calls", &Edge::calls)
        .def_readonly("added_share", &Edge::added_share);
    py::class_<LoopDim>(m, "LoopDim")
        .def_readonly("name", &LoopDim::name)
        .def_readonly("is_rvar", &LoopDim::is_rvar)
        .def_readonly("is_reduction", &LoopDim::is_reduction)
        .def_readonly("is_parallelizable", &LoopDim::is_parallelizable)
        .def_readonly("pure_dim", &LoopDim::pure_dim)
        .def_readonly("bounds", &LoopDim::bounds)
        .def_readonly("has_constant_extent", &LoopDim::has_constant_extent);
    py::class_<metol::SharedOps>(m, "SharedOps", "Operations of a Stage that move with the same loops.")
        .def_readonly("loops", &metol::SharedOps::loops)
        .def_readonly("picked_by", &metol::SharedOps::picked_by)
        .def_readonly("ops", &metol::SharedOps::ops);
    py::class_<Stage>(m, "Stage")
        .def_readonly("func", &Stage::func)
        .def_readonly("index", &Stage::index)
        .def_readonly("loops", &Stage::loops)
        .def_readonly("op_histogram", &Stage::op_histogram)
        .def_readonly("edges", &Stage::edges)
        .def_readonly("self_accesses", &Stage::self_accesses)
        .def_readonly("stores", &Stage::stores)
        .def_readonly("narrowest_bytes", &Stage::narrowest_bytes)
        .def_readonly("widest_bytes", &Stage::widest_bytes)
        .def_readonly("expr_branching", &Stage::expr_branching)
        .def_readonly("unchanged_ops", &Stage::unchanged_ops)
        .def_readonly("shared_ops", &Stage::shared_ops)
        .def_property_readonly("picking_loops",
                               [](const Stage& stage) {
                                   return std::vector<bool>(stage.picking_loops.begin(), stage.picking_loops.end());
                               })
        .def_readonly("chained_cycles", &Stage::chained_cycles)
        .def_readonly("chained_ops", &Stage::chained_ops)
        .def_readonly("has_data_dependent_read", &Stage::has_data_dependent_read)
        .def_readonly("has_data_dependent_write", &Stage::has_data_dependent_write)
        .def_readonly("is_undef", &Stage::is_undef)
        .def_readonly("is_extern", &Stage::is_extern)
        .def_readonly("is_associative", &Stage::is_associative)
        .def_readonly("is_commutative", &Stage::is_commutative)
        .def_readonly("lane_bytes", &Stage::lane_bytes)
        .def_readonly("has_safe_identities", &Stage::has_safe_identities)
        .def_readonly("is_identity", &Stage::is_identity)
        .def_readonly("stepped_addresses", &Stage::stepped_addresses)
        .def_readonly("ends_in_product", &Stage::ends_in_product)
        .def_readonly("has_predicate", &Stage::has_predicate)
        .def_readonly("ends_by_point", &Stage::ends_by_point)
        .def_readonly("has_loading_condition", &Stage::has_loading_condition)
        .def_readonly("ends_by_place", &Stage::ends_by_place)
        .def_readonly("seams", &Stage::seams)
        .def_property_readonly("condition_loops",
                               [](const Stage& stage) {
                                   return std::vector<bool>(stage.condition_loops.begin(), stage.condition_loops.end());
                               })
        .def_property_readonly(
            "bare_loops",
            [](const Stage& stage) { return std::vector<bool>(stage.bare_loops.begin(), stage.bare_loops.end()); })
        .def_property_readonly("promised_loops",
                               [](const Stage& stage) {
                                   return std::vector<bool>(stage.promised_loops.begin(), stage.promised_loops.end());
                               })
        .def_readonly("is_unfit_for_opencl", &Stage::is_unfit_for_opencl);
    py::class_<Func>(m, "Func")
        .def_readonly("name", &Func::name)
        .def_readonly("args", &Func::args)
        .def_readonly("value_bytes", &Func::value_bytes)
        .def_readonly("is_input", &Func::is_input)
        .def_readonly("is_output", &Func::is_output)
        .def_readonly("is_extern", &Func::is_extern)
        .def_readonly("is_boundary_condition", &Func::is_boundary_condition)
        .def_readonly("origin", &Func::origin)
        .def_readonly("is_wrapper", &Func::is_wrapper)
        .def_readonly("joint", &Func::joint)
        .def_readonly("is_inlinable", &Func::is_inlinable)
        .def_readonly("must_inline", &Func::must_inline)
        .def_readonly("has_known_place", &Func::has_known_place)
        .def_readonly("is_size_read", &Func::is_size_read)
        .def_readonly("stages", &Func::stages)
        .def_readonly("computed", &Func::computed)
        .def_readonly("root_region", &Func::root_region)
        .def_readonly("fixed_dims", &Func::fixed_dims)
        .def_readonly("dense_dim", &Func::dense_dim)
        .def_readonly("row_dim", &Func::row_dim)
        .def_readonly("interleaved", &Func::interleaved)
        .def_readonly("estimate", &Func::estimate)
        .def_property_readonly("dimensions", &Func::dimensions)
        .def("is_taken_for_aligned", &Func::is_taken_for_aligned, py::kw_only(), py::arg("by_itself"))
        .def_property_readonly("bytes_per_point", &Func::bytes_per_point)
        .def("__repr__", [](const Func& f) { return "Func(" + f.name + ")"; });
    py::class_<ScalarParameter>(m, "ScalarParameter")
        .def_readonly("name", &ScalarParameter::name)
        .def_readonly("type", &ScalarParameter::type)
        .def_property_readonly("estimate", [](const ScalarParameter& p) {
            return p.has_estimate ? std::optional(p.estimate) : std::nullopt;
        });
    py::class_<PipelineDag, std::shared_ptr<PipelineDag>>(m, "PipelineDag")
        .def_readonly("funcs", &PipelineDag::funcs)
        .def_readonly("stages", &PipelineDag::stages)
        .def_readonly("outputs", &PipelineDag::outputs)
        .def_readonly("algorithm_hash", &PipelineDag::algorithm_hash)
        .def_readonly("estimates_hash", &PipelineDag::estimates_hash)
        .def_readonly("parameters", &PipelineDag::parameters)
        .def_readonly("real_func_count", &PipelineDag::real_func_count)
        .def("describe", &describe,
             "The DAG as text: Funcs with their regions at root, Stages, Edges with their bounds.")
        .def("__repr__", [](const PipelineDag& d) {
            return "PipelineDag(" + std::to_string(d.funcs.size()) + " Funcs, " + std::to_string(d.stages.size()) +
                   " Stages)";
        });
}

// What lowered code does with buffers of these (min, extent) a dimension, and these scalar parameters.
template <typename Answer>
auto with_buffers(Answer (metol::LoweredPipeline::*ask)(const metol::BufferRegions&,
                                                        const std::map<std::string, double>&) const) {
    return [ask](const metol::LoweredPipeline& lowered,
                 const std::map<std::string, std::vector<std::pair<int64_t, int64_t>>>& regions,
                 const std::map<std::string, double>& scalars) { return (lowered.*ask)(to_regions(regions), scalars); };
}

void bind_lowered(py::module_& m) {
    py::class_<metol::KernelLaunch>(m, "KernelLaunch", "How lowered code launches a kernel; None is not known.")
        .def_readonly("kernel", &metol::KernelLaunch::kernel)
        .def_readonly("func", &metol::KernelLaunch::func)
        .def_readonly("stage", &metol::KernelLaunch::stage)
        .def_readonly("blocks", &metol::KernelLaunch::blocks)
        .def_readonly("threads", &metol::KernelLaunch::threads)
        .def_readonly("shared_bytes", &metol::KernelLaunch::shared_bytes)
        .def_readonly("is_taken", &metol::KernelLaunch::is_taken);
    py::class_<metol::LoweredPipeline>(m, "LoweredPipeline")
        .def(py::init([](const py::object& pipeline, const std::string& target, bool has_partitions) {
                 return metol::LoweredPipeline(pipeline.ptr(), target, has_partitions);
             }),
             py::arg("pipeline"), py::arg("target"), py::arg("has_partitions") = false)
        .def("beyond", with_buffers(&metol::LoweredPipeline::beyond), py::arg("regions"), py::arg("scalars"),
             "An access outside of what it is to, with dense buffers of these (min, extent) a dimension; empty for "
             "none.")
        .def("unfit_load", &metol::LoweredPipeline::unfit_load,
             "What a load reads that Halide lowers, and then makes no code of; empty for none.")
        .def("device_code", &metol::LoweredPipeline::device_code,
             "The kernels as the compiler of the device gets them, which is PTX for CUDA; empty for none.")
        .def("launches", with_buffers(&metol::LoweredPipeline::launches), py::arg("regions"), py::arg("scalars"),
             "The kernels that are launched, if buffers were of these (min, extent) a dimension.")
        .def("required", with_buffers(&metol::LoweredPipeline::required), py::arg("regions"), py::arg("scalars"),
             "The region that each buffer must have, if buffers were of these (min, extent) a dimension.")
        .def("strides", with_buffers(&metol::LoweredPipeline::strides), py::arg("regions"), py::arg("scalars"),
             "Elements from one place to the next along each dimension of dense buffers of these (min, extent) a "
             "dimension, but for what the pipeline says.");
    m.def(
        "copy_pipeline",
        [](const py::object& source, const py::object& target) { metol::copy_pipeline(source.ptr(), target.ptr()); },
        py::arg("source"), py::arg("target"),
        "Make `target`, an empty hl.Pipeline, a copy of `source` with its schedule.");
    m.def(
        "restore_output_estimates", [](const py::object& pipeline) { metol::restore_output_estimates(pipeline.ptr()); },
        py::arg("pipeline"),
        "Give the buffers of outputs the estimates of their Funcs, where they have none, in place.");
}

void bind_pipeline(py::module_& m) {
    py::register_exception_translator(&translate_error);
    bind_bounds(m);
    bind_dag(m);
    py::class_<metol::Rfactor>(m, "Rfactor", "An update to be computed in two steps, as Halide's rfactor makes them.")
        .def(py::init([](int32_t func, int32_t update,
                         const std::vector<std::tuple<std::string, std::string, std::string, int32_t>>& splits,
                         std::vector<std::pair<std::string, std::string>> preserved) {
                 metol::Rfactor rfactor{func, update, {}, std::move(preserved)};
                 for (const auto& [old, outer, inner, factor] : splits) {
                     rfactor.splits.push_back({old, outer, inner, factor});
                 }
                 return rfactor;
             }),
             py::arg("func"), py::arg("update"), py::arg("splits"), py::arg("preserved"))
        .def_readonly("func", &metol::Rfactor::func)
        .def_readonly("update", &metol::Rfactor::update)
        .def_property_readonly("splits",
                               [](const metol::Rfactor& rfactor) {
                                   std::vector<std::tuple<std::string, std::string, std::string, int32_t>> splits;
                                   for (const metol::ReductionSplit& split : rfactor.splits) {
                                       splits.emplace_back(split.old, split.outer, split.inner, split.factor);
                                   }
                                   return splits;
                               })
        .def_readonly("preserved", &metol::Rfactor::preserved);
    py::class_<metol::Staging>(m, "Staging", "A Func to be copied for one of its consumers, as Halide's in() does it.")
        .def(py::init([](int32_t func, int32_t consumer) { return metol::Staging{func, consumer}; }), py::arg("func"),
             py::arg("consumer"))
        .def_readonly("func", &metol::Staging::func)
        .def_readonly("consumer", &metol::Staging::consumer);
    m.def(
        "extract",
        [](const py::object& pipeline, std::map<std::string, std::vector<std::pair<int64_t, int64_t>>> regions,
           std::map<std::string, double> scalars, const std::string& target, std::vector<metol::Rfactor> rfactors,
           std::vector<metol::Staging> stagings, std::vector<metol::Joint> joints) {
            return metol::extract(pipeline.ptr(), {to_regions(regions), std::move(scalars)}, target,
                                  {std::move(joints), std::move(rfactors), std::move(stagings)});
        },
        py::arg("pipeline"), py::kw_only(), py::arg("regions"), py::arg("scalars"), py::arg("target"),
        py::arg("rfactors") = std::vector<metol::Rfactor>{}, py::arg("stagings") = std::vector<metol::Staging>{},
        py::arg("joints") = std::vector<metol::Joint>{},
        "Read an hl.Pipeline or hl.Func; `regions` maps names to (min, extent) a dimension.");
    m.def(
        "strip_schedules",
        [](const py::object& pipeline, const std::vector<int>& kept) { metol::strip_schedules(pipeline.ptr(), kept); },
        py::arg("pipeline"), py::arg("kept") = std::vector<int>(),
        "Take every directive off the Funcs of the pipeline, in place, but for those at the positions `kept`.");
    m.def("reuse_device_allocations", &metol::reuse_device_allocations, py::arg("is_reused"),
          "Say whether Halide's runtime in this process keeps memory of a device that was given back.");
    m.def(
        "placements",
        [](const py::object& pipeline) {
            std::vector<std::pair<std::string, std::vector<std::string>>> found;
            for (const metol::ScheduledAt& placement : metol::placements(pipeline.ptr())) {
                const char* kinds[] = {"inline", "root", "at"};
                found.emplace_back(kinds[static_cast<int>(placement.kind)], placement.hosts);
            }
            return found;
        },
        py::arg("pipeline"), "Where the schedule of each Func puts it, and the Funcs whose loops it names.");
    bind_lowered(m);
    m.def(
        "constant_value", [](const py::object& expr) { return metol::constant_value(expr.ptr()); }, py::arg("expr"),
        "The number that an hl.Expr holds, None where it is not a constant.");
    m.def(
        "func_names", [](const py::object& pipeline) { return metol::func_names(pipeline.ptr()); }, py::arg("pipeline"),
        "Names of the Funcs in the order of Pipeline.get_func.");
    m.def("op_classes", [] {
        std::vector<std::pair<std::string, std::string>> classes;
        for (const metol::OpClassInfo& info : metol::op_classes()) {
            classes.emplace_back(info.name, info.meaning);
        }
        return classes;
    });
}

}  // namespace

PYBIND11_MODULE(_core, m) {
    m.doc() = "The C++ core of Metol.";
    bind_pipeline(m);
    bind_loop_nest(m);
    bind_targets(m);
    bind_cost(m);
    bind_search(m);
    bind_trees(m);
}
