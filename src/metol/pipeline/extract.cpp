// Reads a Halide pipeline into a PipelineDag.
//
// Enters: a Python object holding a Halide Pipeline or Func. Leaves: the DAG, or a PipelineError that names what is
// missing. Works Stage by Stage and never inlines a Func, so its time is linear in the size of the algorithm.
#include "extract.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

#include "bare_lanes.hpp"
#include "bounds.hpp"
#include "extern_stages.hpp"
#include "free_loops.hpp"
#include "halide_reader.hpp"
#include "identities.hpp"
#include "inlinable.hpp"
#include "joint_stages.hpp"
#include "reads_apart.hpp"
#include "stage_ops.hpp"
#include "symbolic_region.hpp"
#include "unbounded.hpp"

namespace metol {
namespace {

using Halide::Expr;
using hi::Call;

// One Func of Halide's order.
struct Source {
    hi::Function function;
    const Call* image = nullptr;  // the read that an input's wrapper makes
};

// The wrapper that Halide makes for an ImageParam or a generator's input: `inp_im(_0, _1) = inp(_0, _1)`.
const Call* image_of_wrapper(const hi::Function& function) {
    if (!function.has_pure_definition() || function.has_update_definition() || function.has_extern_definition()) {
        return nullptr;
    }
    const Call* call = function.is_wrapper();
    const bool is_image = call && call->call_type == Call::Image && call->param.defined();
    return is_image && without_suffixes(function.name()) == without_suffixes(call->name) + "_im" ? call : nullptr;
}

void check_defined(const hi::Function& function) {
    const std::string name = without_suffixes(function.name());
    if (!function.has_pure_definition() && !function.has_extern_definition()) {
        throw PipelineError(PipelineError::Kind::Undefined,
                            "Func `" + name + "` has no definition; define it, as in " + name + "[x, y] = ...");
    }
}

uint64_t hash_bytes(const std::string& bytes, uint64_t hash = 0xcbf29ce484222325u) {
    for (const char byte : bytes) {  // FNV-1a
        hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3u;
    }
    // The finaliser of MurmurHash3: FNV alone mixes the last bytes poorly.
    hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdu;
    hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53u;
    return hash ^ (hash >> 33);
}

class Extraction {
  public:
    Extraction(RewrittenPipeline pipeline, const UserEstimates& user, bool is_strict)
        : rewritten_(std::move(pipeline)),
          estimates_(user),
          is_strict_(is_strict),
          dag_(std::make_shared<PipelineDag>()) {}

    std::shared_ptr<PipelineDag> run() {
        for (const hi::Function& output : rewritten_.outputs) {
            check_defined(output);
        }
        env_ = hi::build_environment(rewritten_.outputs);
        order_ = hi::topological_order(rewritten_.outputs, env_);
        list_funcs();
        list_images();
        mark_outputs();
        estimates_.check_all_used(known_names());
        value_bounds_ = hi::compute_function_value_bounds(order_, env_);
        for (size_t f = 0; f < sources_.size(); f++) {
            if (sources_[f].function.has_extern_definition()) {
                const auto id = static_cast<int32_t>(f);
                signature_ += read_extern_stage(sources_[f].function, id, {ids_, estimates_, *dag_});
            } else if (!dag_->funcs[f].is_input) {
                read_func(static_cast<int32_t>(f));
            }
        }
        mark_sizes_read(estimates_.sizes_read(), ids_, dag_->funcs);
        propagate_root_regions(*dag_);
        inline_unbounded(*dag_, unbounded_reads_, [&](int32_t reader, int32_t producer) {
            const std::string& name = dag_->funcs[static_cast<size_t>(producer)].name;
            return first_call_text(sources_[static_cast<size_t>(reader)].function.values(), name, ids_);
        });
        mark_inlinable(*dag_, conditional_reads_, find_idle_calls(env_));
        find_bare_lanes(*dag_);
        hash_algorithm();
        return dag_;
    }

