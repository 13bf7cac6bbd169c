// Reaches the Halide pipeline inside a Python object, and takes its schedule off.
//
// Enters: a Python object holding a Halide Pipeline or Func. The wheel of Halide is built with an older pybind11, whose
// types ours cannot cast, so pointers travel through pybind11's conduit.
#include <pybind11/conduit/pybind11_conduit_v1.h>

#include <algorithm>

#include "halide_reader.hpp"

namespace metol {
namespace {

using Halide::Expr;

template <typename T>
T* as_halide(PyObject* object) {
    T* found = pybind11_conduit_v1::get_type_pointer_ephemeral<T>(object);
    PyErr_Clear();
    return found;
}

}  // namespace

Halide::Pipeline to_pipeline(PyObject* object) {
    if (const auto* pipeline = as_halide<Halide::Pipeline>(object)) {
        if (!pipeline->defined() || pipeline->outputs().empty()) {
            throw PipelineError(PipelineError::Kind::Undefined,
                                "The Pipeline has no output; build it with hl.Pipeline(output Func).");
        }
        return *pipeline;
    }
    if (const auto* func = as_halide<Halide::Func>(object)) {
        if (!func->defined()) {
            throw PipelineError(PipelineError::Kind::Undefined,
                                "Func `" + func->name() + "` has no definition; define it, as in f[x, y] = ...");
        }
        return Halide::Pipeline(*func);
    }
    throw PipelineError(
        PipelineError::Kind::Extraction,
        std::string("Expected an hl.Pipeline or an hl.Func, got an object of type ") + Py_TYPE(object)->tp_name + ".");
}

std::optional<std::variant<int64_t, uint64_t, double>> constant_value(PyObject* object) {
    const auto* expr = as_halide<Halide::Expr>(object);
    if (expr == nullptr || !expr->defined()) {
        return std::nullopt;
    }
    const Expr simple = hi::simplify(*expr);
    if (const auto value = hi::as_const_int(simple)) {
        return *value;
    }
    if (const auto value = hi::as_const_uint(simple)) {
        return *value;
    }
    if (const auto value = hi::as_const_float(simple)) {
        return *value;
    }
    return std::nullopt;
}

std::vector<hi::Function> outputs_of(const Halide::Pipeline& pipeline) {
    std::vector<hi::Function> outputs;
    for (const Halide::Func& func : pipeline.outputs()) {
        outputs.push_back(func.function());
    }
    return outputs;
}

namespace {

// Every Function that the pipeline reaches, through the wrappers of `in()` too.
void collect_functions(const hi::Function& function, std::map<std::string, hi::Function>& found) {
    if (!found.emplace(function.name(), function).second) {
        return;
    }
    for (const auto& [name, callee] : hi::find_direct_calls(function)) {
        collect_functions(callee, found);
    }
    for (const auto& [name, wrapper] : function.wrappers()) {
        collect_functions(hi::Function(wrapper), found);
    }
}

hi::Dim plain_dim(const std::string& name, hi::DimType type, hi::ForType kind = hi::ForType::Serial) {
    return {name, kind, Halide::DeviceAPI::None, type, Halide::Partition::Auto};
}

void strip_definition(const hi::Function& function, hi::Definition& definition) {
    definition.specializations().clear();
    hi::StageSchedule& schedule = definition.schedule();
    schedule.splits().clear();
    schedule.prefetches().clear();
    schedule.fuse_level() = Halide::FuseLoopLevel();
    schedule.fused_pairs().clear();
    schedule.touched() = false;
    schedule.allow_race_conditions() = false;
    schedule.atomic() = false;
    schedule.override_atomic_associativity_test() = false;
    std::vector<hi::Dim> dims;
    for (const hi::ReductionVariable& rvar : schedule.rvars()) {
        const bool is_pure = hi::can_parallelize_rvar(rvar.var, function.name(), definition);
        dims.push_back(plain_dim(rvar.var, is_pure ? hi::DimType::PureRVar : hi::DimType::ImpureRVar));
    }
    // The loops of an extern stage run inside of the function that it calls.
    const hi::ForType kind = function.has_extern_definition() ? hi::ForType::Extern : hi::ForType::Serial;
    for (const std::string& arg : pure_args(function, definition)) {
        dims.push_back(plain_dim(arg, hi::DimType::PureVar, kind));
    }
    dims.push_back(plain_dim(Halide::Var::outermost().name(), hi::DimType::PureVar));
    schedule.dims() = std::move(dims);
}

}  // namespace

void strip_function(hi::Function& function) {
    hi::FuncSchedule& schedule = function.schedule();
    schedule.compute_level() = Halide::LoopLevel::inlined();
    schedule.store_level() = Halide::LoopLevel::inlined();
    schedule.hoist_storage_level() = Halide::LoopLevel::inlined();
    schedule.storage_dims().clear();
    for (const std::string& arg : function.args()) {
        schedule.storage_dims().push_back({arg, {}, {}, {}, false});
    }
    schedule.bounds().clear();
    schedule.wrappers().clear();
    schedule.memory_type() = Halide::MemoryType::Auto;
    schedule.async() = false;
    schedule.memoized() = false;
    schedule.memoize_eviction_key() = Expr();
    schedule.ring_buffer() = Expr();
    strip_definition(function, function.definition());
    for (size_t i = 0; i < function.updates().size(); i++) {
        strip_definition(function, function.update(static_cast<int>(i)));
    }
}

std::vector<std::string> pure_args(const hi::Function& function, const hi::Definition& definition) {
    std::vector<std::string> names;
    for (size_t d = 0; d < definition.args().size(); d++) {
        const auto* variable = definition.args()[d].as<hi::Variable>();
        if (variable && !variable->param.defined() && !variable->reduction_domain.defined() &&
            variable->name == function.args()[d]) {
            names.push_back(variable->name);
        }
    }
    return names;
}

void reuse_device_allocations(bool is_reused) {
    Halide::Internal::JITSharedRuntime::reuse_device_allocations(is_reused);
}

void strip_schedules(PyObject* object, const std::vector<int>& kept) {
    const std::vector<std::string> names = kept.empty() ? std::vector<std::string>() : func_names(object);
    translate_halide_errors([&] {
        std::map<std::string, hi::Function> functions;
        for (const hi::Function& output : outputs_of(to_pipeline(object))) {
            collect_functions(output, functions);
        }
        for (int position : kept) {
            const auto kept_function = functions.find(names.at(static_cast<size_t>(position)));
            if (kept_function == functions.end()) {
                continue;
            }
            for (const auto& [consumer, wrapper] : kept_function->second.wrappers()) {
                functions.erase(hi::Function(wrapper).name());
            }
            functions.erase(names[static_cast<size_t>(position)]);
        }
        for (auto& [name, function] : functions) {
            if (function.has_pure_definition() || function.has_extern_definition()) {
                strip_function(function);
            }
        }
    });
}

namespace {

ScheduledAt placement_of(hi::Function function) {
    hi::FuncSchedule& schedule = function.schedule();
    const Halide::LoopLevel computed = schedule.compute_level().lock();
    ScheduledAt placement{ScheduledAt::Kind::At, {}};
    if (computed.is_inlined()) {
        placement.kind = ScheduledAt::Kind::Inline;
    } else if (computed.is_root()) {
        placement.kind = ScheduledAt::Kind::Root;
    }
    std::vector<Halide::LoopLevel> levels = {computed, schedule.store_level().lock(),
                                             schedule.hoist_storage_level().lock()};
    for (size_t stage = 0; stage <= function.updates().size() && function.has_pure_definition(); stage++) {
        hi::Definition& definition = stage == 0 ? function.definition() : function.update(static_cast<int>(stage) - 1);
        levels.push_back(definition.schedule().fuse_level().level.lock());
    }
    for (const Halide::LoopLevel& level : levels) {
        if (!level.is_inlined() && !level.is_root()) {
            placement.hosts.push_back(level.func());
        }
    }
    return placement;
}

}  // namespace

std::vector<ScheduledAt> placements(PyObject* object) {
    return translate_halide_errors([&] {
        const std::vector<hi::Function> outputs = outputs_of(to_pipeline(object));
        const std::map<std::string, hi::Function> functions = hi::build_environment(outputs);
        std::vector<ScheduledAt> found;
        for (const std::string& name : hi::topological_order(outputs, functions)) {
            found.push_back(placement_of(functions.at(name)));
            const auto is_this = [&](const hi::Function& output) { return output.name() == name; };
            if (found.back().kind == ScheduledAt::Kind::Inline && std::ranges::any_of(outputs, is_this)) {
                found.back().kind = ScheduledAt::Kind::Root;  // with no schedule that says so
            }
        }
        return found;
    });
}

std::vector<std::string> func_names(PyObject* object) {
    return translate_halide_errors([&] {
        const std::vector<hi::Function> outputs = outputs_of(to_pipeline(object));
        return hi::topological_order(outputs, hi::build_environment(outputs));
    });
}

void copy_pipeline(PyObject* source, PyObject* target) {
    auto* copy = as_halide<Halide::Pipeline>(target);
    if (!copy) {
        throw PipelineError(PipelineError::Kind::Extraction, "A pipeline can be copied to an hl.Pipeline only.");
    }
    translate_halide_errors([&] {
        const std::vector<hi::Function> outputs = outputs_of(to_pipeline(source));
        std::vector<Halide::Func> funcs;
        for (const hi::Function& function : hi::deep_copy(outputs, hi::build_environment(outputs)).first) {
            funcs.emplace_back(function);
        }
        *copy = Halide::Pipeline(funcs);
    });
}

}  // namespace metol
