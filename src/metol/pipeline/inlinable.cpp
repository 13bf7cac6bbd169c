#include "inlinable.hpp"

#include <algorithm>
#include <span>

#include "bounds.hpp"

namespace metol {
namespace {

using Halide::Expr;
using hi::Call;

// Makes the branches of a `select` depend on its condition, as Halide does before it infers what a Stage needs.
class BranchOnConditions : public hi::IRGraphMutator {
  public:
    using hi::IRGraphMutator::mutate;

  protected:
    using hi::IRGraphMutator::visit;
    Expr visit(const hi::Select* op) override {
        const Expr expr = hi::IRGraphMutator::visit(op);
        const auto* select = expr.as<hi::Select>();
        if (!select || !hi::is_pure(select->condition)) {
            return expr;
        }
        return Call::make(select->type, Call::if_then_else,
                          {select->condition, select->true_value, select->false_value}, Call::PureIntrinsic);
    }
};

// Which values of which Funcs are read.
class ValueReads : public hi::IRGraphVisitor {
  public:
    std::set<std::pair<std::string, int>> found;

  private:
    using hi::IRGraphVisitor::visit;
    void visit(const Call* op) override {
        if (op->call_type == Call::Halide) {
            found.emplace(op->name, op->value_index);
        }
        hi::IRGraphVisitor::visit(op);
    }
};

using Region = std::vector<Interval>;

// Follows what is needed of each Func, and what would be asked of it where it and all between it and what reads it is
// inlined, from the outputs to the inputs.
class InputFollower {
  public:
    InputFollower(PipelineDag& dag, const std::vector<ConditionalRead>& reads)
        : dag_(dag), conditional_(dag.stages.size()), needed_(dag.funcs.size()), asked_(dag.funcs.size()) {
        for (const ConditionalRead& read : reads) {
            if (!dag.funcs[behind(static_cast<size_t>(read.producer))].is_input) {
                conditional_[static_cast<size_t>(read.stage)].push_back(&read);
            }
        }
    }

    void run() {
        for (const int32_t output : dag_.outputs) {
            needed_[static_cast<size_t>(output)] = dag_.funcs[static_cast<size_t>(output)].estimate;
        }
        for (size_t f = dag_.funcs.size(); f-- > 0;) {
            for (const int32_t stage : dag_.funcs[f].stages) {
                need(static_cast<size_t>(stage), loop_intervals(dag_.stages[static_cast<size_t>(stage)], needed_[f]));
            }
        }
        for (size_t f = dag_.funcs.size(); f-- > 0;) {
            Func& func = dag_.funcs[f];
            if (func.is_inlinable && !is_within(asked_[f], needed_[f])) {
                pass_on(func, asked_[f]);
            }
            if (func.is_inlinable && relies_on_condition(f)) {
                func.is_inlinable = func.must_inline;
            }
        }
    }

  private:
    // A Stage that is computed.
    void need(size_t s, const std::vector<Interval>& loops) {
        for (const Edge& edge : dag_.stages[s].edges) {
            const auto producer = static_cast<size_t>(edge.producer);
            grow(needed_[producer], needed_of(s, edge, loops));
            if (!dag_.funcs[behind(producer)].is_input) {
                grow(asked_[producer], region_of(edge.bounds, loops));
            }
        }
    }

    // What a Stage needs of a producer, by its conditions where that is a Func.
    Region needed_of(size_t s, const Edge& edge, const std::vector<Interval>& loops) const {
        const auto read = std::ranges::find_if(conditional_[s], [&](const ConditionalRead* each) {
            return each->producer == edge.producer && each->bounds.size() == edge.bounds.size();
        });
        return region_of(read == conditional_[s].end() ? edge.bounds : (*read)->bounds, loops);
    }

    // A Func that is inlined into something that asks for a region of it.
    void pass_on(Func& func, const Region& asked) {
        const Stage& stage = dag_.stages[static_cast<size_t>(func.stages[0])];
        const std::vector<Interval> loops = loop_intervals(stage, asked);
        for (const Edge& edge : stage.edges) {
            const Region region = region_of(edge.bounds, loops);
            const size_t source = behind(static_cast<size_t>(edge.producer));
            if (!dag_.funcs[source].is_input) {
                grow(asked_[source], region);
            } else if (!is_within(region, needed_[source])) {
                func.is_inlinable = func.must_inline;
            }
        }
    }

    // Does a condition of a Func keep what it reads within an input? It need not once the Func is inlined: of `f(x, 3)`
    // Halide does not find that `3 < 3` never holds.
    bool relies_on_condition(size_t f) const {
        const auto s = static_cast<size_t>(dag_.funcs[f].stages[0]);
        const std::vector<Interval> loops = loop_intervals(dag_.stages[s], needed_[f]);
        return std::ranges::any_of(dag_.stages[s].edges, [&](const Edge& edge) {
            const Region region = region_of(edge.bounds, loops);
            const auto producer = static_cast<size_t>(edge.producer);
            return !is_within(region, needed_[producer]) && is_beyond_inputs(producer, region);
        });
    }

    // Is more of an input needed than there is, where a region of a Func is computed?
    bool is_beyond_inputs(size_t func, const Region& computed) const {
        std::vector<Region> regions(dag_.funcs.size());
        regions[func] = computed;
        for (size_t f = func + 1; f-- > 0;) {
            if (is_within(regions[f], needed_[f])) {
                continue;
            }
            for (const int32_t stage : dag_.funcs[f].stages) {
                const auto s = static_cast<size_t>(stage);
                const std::vector<Interval> loops = loop_intervals(dag_.stages[s], regions[f]);
                for (const Edge& edge : dag_.stages[s].edges) {
                    grow(regions[static_cast<size_t>(edge.producer)], needed_of(s, edge, loops));
                }
            }
        }
        for (size_t f = 0; f < regions.size(); f++) {
            if (dag_.funcs[f].is_input && !is_within(regions[f], needed_[f])) {
                return true;
            }
        }
        return false;
    }

