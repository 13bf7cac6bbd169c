// The immutable picture of a pipeline that everything after extraction works on.
//
// Enters: what pipeline/extract.cpp reads off a Halide pipeline. Leaves: Funcs, Stages, Edges and Accesses as plain
// integers and floats; no Halide type appears here, so that only extract.cpp includes Halide.h.
// Source: Adams et al. 2019, §4.1 (algorithm-specific features, Jacobians, bounds from Halide's own inference).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace metol {

// A closed interval of integer coordinates, [min, max].
struct Interval {
    int64_t min = 0;
    int64_t max = 0;
    int64_t extent() const { return max - min + 1; }
    bool operator==(const Interval&) const = default;
};

// One instruction of a postfix bound program.
enum class BoundOp : uint8_t {
    PushConst,  // push `value`
    PushMin,    // push loops[value].min
    PushMax,    // push loops[value].max
    Add,        // a b -> a + b
    Sub,        // a b -> a - b
    Mul,        // a b -> a * b
    Div,        // a b -> floor(a / b); 0 where b is 0, as Halide defines it
    Mod,        // a b -> a - b * floor(a / b); 0 where b is 0
    Min,        // a b -> min(a, b)
    Max,        // a b -> max(a, b)
    Lt,         // a b -> a < b
    Le,         // a b -> a <= b
    Eq,         // a b -> a == b
    Ne,         // a b -> a != b
    And,        // a b -> a && b
    Or,         // a b -> a || b
    Not,        // a -> !a
    Select,     // c t f -> c ? t : f
    PushFloat,  // push the double whose bits are `value`: bounds computed in floating point, as in resampling
    FloatDiv,   // a b -> a / b, not rounded
    Floor,      // a -> largest integer not above a
    Ceil,       // a -> smallest integer not below a
    Round,      // a -> nearest integer, ties to even
    Trunc,      // a -> a rounded towards zero (a cast from float to integer)
    Sqrt,       // a -> square root
    Exp,        // a -> e to the a
    Log,        // a -> natural logarithm
};

struct BoundInstruction {
    BoundOp op;
    int64_t value = 0;
    bool operator==(const BoundInstruction&) const = default;
};

// `coefficient * loops[loop].min` or `... .max`.
struct BoundTerm {
    int32_t loop;
    bool is_max;
    int64_t coefficient;
    bool operator==(const BoundTerm&) const = default;
};

// A bound as a function of the intervals of some loops: constant + sum of terms where it is affine, otherwise a
// postfix program (then `terms` is empty and `constant` 0). Everything that is not a loop (scalar parameters, input
// sizes) has been replaced by its estimate during extraction.
struct BoundExpr {
    int64_t constant = 0;
    std::vector<BoundTerm> terms;
    std::vector<BoundInstruction> program;
    bool is_affine() const { return program.empty(); }
    bool operator==(const BoundExpr&) const = default;
};

// The interval of one dimension of a region.
struct BoundPair {
    BoundExpr min;
    BoundExpr max;
};

// One row of a Jacobian: how one coordinate of an access moves with each loop of the consuming Stage, as exact
// rationals numerator[i] / denominator[i] (2x+1 -> 2/1; x/2 -> 1/2; a float scale is rounded to the nearest rational of
// denominator <= 4096). `is_known[i]` is false where the derivative is not a constant (data-dependent access, products
// of loops, modulo): the worst is assumed then. Clamps and the likely branch of a boundary condition are looked
// through; a modulo by 8 or less counts as a phase that does not move (x/2 + x%2 moves like x/2).
struct JacobianRow {
    std::vector<int32_t> numerator;    // [loops of the consuming Stage]
    std::vector<int32_t> denominator;  // [loops of the consuming Stage], at least 1
    std::vector<uint8_t> is_known;     // [loops of the consuming Stage]
    std::vector<uint8_t> has_phase;    // [loops of the consuming Stage] a phase comes back in turn along it
    std::vector<uint8_t> has_float;    // [loops of the consuming Stage] it is rounded from a float that moves with it
    bool operator==(const JacobianRow&) const = default;
};

// Constant offsets of one load along the dimensions of the producer; those that it does not have stay 0.
inline constexpr size_t kOffsetDims = 4;
using Offset = std::array<int32_t, kOffsetDims>;
// More are not told apart.
inline constexpr size_t kMaxOffsets = 128;

// All distinct loads of one producer by one Stage that share a Jacobian (the 25 taps of a 5x5 stencil are one Access).
struct Access {
    std::vector<JacobianRow> jacobian;      // [dimensions of the producer]
    int32_t count = 1;                      // distinct loads (different constant offsets)
    std::vector<int32_t> offset_span;       // [dimensions of the producer] largest minus smallest constant offset
    std::vector<int32_t> distinct_offsets;  // [dimensions of the producer] number of different constant offsets
    // [count] all offsets, in order; empty where they are not all known whole numbers, or too many.
    std::vector<Offset> offsets;
    bool has_parameter = false;  // where one of them goes depends on a scalar parameter, here by its estimate alone
    // Ways on which a coordinate stays for several turns of a loop, as x / 2 and x / 4 * 2 do; 0 where it always moves.
    int32_t step_ways = 0;
    bool has_floats = false;          // on the way to a coordinate, something is a float
    std::vector<uint8_t> is_clamped;  // [dimensions of the producer] of some of them, between bounds
    int32_t part = 0;                 // of the outputs that one Stage stands for, the one that makes the loads
    // [dimensions of the producer] what these loads alone need, where others of the same Edge move in another way, as
    // in f(x, y) + f(y, x); empty where the bounds of the Edge say it. Evaluated like those, and no further.
    std::vector<BoundPair> bounds;
};

