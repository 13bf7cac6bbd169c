// Extern stages, and the images that Functions of any kind read.
#include "extern_stages.hpp"

#include "stage_ops.hpp"

namespace metol {
namespace {

using hi::Call;

// Operations that stand for the unknown work of an external function on one point.
constexpr float kOperationsPerPoint = 16;

class ImageFinder : public hi::IRGraphVisitor {
  public:
    using hi::IRGraphVisitor::visit;
    void visit(const Call* op) override {
        if (op->call_type == Call::Image) {
            const auto dimensions = static_cast<int32_t>(op->args.size());
            images.emplace(op->name, ImageRead{dimensions, op->type, op->param, op->image});
        }
        hi::IRGraphVisitor::visit(op);
    }
    std::map<std::string, ImageRead> images;
};

std::vector<BoundPair> constant_region(const std::vector<Interval>& intervals) {
    std::vector<BoundPair> region;
    for (const Interval& interval : intervals) {
        region.push_back({{interval.min, {}, {}}, {interval.max, {}, {}}});
    }
    return region;
}

std::vector<BoundPair> region_written(const Func& func) {
    std::vector<BoundPair> region;
    for (int32_t d = 0; d < func.dimensions(); d++) {
        region.push_back({{0, {{d, false, 1}}, {}}, {0, {{d, true, 1}}, {}}});
    }
    return region;
}

Access access_along_loops(int32_t dimensions, size_t loops, bool is_known) {
    Access access;
    access.offset_span.assign(static_cast<size_t>(dimensions), 0);
    access.distinct_offsets.assign(static_cast<size_t>(dimensions), 1);
    for (int32_t d = 0; d < dimensions; d++) {
        JacobianRow row;
        for (size_t i = 0; i < loops; i++) {
            row.numerator.push_back(static_cast<size_t>(d) == i ? 1 : 0);
        }
        row.denominator.assign(loops, 1);
        row.is_known.assign(loops, is_known ? 1 : 0);
        row.has_phase.assign(loops, 0);
        row.has_float.assign(loops, 0);
        access.jacobian.push_back(row);
    }
    return access;
}

// What one argument is read at: where the user says, all of an image, or where the stage itself writes.
Edge read_argument(const Halide::ExternFuncArgument& argument, const hi::Function& function, int32_t id,
                   const ExternContext& context) {
    const Func& own = context.dag.funcs[static_cast<size_t>(id)];
    const std::string name = argument.is_func()          ? hi::Function(argument.func).name()
                             : argument.is_image_param() ? argument.image_param.name()
                                                         : argument.buffer.name();
    Edge edge;
    edge.producer = *context.ids.find(name);
    edge.calls = 1;
    const Func& producer = context.dag.funcs[static_cast<size_t>(edge.producer)];
    std::vector<Interval> region = producer.estimate;
    if (argument.is_func() && region.empty()) {
        region = context.estimates.of_extern_input(hi::Function(argument.func));
    }
    const bool is_alike = producer.dimensions() == own.dimensions();
    if (region.empty() && !is_alike) {
        const std::string shown = without_suffixes(producer.name);
        throw PipelineError(PipelineError::Kind::MissingEstimate,
                            "Func `" + shown + "` is read by the external function `" +
                                function.extern_function_name() + "`, and how much of it is not known" +
                                ways_to_estimate(shown));
    }
    edge.bounds = region.empty() ? region_written(own) : constant_region(region);
    edge.accesses = {access_along_loops(producer.dimensions(), own.args.size(), is_alike)};
    return edge;
}

}  // namespace

std::map<std::string, ImageRead> images_read(const hi::Function& function) {
    ImageFinder finder;
    function.accept(&finder);
    for (const Halide::ExternFuncArgument& argument : function.extern_arguments()) {
        if (argument.is_image_param()) {
            const Halide::Parameter& param = argument.image_param;
            finder.images.emplace(param.name(), ImageRead{param.dimensions(), param.type(), param, {}});
        } else if (argument.is_buffer()) {
            const Halide::Buffer<>& image = argument.buffer;
            finder.images.emplace(image.name(), ImageRead{image.dimensions(), image.type(), {}, image});
        }
    }
    return finder.images;
}

std::vector<hi::Function> funcs_read_by_extern(const hi::Function& function) {
    std::vector<hi::Function> funcs;
    for (const Halide::ExternFuncArgument& argument : function.extern_arguments()) {
        if (argument.is_func()) {
            funcs.emplace_back(argument.func);
        }
    }
    return funcs;
}

std::string read_extern_stage(const hi::Function& function, int32_t id, const ExternContext& context) {
    Func& func = context.dag.funcs[static_cast<size_t>(id)];
    Stage stage;
    stage.func = id;
    stage.is_extern = true;
    const std::vector<BoundPair> written = region_written(func);
    for (int32_t d = 0; d < func.dimensions(); d++) {
        LoopDim loop;
        loop.name = func.args[static_cast<size_t>(d)];
        loop.pure_dim = d;
        loop.bounds = written[static_cast<size_t>(d)];
        stage.loops.push_back(loop);
    }
    stage.op_histogram.assign(kOpClassCount, 0);
    stage.unchanged_ops = stage.op_histogram;
    stage.op_histogram[static_cast<size_t>(OpClass::ExternCall)] = kOperationsPerPoint;
    stage.promised_loops.assign(stage.loops.size(), 0);
    stage.picking_loops.assign(stage.loops.size(), 0);
    stage.stores = {access_along_loops(func.dimensions(), stage.loops.size(), true)};
    std::string signature = "\nextern " + function.extern_function_name();
    ExprGraph graph(0);
    ExprReader reader(graph, {}, context.ids, context.estimates);
    std::map<int32_t, Edge> edges;
    for (const Halide::ExternFuncArgument& argument : function.extern_arguments()) {
        if (argument.is_expr()) {
            signature += " " + std::to_string(reader.read(argument.expr));
        } else {
            const Edge edge = read_argument(argument, function, id, context);
            edges.emplace(edge.producer, edge);
        }
    }
    for (const auto& [producer, edge] : edges) {
        stage.edges.push_back(edge);
        signature += " " + std::to_string(producer);
    }
    stage.narrowest_bytes = stage.widest_bytes = func.value_bytes[0];
    for (const int32_t bytes : func.value_bytes) {
        stage.narrowest_bytes = std::min(stage.narrowest_bytes, bytes);
        stage.widest_bytes = std::max(stage.widest_bytes, bytes);
    }
    func.is_extern = true;
    func.stages = {static_cast<int32_t>(context.dag.stages.size())};
    context.dag.stages.push_back(stage);
    return signature + "\n" + graph.signature();
}

}  // namespace metol
