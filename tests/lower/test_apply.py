import halide as hl
import numpy as np
import pytest
from lower_cases import BLUR, CASES, GUARD, Case, X, build_blur, build_reduction, is_same, on, realize, realize_at_root

from metol.errors import ScheduleMismatchError
from metol.lower import Call, RefusedDirectiveError, RVar, Schedule, Site, Tail, Var, describe_funcs


def schedule_for(build, *directives) -> Schedule:
    return Schedule(funcs=describe_funcs(build()), directives=directives)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_apply_keeps_the_result(case: Case) -> None:
    pipeline = case.build()
    case.schedule().apply(pipeline)
    for size in case.sizes:
        assert is_same(realize(pipeline, size), case.expected(size))


def test_apply_makes_the_loops_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    pipeline = build_blur()
    BLUR.schedule().apply(pipeline)
    pipeline.print_loop_nest()
    loops = [
        line.split(" in ")[0].strip().rstrip(":") for line in capfd.readouterr().err.splitlines() if "..." not in line
    ]
    assert loops[:7] == [
        "produce blur_y",
        "parallel y.y_o",
        "for x.x_o",
        "produce blur_x",
        "for y",
        "produce source",
        "for x.x",
    ]


def test_apply_finds_vars_without_names_by_position() -> None:
    recorded = describe_funcs(build_blur(hl.Var(), hl.Var()))
    x, y = (Var(name) for name in recorded[2].args)
    inner, outer = Var("inner"), Var("outer")
    directives = (
        on(2, 0, Call.SPLIT, x, outer, inner, 8, GUARD),
        on(2, 0, Call.REORDER, inner, y, outer),
        on(1, 0, Call.COMPUTE_AT, Site(2, 0, y)),
    )
    schedule = Schedule(funcs=recorded, directives=directives)
    pipeline = build_blur(hl.Var(), hl.Var())
    assert describe_funcs(pipeline)[2].args != recorded[2].args
    schedule.apply(pipeline)
    assert is_same(realize(pipeline, (9, 4)), realize_at_root(build_blur, (9, 4)))


PLANE = np.arange(42, dtype=np.uint8).reshape(6, 7)


def build_clamped() -> hl.Pipeline:
    x, y, window = hl.Var("x"), hl.Var("y"), hl.RDom([(0, 3)])
    clamped = hl.BoundaryConditions.repeat_edge(hl.Buffer(PLANE))
    total = hl.Func()
    total[x, y] = hl.u32(0)
    total[x, y] += hl.u32(clamped[x + window.x, y])
    return hl.Pipeline(total)


def test_apply_finds_everything_without_a_name() -> None:
    recorded = describe_funcs(build_clamped())
    assert [func.args for func in recorded[:-1]] == [("_0", "_1")] * 2
    (window,) = recorded[2].rvars[0]
    directives = (
        on(2, 1, Call.UNROLL, RVar(window)),
        on(1, 0, Call.COMPUTE_AT, Site(2, 1, Var("x"))),
        on(1, 0, Call.VECTORIZE, Var("_0"), 4, GUARD),
    )
    pipeline = build_clamped()
    assert describe_funcs(pipeline)[2] != recorded[2]
    Schedule(funcs=recorded, directives=directives).apply(pipeline)
    assert is_same(realize(pipeline, (9, 8)), realize_at_root(build_clamped, (9, 8)))


def test_apply_takes_the_last_func_of_a_pipeline() -> None:
    blur_y = build_blur().get_func(2)
    BLUR.schedule().apply(blur_y)
    assert is_same(realize(hl.Pipeline(blur_y), (9, 4)), realize_at_root(build_blur, (9, 4)))


@pytest.mark.parametrize("is_func", [True, False])
def test_apply_makes_halide_compile_again(*, is_func: bool) -> None:
    whole = build_gpu()
    pipeline = whole.get_func(0) if is_func else whole
    pipeline.realize(hl.Buffer(hl.Int(32), [3, 3]))
    schedule_for(build_gpu, on(0, 0, Call.VECTORIZE, X, 8, Tail.SHIFT_INWARDS)).apply(pipeline)
    with pytest.raises(hl.HalideError, match="before the min"):  # shifting inwards needs 8 points
        pipeline.realize(hl.Buffer(hl.Int(32), [3, 3]))


def test_apply_works_on_a_deserialized_pipeline(tmp_path) -> None:
    path = str(tmp_path / "blur.hlpipe")
    hl.serialize_pipeline(build_blur(), path)
    pipeline = hl.deserialize_pipeline(path, {})
    BLUR.schedule().apply(pipeline)
    assert is_same(realize(pipeline, (9, 4)), realize_at_root(build_blur, (9, 4)))


@pytest.mark.parametrize("loop", ["x", "y"])
def test_compute_at_reaches_every_stage_that_reads(loop: str) -> None:
    def build() -> hl.Pipeline:
        x, y = hl.Var("x"), hl.Var("y")
        producer, consumer = hl.Func("producer"), hl.Func("consumer")
        producer[x, y] = x + y
        consumer[x, y] = producer[x, y]
        consumer[x, y] += producer[x + 1, y]
        return hl.Pipeline(consumer)

    pipeline = build()
    schedule_for(build, on(0, 0, Call.COMPUTE_AT, Site(1, 0, Var(loop)))).apply(pipeline)
    assert is_same(realize(pipeline, (5, 3)), realize_at_root(build, (5, 3)))


