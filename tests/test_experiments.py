import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from brief_timing import BRIEF_OPTIONS, brief_settings
from command_line import metol
from slow_cases import half_of, slow_but

from metol.errors import MetolError
from metol.experiments import (
    EXPERIMENTS,
    Outcome,
    OutcomeFile,
    Point,
    Setting,
    get_experiment,
    gpu_kernels,
    kept_notes,
    modes,
    protuner,
    run_experiment,
    save_csv,
    save_plot,
    schedulers,
)
from metol.experiments.random_programs import FIRST_SEED, Predictions, SpeedUps
from metol.measure import Scheduler
from metol.options import SearchOptions
from metol.train import CollectPlan
from metol.tune import autotune

SETTING = Setting((), (Scheduler("metol"), Scheduler("reference")), BRIEF_OPTIONS, programs=1)


def outcome(subject: str, own: float | None, other: float | None, note: str = "") -> Outcome:
    mine = Point("metol", {"predicted_ms": 1.0, "run_ms": own}) if own else Point("metol", note=note)
    theirs = Point("p", {"run_ms": other}) if other else Point("p", note=note)
    return Outcome("random programs", subject, "here", (mine, theirs))


OUTCOMES = (
    outcome("a", 1.0, 2.0),
    outcome("b", 2.0, 1.0),
    outcome("c", 1.0, 8.0),
    outcome("d", 1.0, None, "timeout: over 60 s"),
    outcome("e", None, 1.0, "wrong_result: why"),
    Outcome("random programs", "f", "here", note="predicted to take 0.001 ms"),
)


def is_png(file: Path) -> bool:
    return file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_programs_are_measured_until_there_are_enough() -> None:
    speed_ups = SpeedUps(CollectPlan(most_funcs=4))
    *others, last = outcomes = list(run_experiment(speed_ups, SETTING, circumstances="here"))
    assert all(not one.points and "predicted to take" in one.note for one in others)
    assert [point.series for point in last.points] == ["metol", "metol:strategy=greedy", "reference"]
    assert speed_ups.is_right(outcomes), speed_ups.notes(outcomes)
    assert last.points[0].values.keys() == {"predicted_ms", "run_ms", "search_s"}
    seeds = [int(one.subject.removeprefix("random:").partition("/")[0]) for one in outcomes]
    assert seeds == list(range(FIRST_SEED, FIRST_SEED + len(outcomes)))


class Counted(SpeedUps):
    """Counts what it measures."""

    def __init__(self) -> None:
        super().__init__()
        self.measured: list[str] = []

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        self.measured.append(subject)
        return OUTCOMES[0].points, ""


def run_counted(known: Sequence[Outcome], circumstances: str = "here", setting: Setting = SETTING) -> list[str]:
    counted = Counted()
    saved: list[Outcome] = []
    how = {"circumstances": circumstances, "known": known, "save": saved.append}
    outcomes = list(run_experiment(counted, setting, **how))
    assert [one.subject for one in saved] == counted.measured
    assert len(outcomes) == 1
    return counted.measured


def test_what_is_known_is_not_measured_again() -> None:
    (known,) = run_experiment(Counted(), SETTING, circumstances="here")
    assert run_counted([known]) == []
    assert run_counted([known], "elsewhere") == [known.subject]
    assert run_counted([Outcome("something else", known.subject, known.circumstances, known.points)]) != []
    other = Setting((), (Scheduler("metol"),), BRIEF_OPTIONS, programs=1)
    assert run_counted([known], setting=other) == [known.subject]


def test_rows_of_other_code_may_be_kept_and_are_told_of() -> None:
    keeps = replace(SETTING, keeps_rows=True)
    (known,) = run_experiment(Counted(), SETTING, circumstances="elsewhere")
    assert run_counted([known], setting=keeps) == []
    (kept,) = run_experiment(Counted(), keeps, circumstances="here", known=[known])
    assert kept == known
    (note,) = kept_notes([kept, replace(known, circumstances="here; more")], "here")
    assert note.startswith(f"{known.subject}: kept from another run: elsewhere; ")
    own = replace(known, circumstances=known.circumstances.replace("elsewhere", "here"), points=OUTCOMES[1].points)
    for order in ([known, own], [own, known]):
        assert list(run_experiment(Counted(), keeps, circumstances="here", known=order)) == [own]
    # What was asked for is another thing than where it was measured.
    other = replace(keeps, options=replace(BRIEF_OPTIONS, timeout_seconds=61))
    assert run_counted([known], setting=other) == [known.subject]
    assert run_counted([replace(known, points=())], setting=keeps) == [known.subject]


