#include "schedule/growth.hpp"

#include <algorithm>
#include <span>

#include "pipeline/bounds.hpp"

namespace metol {

namespace {

// The input that a Func copies place by place, as far as `box` goes, as the one does that a boundary condition makes of
// an image; the Func itself where it is no such copy.
const Func& copied(const PipelineDag& dag, const Func& func, std::span<const Interval> box) {
    if (func.is_input || func.stages.size() != 1) {
        return func;
    }
    const Stage& stage = dag.stages[static_cast<size_t>(func.stages.front())];
    if (!stage.is_identity || stage.edges.size() != 1 || stage.edges.front().bounds.size() != box.size()) {
        return func;
    }
    std::vector<Interval> read(box.size());
    evaluate(stage.edges.front().bounds, box, read);
    const Func& source = dag.funcs[static_cast<size_t>(stage.edges.front().producer)];
    return source.is_input && std::ranges::equal(read, box) ? source : func;
}

// The dimensions of what an edge reads that grow where its Stage goes further along one of its pure dimensions: beyond
// its first point, or beyond all that there is at every size. Of an input, those that are not read whole all the same.
struct Grown {
    DimSet dims;
    bool is_open = false;  // of an input, whether they are read beyond its estimate, if the Stage goes far enough
};

Grown grown_by(const PipelineDag& dag, const Stage& stage, const Edge& edge, int dim) {
    const Func& func = dag.funcs[static_cast<size_t>(stage.func)];
    const Func& producer = dag.funcs[static_cast<size_t>(edge.producer)];
    const auto is_along = [&](const LoopDim& loop) { return !loop.is_rvar && loop.pure_dim == dim; };
    std::vector<Interval> here;
    std::vector<Interval> further;
    for (const LoopDim& loop : stage.loops) {
        // A reduction over a window does not reach as far as the loops around it do.
        const Interval range = func.root_region.empty() ? kAnywhere : evaluate(loop.bounds, func.root_region);
        const bool is_point = is_along(loop) && !func.fixed_dims[static_cast<size_t>(dim)];
        here.push_back(is_point ? Interval{range.min, range.min} : range);
        further.push_back(is_along(loop) ? kAnywhere : range);
    }
    std::vector<Interval> fewer(edge.bounds.size());
    std::vector<Interval> more(edge.bounds.size());
    evaluate(edge.bounds, here, fewer);
    evaluate(edge.bounds, further, more);
    const Func& source = copied(dag, producer, more);
    Grown grown;
    for (size_t d = 0; d < more.size(); d++) {
        // A number in the algorithm may be what the size is estimated as, and does not change with it.
        const bool is_known = source.is_size_read && d < source.estimate.size();
        const bool is_whole = is_known && more[d] == source.estimate[d];
        grown.dims[d] = more[d] != fewer[d] && !is_whole;
        const bool is_closed =
            !producer.is_input || (producer.estimate[d].min <= more[d].min && more[d].max <= producer.estimate[d].max);
        grown.is_open = grown.is_open || (grown.dims[d] && !is_closed);
    }
    return grown;
}

// Does a Stage read, further along a dimension, what Halide is promised that it does not, and takes for not read?
bool is_promised(const Stage& stage, int dim) {
    for (size_t i = 0; i < stage.loops.size(); i++) {
        if (!stage.loops[i].is_rvar && stage.loops[i].pure_dim == dim && stage.promised_loops[i]) {
            return true;
        }
    }
    return false;
}

}  // namespace

Growth::Growth(const PipelineDag& dag) : func_count_(dag.funcs.size()), rows_(func_count_ + 1) {
    for (size_t f = 0; f < func_count_; f++) {
        rows_[f + 1] = rows_[f] + static_cast<size_t>(dag.funcs[f].dimensions());
    }
    needed_.resize(rows_.back() * func_count_);
    // By what each Func reads itself, and what those need: producers come before what consumes them, inputs aside.
    for (size_t f = 0; f < func_count_; f++) {
        const Func& func = dag.funcs[f];
        Reader reader{static_cast<int32_t>(f), {}, {}};
        for (int dim = 0; dim < func.dimensions() && !func.is_input; dim++) {
            DimSet* needed = &needed_[(rows_[f] + static_cast<size_t>(dim)) * func_count_];
            needed[f].set(static_cast<size_t>(dim));
            for (const int32_t s : func.stages) {
                const Stage& stage = dag.stages[static_cast<size_t>(s)];
                const auto d = static_cast<size_t>(dim);
                reader.dims[d] = reader.dims[d] || is_promised(stage, dim);
                for (const Edge& edge : stage.edges) {
                    const auto producer = static_cast<size_t>(edge.producer);
                    const auto [grown, is_open] = grown_by(dag, stage, edge, dim);
                    reader.dims[d] = reader.dims[d] || (dag.funcs[producer].is_input && grown.any());
                    reader.open_dims[d] = reader.open_dims[d] || is_open;
                    needed[producer] |= grown;
                    for (int through = 0; through < dag.funcs[producer].dimensions(); through++) {
                        if (!grown[static_cast<size_t>(through)] || dag.funcs[producer].is_input) {
                            continue;
                        }
                        const DimSet* next = &needed_[(rows_[producer] + static_cast<size_t>(through)) * func_count_];
                        for (size_t each = 0; each < func_count_; each++) {
                            needed[each] |= next[each];
                        }
                    }
                }
            }
        }
        if (reader.dims.any()) {
            readers_.push_back(reader);
        }
    }
}

DimSet Growth::of(int func, int dim, int producer) const {
    return needed_[(rows_[static_cast<size_t>(func)] + static_cast<size_t>(dim)) * func_count_ +
                   static_cast<size_t>(producer)];
}

}  // namespace metol
