import dataclasses
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lower_cases import BLUR, CASES, GUARD, RENAMED, SPECIALIZED, STAGED, Case, is_same, on, realize

from metol.errors import ScheduleFormatError
from metol.lower import (
    Call,
    Directive,
    Estimate,
    FuncRef,
    Kept,
    Measured,
    RVar,
    Schedule,
    Site,
    Tail,
    Var,
    load,
    schedule_identity,
)

FIXTURES = Path(__file__).parent / "fixtures"
MEASURED = Measured(1.5, (1.25, 1.75), 2, "0123456789abcdef", "Some CPU", False, "2026-01-02T03:04:05Z")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_json_keeps_everything(case: Case) -> None:
    schedule = case.schedule()
    assert Schedule.from_json(schedule.to_json()) == schedule


NAMES = st.text(min_size=1).filter(lambda name: "." not in name)
COORDINATES = st.integers(-(2**31), 2**31 - 1)


@st.composite
def random_schedules(draw: st.DrawFn) -> Schedule:
    rvars = draw(st.lists(st.lists(NAMES, max_size=2, unique=True), max_size=3))
    args = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    func = FuncRef(0, draw(NAMES), tuple(args), tuple(map(tuple, rvars)), ("float32",), draw(st.integers(-1, 5)))
    stage = draw(st.integers(0, len(rvars)))
    old = draw(
        st.sampled_from([Var(arg) for arg in args] + [RVar(name) for name in (rvars[stage - 1] if stage else [])])
    )
    taken = {*args, *(name for names in rvars for name in names)}
    outer, inner = draw(st.lists(NAMES.filter(lambda name: name not in taken), min_size=2, max_size=2, unique=True))
    kind = type(old)
    directives = [
        on(0, 0, Call.SPECIALIZE, 0, draw(st.integers(1, 2**31 - 1))),
        on(0, stage, Call.SPLIT, old, kind(outer), kind(inner), draw(st.integers(1, 99)), draw(st.sampled_from(Tail))),
        on(0, 0, Call.PARALLEL, Var(args[0]), branch=(0,)),
        on(0, 0, Call.STORE_AT, Site(0, 0, None)),
        on(0, 0, Call.STORE_IN, draw(st.sampled_from(["Heap", "Stack"]))),
    ]
    bounds = tuple(draw(st.lists(st.tuples(COORDINATES, COORDINATES), max_size=3)))
    value = draw(st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False))
    texts = [draw(st.text()) for _ in range(4)]
    estimates = (Estimate(draw(st.text()), bounds, value),)
    return Schedule(
        (func,), tuple(directives), texts[0], estimates, *texts[1:], measured=draw(st.none() | measured_times())
    )


@st.composite
def measured_times(draw: st.DrawFn) -> Measured:
    low, median, high = sorted(draw(st.tuples(*[st.floats(1e-6, 1e9)] * 3)))
    interval = draw(st.sampled_from([None, (low, high)]))
    texts = [draw(st.text()) for _ in range(3)]
    return Measured(median, interval, draw(st.integers(1, 999)), texts[0], texts[1], draw(st.booleans()), texts[2])


@pytest.mark.slow
@given(random_schedules())
def test_json_keeps_any_schedule(schedule: Schedule) -> None:
    read = Schedule.from_json(schedule.to_json())
    assert read == schedule
    assert read.measured == schedule.measured


def test_json_has_one_line_a_directive() -> None:
    lines = BLUR.schedule().to_json().splitlines()
    assert '    [[2, 0], "reorder", {"var": "x_i"}, {"var": "y_i"}, {"var": "x_o"}, {"var": "y_o"}],' in lines
    changed = list(BLUR.directives)
    changed[1] = dataclasses.replace(changed[1], args=(*changed[1].args[:3], 32, GUARD))
    other = dataclasses.replace(BLUR.schedule(), directives=tuple(changed)).to_json().splitlines()
    assert sum(before != after for before, after in zip(lines, other, strict=True)) == 1


