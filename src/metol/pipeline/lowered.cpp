#include "pipeline/lowered.hpp"

#include "halide_reader.hpp"
#include "launch_reader.hpp"
#include "walk.hpp"

namespace metol {

struct LoweredPipeline::Code {
    hi::Stmt body;
    hi::Stmt whole;                   // before parallel loops become functions of their own, and kernels device code
    std::vector<hi::Stmt> functions;  // the body, and those of parallel loops
    std::vector<hi::Function> funcs;
    std::string device_code;
};

namespace {

using Halide::Expr;

// Name of the lowered function; Halide tells it from the closures of parallel loops by this.
constexpr const char* kFunction = "metol_lowered";
constexpr const char* kBuffer = ".buffer";

bool ends_with(const std::string& text, const std::string& end) {
    return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// "inp.buffer" -> "inp"; nothing for any other expression.
std::optional<std::string> buffer_name(const Expr& expr) {
    const auto* variable = expr.as<hi::Variable>();
    if (!variable || !ends_with(variable->name, kBuffer)) {
        return std::nullopt;
    }
    return variable->name.substr(0, variable->name.size() - std::string(kBuffer).size());
}

// Looks for a call by the name of what is called.
class CallFinder : public hi::IRVisitor {
  public:
    explicit CallFinder(std::string name) : name_(std::move(name)) {}
    bool is_found = false;

  private:
    using hi::IRVisitor::visit;
    void visit(const hi::Call* op) override {
        is_found = is_found || op->name == name_;
        hi::IRVisitor::visit(op);
    }
    std::string name_;
};

bool calls(const Expr& expr, const std::string& name) {
    CallFinder finder(name);
    expr.accept(&finder);
    return finder.is_found;
}

// Puts numbers in place of what the caller knows: sizes of buffers, parameters, variables bound before.
class Resolver : public hi::IRMutator {
  public:
    Resolver(const BufferRegions& regions, const std::map<std::string, double>& scalars)
        : regions_(regions), scalars_(scalars) {}

    Expr resolve(const Expr& expr) { return hi::simplify(hi::remove_promises(mutate(expr))); }
    void bind(const std::string& name, const Expr& value) {
        const Expr resolved = resolve(value);
        if (hi::is_const(resolved)) {
            known_[name] = resolved;
        }
    }

  private:
    using hi::IRMutator::visit;

    Expr visit(const hi::Variable* op) override {
        if (const auto it = known_.find(op->name); it != known_.end()) {
            return it->second;
        }
        if (const auto it = scalars_.find(op->name); it != scalars_.end()) {
            return hi::make_const(op->type, it->second);
        }
        return op;
    }

    Expr visit(const hi::Call* op) override {
        if (hi::Call::as_tag(op)) {
            return mutate(op->args[0]);
        }
        const bool is_min = op->name == hi::Call::buffer_get_min;
        const bool is_max = op->name == hi::Call::buffer_get_max;
        if (!is_min && !is_max && op->name != hi::Call::buffer_get_extent) {
            return hi::IRMutator::visit(op);
        }
        const auto name = buffer_name(op->args[0]);
        const auto region = name ? regions_.find(*name) : regions_.end();
        const auto dimension = hi::as_const_int(op->args[1]);
        if (region == regions_.end() || !dimension || *dimension >= static_cast<int64_t>(region->second.size())) {
            return op;
        }
        const Interval& side = region->second[static_cast<size_t>(*dimension)];
        return hi::make_const(op->type, is_min ? side.min : is_max ? side.max : side.extent());
    }

    const BufferRegions& regions_;
    const std::map<std::string, double>& scalars_;
    std::map<std::string, Expr> known_;
};

// Walks the head of the lowered code as a bounds query would, and notes what each buffer is set to. Where a pipeline
// says where a buffer begins, Halide's answer begins there but is as long as what is needed: what is asserted of a
// buffer when the code runs tells that, too.
class BoundsQuery : public hi::IRVisitor {
  public:
    BoundsQuery(const BufferRegions& regions, const std::map<std::string, double>& scalars)
        : resolver_(regions, scalars) {}
    RequiredRegions required;
    std::map<std::string, std::vector<std::optional<int64_t>>> strides;
    std::map<std::string, std::vector<std::pair<size_t, Interval>>> touched;  // dimensions, and places along them

  private:
    using hi::IRVisitor::visit;

    void visit(const hi::LetStmt* op) override {
        resolver_.bind(op->name, op->value);
        op->body.accept(this);
    }

    void visit(const hi::Let* op) override {
        resolver_.bind(op->name, op->value);
        op->body.accept(this);
    }

    // What is done for a query alone, `if (is_bounds_query(b))`; the pipeline itself is behind `if (!is_bounds_query)`.
    void visit(const hi::IfThenElse* op) override {
        if (calls(op->condition, hi::Call::buffer_is_bounds_query)) {
            const bool is_swapped = op->condition.as<hi::Not>() != nullptr;
            const hi::Stmt& query = is_swapped ? op->else_case : op->then_case;
            const hi::Stmt& run = is_swapped ? op->then_case : op->else_case;
            if (query.defined()) {
                query.accept(this);
            }
            if (run.defined()) {
                is_run_ = true;
                run.accept(this);
                is_run_ = false;
            }
        }
    }

    // halide_error_access_out_of_bounds("Input buffer a", dimension, first and last place, ...)
    void visit(const hi::AssertStmt* op) override {
        const auto* error = op->message.as<hi::Call>();
        if (!error || error->name != "halide_error_access_out_of_bounds") {
            return;
        }
        const auto* text = error->args[0].as<hi::StringImm>();
        const auto d = hi::as_const_int(error->args[1]);
        const auto first = hi::as_const_int(resolver_.resolve(error->args[2]));
        const auto last = hi::as_const_int(resolver_.resolve(error->args[3]));
        const auto found = text ? required.find(text->value.substr(text->value.rfind(' ') + 1)) : required.end();
        if (found != required.end() && d && first && last && static_cast<size_t>(*d) < found->second.size()) {
            touched[found->first].emplace_back(static_cast<size_t>(*d), Interval{*first, *last});
        }
    }

    void visit(const hi::Call* op) override {
        const auto name = op->name == hi::Call::buffer_init && !is_run_ ? buffer_name(op->args[0]) : std::nullopt;
        if (!name) {
            hi::IRVisitor::visit(op);
            return;
        }
        auto& sides = required[*name];
        auto& steps = strides[*name];
        sides.clear();
        steps.clear();
        for (const Expr& argument : op->args) {
            const auto* shape = argument.as<hi::Call>();
            if (shape && shape->is_intrinsic(hi::Call::make_struct)) {
                constexpr size_t kFields = 4;  // of halide_dimension_t: min, extent, stride, flags
                for (size_t i = 0; i + kFields <= shape->args.size(); i += kFields) {
                    sides.push_back(side(shape->args[i], shape->args[i + 1]));
                    steps.push_back(hi::as_const_int(resolver_.resolve(shape->args[i + 2])));
                }
            }
        }
    }

    std::optional<Interval> side(const Expr& min, const Expr& extent) {
        const auto low = hi::as_const_int(resolver_.resolve(min));
        const auto length = hi::as_const_int(resolver_.resolve(extent));
        if (!low || !length) {
            return std::nullopt;
        }
        return Interval{*low, *low + *length - 1};
    }

    // Past the head: nothing of interest.
    void visit(const hi::For*) override {}
    void visit(const hi::Allocate*) override {}
    void visit(const hi::ProducerConsumer*) override {}

    Resolver resolver_;
    bool is_run_ = false;
};

// The strides of buffers of these sizes: those that the pipeline says, and otherwise as close as they can be. Where it
// says nothing, a query is answered with those of planar rows of what is needed.
BufferStrides strides_of(const BufferRegions& regions, const BoundsQuery& query) {
    BufferStrides all;
    for (const auto& [name, sides] : regions) {
        const auto required = query.required.find(name);
        const auto found = query.strides.find(name);
        std::vector<int64_t>& strides = all[name];
        std::optional<int64_t> planar = 1;
        int64_t close = 1;
        for (size_t d = 0; d < sides.size(); d++) {
            const bool is_known = found != query.strides.end() && d < found->second.size();
            const std::optional<int64_t> answer = is_known ? found->second[d] : std::nullopt;
            strides.push_back(answer && planar && answer != planar ? *answer : close);
            close = std::abs(strides.back()) * sides[d].extent();
            const auto& needed = is_known ? required->second[d] : std::nullopt;
            planar = planar && needed ? std::optional(*planar * needed->extent()) : std::nullopt;
        }
    }
    return all;
}

Halide::Target checked_target(const std::string& text) {
    // Without these two, bounds are queried and checked whatever the user's code will do.
    return Halide::Target(text)
        .without_feature(Halide::Target::NoAsserts)
        .without_feature(Halide::Target::NoBoundsQuery);
}

// Keeps Halide from splitting off the ends of loops while it lowers a pipeline, where it is not told to. That
// multiplies code, comes after all bounds are known, and refuses nothing that Halide would do by itself.
class WithoutPartitions {
  public:
    explicit WithoutPartitions(const std::vector<hi::Function>& outputs) {
        for (const auto& [name, function] : hi::build_environment(outputs)) {
            hi::Function func = function;
            if (func.has_pure_definition()) {
                change(func.definition());
            }
            for (int update = 0; update < static_cast<int>(func.updates().size()); update++) {
                change(func.update(update));
            }
        }
    }
    ~WithoutPartitions() {
        for (hi::Dim* dim : changed_) {
            dim->partition_policy = Halide::Partition::Auto;
        }
    }
    WithoutPartitions(const WithoutPartitions&) = delete;
    WithoutPartitions& operator=(const WithoutPartitions&) = delete;

  private:
    void change(hi::Definition& definition) {
        for (hi::Dim& dim : definition.schedule().dims()) {
            if (dim.partition_policy == Halide::Partition::Auto) {
                dim.partition_policy = Halide::Partition::Never;
                changed_.push_back(&dim);
            }
        }
        for (hi::Specialization& branch : definition.specializations()) {
            change(branch.definition);
        }
    }

    std::vector<hi::Dim*> changed_;
};

// Lanes one below the other, of which some lie before the memory and are masked, at a place that is a constant: Halide
// 21 loads them from the last on, and its code generator stops where the place of that is negative.
class DescendingLanes : public hi::IRVisitor {
  public:
    std::string found;

  private:
    using hi::IRVisitor::visit;
    void visit(const hi::Load* op) override {
        if (const auto* ramp = op->index.as<hi::Ramp>()) {
            const auto first = hi::as_const_int(ramp->base);
            const auto step = hi::as_const_int(ramp->stride);
            if (first && step && *step == -1 && *first < ramp->lanes - 1) {
                found = op->name;
            }
        }
        hi::IRVisitor::visit(op);
    }
};

// The code of all kernels, as Halide hands it to the driver; nothing where there is no kernel.
std::string device_code_of(const Halide::Module& module) {
    const Halide::Buffer<> buffer = module.get_device_code_buffer();
    if (!buffer.defined()) {
        return "";
    }
    const std::string text(static_cast<const char*>(buffer.data()), buffer.size_in_bytes());
    return text.substr(0, text.find('\0'));
}

// The last pass of lowering: keeps the code as it is then.
class Keeper : public hi::IRMutator {
  public:
    using hi::IRMutator::mutate;
    hi::Stmt mutate(const hi::Stmt& code) override {
        kept = code;
        return code;
    }
    hi::Stmt kept;
};

}  // namespace

LoweredPipeline::LoweredPipeline(PyObject* object, const std::string& target, bool has_partitions) {
    code_ = translate_halide_errors([&] {
        Halide::Pipeline pipeline = to_pipeline(object);
        std::optional<WithoutPartitions> whole;
        if (!has_partitions) {
            whole.emplace(outputs_of(pipeline));
        }
        Keeper keeper;
        pipeline.add_custom_lowering_pass(&keeper, [] {});
        const auto arguments = pipeline.infer_arguments();
        try {
            const Halide::Module module = pipeline.compile_to_module(arguments, kFunction, checked_target(target));
            pipeline.clear_custom_lowering_passes();
            Code code{module.get_function_by_name(kFunction).body, keeper.kept, {}, {}, device_code_of(module)};
            for (const hi::LoweredFunc& function : module.functions()) {
                code.functions.push_back(function.body);
            }
            for (const auto& [name, function] : hi::build_environment(outputs_of(pipeline))) {
                code.funcs.push_back(function);
            }
            return std::make_shared<const Code>(std::move(code));
        } catch (...) {
            pipeline.clear_custom_lowering_passes();
            throw;
        }
    });
}

std::string LoweredPipeline::beyond(const BufferRegions& regions, const std::map<std::string, double>& scalars) const {
    BoundsQuery query(regions, scalars);
    code_->body.accept(&query);
    return access_beyond(code_->whole, regions, strides_of(regions, query), scalars);
}

BufferStrides LoweredPipeline::strides(const BufferRegions& regions,
                                       const std::map<std::string, double>& scalars) const {
    BoundsQuery query(regions, scalars);
    code_->body.accept(&query);
    return strides_of(regions, query);
}

std::string LoweredPipeline::unfit_load() const {
    DescendingLanes lanes;
    code_->whole.accept(&lanes);
    return lanes.found;
}

std::vector<KernelLaunch> LoweredPipeline::launches(const BufferRegions& regions,
                                                    const std::map<std::string, double>& scalars) const {
    return read_launches(code_->functions, code_->funcs, regions, scalars);
}

const std::string& LoweredPipeline::device_code() const {
    return code_->device_code;
}

RequiredRegions LoweredPipeline::required(const BufferRegions& regions,
                                          const std::map<std::string, double>& scalars) const {
    BoundsQuery query(regions, scalars);
    code_->body.accept(&query);
    for (const auto& [name, sides] : query.touched) {
        for (const auto& [d, side] : sides) {
            if (auto& all = query.required[name][d]) {
                all = Interval{std::min(all->min, side.min), std::max(all->max, side.max)};
            }
        }
    }
    return query.required;
}

}  // namespace metol
