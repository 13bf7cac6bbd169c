import re
from pathlib import Path

import halide as hl
import pytest
from lower_cases import CASES, GUARD, Case, build_at_root, build_blur, is_same, on, realize

from metol.lower import Call, Schedule, Var, describe_funcs

GOLDEN = Path(__file__).parent / "golden"


def run(source: str, pipeline: hl.Pipeline) -> None:
    namespace: dict[str, object] = {"__name__": "emitted"}
    exec(compile(source, "emitted", "exec"), namespace)
    namespace["apply_schedule"](pipeline)  # type: ignore[operator]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_python_keeps_the_result(case: Case) -> None:
    pipeline = case.build()
    run(case.schedule().to_python(), pipeline)
    for size in case.sizes:
        assert is_same(realize(pipeline, size), case.expected(size))


def without_counters(loop_nest: str) -> str:
    """Take off the numbers that Halide counts up over the life of the process."""
    return re.sub(r"\b(\w+?)(_\d+)?_intm\b", r"\1", re.sub(r"\bv\d+\b", "unnamed", loop_nest))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_python_makes_the_same_loops_as_apply(case: Case, capfd: pytest.CaptureFixture[str]) -> None:
    nests = []
    for schedule_it in (case.schedule().apply, lambda pipeline: run(case.schedule().to_python(), pipeline)):
        pipeline = case.build()
        schedule_it(pipeline)
        pipeline.print_loop_nest()
        nests.append(without_counters(capfd.readouterr().err))
    assert nests[0] == nests[1] != ""


@pytest.mark.parametrize("name", ["blur", "specialized", "rfactor", "staged"])
def test_python_reads_as_expected(name: str, check_golden) -> None:
    check_golden(CASES[name].schedule().to_python(), GOLDEN / f"{name}.py.txt")


def build_with_awkward_names() -> hl.Pipeline:
    lambda_var, pipeline_var = hl.Var("lambda"), hl.Var("pipeline")
    first, second, third = hl.Func("hl"), hl.Func("hl"), hl.Func("int \n} \\")
    first[lambda_var, pipeline_var] = lambda_var + pipeline_var
    second[lambda_var, pipeline_var] = first[lambda_var, pipeline_var] + 1
    third[lambda_var, pipeline_var] = second[lambda_var, pipeline_var] + 1
    return hl.Pipeline(third)


AWKWARD = (
    on(2, 0, Call.SPLIT, Var("lambda"), Var("hl"), Var("class"), 4, GUARD),
    on(2, 0, Call.SPLIT, Var("pipeline"), Var("a b"), Var("a$b"), 4, GUARD),
    on(2, 0, Call.REORDER, Var("class"), Var("a$b"), Var("a b"), Var("hl")),
    on(1, 0, Call.COMPUTE_ROOT),
    on(1, 0, Call.SPLIT, Var("lambda"), Var("0"), Var("a\nb\\"), 4, GUARD),
    on(0, 0, Call.COMPUTE_ROOT),
)


def awkward_schedule() -> Schedule:
    return Schedule(funcs=describe_funcs(build_with_awkward_names()), directives=AWKWARD)


def test_python_survives_awkward_names() -> None:
    pipeline = build_with_awkward_names()
    run(awkward_schedule().to_python(), pipeline)
    assert is_same(realize(pipeline, (5, 3)), realize(build_at_root(build_with_awkward_names), (5, 3)))


def test_python_finds_vars_without_names_by_position() -> None:
    recorded = describe_funcs(build_blur(hl.Var(), hl.Var()))
    x, y = (Var(name) for name in recorded[2].args)
    directives = (on(2, 0, Call.REORDER, y, x), on(2, 0, Call.VECTORIZE, y, 4, GUARD))
    pipeline = build_blur(hl.Var(), hl.Var())
    run(Schedule(funcs=recorded, directives=directives).to_python(), pipeline)
    assert is_same(realize(pipeline, (5, 3)), realize(build_at_root(build_blur), (5, 3)))


def test_python_checks_the_number_of_funcs() -> None:
    with pytest.raises(ValueError, match="for a pipeline of 3 Funcs, not 2"):
        run(CASES["blur"].schedule().to_python(), CASES["tuple"].build())


def test_python_of_an_empty_schedule_does_nothing() -> None:
    pipeline = build_blur()
    run(Schedule(funcs=describe_funcs(pipeline), directives=()).to_python(), pipeline)
    assert is_same(realize(pipeline, (5, 3)), realize(build_at_root(build_blur), (5, 3)))
