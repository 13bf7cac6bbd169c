"""Instructions of PTX against NumPy, and what the emulated GPU refuses to do."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from launching import Kernel, error_of, run

THREADS = 64
RNG = np.random.default_rng(0)
Operands = list[npt.NDArray]


def integers(dtype: npt.DTypeLike, count: int = 2) -> Operands:
    """Values all over a type, with those at its ends."""
    limits = np.iinfo(dtype)
    ends = np.array([limits.min, limits.max, 0, 1], dtype)
    drawn = [RNG.integers(limits.min, limits.max, THREADS, dtype, endpoint=True) for _ in range(count)]
    return [np.concatenate([RNG.permutation(ends), values[len(ends) :]]) for values in drawn]


def floats(dtype: npt.DTypeLike = np.float32, count: int = 2, *, nan: bool = True) -> Operands:
    special = np.array([0, -1.5, np.inf, np.nan if nan else 1], dtype)
    drawn = [RNG.normal(scale=100, size=THREADS).astype(dtype) for _ in range(count)]
    return [np.concatenate([RNG.permutation(special), values[len(special) :]]) for values in drawn]


def halves_of(c: npt.NDArray, a: npt.NDArray, b: npt.NDArray | int) -> tuple[npt.NDArray, npt.NDArray]:
    """a * b + c, as its lower and its upper 32 bits."""
    whole = a.astype(np.uint64) * np.asarray(b, np.uint64) + c
    return (whole & np.uint64(0xFFFFFFFF)).astype(np.uint32), (whole >> np.uint64(32)).astype(np.uint32)


def towards_zero(exact: npt.NDArray) -> npt.NDArray:
    nearest = exact.astype(np.float32)
    return np.where(abs(nearest) > abs(exact), np.nextafter(nearest, np.float32(0)), nearest)


I32, U32, I64, F32, F64 = np.int32, np.uint32, np.int64, np.float32, np.float64

OPERATIONS: dict[str, tuple[Operands, npt.DTypeLike, Callable[..., npt.NDArray]]] = {
    "add.s32 {out}, {a}, {b};": (integers(I32), I32, np.add),
    "sub.s64 {out}, {a}, {b};": (integers(I64), I64, np.subtract),
    "mul.lo.s32 {out}, {a}, {b};": (integers(I32), I32, np.multiply),
    "mul.hi.u32 {out}, {a}, {b};": (integers(U32), U32, lambda a, b: (a.astype("u8") * b >> 32).astype("u4")),
    "mul.wide.s32 {out}, {a}, {b};": (integers(I32), I64, lambda a, b: a.astype("i8") * b),
    "mul.wide.u32 {out}, {a}, {b};": (integers(U32), np.uint64, lambda a, b: a.astype("u8") * b),
    "mad.lo.s32 {out}, {a}, {b}, {c};": (integers(I32, 3), I32, lambda a, b, c: a * b + c),
    # What overflows, and what is borrowed; then integers of twice the length, as their lower and their upper half.
    "add.cc.u32 {out}, {a}, {b}; addc.u32 {out}, 0, 0;": (integers(U32), U32, lambda a, b: halves_of(a, b, 1)[1]),
    "sub.cc.u32 {out}, {a}, {b}; subc.u32 {out}, 5, 3;": (integers(U32), U32, lambda a, b: U32(2) - (a < b)),
    "add.cc.u32 {out}, {a}, {b}; addc.cc.u32 {out}, {out}, {a}; addc.u32 {out}, 0, 0;": (
        integers(U32),
        U32,
        lambda a, b: (((a.astype("u8") + b) >> 32) + ((a.astype("u8") + b) & 0xFFFFFFFF) + a >> 32).astype("u4"),
    ),
    "mad.lo.cc.u32 {out}, {a}, {b}, {c}; madc.hi.u32 {out}, {a}, {b}, 0;": (
        integers(U32, 3),
        U32,
        lambda a, b, c: halves_of(c, a, b)[1],
    ),
    "mad.lo.cc.u32 {out}, {a}, {b}, {c};": (integers(U32, 3), U32, lambda a, b, c: halves_of(c, a, b)[0]),
    "mad.hi.cc.s32 {out}, {a}, {b}, {c};": (
        integers(I32, 3),
        I32,
        lambda a, b, c: ((a.astype("i8") * b >> 32) + c).astype("i4"),
    ),
    "sub.cc.s64 {out}, {a}, {b}; subc.s64 {out}, 0, 0;": (
        integers(I64),
        I64,
        lambda a, b: -(a.view("u8") < b.view("u8")).astype("i8"),
    ),
    "mul.rz.ftz.f32 {out}, {a}, {b};": (floats(), F32, lambda a, b: towards_zero(a.astype("f8") * b)),
    "min.s32 {out}, {a}, {b};": (integers(I32), I32, np.minimum),
    "max.u32 {out}, {a}, {b};": (integers(U32), U32, np.maximum),
    "shl.b32 {out}, {a}, 7;": (integers(U32, 1), U32, lambda a: a << U32(7)),
    "shl.b32 {out}, {a}, 40;": (integers(U32, 1), U32, np.zeros_like),
    "shr.s32 {out}, {a}, 5;": (integers(I32, 1), I32, lambda a: a >> 5),
    "shr.s32 {out}, {a}, 99;": (integers(I32, 1), I32, lambda a: np.where(a < 0, -1, 0)),
    "shr.u32 {out}, {a}, 5;": (integers(U32, 1), U32, lambda a: a >> U32(5)),
    "shf.l.wrap.b32 {out}, {a}, {b}, 8;": (
        integers(U32),
        U32,
        lambda a, b: (b << U32(8)) | (a >> U32(24)),
    ),
    "and.b32 {out}, {a}, {b};": (integers(U32), U32, np.bitwise_and),
    "xor.b64 {out}, {a}, {b};": (integers(I64), I64, np.bitwise_xor),
    "not.b32 {out}, {a};": (integers(U32, 1), U32, np.invert),
    "neg.s32 {out}, {a};": (integers(I32, 1), I32, np.negative),
    "abs.s32 {out}, {a};": (integers(I32, 1), I32, np.abs),
    "popc.b32 {out}, {a};": (integers(U32, 1), I32, lambda a: np.array([f"{v:b}".count("1") for v in a])),
    "clz.b32 {out}, {a};": (integers(U32, 1), I32, lambda a: np.array([32 - int(v).bit_length() for v in a])),
    "brev.b32 {out}, {a};": (
        integers(U32, 1),
        U32,
        lambda a: np.array([int(f"{v:032b}"[::-1], 2) for v in a], "u4"),
    ),
    "bfe.u32 {out}, {a}, 4, 9;": (integers(U32, 1), U32, lambda a: a >> U32(4) & U32(511)),
    "bfe.s32 {out}, {a}, 24, 8;": (integers(I32, 1), I32, lambda a: a >> 24),
    "bfi.b32 {out}, {a}, {b}, 8, 4;": (
        integers(U32),
        U32,
        lambda a, b: (b & ~U32(0xF00)) | ((a & U32(15)) << U32(8)),
    ),
    "prmt.b32 {out}, {a}, {b}, 0x0123;": (integers(U32), U32, lambda a, _: a.byteswap()),
    "add.rn.f32 {out}, {a}, {b};": (floats(), F32, np.add),
    "mul.f64 {out}, {a}, {b};": (floats(F64), F64, np.multiply),
    "div.rn.f32 {out}, {a}, {b};": (floats(), F32, np.divide),
    "fma.rn.f64 {out}, {a}, {b}, {c};": (
        [np.round(each) for each in floats(F64, 3, nan=False)],
        F64,
        lambda a, b, c: a * b + c,
    ),
    "min.f32 {out}, {a}, {b};": (floats(), F32, np.fmin),
    "max.f32 {out}, {a}, {b};": (floats(), F32, np.fmax),
    "sqrt.rn.f32 {out}, {a};": (floats(F32, 1), F32, np.sqrt),
    "ex2.approx.f32 {out}, {a};": (floats(F32, 1), F32, lambda a: np.exp2(a.astype("f8"))),
    "abs.f32 {out}, {a};": (floats(F32, 1), F32, np.abs),
    "neg.f32 {out}, {a};": (floats(F32, 1), F32, np.negative),
    "cvt.rzi.s32.f32 {out}, {a};": (
        floats(F32, 1, nan=False),
        I32,
        lambda a: np.clip(np.trunc(a.astype("f8")), -(2**31), 2**31 - 1),
    ),
    "cvt.rni.f32.f32 {out}, {a};": (floats(F32, 1), F32, np.rint),
    "cvt.rmi.f32.f32 {out}, {a};": (floats(F32, 1), F32, np.floor),
    "cvt.rn.f32.s32 {out}, {a};": (integers(I32, 1), F32, lambda a: a.astype("f4")),
    "cvt.rn.f32.u32 {out}, {a};": (integers(U32, 1), F32, lambda a: a.astype("f4")),
    "cvt.s64.s32 {out}, {a};": (integers(I32, 1), I64, lambda a: a),
    "cvt.u64.u32 {out}, {a};": (integers(U32, 1), np.uint64, lambda a: a),
    "cvt.s32.s8 {out}, {a};": (integers(I32, 1), I32, lambda a: a.astype("i1")),
    "cvt.u32.u16 {out}, {a};": (integers(U32, 1), U32, lambda a: a.astype("u2")),
    "cvt.sat.u8.s32 {out}, {a};": (integers(I32, 1), U32, lambda a: np.clip(a, 0, 255)),
    "cvt.f64.f32 {out}, {a};": (floats(F32, 1), F64, lambda a: a),
    "{{ .reg .b16 %h; cvt.rn.f16.f32 %h, {a}; cvt.f32.f16 {out}, %h; }}": (
        floats(F32, 1),
        F32,
        lambda a: a.astype("f2"),
    ),
    "div.s32 {out}, {a}, 7;": (integers(I32, 1), I32, lambda a: np.trunc(a / 7.0)),
    "rem.s32 {out}, {a}, 7;": (integers(I32, 1), I32, lambda a: np.fmod(a, 7)),
    "mov.b64 {out}, {{{a}, {b}}};": (integers(U32), np.uint64, lambda a, b: a | b.astype("u8") << np.uint64(32)),
    "mov.b64 {{_, {out}}}, {a};": (integers(np.uint64, 1), U32, lambda a: (a >> np.uint64(32)).astype("u4")),
    "{{ .reg .b32 tmp; mov.b64 {{tmp, {out}}}, {a}; }}": (
        integers(np.uint64, 1),
        U32,
        lambda a: (a >> np.uint64(32)).astype("u4"),
    ),
    "mov.b32 {out}, 0fC0000000;": (floats(F32, 1), F32, lambda a: np.full_like(a, -2)),
    "setp.lt.f32 %p1, {a}, {b}; selp.b32 {out}, 1, -1, %p1;": (floats(), I32, lambda a, b: np.where(a < b, 1, -1)),
    "setp.leu.f32 %p1, {a}, {b}; selp.b32 {out}, 1, -1, %p1;": (
        floats(),
        I32,
        lambda a, b: np.where(~(a > b), 1, -1),
    ),
    "setp.gt.u32 %p1, {a}, {b}; not.pred %p2, %p1; selp.b32 {out}, 5, 6, %p2;": (
        integers(U32),
        U32,
        lambda a, b: np.where(a > b, 6, 5),
    ),
    "mov.pred %p1, -1; setp.lt.s32 %p2, {a}, 0; xor.pred %p2, %p2, %p1; selp.b32 {out}, 5, 6, %p2;": (
        integers(I32, 1),
        I32,
        lambda a: np.where(a < 0, 6, 5),
    ),
    "setp.ne.s32 %p1, {a}, {b}; mov.u32 {out}, 3; @%p1 mov.u32 {out}, 4; @!%p1 add.s32 {out}, {out}, 5;": (
        [np.arange(THREADS, dtype="i4") % 4, np.arange(THREADS, dtype="i4") % 3],
        I32,
        lambda a, b: np.where(a != b, 4, 8),
    ),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_instruction_computes_what_numpy_does(operation: str) -> None:
    operands, dtype, expected = OPERATIONS[operation]
    with np.errstate(all="ignore"):
        wanted = np.asarray(expected(*operands)).astype(dtype)
    np.testing.assert_array_equal(run(operation, operands, dtype), wanted)


@pytest.mark.parametrize(
    ("kind", "argument", "source"),
    [
        ("bfly", "8, 31", lambda lane: lane ^ 8),
        ("down", "4, 31", lambda lane: lane + 4 if lane + 4 < 32 else lane),
        ("up", "1, 0", lambda lane: max(0, lane - 1)),
        ("idx", "3, 31", lambda _: 3),
        ("idx", "1, 0x181f", lambda lane: lane // 8 * 8 + 1),  # segments of eight lanes
    ],
)
def test_lanes_of_a_warp_exchange_values(kind: str, argument: str, source: Callable[[int], int]) -> None:
    values = np.arange(THREADS, dtype="i4") * 3
    got = run(f"shfl.sync.{kind}.b32 {{out}}, {{a}}, {argument}, -1;", [values], "i4")
    assert list(got) == [values[thread // 32 * 32 + source(thread % 32)] for thread in range(THREADS)]


def test_lanes_that_have_ended_are_not_waited_for() -> None:
    body = """
    setp.ge.s32 %p1, %r0, 16;
    @%p1 exit;
    shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;
    shfl.sync.bfly.b32 %r1, %r1, 2, 31, 0xffff;
    mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd1, %rd0, %rd1;
    st.global.b32 [%rd1], %r1;
    """
    values = np.full(THREADS, -1, "i4")
    assert Kernel(body).launch([values], threads=THREADS) == 0
    assert list(values) == [lane ^ 3 for lane in range(16)] + [-1] * (THREADS - 16)


@pytest.mark.parametrize(
    ("first", "then", "is_race"),
    [
        ("st.shared.b32 [%rd1], 5;", "", False),  # all write the same
        ("st.shared.b32 [%rd1], 5; st.shared.b32 [%rd1], 5;", "ld.shared.b32 %r3, [%rd1];", False),
        ("atom.shared.add.u32 %r2, [%rd1], 1;", "atom.shared.max.u32 %r2, [%rd1], 7;", False),
        ("st.shared.b32 [%rd1], %r0;", "", True),
        ("@%p1 st.shared.b32 [%rd1], 5;", "ld.shared.b32 %r3, [%rd1];", True),
        ("atom.shared.add.u32 %r2, [%rd1], 1;", "ld.shared.b32 %r3, [%rd1];", True),
        ("@%p1 st.shared.b32 [%rd1], 5;", "atom.shared.add.u32 %r2, [%rd1], 1;", True),
        ("@%p1 st.shared.b32 [%rd1], 5;", "bar.sync 0; atom.shared.add.u32 %r2, [%rd1], 1;", False),
    ],
)
def test_threads_may_share_a_word_in_some_ways(first: str, then: str, *, is_race: bool) -> None:
    body = f"setp.eq.s32 %p1, %r0, 0; mov.b64 %rd1, 8; {first} {then}"
    code = Kernel(body).launch([np.zeros(1, "i4")], threads=2, shared_bytes=64)
    assert code == (719 if is_race else 0)


REVERSED = """
    shl.b32 %r1, %r0, 2;
    cvt.u64.u32 %rd1, %r1;
    add.s64 %rd2, %rd0, %rd1;
    ld.global.b32 %r2, [%rd2];
    st.shared.b32 [%rd1], %r2;
    {barrier}
    xor.b32 %r3, %r1, 252;
    cvt.u64.u32 %rd3, %r3;
    ld.shared.b32 %r4, [%rd3];
    st.global.b32 [%rd2], %r4;