def test_file_of_version_1_still_loads() -> None:
    schedule = load(FIXTURES / "blur_version_1.json")
    assert schedule == BLUR.schedule()
    pipeline, other = BLUR.build(), BLUR.build()
    schedule.apply(pipeline)
    BLUR.schedule().apply(other)
    assert is_same(realize(pipeline, (9, 4)), realize(other, (9, 4)))


def keeping() -> Schedule:
    """The blur, but for its first Func, which somebody else schedules."""
    whole = BLUR.schedule()
    directives = tuple(directive for directive in whole.directives if directive.func != 1)
    return dataclasses.replace(whole, directives=directives, kept=(Kept(1, "root"),))


def test_file_of_version_2_still_loads() -> None:
    assert load(FIXTURES / "blur_version_2.json") == keeping()


def test_file_of_version_3_still_loads() -> None:
    assert load(FIXTURES / "staged_version_3.json") == STAGED.schedule()


def test_file_of_version_4_still_loads() -> None:
    schedule = load(FIXTURES / "blur_version_4.json")
    assert schedule == BLUR.schedule()
    assert schedule.measured == MEASURED


def test_file_of_version_5_still_loads() -> None:
    estimate = Directive(2, 0, Call.SET_ESTIMATE, (Var("x"), 0, 40))
    schedule = load(FIXTURES / "blur_version_5.json")
    assert estimate in schedule.directives
    assert tuple(d for d in schedule.directives if d != estimate) == BLUR.schedule().directives
    assert schedule.has_fixed_sizes


def test_file_of_version_6_still_loads() -> None:
    assert load(FIXTURES / "renamed_version_6.json") == RENAMED.schedule()


def test_file_of_version_7_still_loads() -> None:
    assert load(FIXTURES / "unpartitioned_version_7.json") == SPECIALIZED.schedule()


def test_schedules_are_equal_however_fast_they_were() -> None:
    fast, slow = (dataclasses.replace(BLUR.schedule(), measured=m) for m in (MEASURED, None))
    assert fast == slow
    assert hash(fast) == hash(slow)


@pytest.mark.parametrize(
    ("file", "case"), [("blur_version_1", BLUR), ("staged_version_3", STAGED), ("blur_version_4", BLUR)]
)
def test_identity_is_the_same_in_every_version(file: str, case: Case) -> None:
    text = (FIXTURES / f"{file}.json").read_text(encoding="utf-8")
    assert schedule_identity(text) == schedule_identity(case.schedule().to_json())


def test_identity_tells_schedules_apart() -> None:
    changed = [keeping(), dataclasses.replace(BLUR.schedule(), target="arm-64-linux"), STAGED.schedule()]
    texts = {schedule_identity(schedule.to_json()) for schedule in (BLUR.schedule(), *changed)}
    assert len(texts) == 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"run_ms": 0.0},
        {"run_ms": math.nan},
        {"run_ms": math.inf},
        {"interval_ms": (2.0, 1.0)},
        {"interval_ms": (-1.0, 1.0)},
        {"threads": 0},
    ],
)
def test_time_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ScheduleFormatError, match=r"No schedule takes .* leave it out"):
        dataclasses.replace(MEASURED, **wrong)


def test_kept_func_cannot_be_scheduled() -> None:
    with pytest.raises(ScheduleFormatError, match="keep the schedule written by hand"):
        dataclasses.replace(BLUR.schedule(), kept=(Kept(1, "root"),))


def test_kept_func_must_exist() -> None:
    with pytest.raises(ScheduleFormatError, match="no Func 9"):
        dataclasses.replace(keeping(), kept=(Kept(9, "root"),))


def test_save_and_load(tmp_path: Path) -> None:
    BLUR.schedule().save(tmp_path / "blur.json")
    assert load(tmp_path / "blur.json") == BLUR.schedule()