// What one Stage reads of one producing Func (never of itself: an update's reads of its own Func are `self_accesses`).
// `bounds` are what one block of the Stage needs; evaluate them with the intervals of the Stage's loops.
struct Edge {
    int32_t producer = -1;          // Func id
    std::vector<BoundPair> bounds;  // [dimensions of the producer], over the loops of the consuming Stage
    std::vector<Access> accesses;
    // [dimensions of the producer] along which a `where` ends what is needed; empty where none turns with the loops
    std::vector<uint8_t> held_dims;
    int32_t calls = 0;  // call sites a point, before any common subexpression is shared
    // Of the loads, the share that additions of floats take, each its own: with a product that is inlined there, one
    // instruction does both.
    float added_share = 0;
};

struct LoopDim {
    std::string name;               // as Halide names it in the Stage: "x", "r$x"
    bool is_rvar = false;           // of an RDom: how far it goes, the algorithm says, not who reads the Func
    bool is_reduction = false;      // of these, one that comes back to points, or of which no dimension is told
    bool is_parallelizable = true;  // pure Vars always; RVars where Halide can prove no race
    int32_t pure_dim = -1;          // the dimension of the Func that the loop walks, one by one; -1 for reductions
    BoundPair bounds;               // over the required region of the Func (loop i of these expressions = dimension i)
    bool has_constant_extent =
        false;  // an RVar whose extent is a literal: no estimate was put in, so full unrolling is legal
    // That extent; 0 of other loops.
    int64_t constant_extent() const { return has_constant_extent ? bounds.max.constant - bounds.min.constant + 1 : 0; }
};

// Operations of a Stage that move with the same loops; a bit for each of them.
struct SharedOps {
    uint32_t loops = 0;      // that their values move with
    uint32_t picked_by = 0;  // loops that pick among values, or are all that they are made of: where they are known as
                             // numbers, nothing of these operations is left
    std::vector<float> ops;  // [41]
};

// `Stage::lane_bytes` of values that are no products.
inline constexpr int32_t kValueBytes = 4;

// The classes of operations (40 in Adams et al. 2019, §4.1) are declared in pipeline/op_classes.def.
struct Stage {
    int32_t func = -1;
    int32_t index = 0;                // 0 = pure definition, i = update i-1
    std::vector<LoopDim> loops;       // innermost first, as Halide orders them by default (RVars innermost, then pure)
    std::vector<float> op_histogram;  // [41] operations a point, by class
    std::vector<Edge> edges;          // in order of producer id
    std::vector<Access> self_accesses;  // loads of its own Func by an update
    std::vector<Access> stores;         // the coordinates written (identity for a pure definition)
    std::vector<BoundPair> written;     // [dimensions of the Func] of an update: where it writes, over its loops
    int32_t narrowest_bytes = 4;        // of the types computed with: decides the native vector width
    int32_t widest_bytes = 4;
    int32_t expr_branching = 1;             // Strahler number: the least registers that evaluate its values
    std::vector<float> unchanged_ops;       // [41] of op_histogram, what all steps of a reduction have in common
    std::vector<SharedOps> shared_ops;      // op_histogram less unchanged_ops and stepped_addresses
    std::vector<uint8_t> picking_loops;     // [loops] that pick among most of it, as c of select(c == 0, a, b)
    float chained_cycles = 0;               // of an update: from what it loads of its own Func to what it stores
    float chained_ops = 0;                  // operations of all chains from there, a sum counted as one
    bool has_data_dependent_read = false;   // a load indexes another load
    bool has_chained_read = false;          // what an update has made so far indexes a load
    bool has_data_dependent_write = false;  // scatter: a left-hand side indexes a load
    bool is_undef = false;                  // the definition is `undef`: no code, leave it unscheduled
    bool is_extern = false;
    bool is_associative = false;       // every value of the update proven associative: terms are grouped in any way
    bool is_commutative = false;       // and they come in any order, too
    bool has_safe_identities = false;  // of an associative update: partial results may be of nothing
    // Of an update of 32 bits whose steps may be lanes of vectors, the bytes of what these load: 1 of a sum of products
    // of bytes, one of them signed; 2 of products of what signed words hold; 4 of a sum or an extremum of values as
    // they are; 0 of others.
    int32_t lane_bytes = 0;
    bool is_identity = false;       // a single load and nothing else
    float stepped_addresses = 0;    // of the operations in Address: they move with the loops by known steps
    bool ends_in_product = false;   // its only value is a multiplication of floats
    bool ends_in_quotient = false;  // its only value is a division of floats, by no literal
    bool has_predicate = false;     // the RDom of the update carries a `where`
    // How far, depends on the point, `where(k <= y)`, or on numbers and other loops, so that less is read: `where(k <
    // j)`.
    bool ends_by_point = false;
    bool has_loading_condition = false;       // how far, is read: `where(k < count[y])`
    bool ends_by_place = false;               // how far, depends on the point, and nothing is read to tell
    std::vector<std::vector<int64_t>> seams;  // [loops] values at which a comparison or a clamp turns, in order
    std::vector<uint8_t> condition_loops;     // [loops] along which it turns, but for what is likely
    std::vector<uint8_t> ended_loops;         // [loops] that a condition is about, likely or not
    // [loops] in vectors along which a condition tells lanes apart and leaves a load that all of them share without it:
    // Halide 21 masks loads of vectors alone, so the scalar goes as far as any loop does that the condition would end.
    std::vector<uint8_t> bare_loops;
    std::vector<uint8_t> promised_loops;  // [loops] promised, in coordinates, not to go too far, as of rfactor
    bool is_unfit_for_opencl = false;     // it counts bits, or has what Halide 21 makes wrong code of for OpenCL
};

