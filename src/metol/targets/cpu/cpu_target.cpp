// The CPU target: the search space of Adams et al. 2019, §3, the features of appendix A and the terms of appendix B.
#include "targets/cpu/analytical.hpp"
#include "targets/cpu/cpu_parameters.hpp"
#include "targets/cpu/decisions.hpp"
#include "targets/cpu/feature_table.hpp"
#include "targets/cpu/featurize.hpp"
#include "targets/cpu/group_featurizer.hpp"
#include "targets/working_set.hpp"

namespace metol {

namespace {

class CpuTarget final : public Target {
  public:
    explicit CpuTarget(CpuParameters parameters) : machine_(std::move(parameters)) {}

    std::vector<DecisionStep> steps(const PipelineIndex& index, const SpaceOptions& options) const override {
        return cpu::steps(index, options);
    }

    std::vector<DecisionFamily> families(const PipelineIndex& index, const LoopNest& nest, const DecisionStep& step,
                                         const SpaceOptions& options) const override {
        return cpu::families(machine_, index, nest, step, options);
    }

    bool decides_by_sub_nests() const override { return true; }
    bool is_offered(const PipelineIndex& index, const LoopNest& nest, const Decision& decision) const override {
        return cpu::is_offered(index, nest, decision);
    }

    Pruned apply(const PipelineIndex& index, Pool& pool, const LoopNest& nest, const Decision& decision,
                 LoopNest& child) const override {
        return cpu::apply(machine_, index, pool, nest, decision, child);
    }

    std::span<const FeatureColumn> feature_columns() const override { return cpu::feature_columns(); }
    std::span<const FeatureColumn> term_columns() const override { return cpu::term_columns(); }
    std::span<const FeatureColumn> quantity_columns() const override { return cpu::quantity_columns(); }
    std::vector<TermConstant> term_constants() const override {
        return {{"cores", static_cast<double>(machine_.cores)}};
    }

    void featurize(const SubNest& sub_nest, std::span<const int32_t> stages, bool is_analytical,
                   std::span<StageRow> rows, const RowReader& read) const override {
        cpu::GroupFeaturizer(machine_, sub_nest).run(stages, is_analytical, rows, read);
    }

    bool rows_see_siblings() const override { return false; }

    void add_inlined(std::span<const float> part, std::span<float> row) const override {
        cpu::add_inlined_row(part, row);
    }

    void patch_whole_program(const PipelineIndex& index, const LoopNest& nest, std::span<float> rows) const override {
        patch_working_set_at_root(index, nest, cpu::k_bytes_at_realization, cpu::k_working_set_at_root, rows);
    }

    void terms(std::span<const float> row, std::span<double> out) const override {
        cpu::evaluate_terms(machine_.cores, row, out);
    }

    void analytical_coefficients(int stage, std::span<const float> row, std::span<double> out) const override {
        cpu::analytical_coefficients(machine_, stage, row, out);
    }

  private:
    CpuParameters machine_;
};

}  // namespace

std::unique_ptr<const Target> CpuParameters::make_target() const {
    return std::make_unique<CpuTarget>(*this);
}

}  // namespace metol