  private:
    void list_funcs() {
        for (const std::string& name : order_) {
            const hi::Function& function = env_.at(name);
            check_defined(function);
            const auto id = static_cast<int32_t>(dag_->funcs.size());
            Func func;
            func.name = name;
            func.args = function.args();
            const Origin origin = rewritten_.origins.empty() ? Origin{id, false, {}} : rewritten_.origins.at(name);
            func.origin = origin.number;
            func.is_wrapper = origin.is_wrapper;
            func.joint = origin.joint;
            for (const Halide::Type& type : function.output_types()) {
                func.value_bytes.push_back(type.bytes());
            }
            const Call* image = image_of_wrapper(function);
            func.is_input = image != nullptr;
            if (image) {
                func.estimate = estimates_.of_input(image->param);
                Estimates::read_layout(image->param, func);
                ids_.add(image->name, id);
                ids_.show_as(name, image->name);
                input_names_.push_back(image->name);
            }
            func.computed = finish(identity_region(func.dimensions()), name);
            ids_.add(name, id);
            sources_.push_back({function, image});
            dag_->funcs.push_back(std::move(func));
        }
        dag_->real_func_count = static_cast<int32_t>(dag_->funcs.size());
    }

    void list_images() {
        std::map<std::string, ImageRead> images;
        for (const Source& source : sources_) {
            images.merge(images_read(source.function));
        }
        for (const auto& [name, image] : images) {
            input_names_.push_back(name);
            if (ids_.find(name)) {
                continue;
            }
            Func func;
            func.name = name;
            for (int32_t d = 0; d < image.dimensions; d++) {
                func.args.push_back("_" + std::to_string(d));
            }
            func.value_bytes = {image.type.bytes()};
            func.is_input = true;
            func.is_size_read = !image.param.defined();  // no other than it has
            func.estimate = image.param.defined() ? estimates_.of_input(image.param) : Estimates::of_image(image.image);
            Estimates::read_layout(image.param, func);
            func.computed = finish(identity_region(func.dimensions()), name);
            func.origin = static_cast<int32_t>(dag_->funcs.size());
            ids_.add(name, static_cast<int32_t>(dag_->funcs.size()));
            dag_->funcs.push_back(std::move(func));
        }
    }

    void mark_outputs() {
        for (const hi::Function& output : rewritten_.outputs) {
            const int32_t id = *ids_.find(output.name());
            Func& func = dag_->funcs[static_cast<size_t>(id)];
            func.is_output = true;
            func.estimate = estimates_.of_output(output);
            for (const Halide::Parameter& param : output.output_buffers()) {
                for (int d = 0; d < param.dimensions(); d++) {
                    // An extent, too: from those of several dimensions Halide concludes where rows begin.
                    const bool is_told = param.min_constraint(d).defined() || param.extent_constraint(d).defined();
                    func.has_known_place = func.has_known_place || is_told;
                }
                Estimates::read_layout(param, func);
            }
            dag_->outputs.push_back(id);
        }
    }

    std::vector<std::string> known_names() {
        class ParameterFinder : public hi::IRGraphVisitor {
          public:
            using hi::IRGraphVisitor::visit;
            void visit(const hi::Variable* op) override {
                if (op->param.defined() && !op->param.is_buffer()) {
                    variables.insert({op->name, op});
                }
            }
            std::map<std::string, const hi::Variable*> variables;
        } finder;
        for (const Source& source : sources_) {
            source.function.accept(&finder);
        }
        std::vector<std::string> names = input_names_;
        for (const auto& outputs : {rewritten_.outputs, rewritten_.joined}) {
            for (const hi::Function& output : outputs) {
                names.push_back(output.name());
            }
        }
        for (const Source& source : sources_) {
            for (const hi::Function& read : funcs_read_by_extern(source.function)) {
                names.push_back(read.name());
            }
        }
        for (const auto& [name, variable] : finder.variables) {
            names.push_back(name);
            estimates_.value(*variable);
        }
        return names;
    }

    // What one definition needs and writes, over its own loops.
    struct StageRegions {
        SymbolicRegion self_read;  // empty if it reads nothing of its own Func
        SymbolicRegion written;
        SymbolicRegion reduction;  // intervals of the RVars, in the order of the loops
    };

    static std::string describe(const hi::Function& function, int32_t index) {
        const std::string name = "Func `" + without_suffixes(function.name()) + "`";
        return index == 0 ? name : "Update " + std::to_string(index - 1) + " of " + name;
    }

