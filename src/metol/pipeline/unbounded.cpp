// Follows unbounded reads from consumers to producers.
#include "unbounded.hpp"

#include <cstdlib>
#include <optional>

#include "bounds.hpp"
#include "extract.hpp"

namespace metol {
namespace {

// Two places farther away than any image: a bound that differs between them, or overflows, is none.
constexpr int64_t kFarther[] = {int64_t{1} << 28, int64_t{1} << 29};
constexpr int64_t kOverflow = 2147483647;

[[noreturn]] void refuse(const UnboundedRead& read, const std::string& why) {
    throw PipelineError(PipelineError::Kind::Extraction,
                        read.reader + " reads `" + read.access + "` in dimension " + std::to_string(read.dimension) +
                            " at a coordinate that is unbounded" + why +
                            "; clamp the coordinate, for example with hl.clamp(i, 0, extent - 1).");
}

// Why a Func cannot be inlined, or nothing.
std::optional<std::string> obstacle(const PipelineDag& dag, const Func& func) {
    if (func.is_input) {
        return "";
    }
    if (func.is_output) {
        return ", and an output cannot be inlined";
    }
    if (func.is_extern) {
        return ", and an extern stage cannot be inlined";
    }
    if (func.stages.size() > 1) {
        return ", and a Func with updates cannot be inlined";
    }
    for (const Stage& stage : dag.stages) {
        for (const Edge& edge : stage.edges) {
            if (stage.is_extern && &dag.funcs[static_cast<size_t>(edge.producer)] == &func) {
                return ", and what an extern stage reads cannot be inlined";
            }
        }
    }
    return std::nullopt;
}

class Follower {
  public:
    Follower(PipelineDag& dag, const DescribeRead& describe)
        : dag_(dag), describe_(describe), unbounded_(dag.funcs.size()) {
        for (size_t f = 0; f < dag.funcs.size(); f++) {
            unbounded_[f].resize(dag.funcs[f].args.size());
        }
    }

    void add(const UnboundedRead& read) {
        const Func& producer = dag_.funcs[static_cast<size_t>(read.producer)];
        if (const auto why = obstacle(dag_, producer)) {
            refuse(read, *why);
        }
        unbounded_[static_cast<size_t>(read.producer)][read.dimension] = true;
    }

    // Consumers come after their producers, so each Func is complete when its turn comes.
    void follow() {
        for (size_t f = dag_.funcs.size(); f-- > 0;) {
            bool is_any = false;
            for (const bool is_unbounded : unbounded_[f]) {
                is_any = is_any || is_unbounded;
            }
            if (is_any) {
                dag_.funcs[f].must_inline = true;
                pass_on(f);
            }
        }
    }

  private:
    void pass_on(size_t f) {
        const Func& func = dag_.funcs[f];
        std::vector<Interval> near = loops_at(f, kFarther[0]), far = loops_at(f, kFarther[1]);
        for (const Edge& edge : dag_.stages[static_cast<size_t>(func.stages[0])].edges) {
            for (size_t d = 0; d < edge.bounds.size(); d++) {
                const Interval one = evaluate(edge.bounds[d], near), other = evaluate(edge.bounds[d], far);
                if (one == other && std::abs(one.min) < kOverflow && std::abs(one.max) < kOverflow) {
                    continue;
                }
                const std::string access = describe_(static_cast<int32_t>(f), edge.producer);
                add({"Func `" + func.name + "`", access, edge.producer, d});
            }
        }
    }

    std::vector<Interval> loops_at(size_t f, int64_t distance) const {
        const Stage& stage = dag_.stages[static_cast<size_t>(dag_.funcs[f].stages[0])];
        std::vector<Interval> loops;
        for (const LoopDim& loop : stage.loops) {
            const auto d = static_cast<size_t>(loop.pure_dim);
            loops.push_back(unbounded_[f][d] ? Interval{-distance, distance} : dag_.funcs[f].root_region[d]);
        }
        return loops;
    }

    PipelineDag& dag_;
    const DescribeRead& describe_;
    std::vector<std::vector<bool>> unbounded_;  // [Funcs][dimensions]
};

}  // namespace

void inline_unbounded(PipelineDag& dag, const std::vector<UnboundedRead>& reads, const DescribeRead& describe) {
    Follower follower(dag, describe);
    for (const UnboundedRead& read : reads) {
        follower.add(read);
    }
    follower.follow();
}

}  // namespace metol
