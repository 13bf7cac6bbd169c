"""Halide kernels whose run time is a number of arithmetic operations on values in registers.

Each probe is a reduction with several independent accumulators, fully unrolled and vectorized, so that what bounds it
is the throughput of the operation in its step and neither its latency nor memory.
"""

import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import halide as hl

if TYPE_CHECKING:
    # Whoever lowers a schedule imports this room, and would wait for NumPy longer than for most pipelines.
    from numpy.typing import NDArray

__all__ = [
    "CYCLES_PER_STEP",
    "OPERATION_PROBES",
    "OperationProbe",
    "Probe",
    "build_gather",
    "build_operation",
    "build_scalar",
    "dependent_steps",
    "page_aligned",
]

# An Expr, Func, Param, Target or Callable of Halide, whose Python module carries no types.
_Halide = Any

# Elements of the table that the gather reads: 4 KiB, in L1 on every CPU.
_TABLE_ELEMENTS: Final = 1024
# Operations per element of the scalar probe: enough to hide its loop, few enough that iterations overlap.
_SCALAR_OPERATIONS: Final = 16
# Dependent one-cycle instructions in one step of a chain whose length in cycles must be known.
CYCLES_PER_STEP: Final = 8


@dataclass(frozen=True, slots=True)
class Probe:
    """A compiled kernel that repeats something countable."""

    name: str
    """The quantity that it measures, alone or with others."""
    run: Callable[[int], None]
    """Runs this number of repetitions."""
    events: float
    """Events (operations, bytes, launches, ...) in one repetition."""


@dataclass(frozen=True, slots=True)
class OperationProbe:
    """One step of a chain of operations.

    `step` maps the accumulators and two loop-invariant operands, each one Expr per type, to the next accumulators.
    """

    name: str
    """The name of the probe."""
    types: tuple[str, ...]
    """NumPy names of the accumulators' types; the widest sets the lanes."""
    step: Callable[[Sequence[_Halide], Sequence[_Halide], Sequence[_Halide]], tuple[_Halide, ...]]
    """The next values of the accumulators."""
    operations: int = 1
    """Operations of the measured kind in one step."""
    chains: int = 10
    """Independent accumulators: they hide a latency of 5 cycles at two operations a cycle, in 16 registers."""
    scalar: bool = False
    """Whether to use one lane in place of a native vector."""


def _strict(value: _Halide) -> _Halide:
    # Float operations are otherwise re-associated, and a chain of additions of the same operand becomes one.
    return hl.strict_float(value)


# Steps of one operation where its result can be its next operand, else the cheapest operation that closes the chain.
# A component that reads another one does so outside of any function call: within one, Halide 21 hands it the new value.
OPERATION_PROBES: Final = (
    OperationProbe("clock", ("int32",), lambda p, a, b: (dependent_steps(p[0], a[0], b[0]),), CYCLES_PER_STEP, 1, True),
    OperationProbe("f32_add", ("float32",), lambda p, a, b: (_strict(p[0] + a[0]),)),
    OperationProbe("f32_mul", ("float32",), lambda p, a, b: (_strict(p[0] * a[0]),)),
    OperationProbe("f32_fma", ("float32",), lambda p, a, b: (p[0] * a[0] + b[0],)),
    OperationProbe("f32_min_max", ("float32",), lambda p, a, b: (hl.max(hl.min(p[0], a[0]), b[0]),), 2),
    OperationProbe("f32_compare_select", ("float32",), lambda p, a, b: (hl.select(p[0] < a[0], b[0], p[0]),)),
    OperationProbe("f32_div", ("float32",), lambda p, a, b: (_strict(a[0] / p[0]),)),
    OperationProbe("f32_sqrt", ("float32",), lambda p, a, b: (hl.sqrt(_strict(p[0] + a[0])),)),
    OperationProbe("f32_exp", ("float32",), lambda p, a, b: (hl.exp(p[0] * b[0]),), chains=4),
    OperationProbe("f32_log", ("float32",), lambda p, a, b: (hl.log(p[0] + a[0]),), chains=4),
    OperationProbe("f32_pow", ("float32",), lambda p, a, b: (hl.pow(p[0], a[0]),), chains=4),
    OperationProbe("f32_sin", ("float32",), lambda p, a, b: (hl.sin(p[0] + a[0]),), chains=2),
    OperationProbe("f64_fma", ("float64",), lambda p, a, b: (p[0] * a[0] + b[0],)),
    OperationProbe("i32_add", ("int32",), lambda p, a, b: (p[0] + a[0],)),
    OperationProbe("i32_mul", ("int32",), lambda p, a, b: (p[0] * a[0],)),
    OperationProbe("i32_div", ("int32",), lambda p, a, b: (a[0] / (p[0] | b[0]),), chains=2),
    OperationProbe("i32_div_constant", ("int32",), lambda p, a, b: ((p[0] ^ a[0]) / 7,)),
    OperationProbe("i16_add", ("int16",), lambda p, a, b: (p[0] + a[0],)),
    OperationProbe("i16_mul", ("int16",), lambda p, a, b: (p[0] * a[0],)),
    OperationProbe("u8_add", ("uint8",), lambda p, a, b: (p[0] + a[0],)),
    OperationProbe("convert_i32_f32", ("float32",), lambda p, a, b: (hl.f32(hl.i32(p[0]) ^ hl.i32(a[0])),), 2),
    OperationProbe(
        "convert_u8_f32", ("uint8", "uint32"), lambda p, a, b: (p[0] + a[0], p[1] ^ _bits(hl.f32(p[0]))), 1, 5
    ),
    OperationProbe(
        "convert_f32_u8", ("uint32", "uint8"), lambda p, a, b: (p[0] ^ a[0], p[1] ^ hl.u8(_real(p[0]))), 1, 5
    ),
    OperationProbe("widen_u8_u16", ("uint8", "uint16"), lambda p, a, b: (p[0] + a[0], p[1] ^ hl.u16(p[0])), 1, 5),
    OperationProbe("narrow_u16_u8", ("uint16", "uint8"), lambda p, a, b: (p[0] + a[0], p[1] ^ hl.u8_sat(p[0])), 1, 5),
)


