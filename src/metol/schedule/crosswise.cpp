#include "schedule/crosswise.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "pipeline/bounds.hpp"
#include "schedule/reads.hpp"

namespace metol {

namespace {

// What never lies further apart than this is as good as in one place: three channels, the taps of a filter.
constexpr double kFarApart = 64;

// Ways in which the same Func may be read that are remembered.
constexpr size_t kMovements = 8;

// How the coordinates of a Func move with those of the Func that needs it: slopes, NaN where they are not constant.
using Movement = std::vector<std::array<double, kMaxLoops>>;

Movement identity(int dimensions) {
    Movement movement(static_cast<size_t>(dimensions));
    for (size_t d = 0; d < movement.size(); d++) {
        movement[d].fill(0);
        movement[d][d] = 1;
    }
    return movement;
}

// Does a reduction alone go along a coordinate, and so over the same points in every iteration of all other loops?
bool is_swept(const Func& func, const Stage& stage, const JacobianRow& row) {
    bool is_far = false;
    for (size_t i = 0; i < stage.loops.size(); i++) {
        const LoopDim& loop = stage.loops[i];
        const double slope = slope_of(row, i);
        if (!loop.is_rvar && slope != 0) {
            return false;
        }
        if (loop.is_rvar && slope != 0) {
            const auto turns = static_cast<double>(evaluate(loop.bounds, func.root_region).extent() - 1);
            is_far = is_far || !(turns * std::abs(slope) < kFarApart);
        }
    }
    return is_far;
}

Movement through(const Func& func, const Stage& stage, const Movement& outer, const Access& access,
                 bool has_reductions) {
    Movement inner(access.jacobian.size());
    for (size_t d = 0; d < inner.size(); d++) {
        const JacobianRow& row = access.jacobian[d];
        if (!has_reductions && is_swept(func, stage, row)) {
            inner[d].fill(std::numeric_limits<double>::quiet_NaN());
            continue;
        }
        inner[d].fill(0);
        for (size_t i = 0; i < stage.loops.size(); i++) {
            const double slope = slope_of(row, i);
            if (stage.loops[i].is_rvar) {
                if (has_reductions) {
                    inner[d][static_cast<size_t>(coordinate_of(stage, i))] += slope;
                }
                continue;
            }
            if (slope == 0) {
                continue;
            }
            const auto& moved = outer[static_cast<size_t>(stage.loops[i].pure_dim)];
            for (size_t k = 0; k < kMaxLoops; k++) {
                inner[d][k] += moved[k] == 0 ? 0 : slope * moved[k];
            }
        }
    }
    return inner;
}

bool is_same(const Movement& a, const Movement& b) {
    return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
        return std::ranges::equal(x, y, [](double s, double t) { return s == t || (std::isnan(s) && std::isnan(t)); });
    });
}

// How far apart two ways of reading a Func come while those coordinates of `host` that move both go over its region.
// What is read all over the place, in any iteration, is not looked at.
double distance(const Func& host, const Movement& a, const Movement& b) {
    double largest = 0;
    for (size_t d = 0; d < a.size(); d++) {
        double apart = 0;
        for (size_t k = 0; k < host.root_region.size(); k++) {
            const double step = std::abs(a[d][k] - b[d][k]);
            apart += std::isnan(step) ? 0 : step * static_cast<double>(host.root_region[k].extent() - 1);
        }
        largest = std::max(largest, apart);
    }
    return largest;
}

class Search {
  public:
    // `has_own_reductions`: do the reduction loops of the host itself move anything?
    Search(const PipelineDag& dag, int32_t host, bool has_own_reductions)
        : dag_(dag),
          host_(dag.funcs[static_cast<size_t>(host)]),
          has_own_reductions_(has_own_reductions),
          reached_(dag.funcs.size()) {
        reached_[static_cast<size_t>(host)] = {identity(host_.dimensions())};
        // Ids are topological: whatever reads a Func has been visited before it.
        for (auto f = static_cast<size_t>(host) + 1; f-- > 0;) {
            for (const Movement& movement : reached_[f]) {
                visit(dag.funcs[f], movement);
            }
        }
    }