    // RVars innermost, then the pure Vars that the left-hand side keeps, as Halide orders an unscheduled definition.
    static std::vector<LoopDim> list_loops(const hi::Function& function, const hi::Definition& definition) {
        std::vector<LoopDim> loops;
        for (const hi::ReductionVariable& rvar : definition.schedule().rvars()) {
            LoopDim loop;
            loop.name = rvar.var;
            loop.is_rvar = true;
            loop.is_reduction = true;  // until `free_loops` is done
            loop.is_parallelizable = hi::can_parallelize_rvar(rvar.var, function.name(), definition);
            loop.has_constant_extent = hi::is_const(hi::simplify(rvar.extent));
            loops.push_back(loop);
        }
        for (const std::string& arg : pure_args(function, definition)) {
            LoopDim loop;
            loop.name = arg;
            loop.pure_dim = static_cast<int32_t>(std::find(function.args().begin(), function.args().end(), arg) -
                                                 function.args().begin());
            loops.push_back(loop);
        }
        return loops;
    }

    void read_func(int32_t id) {
        const hi::Function& function = sources_[static_cast<size_t>(id)].function;
        const auto stage_count = static_cast<int32_t>(function.updates().size()) + 1;
        const auto first = static_cast<int32_t>(dag_->stages.size());
        signature_ += "func " + std::to_string(function.dimensions());
        for (const Halide::Type& type : function.output_types()) {
            signature_ += " " + std::to_string(type.code()) + ":" + std::to_string(type.bits());
        }
        const std::vector<Stage> parts = read_parts(id);
        std::vector<StageRegions> regions;
        for (int32_t index = 0; index < stage_count; index++) {
            dag_->funcs[static_cast<size_t>(id)].stages.push_back(first + index);
            dag_->stages.push_back(read_stage(function, id, index, regions));
        }
        if (!parts.empty()) {
            add_up(parts, dag_->stages.back());
        }
        // What a Stage computes must cover what later Stages read of it: from the last Stage to the first.
        SymbolicRegion computed = identity_region(function.dimensions()), written;
        for (int32_t index = stage_count; index-- > 0;) {
            Stage& stage = dag_->stages[static_cast<size_t>(first + index)];
            const StageRegions& own = regions[static_cast<size_t>(index)];
            const SymbolicRegion loops = bound_loops(stage, computed, own.reduction);
            for (size_t i = 0; i < loops.size(); i++) {
                stage.loops[i].bounds = finish(loops[i], describe(function, index));
            }
            free_loops(stage);
            stage.lane_bytes = std::ranges::any_of(stage.loops, &LoopDim::is_reduction) ? stage.lane_bytes : 0;
            stage.written = index == 0 ? std::vector<BoundPair>{} : finish(own.written, function.name());
            const SymbolicRegion writes = substitute(own.written, loops);
            written = written.empty() ? writes : unite(written, writes);
            computed = unite(computed, substitute(own.self_read, loops));
        }
        dag_->funcs[static_cast<size_t>(id)].computed = finish(unite(computed, written), function.name());
    }

    static SymbolicRegion bound_loops(const Stage& stage, const SymbolicRegion& computed,
                                      const SymbolicRegion& reduction) {
        SymbolicRegion loops;
        for (size_t i = 0; i < stage.loops.size(); i++) {
            const LoopDim& loop = stage.loops[i];
            loops.push_back(loop.is_rvar ? reduction[i] : computed[static_cast<size_t>(loop.pure_dim)]);
        }
        return loops;
    }

    // The Stages of outputs that are one Func, each by itself; they go by the id that its Stage will have.
    std::vector<Stage> read_parts(int32_t id) {
        std::vector<Stage> parts;
        for (const hi::Function& output : rewritten_.joined) {
            const Func& func = dag_->funcs[static_cast<size_t>(id)];
            if (std::ranges::count(func.joint, rewritten_.origins.at(output.name()).number) > 0) {
                std::vector<StageRegions> regions;
                parts.push_back(read_stage(output, id, 0, regions));
            }
        }
        return parts;
    }