def _bits(value: _Halide) -> _Halide:
    return hl.reinterpret(hl.UInt(32), value)


def _real(bits: _Halide) -> _Halide:
    return hl.reinterpret(hl.Float(32), bits)


def dependent_steps(value: _Halide, a: _Halide, b: _Halide) -> _Halide:
    """Chain additions and exclusive ors: `CYCLES_PER_STEP` cycles on any core, as each waits for the one before."""
    for _ in range(CYCLES_PER_STEP // 2):
        value = (value + a) ^ b
    return value


def page_aligned(shape: tuple[int, ...], type_name: str) -> "NDArray[Any]":
    """Return zeros on pages of the kind that malloc hands out; NumPy would ask for huge ones, and align less."""
    import numpy as np

    count = int(np.prod(shape))
    memory = mmap.mmap(-1, count * np.dtype(type_name).itemsize)
    return np.frombuffer(memory, dtype=type_name, count=count).reshape(shape)


def _halide_type(type_name: str) -> _Halide:
    import numpy as np

    kind, bits = np.dtype(type_name).kind, np.dtype(type_name).itemsize * 8
    return {"f": hl.Float, "i": hl.Int, "u": hl.UInt}[kind](bits)


def build_operation(probe: OperationProbe, vector_bytes: int, target: _Halide) -> Probe:
    """Compile one chain.

    The loop over `r` holds `chains` copies of the step and nothing else; `acc` lives in registers.

    Args:
        probe: What to chain.
        vector_bytes: Bytes of a native vector.
        target: The JIT target.
    """
    import numpy as np

    lanes = 1 if probe.scalar else vector_bytes // max(np.dtype(name).itemsize for name in probe.types)
    x, k, n = hl.Var("x"), hl.Var("k"), hl.Param(hl.Int(32), "n")
    operands = [[hl.ImageParam(_halide_type(name), 1) for name in probe.types] for _ in "ab"]
    inits = [hl.ImageParam(_halide_type(name), 2) for name in probe.types]
    r = hl.RDom([(0, n)], "r")
    at = x + r.x % 1
    acc, out = hl.Func("acc"), hl.Func(probe.name)
    a, b = ([operand[at] for operand in group] for group in operands)
    if len(probe.types) == 1:
        acc[x, k] = inits[0][x, k]
        acc[x, k] = probe.step([acc[x, k]], a, b)[0]
        out[x, k] = acc[x, k]
    else:
        acc[x, k] = tuple(init[x, k] for init in inits)
        acc[x, k] = probe.step([acc[x, k][i] for i in range(len(probe.types))], a, b)
        out[x, k] = acc[x, k][len(probe.types) - 1]
    _keep_in_registers(acc, out, (x, k, r.x), (lanes, probe.chains))

    call = out.compile_to_callable([n, *operands[0], *operands[1], *inits], target)
    # 1.0 and 0.5, 3 and 1: no operation below leaves the ordinary numbers, however often it is repeated.
    groups = ((1.0, 3), (0.5, 1), (1.25, 7))
    shapes = ((lanes,), (lanes,), (probe.chains, lanes))
    arrays = [
        _filled(shape, name, *values) for shape, values in zip(shapes, groups, strict=True) for name in probe.types
    ]
    arrays.append(page_aligned((probe.chains, lanes), probe.types[-1]))
    return Probe(probe.name, _runner(call, arrays), probe.chains * probe.operations)


def _keep_in_registers(acc: _Halide, out: _Halide, loops: tuple[_Halide, ...], extents: tuple[int, int]) -> None:
    x, k, r = loops
    lanes, chains = extents
    out.bound(x, 0, lanes).bound(k, 0, chains).unroll(k)
    acc.compute_root().store_in(hl.MemoryType.Register).unroll(k)
    acc.update().reorder(x, k, r).unroll(k)
    if lanes > 1:
        out.vectorize(x, lanes)
        acc.vectorize(x, lanes)
        acc.update().vectorize(x, lanes)


def _filled(shape: tuple[int, ...], type_name: str, real: float, integer: int) -> "NDArray[Any]":
    import numpy as np

    array = page_aligned(shape, type_name)
    # Words of 32 bits without a sign stand for the bits of a float.
    bits = np.float32(real).view("uint32") if real > 1 else integer
    array[...] = {"float32": real, "float64": real, "uint32": bits}.get(type_name, integer)
    return array


def _runner(call: _Halide, arrays: "list[NDArray[Any]]") -> Callable[[int], None]:
    buffers = [hl.Buffer(array) for array in arrays]

    def run(repetitions: int, _alive: "list[NDArray[Any]]" = arrays) -> None:
        call(repetitions, *buffers)

    return run


def build_gather(vector_bytes: int, target: _Halide, *, chains: int = 10) -> Probe:
    """Compile chains of vector loads by computed index from a table in L1; an event is one element."""
    import numpy as np

    lanes = vector_bytes // 4
    x, k, n = hl.Var("x"), hl.Var("k"), hl.Param(hl.Int(32), "n")
    table, init = hl.ImageParam(hl.Int(32), 1), hl.ImageParam(hl.Int(32), 2)
    r = hl.RDom([(0, n)], "r")
    acc, out = hl.Func("acc"), hl.Func("gather")
    acc[x, k] = init[x, k]
    acc[x, k] = table[(acc[x, k] + r.x % 1) & (_TABLE_ELEMENTS - 1)]
    out[x, k] = acc[x, k]
    _keep_in_registers(acc, out, (x, k, r.x), (lanes, chains))
    call = out.compile_to_callable([n, table, init], target)
    tables = page_aligned((_TABLE_ELEMENTS,), "int32")
    # Odd multiplier: a permutation of the table, so the lanes stay spread over it.
    tables[...] = (np.arange(_TABLE_ELEMENTS) * 421 + 97) % _TABLE_ELEMENTS
    starts = page_aligned((chains, lanes), "int32")
    starts[...] = np.arange(chains * lanes).reshape(chains, lanes)
    return Probe("gather", _runner(call, [tables, starts, page_aligned((chains, lanes), "int32")]), chains * lanes)


def build_scalar(target: _Halide) -> Probe:
    """Compile a scalar loop over L1 with a chain of operations on each element, which overlap between elements."""
    extent = 1024
    x, n, factors = hl.Var("x"), hl.Param(hl.Int(32), "n"), hl.ImageParam(hl.Float(32), 1)
    r = hl.RDom([(0, n)], "r")
    out = hl.Func("scalar_op")
    out[x] = hl.undef(hl.Float(32))
    value = out[x]
    for _ in range(_SCALAR_OPERATIONS // 2):
        value = _strict(_strict(value * factors[r.x % 1]) + factors[r.x % 1 + 1])
    out[x] = value
    out.update().reorder(x, r.x)
    call = out.compile_to_callable([n, factors], target)
    arrays = [_filled((2,), "float32", 1.0, 1), page_aligned((extent,), "float32")]
    return Probe("scalar_op", _runner(call, arrays), extent * _SCALAR_OPERATIONS)