def test_save_writes_source_where_the_name_asks_for_it(tmp_path: Path) -> None:
    for name, text in (("a.py", BLUR.schedule().to_python()), ("a.h", BLUR.schedule().to_cpp())):
        BLUR.schedule().save(tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8") == text


def test_load_refuses_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "blur.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScheduleFormatError, match="not valid JSON"):
        load(tmp_path / "blur.json")


@pytest.mark.parametrize("text", ["", "{", "hello", '{"format": "metol-schedule"'])
def test_from_json_refuses_what_is_not_json(text: str) -> None:
    with pytest.raises(ScheduleFormatError, match=r"not valid JSON.*Schedule.save\(\)"):
        Schedule.from_json(text)


@pytest.mark.parametrize("text", ["[]", "3", "{}", '{"format": "recipe", "version": 1}'])
def test_from_json_refuses_another_format(text: str) -> None:
    with pytest.raises(ScheduleFormatError, match=r"has no \"format\": \"metol-schedule\""):
        Schedule.from_json(text)


@pytest.mark.parametrize("version", [0, 9, "1", None])
def test_from_json_refuses_another_version(version: object) -> None:
    with pytest.raises(ScheduleFormatError, match=r"reads version 8\. Upgrade Metol"):
        Schedule.from_json(json.dumps({"format": "metol-schedule", "version": version}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("funcs", None),
        ("funcs", [{"name": "f"}]),
        ("funcs", [{"name": 3, "types": [], "args": []}]),
        ("target", 3),
        ("estimates", [{"name": "f", "bounds": [[0]], "value": None}]),
        ("estimates", [{"name": "f", "bounds": [], "value": "many"}]),
        ("estimates", [{"name": "f", "bounds": [[0, 2**40]], "value": None}]),
        ("estimates", [{"name": "f", "bounds": [], "value": 10**400}]),
        ("estimates", [{"name": "\ud800", "bounds": [[]], "value": None}]),
        ("target", "\ud800"),
        ("measured", 1.5),
        ("measured", {}),
        ("measured", {**dataclasses.asdict(MEASURED), "run_ms": "fast"}),
        ("measured", {**dataclasses.asdict(MEASURED), "run_ms": True}),
        ("measured", {**dataclasses.asdict(MEASURED), "run_ms": 10**400}),
        ("measured", {**dataclasses.asdict(MEASURED), "interval_ms": [1.0]}),
        ("measured", {**dataclasses.asdict(MEASURED), "threads": 1.5}),
        ("measured", {**dataclasses.asdict(MEASURED), "machine": None}),
        ("measured", {**dataclasses.asdict(MEASURED), "is_cold": 0}),
        ("directives", {}),
        ("directives", [[]]),
        ("directives", [[[2], "compute_root"]]),
        ("directives", [[[2, 0], "compute_nowhere"]]),
        ("directives", [[[2, 0.5], "compute_root"]]),
        ("directives", [[[2, 0], "compute_\ud800"]]),
        ("directives", [[[2, 0], "vectorize", {"var": "x"}, 10**30]]),
        ("directives", [[[2, 0], "parallel", {"loop": "x"}]]),
        ("directives", [[[2, 0], "parallel", {}]]),
        ("directives", [[[2, 0], "vectorize", {"var": "x"}, 8, {"tail": "Auto"}]]),
    ],
)
def test_from_json_refuses_a_damaged_file(key: str, value: object) -> None:
    document = json.loads(BLUR.schedule().to_json())
    document[key] = value
    with pytest.raises(ScheduleFormatError, match="damaged") as raised:
        Schedule.from_json(json.dumps(document))
    assert str(raised.value).encode(), "a terminal takes it"


def test_from_json_refuses_what_is_nested_beyond_reason() -> None:
    with pytest.raises(ScheduleFormatError, match="not valid JSON"):
        Schedule.from_json("[" * 100_000)


def test_from_json_refuses_directives_that_mean_nothing() -> None:
    document = json.loads(BLUR.schedule().to_json())
    document["directives"].append([[0, 0], "parallel", {"var": "z"}])
    with pytest.raises(ScheduleFormatError, match=r"Directive 14 .*has no loop"):
        Schedule.from_json(json.dumps(document))


def test_directive_shows_itself_readably() -> None:
    directive = Directive(2, 1, Call.SPLIT, (Var("x"), Var("a"), Var("b"), 8, GUARD), (0,))
    assert str(directive) == "Func 2 stage 1 branch 0: split(x, a, b, 8, GuardWithIf)"