struct Func {
    std::string name;                  // as Halide names it, with its `$n` suffix if any
    std::vector<std::string> args;     // pure Vars, in storage order (first is innermost)
    std::vector<int32_t> value_bytes;  // one entry a tuple element
    bool is_input = false;             // the wrapper of an ImageParam or Buffer: never scheduled
    bool is_output = false;
    bool is_extern = false;
    bool is_boundary_condition = false;  // clamps or selects around a single load
    // Position in `Pipeline::get_func` of the pipeline as it was given; what an rfactor made has the next free numbers,
    // and what `in()` made those after.
    int32_t origin = -1;
    bool is_wrapper = false;       // a copy for one consumer, made by `in()` of ours: not there if inlined
    std::vector<int32_t> joint;    // of outputs in loops that they share, the origins of all; empty for others
    bool is_inlinable = false;     // pure, internal, no updates, and inlined it asks no more of inputs
    bool must_inline = false;      // asked for points without bounds: Halide compiles it only inlined
    bool is_size_read = false;     // an input of which the algorithm asks how large it is, as a clamp to its end does
    bool has_known_place = false;  // an output, of the place or size of which Halide is told something
    std::vector<int32_t> stages;   // Stage ids, pure definition first; an input has none
    std::vector<BoundPair> computed;  // [dimensions] region computed, over the region required (updates may need more)
    std::vector<Interval> root_region;  // [dimensions] region required of it when everything is computed at root
    std::vector<bool> fixed_dims;       // [dimensions] is the region required the same at every size of the outputs?
    int32_t dense_dim = 0;              // of an input or output: whose points are neighbours in memory, -1 if none are
    int32_t row_dim = 0;  // of an input or output: along which its rows lie, those of pixels where it is interleaved
    int32_t interleaved = 1;         // places of the dense dimension between neighbours along rows: 3 of RGB pixels
    std::vector<Interval> estimate;  // [dimensions] for outputs and inputs, empty otherwise
    int32_t dimensions() const { return static_cast<int32_t>(args.size()); }
    // Does Halide 21 take the memory of this output for aligned, and make no right vectors of what reads it? It does
    // where it knows in which place of a vector a load starts: of those whose first point it is told, and by an update
    // of its own of those of one dimension.
    bool is_taken_for_aligned(bool by_itself) const {
        return is_output && (has_known_place || (by_itself && dimensions() == 1));
    }
    int32_t bytes_per_point() const {
        int32_t total = 0;
        for (int32_t bytes : value_bytes) {
            total += bytes;
        }
        return total;
    }
    // Of one value of a Tuple, in the mean: each lies in memory of its own.
    double bytes_per_value() const {
        return static_cast<double>(bytes_per_point()) / static_cast<double>(std::max<size_t>(1, value_bytes.size()));
    }
};

// A scalar parameter that the algorithm uses, with the value that stood for it during extraction.
struct ScalarParameter {
    std::string name;
    std::string type;  // as Halide prints it: "int32", "float32"
    double estimate = 0;
    bool has_estimate = false;  // a parameter that no size depends on may have none
};

// Funcs are in the order of Halide's `Pipeline::get_func`: producers before consumers. Ids are positions. An image that
// is read directly, not through the wrapper Func that Halide makes for an ImageParam, has no place in that order: it
// follows after all the Funcs that have one, as an input (`real_func_count` tells where those begin).
struct PipelineDag {
    std::vector<Func> funcs;
    std::vector<Stage> stages;
    std::vector<int32_t> outputs;  // Func ids, in the order of the pipeline's outputs
    uint64_t algorithm_hash = 0;   // of the algorithm without schedule, stable across processes and `$n` suffixes
    uint64_t estimates_hash = 0;
    std::vector<ScalarParameter> parameters;
    int32_t real_func_count = 0;  // Funcs that `Pipeline::get_func` knows; ids from here on are images read directly
};

inline constexpr int kOpClassCount = 41;

}  // namespace metol