    // The input that a Func is a copy of, or the Func: that it could be computed is no reason to have a copy.
    size_t behind(size_t func) const {
        if (!dag_.funcs[func].is_wrapper) {
            return func;
        }
        const Stage& copy = dag_.stages[static_cast<size_t>(dag_.funcs[func].stages[0])];
        const auto source = static_cast<size_t>(copy.edges[0].producer);
        return dag_.funcs[source].is_input ? source : func;
    }

    static Region region_of(std::span<const BoundPair> bounds, const std::vector<Interval>& loops) {
        Region region(bounds.size());
        evaluate(bounds, loops, region);
        return region;
    }

    PipelineDag& dag_;
    std::vector<std::vector<const ConditionalRead*>> conditional_;  // [Stages]
    std::vector<Region> needed_;                                    // [Funcs] where each is computed
    std::vector<Region> asked_;                                     // [Funcs] where conditions are not looked at
};

// Is there a Func that nobody reads once a Tuple is inlined, and that reads one that somebody does?
bool leaves_dead_readers(const PipelineDag& dag, size_t tuple, const ValueCalls& calls) {
    std::vector<bool> is_live(dag.funcs.size()), is_dead(dag.funcs.size());
    for (const int32_t output : dag.outputs) {
        is_live[static_cast<size_t>(output)] = true;
    }
    // Producers come before what consumes them, inputs aside.
    const auto for_each_read = [&](const std::vector<bool>& readers, const auto& visit) {
        for (size_t f = dag.funcs.size(); f-- > 0;) {
            for (const int32_t stage : dag.funcs[f].stages) {
                for (const Edge& edge : dag.stages[static_cast<size_t>(stage)].edges) {
                    const auto producer = static_cast<size_t>(edge.producer);
                    if (readers[f] && !dag.funcs[producer].is_input) {
                        visit(f, producer);
                    }
                }
            }
        }
    };
    for_each_read(is_live, [&](size_t reader, size_t producer) {
        is_live[producer] = is_live[producer] || reader != tuple || calls.used.contains(dag.funcs[producer].name);
    });
    for (size_t f = 0; f < tuple; f++) {
        is_dead[f] = !is_live[f] && calls.idle.contains(dag.funcs[f].name);
    }
    bool reads_live = false;
    for_each_read(is_dead, [&](size_t, size_t producer) {
        reads_live = reads_live || is_live[producer];
        is_dead[producer] = !is_live[producer];
    });
    return reads_live;
}

}  // namespace

std::vector<ConditionalRead> conditional_reads(int32_t stage, const std::vector<Expr>& exprs, const Expr& predicate,
                                               RegionReader& reader) {
    bool has_conditions = false;
    std::vector<Expr> branching;
    for (const Expr& expr : exprs) {
        branching.push_back(BranchOnConditions().mutate(expr));
        has_conditions = has_conditions || !branching.back().same_as(expr);
    }
    std::vector<ConditionalRead> reads;
    if (!has_conditions) {
        return reads;
    }
    try {
        for (const auto& [producer, region] : reader.regions(branching, predicate)) {
            ConditionalRead read{stage, producer, {}};
            for (const BoundRefPair& bounds : region) {
                auto min = finish_bound(bounds.min), max = finish_bound(bounds.max);
                if (!min || !max) {
                    return {};
                }
                read.bounds.push_back({std::move(*min), std::move(*max)});
            }
            reads.push_back(std::move(read));
        }
    } catch (const PipelineError&) {
        return {};
    }
    return reads;
}

std::map<std::string, ValueCalls> find_idle_calls(const std::map<std::string, hi::Function>& funcs) {
    ValueReads read;
    for (const auto& [name, function] : funcs) {
        function.accept(&read);
    }
    std::map<std::string, ValueCalls> calls;
    for (const auto& [name, function] : funcs) {
        for (int value = 0; value < function.outputs() && function.has_pure_definition(); value++) {
            ValueReads called;
            function.values()[static_cast<size_t>(value)].accept(&called);
            auto& of_value = read.found.contains({name, value}) ? calls[name].used : calls[name].idle;
            for (const auto& [callee, index] : called.found) {
                of_value.insert(callee);
            }
        }
    }
    std::erase_if(calls, [](const auto& each) { return each.second.idle.empty(); });
    return calls;
}

void mark_inlinable(PipelineDag& dag, const std::vector<ConditionalRead>& reads,
                    const std::map<std::string, ValueCalls>& idle) {
    for (size_t f = 0; f < dag.funcs.size(); f++) {
        Func& func = dag.funcs[f];
        func.is_inlinable = !func.is_input && !func.is_output && !func.is_extern && func.stages.size() == 1 &&
                            !dag.stages[static_cast<size_t>(func.stages[0])].is_undef;
        if (const auto calls = idle.find(func.name); func.is_inlinable && calls != idle.end()) {
            func.is_inlinable = !leaves_dead_readers(dag, f, calls->second);
        }
    }
    for (const Stage& stage : dag.stages) {
        for (const Edge& edge : stage.edges) {
            Func& producer = dag.funcs[static_cast<size_t>(edge.producer)];
            producer.is_inlinable = producer.is_inlinable && !stage.is_extern;
        }
    }
    InputFollower(dag, reads).run();
}

}  // namespace metol