    std::vector<int32_t> crosswise() const {
        std::vector<int32_t> found;
        for (size_t f = 0; f < reached_.size(); f++) {
            if (is_far_apart(reached_[f])) {
                found.push_back(static_cast<int32_t>(f));
            }
        }
        return found;
    }

    std::vector<MovingApart> moving_apart() const {
        std::vector<MovingApart> found;
        for (size_t f = 0; f < reached_.size(); f++) {
            std::vector<DimSet> coordinates = differences(reached_[f]);
            if (&dag_.funcs[f] != &host_ && std::ranges::any_of(coordinates, &DimSet::any)) {
                found.push_back({static_cast<int32_t>(f), std::move(coordinates)});
            }
        }
        return found;
    }

  private:
    static std::vector<DimSet> differences(const std::vector<Movement>& movements) {
        std::vector<DimSet> coordinates(movements.empty() ? 0 : movements.front().size());
        for (size_t d = 0; d < coordinates.size(); d++) {
            // What goes all over the place has all that the others need.
            const bool is_whole = std::ranges::any_of(movements, [&](const Movement& movement) {
                return std::ranges::any_of(movement[d], [](double slope) { return std::isnan(slope); });
            });
            for (size_t a = 1; a < movements.size() && !is_whole; a++) {
                for (size_t k = 0; k < kMaxLoops; k++) {
                    coordinates[d][k] = coordinates[d][k] || movements[a][d][k] != movements.front()[d][k];
                }
            }
        }
        return coordinates;
    }

    void visit(const Func& func, const Movement& movement) {
        for (const int32_t s : func.stages) {
            const Stage& stage = dag_.stages[static_cast<size_t>(s)];
            for (const Edge& edge : stage.edges) {
                for (const Access& access : edge.accesses) {
                    add(reached_[static_cast<size_t>(edge.producer)],
                        through(func, stage, movement, access, has_own_reductions_ && &func == &host_));
                }
            }
        }
    }

    bool is_far_apart(const std::vector<Movement>& movements) const {
        for (size_t a = 0; a < movements.size(); a++) {
            for (size_t b = 0; b < a; b++) {
                if (distance(host_, movements[a], movements[b]) >= kFarApart) {
                    return true;
                }
            }
        }
        return false;
    }

    static void add(std::vector<Movement>& known, Movement movement) {
        const bool is_new =
            std::ranges::none_of(known, [&](const Movement& other) { return is_same(other, movement); });
        if (is_new && known.size() < kMovements) {
            known.push_back(std::move(movement));
        }
    }

    const PipelineDag& dag_;
    const Func& host_;
    const bool has_own_reductions_;
    std::vector<std::vector<Movement>> reached_;  // [Funcs]
};

}  // namespace

int coordinate_of(const Stage& stage, size_t loop) {
    if (!stage.loops[loop].is_rvar) {
        return stage.loops[loop].pure_dim;
    }
    const auto end = stage.loops.begin() + static_cast<std::ptrdiff_t>(loop);
    return kMaxLoops - 1 - static_cast<int>(std::count_if(stage.loops.begin(), end, std::mem_fn(&LoopDim::is_rvar)));
}

Movements find_movements(const PipelineDag& dag) {
    Movements movements;
    movements.crosswise.resize(dag.funcs.size());
    movements.apart.resize(dag.funcs.size());
    for (size_t host = 0; host < dag.funcs.size(); host++) {
        const Func& func = dag.funcs[host];
        if (func.stages.empty()) {
            continue;
        }
        const Search search(dag, static_cast<int32_t>(host), false);
        movements.crosswise[host] = search.crosswise();
        const bool has_reductions = std::ranges::any_of(func.stages, [&](int32_t stage) {
            return std::ranges::any_of(dag.stages[static_cast<size_t>(stage)].loops, &LoopDim::is_rvar);
        });
        movements.apart[host] =
            has_reductions ? Search(dag, static_cast<int32_t>(host), true).moving_apart() : search.moving_apart();
    }
    return movements;
}

}  // namespace metol
