"""Halide kernels whose run time is memory traffic, allocation, page faults, or the launching of loops.

Sizes come from the caches of the machine. Memory is page-aligned and on ordinary pages, as what Halide allocates is.
"""

from collections.abc import Callable
from typing import Any, Final

import halide as hl

from metol.targets.cpu.operation_kernels import Probe, dependent_steps, page_aligned

__all__ = [
    "FRESH_BYTES",
    "LARGE_ELEMENTS",
    "build_allocation",
    "build_copy",
    "build_fresh",
    "build_loop",
    "build_parallel",
    "build_read",
    "build_scalar_load",
    "build_write",
]

# An Expr, Func, Param, Target or Callable of Halide, whose Python module carries no types.
_Halide = Any

# Vectors in flight in one iteration of the read and write kernels.
_VECTORS: Final = 8
# Elements of int32 between two touched points: one page of 4 KiB.
_PAGE_ELEMENTS: Final = 1024
# Elements of int32 in the large allocation: 64 MiB, beyond the 32 MiB up to which glibc may keep freed memory.
LARGE_ELEMENTS: Final = 16 << 20
FRESH_BYTES: Final = 4 * LARGE_ELEMENTS


def build_read(
    name: str, total_bytes: int, vector_bytes: int, target: _Halide, *, threads: int = 1, columns: int = 1
) -> Probe:
    """Compile repeated dense reads of `total_bytes`, split evenly among the threads; an event is one byte.

    Args:
        name: of the probe.
        total_bytes: read in one run.
        vector_bytes: of a native vector.
        target: to compile for.
        threads: that read.
        columns: into which the memory of a thread is divided, as an image is into tiles; read one after the other.
    """
    lanes = vector_bytes // 4
    chunks = max(total_bytes // (vector_bytes * _VECTORS * threads * columns), 1)
    x, k, t, n = hl.Var("x"), hl.Var("k"), hl.Var("t"), hl.Param(hl.Int(32), "n")
    data = hl.ImageParam(hl.Int(32), 4)
    data.dim(1).set_stride(lanes)
    data.dim(2).set_stride(lanes * _VECTORS)
    r = hl.RDom([(0, chunks), (0, columns), (0, n)], "r")
    acc, out = hl.Func("acc"), hl.Func(name)
    acc[x, k, t] = hl.i32(0)
    acc[x, k, t] = acc[x, k, t] ^ data[x, k, r.x * columns + r.y, t]
    out[x, k, t] = acc[x, k, t]
    out.bound(x, 0, lanes).bound(k, 0, _VECTORS).vectorize(x, lanes).unroll(k)
    acc.compute_at(out, t).store_in(hl.MemoryType.Register).vectorize(x, lanes).unroll(k)
    acc.update().reorder(x, k, r.x, r.y, r.z).vectorize(x, lanes).unroll(k)
    if threads > 1:
        out.parallel(t)
    call = out.compile_to_callable([n, data], target)
    array = page_aligned((threads, chunks * columns, _VECTORS, lanes), "int32")
    array[...] = 1
    return Probe(name, _runner(call, array, page_aligned((threads, _VECTORS, lanes), "int32")), array.nbytes)


def build_scalar_load(vector_bytes: int, target: _Halide) -> Probe:
    """Compile broadcasts of scalars from L1 into vectors; an event is one load."""
    lanes, chunks = vector_bytes // 4, 256
    x, k, n = hl.Var("x"), hl.Var("k"), hl.Param(hl.Int(32), "n")
    data = hl.ImageParam(hl.Int(32), 2)
    data.dim(1).set_stride(_VECTORS)
    r = hl.RDom([(0, chunks), (0, n)], "r")
    acc, out = hl.Func("acc"), hl.Func("scalar_load")
    acc[x, k] = x
    acc[x, k] = acc[x, k] ^ data[k, r.x]
    out[x, k] = acc[x, k]
    out.bound(x, 0, lanes).bound(k, 0, _VECTORS).vectorize(x, lanes).unroll(k)
    acc.compute_root().store_in(hl.MemoryType.Register).vectorize(x, lanes).unroll(k)
    acc.update().reorder(x, k, r.x, r.y).vectorize(x, lanes).unroll(k)
    call = out.compile_to_callable([n, data], target)
    run = _runner(call, page_aligned((chunks, _VECTORS), "int32"), page_aligned((_VECTORS, lanes), "int32"))
    return Probe("l1_scalar_load", run, chunks * _VECTORS)


def build_write(name: str, total_bytes: int, vector_bytes: int, target: _Halide, *, threads: int = 1) -> Probe:
    """Compile repeated dense stores over `total_bytes` of memory touched before; an event is one byte."""
    return _build_stores(name, total_bytes, vector_bytes, target, threads, None)


def build_copy(name: str, total_bytes: int, vector_bytes: int, target: _Halide, *, threads: int = 1) -> Probe:
    """Compile repeated dense copies of `total_bytes`, split evenly among the threads; an event is one byte copied."""
    return _build_stores(name, total_bytes, vector_bytes, target, threads, hl.ImageParam(hl.Int(32), 2))


def _build_stores(
    name: str, total_bytes: int, vector_bytes: int, target: _Halide, threads: int, data: _Halide | None
) -> Probe:
    """Compile dense stores of what `data` has in the same place, or of a number."""
    lanes = vector_bytes // 4
    block = lanes * _VECTORS
    extent = max(total_bytes // (4 * block * threads), 1) * block
    x, xo, xi, t, n = hl.Var("x"), hl.Var("xo"), hl.Var("xi"), hl.Var("t"), hl.Param(hl.Int(32), "n")
    r = hl.RDom([(0, n)], "r")
    out = hl.Func(name)
    out[x, t] = hl.undef(hl.Int(32))
    out[x, t] = r.x + 1 if data is None else data[x, t] ^ r.x
    out.bound(x, 0, extent)
    out.update().reorder(x, r.x, t).split(x, xo, xi, block).vectorize(xi, lanes).unroll(xi)
    if threads > 1:
        out.update().parallel(t)
    inputs = [] if data is None else [data]
    call = out.compile_to_callable([n, *inputs], target)
    arrays = [page_aligned((threads, extent), "int32") for _ in (*inputs, out)]
    for array in arrays:
        array[...] = 1
    return Probe(name, _runner(call, *arrays), arrays[-1].nbytes)


def build_fresh(name: str, vector_bytes: int, target: _Halide, *, threads: int = 1) -> Probe:
    """Compile a pipeline that allocates 64 MiB, writes it once and reads one element a page; an event is one byte."""
    lanes = vector_bytes // 4
    x, xo, xi = hl.Var("x"), hl.Var("xo"), hl.Var("xi")
    fresh, out = hl.Func("fresh"), hl.Func(name)
    fresh[x] = x + 1
    out[x] = fresh[x * _PAGE_ELEMENTS]
    fresh.compute_root().vectorize(x, lanes * _VECTORS, hl.TailStrategy.RoundUp)
    if threads > 1:
        # Four tasks per thread level out a thread that is held up.
        fresh.split(
            x, xo, xi, LARGE_ELEMENTS // (lanes * _VECTORS * threads * 4), hl.TailStrategy.GuardWithIf
        ).parallel(xo)
    call = out.compile_to_callable([], target)
    buffer = hl.Buffer(array := page_aligned((LARGE_ELEMENTS // _PAGE_ELEMENTS,), "int32"))

    def run(repetitions: int, _alive: Any = array) -> None:
        for _ in range(repetitions):
            call(buffer)

    return Probe(name, run, FRESH_BYTES)


def build_allocation(name: str, target: _Halide, *, on_heap: bool, storage_elements: int = 1) -> Probe:
    """Compile a loop that allocates, writes 1 KiB, reads it and frees, on the stack or on the heap."""
    elements = 256
    x, n = hl.Var("x"), hl.Param(hl.Int(32), "n")
    r = hl.RDom([(0, n)], "r")
    temporary, out = hl.Func("temporary"), hl.Func(name)
    temporary[x] = x * n
    out[x] = hl.undef(hl.Int(32))
    out[x] = temporary[x] + r.x
    out.bound(x, 0, elements).update().reorder(x, r.x).vectorize(x, 8)
    temporary.compute_at(out, r.x).vectorize(x, 8)
    temporary.store_in(hl.MemoryType.Heap if on_heap else hl.MemoryType.Stack)
    if storage_elements > 1:
        temporary.align_storage(x, storage_elements)
    call = out.compile_to_callable([n], target)
    return Probe(name, _runner(call, page_aligned((elements,), "int32")), 1)


def build_parallel(name: str, tasks: int, steps: int, target: _Halide) -> Probe:
    """Compile a serial loop of parallel loops; an event is one launch.

    Each task is a chain of dependent instructions of known length, for an empty one would often be over before a second
    thread has seen it.

    Args:
        name: Name of the probe.
        tasks: Tasks of one launch.
        steps: Steps of `CYCLES_PER_STEP` cycles in one task.
        target: The JIT target.
    """
    x, n, length = hl.Var("x"), hl.Param(hl.Int(32), "n"), hl.Param(hl.Int(32), "length")
    operands = hl.ImageParam(hl.Int(32), 1)
    r, q = hl.RDom([(0, n)], "r"), hl.RDom([(0, length)], "q")
    work, out = hl.Func("work"), hl.Func(name)
    work[x] = x
    work[x] = dependent_steps(work[x], operands[q.x % 1], operands[q.x % 1 + 1])
    out[x] = hl.undef(hl.Int(32))
    out[x] = work[x] + r.x
    work.compute_at(out, x).store_in(hl.MemoryType.Register)
    out.update().reorder(x, r.x).parallel(x)
    call = out.compile_to_callable([n, length, operands], target)
    operand_values, result = page_aligned((2,), "int32"), page_aligned((tasks,), "int32")
    operand_values[...] = (3, 1)
    buffers = [hl.Buffer(operand_values), hl.Buffer(result)]

    def run(repetitions: int, _alive: Any = (operand_values, result)) -> None:
        call(repetitions, steps, *buffers)

    return Probe(name, run, 1)


def build_loop(name: str, extent: int, target: _Halide) -> Probe:
    """Compile an outer loop around a scalar loop of `extent` iterations; an event is one run of the inner loop."""
    outer = 256
    x, y, n = hl.Var("x"), hl.Var("y"), hl.Param(hl.Int(32), "n")
    r = hl.RDom([(0, n)], "r")
    out = hl.Func(name)
    out[x, y] = hl.undef(hl.Int(32))
    out[x, y] = r.x + x
    out.update().reorder(x, y, r.x)
    call = out.compile_to_callable([n], target)
    return Probe(name, _runner(call, page_aligned((outer, extent), "int32")), outer)


def _runner(call: _Halide, *arrays: Any) -> Callable[[int], None]:
    buffers = [hl.Buffer(array) for array in arrays]

    def run(repetitions: int, _alive: Any = arrays) -> None:
        call(repetitions, *buffers)

    return run