"""


def test_a_barrier_lets_threads_see_what_others_wrote() -> None:
    values = np.arange(THREADS, dtype="i4")
    assert Kernel(REVERSED.format(barrier="bar.sync 0;")).launch([values], threads=THREADS, shared_bytes=256) == 0
    assert list(values) == list(range(THREADS))[::-1]


def test_without_a_barrier_threads_race(capfd: pytest.CaptureFixture[str]) -> None:
    values = np.arange(THREADS, dtype="i4")
    code, text = error_of(capfd, Kernel(REVERSED.format(barrier="")), [values], threads=THREADS, shared_bytes=256)
    assert code == 719
    assert "without a barrier between them" in text
    assert "kernel kernel, line" in text


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("ld.global.b32 %r1, [%rd0+256];", 700, "4 bytes at"),
        ("st.global.b32 [%rd0+-4], %r0;", 700, "global memory, which is not there"),
        ("ld.global.b32 %r1, [%rd0+2];", 716, "no multiple of 4"),
        ("ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd0+4];", 716, "no multiple of 16"),
        ("mov.b64 %rd1, 64; st.shared.b32 [%rd1], %r0;", 700, "4 bytes at 64 of shared memory"),
        (
            "setp.lt.s32 %p1, %r0, 8; @%p1 shfl.sync.idx.b32 %r1, %r0, 0, 31, -1; bar.sync 0;",
            715,
            "one that is elsewhere",
        ),
        ("trap;", 719, "gives up"),
    ],
)
def test_what_a_gpu_would_stop_at_is_told(
    body: str, code: int, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    values = np.zeros(THREADS, "i4")
    found, text = error_of(capfd, Kernel(body), [values], threads=32, shared_bytes=64)
    assert found == code
    assert message in text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("wgmma.fence.sync.aligned;", "line 13: `wgmma.fence.sync.aligned` is not known"),
        ("add.s32 %r1, somewhere, 1;", "`somewhere` is not known"),
        ("mov.u32 %r1, %clock;", "`%clock` is not known"),
        ("add.f16x2 %r1, %r0, %r0;", "`add.f16x2` is not known"),
        ("fma.rn.relu.f32 %r1, %r0, %r0, %r0;", "`fma.rn.relu.f32` is not known"),
        ("cvt.rz.f32.f64 %r1, %rd0;", "`cvt.rz.f32.f64` is not known"),
        ("add.s32 %r1, %r0;", "`add.s32` is not known"),
        ("ld.global.v4.b32 {%r1, %r2}, [%rd0];", "`ld.global.v4.b32` is not known"),
        ("atom.global.inc.u32 %r1, [%rd0], %r0;", "`atom.global.inc.u32` is not known"),
        ("bra nowhere;", "there is no label `nowhere`"),
    ],
)
def test_what_is_not_known_is_told(body: str, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, _ = Kernel(body).load()
    assert code == 218
    assert message in capfd.readouterr().err


def test_more_threads_than_a_block_has_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    code, text = error_of(capfd, Kernel(""), [np.zeros(1, "i4")], threads=1025)
    assert (code, "more blocks, threads or shared memory" in text) == (1, True)


def test_loops_vectors_and_variables() -> None:
    body = """
    .local .align 16 .b8 __local_depot0[16];
    mov.b64 %rd5, __local_depot0;
    cvta.local.u64 %rd6, %rd5;
    mov.u32 %r1, 0;
    mov.u32 %r2, 0;
$LOOP:
    mul.wide.u32 %rd3, %r1, 4;
    mov.b64 %rd4, table;
    add.s64 %rd4, %rd4, %rd3;
    ld.global.b32 %r3, [%rd4];
    add.s32 %r2, %r2, %r3;
    add.s32 %r1, %r1, 1;
    setp.lt.s32 %p1, %r1, 3;
    @%p1 bra $LOOP;
    st.v2.b32 [%rd6+8], {%r2, %r1};
    ld.local.v2.b32 {%r4, %r5}, [%rd5+8];
    atom.global.add.u32 %r6, [%rd0], %r4;
    red.global.max.s32 [%rd0+4], %r5;
    """
    values = np.zeros(2, "i4")
    kernel = Kernel(body, variables=".global .align 4 .b32 table[3] = {5, 0x10, -1};")
    assert kernel.launch([values], threads=THREADS, blocks=3) == 0
    assert list(values) == [3 * THREADS * 20, 3]
