#include "reads_apart.hpp"

#include <algorithm>

#include "stage_ops.hpp"

namespace metol {

namespace {

bool is_all_known(const Access& access) {
    return std::ranges::all_of(access.jacobian, [](const JacobianRow& row) {
        return std::ranges::all_of(row.is_known, [](uint8_t known) { return known != 0; });
    });
}

std::vector<BoundPair> finish(const std::vector<BoundRefPair>& region) {
    std::vector<BoundPair> bounds;
    for (const BoundRefPair& side : region) {
        std::optional<BoundExpr> min = finish_bound(side.min);
        std::optional<BoundExpr> max = finish_bound(side.max);
        if (!min || !max) {
            return {};  // too long a program: the bounds of the Edge do
        }
        bounds.push_back({std::move(*min), std::move(*max)});
    }
    return bounds;
}

}  // namespace

void tell_reads_apart(const std::vector<Halide::Expr>& exprs, const std::vector<Func>& funcs,
                      const StageReaders& readers, Stage& stage) {
    for (Edge& edge : stage.edges) {
        // Accesses are told apart by their Jacobians: where there are two, they differ.
        if (edge.accesses.size() < 2 || !std::ranges::all_of(edge.accesses, is_all_known)) {
            continue;
        }
        const auto access_of = [&](const std::vector<Halide::Expr>& args) {
            std::vector<int32_t> coordinates;
            for (const Halide::Expr& arg : args) {
                coordinates.push_back(readers.exprs.read(arg));
            }
            return find_access(readers.graph, edge.accesses, coordinates);
        };
        const std::string& name = funcs[static_cast<size_t>(edge.producer)].name;
        std::map<int32_t, std::vector<BoundRefPair>> regions;
        try {
            regions = readers.regions.regions_of_calls(exprs, name, access_of);
        } catch (const PipelineError& error) {
            if (error.kind() != PipelineError::Kind::Extraction) {
                throw;
            }
            continue;  // a coordinate without an end, or too difficult: those of the Edge stand for all
        }
        for (const auto& [number, region] : regions) {
            if (number >= 0) {
                edge.accesses[static_cast<size_t>(number)].bounds = finish(region);
            }
        }
    }
}

}  // namespace metol