    Stage read_stage(const hi::Function& function, int32_t id, int32_t index, std::vector<StageRegions>& regions) {
        const hi::Definition& definition = index == 0 ? function.definition() : function.update(index - 1);
        Stage stage;
        stage.func = id;
        stage.index = index;
        stage.loops = list_loops(function, definition);
        std::vector<std::string> names;
        for (const LoopDim& loop : stage.loops) {
            names.push_back(loop.name);
        }
        ExprGraph graph(static_cast<int32_t>(names.size()));
        ExprReader reader(graph, names, ids_, estimates_);
        read_expressions(definition, graph, reader, stage);
        if (index == 0) {
            dag_->funcs[static_cast<size_t>(id)].is_boundary_condition =
                is_pure_boundary(function, definition, reader, graph);
        } else {
            const Associativity found = associativity_of(function, definition, env_, is_strict_);
            stage.is_associative = found.is_proven;
            stage.is_commutative = found.is_commutative;
            stage.has_safe_identities = found.has_safe_identities;
            stage.lane_bytes = stage.has_data_dependent_write || stage.has_predicate ? 0 : found.lane_bytes;
        }
        RegionReader region_reader(describe(function, index), names, ids_, estimates_, value_bounds_);
        regions.push_back(read_regions(definition, region_reader, stage));
        RegionReader free_reader(describe(function, index), names, ids_, estimates_, value_bounds_);
        find_held_reads(guarded_by_conditions(definition), definition.predicate(), free_reader, stage);
        tell_reads_apart(expressions_of(definition), dag_->funcs, {graph, reader, region_reader}, stage);
        const auto& reads = region_reader.unbounded_reads();
        unbounded_reads_.insert(unbounded_reads_.end(), reads.begin(), reads.end());
        std::ranges::move(conditional_reads(static_cast<int32_t>(dag_->stages.size()), expressions_of(definition),
                                            definition.predicate(), region_reader),
                          std::back_inserter(conditional_reads_));
        return stage;
    }

    static bool is_pure_boundary(const hi::Function& function, const hi::Definition& definition, ExprReader& reader,
                                 const ExprGraph& graph) {
        std::vector<int32_t> values;
        for (const Expr& value : definition.values()) {
            values.push_back(reader.read(value));
        }
        return !function.has_update_definition() && is_boundary_condition(graph, values);
    }

    // What a definition evaluates where its conditions hold: its values, and where they go.
    static std::vector<Expr> guarded_by_conditions(const hi::Definition& definition) {
        std::vector<Expr> exprs = definition.values();
        exprs.insert(exprs.end(), definition.args().begin(), definition.args().end());
        return exprs;
    }

    // All that it evaluates, its conditions, too.
    static std::vector<Expr> expressions_of(const hi::Definition& definition) {
        std::vector<Expr> exprs = guarded_by_conditions(definition);
        const std::vector<Expr> conditions = definition.split_predicate();
        exprs.insert(exprs.end(), conditions.begin(), conditions.end());
        return exprs;
    }

    void read_expressions(const hi::Definition& definition, ExprGraph& graph, ExprReader& reader, Stage& stage) {
        StageRoots roots;
        for (const Expr& arg : definition.args()) {
            roots.coordinates.push_back(reader.read(arg));
        }
        for (const Expr& value : definition.values()) {
            roots.values.push_back(reader.read(value));
        }
        for (const Expr& condition : definition.split_predicate()) {
            roots.conditions.push_back(reader.read(condition));
            stage.ends_by_point = stage.ends_by_point || std::ranges::any_of(stage.loops, [&](const LoopDim& loop) {
                                      return !loop.is_rvar && hi::expr_uses_var(condition, loop.name);
                                  });
        }
        roots.promised = reader.promised();
        stage.has_predicate = !roots.conditions.empty();
        describe_stage(graph, roots, stage);
        const std::map<int32_t, int64_t> calls = reader.count_calls(expressions_of(definition));
        for (Edge& edge : stage.edges) {
            edge.calls = static_cast<int32_t>(calls.at(edge.producer));
        }
        signature_ += "\nstage " + std::to_string(stage.loops.size());
        for (const hi::ReductionVariable& rvar : definition.schedule().rvars()) {
            signature_ += " r" + std::to_string(reader.read(rvar.min)) + "+" + std::to_string(reader.read(rvar.extent));
        }
        for (const auto* group : {&roots.coordinates, &roots.values, &roots.conditions}) {
            signature_ += " |";
            for (int32_t root : *group) {
                signature_ += " " + std::to_string(root);
            }
        }
        signature_ += "\n" + graph.signature();
    }

