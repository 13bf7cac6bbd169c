"""What lies in memory that nobody has written."""

import ctypes
import gc
from types import FunctionType, ModuleType

import halide as hl
import numpy as np
from small_pipelines import blur

from metol import SearchOptions, _core, autoschedule
from metol.heap import LEFTOVER_BYTE, gives_back_memory, leave_ordinary_numbers
from metol.measure.case import BufferShape, Case
from metol.measure.compiled import CompiledPipeline

_SIZE = 1 << 18


def test_what_reads_memory_before_it_is_written_sees_numbers_that_nobody_expects() -> None:
    x = hl.Var("x")
    never_written, result = hl.Func("never_written"), hl.Func("result")
    never_written[x] = hl.undef(hl.Int(32))
    result[x] = never_written[x]
    never_written.compute_root()
    code = CompiledPipeline.compile(hl.Pipeline(result), hl.get_host_target())
    (read,), is_intact = code.run_once(Case("any", (), (BufferShape("i4", (0,), (_SIZE,), (0,)),)))
    assert is_intact
    np.testing.assert_array_equal(read, int.from_bytes(4 * bytes([LEFTOVER_BYTE]), "little"))


def test_nothing_is_filled_any_more_afterwards() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    with leave_ordinary_numbers():
        filled = libc.malloc(ctypes.c_size_t(_SIZE))
        assert ctypes.string_at(filled, _SIZE) == _SIZE * bytes([LEFTOVER_BYTE])
    # As large as only pages are that come from the system, and are zero.
    plain = libc.malloc(ctypes.c_size_t(1 << 26))
    assert not any(ctypes.string_at(plain, _SIZE)[64:])
    libc.free(ctypes.c_void_p(filled))
    libc.free(ctypes.c_void_p(plain))


def test_numbers_that_are_left_are_normal_ones() -> None:
    for byte in (LEFTOVER_BYTE, LEFTOVER_BYTE ^ 0xFF):
        for dtype in (np.float16, np.float32, np.float64):
            value = np.frombuffer(dtype().itemsize * bytes([byte]), dtype)[0]
            assert 1e-4 < abs(float(value)) < 1e4


def test_what_a_function_has_freed_is_zero_when_it_has_ended() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    size, count = 96 << 10, 200

    def allocate(how_many: int) -> list[ctypes.c_void_p]:
        return [ctypes.c_void_p(libc.malloc(ctypes.c_size_t(size))) for _ in range(how_many)]

    def use() -> list[ctypes.c_void_p]:
        blocks = allocate(count)
        for block in blocks:
            ctypes.memset(block, 1, size)
        for block in blocks[:-1]:
            libc.free(block)
        return blocks[-1:]

    def used_bytes() -> int:
        """How much of as many blocks is not zero, but for where pages and blocks meet."""
        blocks = allocate(count - 1)
        used = sum(ctypes.string_at(block, size)[8192:-8192].count(1) for block in blocks)
        for block in blocks:
            libc.free(block)
        return used

    kept = use()
    assert used_bytes() > count * size / 4  # by what else the process holds, some blocks lie elsewhere the second time
    kept += gives_back_memory(use)()
    assert used_bytes() == 0
    for block in kept:
        libc.free(block)


def test_a_result_keeps_nothing_of_its_search() -> None:
    result = autoschedule(blur(), options=SearchOptions(strategy="greedy"), threads=2)
    assert result.lower is not None
    reached = {id(result): result}
    waiting = [result.lower, *gc.get_referents(result)]
    while waiting:
        one = waiting.pop()
        if id(one) in reached or isinstance(one, type | ModuleType):
            continue
        reached[id(one)] = one
        waiting += [one.__closure__] if isinstance(one, FunctionType) else gc.get_referents(one)
    kinds = {type(one) for one in reached.values()}
    assert _core.FuncSchedule in kinds
    assert not kinds & {_core.Space, _core.States}
