#include "schedule/nest_queries.hpp"

namespace metol {

const StageNest& nest_of(const PipelineIndex& index, const LoopNest& nest, int stage_id) {
    const Stage& stage = index.stage(stage_id);
    return nest[stage.func].stages[static_cast<size_t>(stage.index)];
}

int loops_that_turn(const Trips& trips) {
    return static_cast<int>(std::count_if(trips.begin(), trips.end(), [](int32_t count) { return count > 1; }));
}

const Trips& level_of(const PipelineIndex& index, const LoopNest& nest, const Site& site) {
    return nest_of(index, nest, site.stage).levels[static_cast<size_t>(site.level)];
}

Votes votes_of_readers(const PipelineIndex& index, const LoopNest& nest, int func) {
    Votes votes{};
    for (const Consumer& consumer : index.consumers[static_cast<size_t>(func)]) {
        const Stage& stage = index.stage(consumer.stage);
        if (!nest[stage.func].is_computed()) {
            continue;
        }
        const int v = nest_of(index, nest, consumer.stage).vector_loop;
        for (const Access& access : stage.edges[static_cast<size_t>(consumer.edge)].accesses) {
            for (size_t d = 0; d < access.jacobian.size() && v >= 0; d++) {
                votes[d] += surely_moves_with(access.jacobian[d], static_cast<size_t>(v)) ? access.count : 0;
            }
        }
    }
    return votes;
}

int most_votes(const Votes& votes) {
    return static_cast<int>(std::max_element(votes.begin(), votes.end()) - votes.begin());
}

int dimension_read_densely(const PipelineIndex& index, const LoopNest& nest, int func) {
    return most_votes(votes_of_readers(index, nest, func));
}

}  // namespace metol