def test_root_is_a_place() -> None:
    pipeline = build_blur()
    root = Site(2, 0, None)
    schedule_for(build_blur, on(1, 0, Call.COMPUTE_AT, root), on(0, 0, Call.COMPUTE_AT, root)).apply(pipeline)
    assert is_same(realize(pipeline, (5, 3)), realize_at_root(build_blur, (5, 3)))


def build_gpu() -> hl.Pipeline:
    x, y = hl.Var("x"), hl.Var("y")
    flat = hl.Func("flat")
    flat[x, y] = x + y
    return hl.Pipeline(flat)


def test_gpu_loops_reach_the_kernel(tmp_path) -> None:
    pipeline = build_gpu()
    inner, outer = Var("x_i"), Var("x_o")
    schedule_for(
        build_gpu,
        on(0, 0, Call.SPLIT, X, outer, inner, 16, GUARD),
        on(0, 0, Call.GPU_BLOCKS, outer, Var("y")),
        on(0, 0, Call.GPU_THREADS, inner),
    ).apply(pipeline)
    lowered = tmp_path / "flat.stmt"
    target = hl.Target("x86-64-linux-opencl")
    pipeline.compile_to_lowered_stmt(str(lowered), [], hl.StmtOutputFormat.Text, target)
    text = lowered.read_text(encoding="utf-8")
    assert "get_group_id(1)" in text
    assert "get_local_id(0)" in text


def other_count() -> hl.Pipeline:
    return build_gpu()


def other_name() -> hl.Pipeline:
    pipeline, x, y = build_blur(), hl.Var("x"), hl.Var("y")
    other = hl.Func("other")
    other[x, y] = pipeline.get_func(1)[x, y]
    return hl.Pipeline(other)


@pytest.mark.parametrize(
    ("made_for", "applied_to", "message"),
    [
        (build_blur, build_gpu, r"it has 1 Funcs \(flat\), the schedule is for 3 \(source, blur_x, blur_y\)"),
        (build_blur, other_name, "the name of Func 2, `blur_y`, is other, not blur_y"),
    ],
)
def test_apply_refuses_another_pipeline(made_for, applied_to, message: str) -> None:
    with pytest.raises(ScheduleMismatchError, match=message):
        schedule_for(made_for).apply(applied_to())


def build_one(dimensions: int = 2, *, wide: bool = False, updates: int = 1, rdom: int = 1) -> hl.Pipeline:
    taps = hl.RDom([(0, 2)] * rdom, "taps")
    loops = [hl.Var(name) for name in "xyz"[:dimensions]]
    one = hl.Func("one")
    one[tuple(loops)] = hl.u32(0) if wide else hl.u16(0)
    for _ in range(updates):
        one[tuple(loops)] += hl.cast(hl.UInt(32) if wide else hl.UInt(16), sum(taps[i] for i in range(rdom)))
    return hl.Pipeline(one)


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ({"dimensions": 3}, "the number of dimensions of Func 0, `one`, is 3, not 2"),
        ({"wide": True}, "the type of Func 0, `one`, is uint32, not uint16"),
        ({"updates": 2}, "the number of updates of Func 0, `one`, is 2, not 1"),
        ({"rdom": 2}, r"the number of RVars of each update of Func 0, `one`, is \[2\], not \[1\]"),
    ],
)
def test_apply_names_the_first_difference(other: dict[str, int], difference: str) -> None:
    with pytest.raises(ScheduleMismatchError, match=difference):
        schedule_for(build_one).apply(build_one(**other))


def test_apply_knows_a_name_that_halide_gave_before() -> None:
    """Halide makes `_` of `$` in a name that it has given already."""
    first, second = (hl.Func("pay$") for _ in range(2))
    for func in (first, second):
        func[hl.Var("x")] = hl.Expr(1)
    assert first.name().partition("$1")[0] != second.name().partition("$1")[0]
    schedule = Schedule(describe_funcs(hl.Pipeline(first)), ())
    schedule.apply(hl.Pipeline(second))


def test_apply_names_the_directive_that_halide_refuses() -> None:
    def build() -> hl.Pipeline:
        bins, x = hl.Func("bins"), hl.Var("x")
        window = hl.RDom([(0, 9)], "window")
        bins[x] = 0
        bins[(window.x * window.x) % 3] += 1
        return hl.Pipeline(bins)

    directives = (on(0, 0, Call.PARALLEL, X), on(0, 1, Call.PARALLEL, RVar("window$x")))
    with pytest.raises(RefusedDirectiveError, match=r"directive 1 .*parallel\(window\$x\)`, on Func `bins.*race"):
        schedule_for(build, *directives).apply(build())


def test_describe_funcs_tells_updates_and_outputs() -> None:
    source, total = describe_funcs(build_reduction())
    assert (source.name, source.output, source.rvars) == ("source", -1, ())
    assert (total.name, total.output, total.rvars) == ("total", 0, (("taps$x", "taps$y"), ()))
    assert (total.dimensions, total.types) == (2, ("uint32",))