def test_speed_ups_tell_the_mean_and_the_spread_of_what_both_could() -> None:
    (table,) = SpeedUps().tables(OUTCOMES)
    assert table.rows == (("p", "3", "2.00×", "67 %", "0.50×", "2.00×", "8.00×", "1"),)
    assert table.summary[0][:2] == ("metol", "4")
    assert table.summary[0][-1] == "1"


def test_notes_count_what_went_wrong_and_name_what_is_ours() -> None:
    speed_ups = SpeedUps()
    assert speed_ups.notes(OUTCOMES) == (
        "e, metol: wrong_result: why",
        "p: timeout: 1 programs",
        "the slowest schedule takes 8.00 ms",
    )
    assert not speed_ups.is_right(OUTCOMES)
    assert speed_ups.is_right(OUTCOMES[:4])


def test_a_peer_that_always_fails_has_no_mean() -> None:
    (table,) = SpeedUps().tables(OUTCOMES[3:4])
    assert table.rows == (("p", "0", *["–"] * 5, "1"),)


def test_predictions_are_compared_with_run_times() -> None:
    (table,) = Predictions().tables(OUTCOMES)
    programs, _, _, within, ratio = table.rows[0]
    assert (programs, within, ratio) == ("4", "100 %", "0.84")
    exact = [outcome("a", 1.0, None), Outcome("", "b", "", (Point("metol", {"predicted_ms": 3, "run_ms": 3}),))]
    assert Predictions().tables(exact)[0].rows[0][1:3] == ("1.000", "0 %")


def test_outcomes_survive_the_file(tmp_path: Path) -> None:
    file = OutcomeFile(tmp_path / "rows.jsonl")
    for one in OUTCOMES:
        file.append(one)
    assert file.load() == OUTCOMES


def test_data_are_a_file(tmp_path: Path) -> None:
    save_csv(tmp_path / "data" / "rows.csv", OUTCOMES)
    with (tmp_path / "data" / "rows.csv").open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert lines[0] == {"subject": "a", "series": "metol", "predicted_ms": "1", "run_ms": "1", "note": ""}
    assert len(lines) == 10


DRAWN = ("adams-fig6", "adams-fig8", "protuner-fig7", "limit")


@pytest.mark.parametrize("name", slow_but(DRAWN, EXPERIMENTS, further=half_of(EXPERIMENTS, DRAWN)))
def test_plots_are_drawn_of_whatever_there_is(name: str, tmp_path: Path) -> None:
    for outcomes in (OUTCOMES, OUTCOMES[-1:]):
        save_plot(tmp_path / "plots" / "plot.png", get_experiment(name), outcomes)
        assert is_png(tmp_path / "plots" / "plot.png")
        assert get_experiment(name).tables(outcomes)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_title_and_is_in_the_help_and_the_docs(name: str) -> None:
    assert get_experiment(name).title
    assert f"`{name}`" in (Path(__file__).parents[1] / "docs" / "experiments.md").read_text()


def test_unknown_experiments_are_refused() -> None:
    with pytest.raises(MetolError, match="no experiment `adams`; there are adams-ablations"):
        get_experiment("adams")
    done = metol("bench", "--experiment", "adams")
    assert done.returncode == 2
    assert "no experiment" in done.stderr


def test_applications_are_refused_by_what_has_subjects_of_its_own() -> None:
    done = metol("bench", "harris", "blur", "--experiment", "scaling")
    assert done.returncode == 2
    assert "`--experiment scaling` has subjects of its own; leave `harris blur` out." in done.stderr


