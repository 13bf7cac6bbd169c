// The GPU target: a first, small space (targets/gpu/decisions.hpp), a small table of features, an analytical cost.
#include "targets/gpu/analytical.hpp"
#include "targets/gpu/decisions.hpp"
#include "targets/gpu/feature_table.hpp"
#include "targets/gpu/featurize.hpp"
#include "targets/gpu/gpu_parameters.hpp"
#include "targets/working_set.hpp"

namespace metol {

namespace {

class GpuTarget final : public Target {
  public:
    explicit GpuTarget(GpuParameters parameters) : machine_(std::move(parameters)) {}

    std::vector<DecisionStep> steps(const PipelineIndex& index, const SpaceOptions& /*options*/) const override {
        return gpu::steps(index);
    }

    std::vector<DecisionFamily> families(const PipelineIndex& index, const LoopNest& nest, const DecisionStep& step,
                                         const SpaceOptions& options) const override {
        return gpu::families(machine_, index, nest, step, options);
    }

    // What a device has room for, and is kept busy by, is shared by all kernels.
    bool decides_by_sub_nests() const override { return false; }
    bool is_offered(const PipelineIndex& index, const LoopNest& nest, const Decision& decision) const override {
        const bool is_inside = decision.kind == DecisionKind::Inline || decision.kind == DecisionKind::At;
        if (is_inside && machine_.keeps_on_host(decision.func)) {
            return index.must_inline[static_cast<size_t>(decision.func)] && decision.kind == DecisionKind::Inline;
        }
        return gpu::is_offered(index, nest, decision);
    }

    Pruned apply(const PipelineIndex& index, Pool& pool, const LoopNest& nest, const Decision& decision,
                 LoopNest& child) const override {
        return gpu::apply(machine_, index, pool, nest, decision, child);
    }

    std::span<const FeatureColumn> feature_columns() const override { return gpu::feature_columns(); }
    std::span<const FeatureColumn> term_columns() const override { return gpu::term_columns(); }
    std::span<const FeatureColumn> quantity_columns() const override { return gpu::quantity_columns(); }
    std::vector<TermConstant> term_constants() const override {
        return {{"multiprocessors", static_cast<double>(machine_.multiprocessors)}};
    }

    void featurize(const SubNest& sub_nest, std::span<const int32_t> stages, bool is_analytical,
                   std::span<StageRow> rows, const RowReader& read) const override {
        gpu::featurize(machine_, sub_nest, stages, is_analytical, rows, read);
    }

    // All share the threads and the memory of one block.
    bool rows_see_siblings() const override { return true; }

    void add_inlined(std::span<const float> part, std::span<float> row) const override {
        gpu::add_inlined_row(part, row);
    }

    void patch_whole_program(const PipelineIndex& index, const LoopNest& nest, std::span<float> rows) const override {
        patch_working_set_at_root(index, nest, gpu::k_bytes_at_realization, gpu::k_working_set_at_root, rows);
    }

    void terms(std::span<const float> row, std::span<double> out) const override {
        gpu::evaluate_terms(machine_.multiprocessors, row, out);
    }

    void analytical_coefficients(int stage, std::span<const float>, std::span<double> out) const override {
        gpu::analytical_coefficients(machine_, stage, out);
    }

  private:
    GpuParameters machine_;
};

}  // namespace

std::unique_ptr<const Target> GpuParameters::make_target() const {
    return std::make_unique<GpuTarget>(*this);
}

}  // namespace metol