    StageRegions read_regions(const hi::Definition& definition, RegionReader& reader, Stage& stage) {
        StageRegions result;
        std::vector<Expr> unguarded, guarded = definition.values();
        for (const hi::ReductionVariable& rvar : definition.schedule().rvars()) {
            const std::string what = "has an RVar `" + rvar.var + "`";
            result.reduction.push_back(
                {reader.range(rvar.min, what).min, reader.range(rvar.min + rvar.extent - 1, what).max});
            unguarded.push_back(rvar.min);
            unguarded.push_back(rvar.extent);
        }
        for (size_t d = 0; d < definition.args().size(); d++) {
            const std::string what = "writes dimension " + std::to_string(d) + " at a coordinate";
            result.written.push_back(reader.range(definition.args()[d], what));
            guarded.push_back(definition.args()[d]);
        }
        for (const Expr& condition : definition.split_predicate()) {
            unguarded.push_back(condition);
        }
        std::map<int32_t, SymbolicRegion> read = reader.regions(guarded, definition.predicate());
        for (const auto& [producer, region] : reader.regions(unguarded, {})) {
            const auto [it, is_new] = read.emplace(producer, region);
            it->second = is_new ? it->second : unite(it->second, region);
        }
        if (const auto it = read.find(stage.func); it != read.end()) {
            result.self_read = it->second;
        }
        for (Edge& edge : stage.edges) {
            const Func& producer = dag_->funcs[static_cast<size_t>(edge.producer)];
            SymbolicRegion region = read[edge.producer];
            if (region.size() != producer.args.size()) {
                region = reader.region_of_calls(guarded, producer.name);  // Halide found that the call is never made
            }
            edge.bounds = finish(region, producer.name);
        }
        return result;
    }

    void hash_algorithm() {
        signature_ += "outputs";
        for (int32_t output : dag_->outputs) {
            signature_ += " " + std::to_string(output);
        }
        for (const Func& func : dag_->funcs) {
            if (func.is_input) {
                signature_ +=
                    "\ninput " + std::to_string(func.dimensions()) + " " + std::to_string(func.value_bytes[0]);
            }
        }
        dag_->algorithm_hash = hash_bytes(signature_);
        std::string text;
        for (const Func& func : dag_->funcs) {
            for (const Interval& interval : func.estimate) {
                text += std::to_string(interval.min) + ":" + std::to_string(interval.max) + " ";
            }
            text += "\n";
        }
        for (const auto& [name, scalar] : estimates_.scalars()) {
            dag_->parameters.push_back(scalar);
            text += name + "=" + std::to_string(std::bit_cast<uint64_t>(scalar.estimate)) + "\n";
        }
        dag_->estimates_hash = hash_bytes(text);
    }

    RewrittenPipeline rewritten_;
    Estimates estimates_;
    bool is_strict_;
    std::shared_ptr<PipelineDag> dag_;
    std::map<std::string, hi::Function> env_;
    std::vector<std::string> order_;
    std::vector<Source> sources_;  // [real Funcs]
    std::vector<std::string> input_names_;
    FuncIds ids_;
    hi::FuncValueBounds value_bounds_;
    std::vector<UnboundedRead> unbounded_reads_;
    std::vector<ConditionalRead> conditional_reads_;
    std::string signature_;  // of the algorithm, to be hashed
};

}  // namespace

std::shared_ptr<PipelineDag> extract(PyObject* pipeline, const UserEstimates& estimates, const std::string& target,
                                     const Rewrites& rewrites) {
    if (!target.empty() && !Halide::Target::validate_target_string(target)) {
        throw PipelineError(PipelineError::Kind::UnsupportedTarget,
                            "`" + target + "` is no Halide target; write for example host, or x86-64-linux-avx2.");
    }
    return translate_halide_errors([&] {
        const Halide::Pipeline given = to_pipeline(pipeline);
        const auto read = rewrites.empty() ? RewrittenPipeline{outputs_of(given), {}, {}} : rewrite(given, rewrites);
        return Extraction(read, estimates, has_strict_floats(target)).run();
    });
}

}  // namespace metol