@pytest.mark.slow
def test_command_prints_and_writes_everything(tmp_path: Path) -> None:
    words = ("--schedulers", "metol,mullapudi2016", "--rounds", "1", "--json", "rows.jsonl", "--markdown", "page.md")
    done = metol("bench", "--experiment", "adams-fig6", "--programs", "1", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "random programs" in done.stdout
    assert "| mullapudi2016 | 1 |" in (tmp_path / "page.md").read_text()
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert all(row["subject"].startswith("random:") for row in rows)
    assert is_png(tmp_path / "out" / "experiments" / "adams-fig6.png")
    again = metol("bench", "--experiment", "adams-fig7", "--programs", "1", *words[:-2], cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == len(rows)


def modes_outcome(subject: str, **run_ms: float) -> Outcome:
    points = tuple(Point(series, {"run_ms": value}) for series, value in run_ms.items())
    return Outcome("modes", subject, "here", points)


def test_throughput_is_relative_to_the_best_of_each_application() -> None:
    outcomes = [
        modes_outcome("a", one=1.0, other=2.0),
        modes_outcome("b", one=4.0, other=1.0),
        modes_outcome("c", one=1.0),
    ]
    times, relative = get_experiment("adams-fig8").tables(outcomes)
    assert times.rows == (("a", "1.00", "2.00"), ("b", "4.00", "1.00"), ("c", "1.00", "–"))
    assert relative.rows == (("a", "1.00", "0.50"), ("b", "0.25", "1.00"), ("c", "1.00", "–"))
    assert relative.summary == (("geometric mean (apps)", "0.63 (3)", "0.71 (2)"),)


def test_what_there_was_no_time_to_make_is_not_wrong() -> None:
    modes = get_experiment("adams-fig8")
    late = Point("metol retrained", note="the schedule could not be made: too few schedules were right")
    wrong = Point("metol beam", note="wrong_result: why")
    assert modes.is_right([Outcome("modes", "a", "here", (late,))])
    assert not modes.is_right([Outcome("modes", "a", "here", (late, wrong))])


def outcome_of(folder: Path, app: str, experiment: str, *words: str) -> Outcome:
    """What the command measures of one application."""
    done = metol("bench", app, "--experiment", experiment, *words, "--json", "rows.jsonl", cwd=folder)
    assert done.returncode == 0, done.stderr + done.stdout
    (outcome,) = OutcomeFile(folder / "rows.jsonl").load()
    return outcome


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Races of so short a time that nothing is told by them but that all ran."""
    for module in (schedulers, protuner):
        monkeypatch.setattr(module, "TuningSettings", brief_settings)
    monkeypatch.setattr(modes, "autotune", partial(autotune, budget="4s", settings=brief_settings()))
    monkeypatch.setattr(modes, "_BALANCES", modes._BALANCES[::2])
    monkeypatch.setattr(modes, "_CACHE_BYTES", modes._CACHE_BYTES[::4])
    monkeypatch.setattr(protuner, "SearchOptions", partial(SearchOptions, fixed_sizes=True))
    monkeypatch.setattr(protuner, "_SEEDS", 1)
    monkeypatch.setattr(protuner, "_BATCH", 4)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.usefixtures("brief")
def test_every_way_to_get_a_schedule_is_tried(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, "blur", "adams-fig8", "--budget", "3s", "--rounds", "2")
    assert [point.series for point in outcome.points] == [
        "mullapudi2016", "mullapudi2016 tuned", "metol greedy", "metol beam", "metol sample-32", "metol tune",
        "metol retrained", "hand",
    ]  # fmt: skip
    missing = [point for point in outcome.points if "run_ms" not in point.values]
    # In so short a time too little may be measured to fit anything to.
    assert {point.series for point in missing} <= {"metol retrained"}, missing


@pytest.mark.slow
@pytest.mark.exhaustive
def test_objects_are_made_for_another_machine(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, "blur", "adams-arm")
    assert (outcome.value("metol", "object_kib") or 0) > 1


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device", "ptxas")
@pytest.mark.parametrize("gpus", [("a100",), pytest.param(("rtx2080ti", "a100", "h100"), marks=pytest.mark.exhaustive)])
def test_kernels_of_both_strategies_are_assembled_and_run_on_opencl(
    gpus: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [(strategy, gpu) for strategy in ("grouping", "batch") for gpu in (*gpus, "opencl-cpu")]
    monkeypatch.setattr(gpu_kernels, "_WAYS", expected)
    outcome = outcome_of(tmp_path, "blur", "gpu-kernels", "--size", "small")
    assert [point.series for point in outcome.points] == [", ".join(way) for way in expected]
    for point in outcome.points:
        assert (point.values["right"], point.values["refused"]) == (1, 0), point.note
        if point.series.endswith("opencl-cpu"):
            continue
        assert point.values["kernels"] >= 1, point.note
        assert 0 < point.values["registers"] <= 255
        assert 0 < point.values["occupancy"] <= 1


def test_kernels_that_could_not_be_made_are_told_and_counted() -> None:
    experiment = get_experiment("gpu-kernels")
    assembled = Point(
        "batch, a100", {"search_s": 2.0, "kernels": 3.0, "right": 0.0, "refused": 1.0}, "the best found: it spills"
    )
    missing = Point("batch, opencl-cpu", {}, "there is no OpenCL device here")
    outcomes = [Outcome(experiment.measurement, app, "", (assembled, missing)) for app in ("blur", "harris")]
    tables = {table.title: table.to_markdown() for table in experiment.tables(outcomes)}
    assert len(tables) == 8
    of_gpu = tables["Kernels, through ptxas, and emulated: batch, a100"]
    assert "| **assembled** | **2 of 2** |" in of_gpu
    assert "| **run and right** | **0 of 2** |" in of_gpu
    assert "2 of 2" not in tables["Kernels, run on OpenCL: batch, opencl-cpu"]
    assert "blur, batch, opencl-cpu: there is no OpenCL device here" in experiment.notes(outcomes)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_limit_is_beyond_every_schedule(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, "blur", "limit", "--schedulers", "metol,hand", "--rounds", "2")
    pixels = 1534 * 2558
    assert outcome.value("limit", "written_mb") == pytest.approx(2 * pixels / 1e6)
    assert outcome.value("limit", "read_mb") == pytest.approx(2 * 1536 * 2560 / 1e6)
    # Two sums of three and a division each, at the least.
    assert 6 * pixels / 1e6 < (outcome.value("limit", "operations_m") or 0) < 20 * pixels / 1e6
    limits = [outcome.value("limit", name) or 0 for name in ("moving_ms", "computing_ms")]
    assert all(limit > 0 for limit in limits)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.usefixtures("brief")
def test_trees_are_beside_every_other_search(tmp_path: Path) -> None:
    words = ("--budget", "0.2s", "--rounds", "2")
    outcome = outcome_of(tmp_path, "blur", "protuner-fig7", *words)
    assert [point.series for point in outcome.points] == [
        "random", "greedy", "beam", "mcts_30s", "mcts_10s", "mcts_1s", "mcts_Cp10_30s", "mcts_sqrt2_30s", "metol mcts",
        "mcts_cost+real_30s", "mcts_cost+real_1s", "metol",
    ]  # fmt: skip
    assert all(point.values.keys() >= {"cost_ms", "run_ms", "search_s"} for point in outcome.points)
    # The whole search begins with greed.
    assert (outcome.value("greedy", "cost_ms") or 0) >= (outcome.value("metol", "cost_ms") or 0)
    again = metol("bench", "blur", "--experiment", "protuner-fig8", *words, "--json", "rows.jsonl", cwd=tmp_path)
    assert "Run time (ms)" in again.stdout


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.usefixtures("brief")
def test_trees_tune_beside_beams_and_the_default(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, "blur", "protuner-fig9", "--budget", "2s", "--rounds", "2")
    assert [point.series for point in outcome.points] == [
        "metol, beam",
        "metol, tuned",
        "metol, mcts_1s",
        "metol, mcts_0.5s",
    ]
    assert all("run_ms" in point.values and point.values["trials"] > 0 for point in outcome.points)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_trees_and_their_children_have_a_speed(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, "blur", "tree-speed")
    assert (outcome.value("trees", "iterations_per_s") or 0) > 0
    assert all((outcome.value(series, "step_us") or 0) > 0 for series in ("drawn", "picked"))


@pytest.mark.slow
def test_the_time_of_each_func_is_predicted_and_measured(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, "blur", "profile")
    assert "blur" in {point.series for point in outcome.points}
    assert all(point.values["predicted_ms"] > 0 for point in outcome.points)
    assert (outcome.value("blur", "measured_ms") or 0) > 0
