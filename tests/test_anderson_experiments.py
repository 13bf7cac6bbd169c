"""The tables of Anderson et al. 2021: the paper's numbers as printed, and ours beside them."""

import pytest

import metol_apps
from metol.experiments import Experiment, Outcome, Point, Setting, get_experiment, run_experiment
from metol.experiments.anderson_paper import COMPILE_SECONDS, MEMORY_MB, SECONDS, STATES
from metol.measure import PipelineSource, RunOptions
from metol.text_table import geometric_mean

ALL_ON = "memoization + sampling + freezing"
NONE_BUT_MEMO = "memoization"


def outcome(subject: str, **points: dict[str, float]) -> Outcome:
    named = {name.replace("_and_", " + ").replace("_", " "): values for name, values in points.items()}
    return Outcome("m", subject, "here", tuple(Point(name, values) for name, values in named.items()))


def mean_of(rows: list[tuple[float, ...]], place: int) -> float:
    return geometric_mean([row[place] for row in rows])


def test_printed_numbers_have_the_printed_means() -> None:
    states = list(STATES.values())
    means = [mean_of(states, place) for place in range(4)]
    assert means == pytest.approx([11740, 95092, 121008, 226311], abs=1)
    shares = [geometric_mean([row[place] / row[3] for row in states]) for place in range(3)]
    assert shares == pytest.approx([0.0519, 0.4202, 0.5347], abs=1e-4)
    printed = [7.61, 28.61, 16.92, 41.78, 24.78, 168.74, 217.94, 372.06]
    assert [mean_of(list(SECONDS.values()), place) for place in range(8)] == pytest.approx(
        printed, rel=5e-3
    )  # 0.08 is a rounded number, too
    compile_rows = list(COMPILE_SECONDS.values())
    printed = [18.6, 11.3, 40.3, 15.7, 55.8]
    assert [mean_of(compile_rows, place) for place in range(5)] == pytest.approx(printed, rel=5e-2)  # whole seconds


def test_the_papers_applications_are_ours_but_for_one() -> None:
    ours = set(metol_apps.names("full"))
    for table in (STATES, SECONDS, COMPILE_SECONDS, MEMORY_MB):
        assert set(table) == ours - {"blur"}


def test_states_are_told_with_their_share_beside_the_papers() -> None:
    outcomes = [
        outcome(
            "matmul",
            memoization_and_sampling_and_freezing={"states": 50.0},
            memoization_and_sampling={"states": 500.0},
            memoization={"states": 1000.0},
        ),
        outcome("blur", memoization_and_sampling_and_freezing={"states": 200.0}, memoization={"states": 1000.0}),
    ]
    (table,) = get_experiment("anderson-table1").tables(outcomes)
    assert table.headers == ("app", "sampling + freezing", "sampling", "freezing", "none")
    assert table.rows[0] == (
        "matmul",
        "50 (5.0%) / 698 (18.4%)",
        "500 (50.0%) / 1853 (48.8%)",
        "– / 6783 (178.6%)",
        "1000 (100.0%) / 3798 (100.0%)",
    )
    assert table.rows[1] == ("blur", "200 (20.0%)", "–", "–", "1000 (100.0%)")
    assert table.summary[0][1:3] == ("10.0% / 5.2%", "50.0% / 42.0%")


def test_a_share_of_a_search_that_was_stopped_is_a_bound() -> None:
    points = {
        "memoization_and_sampling_and_freezing": {"states": 50.0, "search_s": 1.0},
        "memoization": {"states": 1000.0, "search_s": 60.0, "stopped_s": 60.0},
        "none": {"states": 500.0, "search_s": 60.0, "stopped_s": 60.0},
    }
    outcomes = [outcome("blur", **points)]
    (table,) = get_experiment("anderson-table1").tables(outcomes)
    assert table.rows[0] == ("blur", "50 (<5.0%)", "–", "–", ">1000 (100.0%)")
    assert table.summary[0][1].startswith("<5.0%")
    times, gains = get_experiment("anderson-table2").tables(outcomes)
    assert times.rows[0][1:] == ("1.00", "–", "–", ">60.0", "–", "–", "–", ">60.0")
    assert gains.rows[0][1:] == (">60.0", "–", "–", "1.00", "–", "–", "–", "1.00")


def test_times_are_told_beside_the_papers() -> None:
    both = {ALL_ON.replace(" + ", "_and_"): {"search_s": 0.5}, "none": {"search_s": 10.0}}
    times, gains = get_experiment("anderson-table2").tables([outcome("conv_layer", **both)])
    assert (times.rows[0][1], times.rows[0][-1]) == ("0.50 / 1.10", "10.0 / 215")
    assert (gains.rows[0][1], gains.rows[0][-1]) == ("20.0 / 195", "1.00 / 1.00")
    assert times.summary[0][1] == "0.50 / 7.63"


def test_compile_times_are_told_beside_the_papers_and_the_peers() -> None:
    points = {
        "metol grouping": {"search_s": 0.2, "total_s": 2.0},
        "metol one shot": {"search_s": 1.0, "total_s": 4.0},
        "metol beam search": {"search_s": 0.5},
        "anderson2021": {"search_s": 5.0},
    }
    (table,) = get_experiment("anderson-table4").tables([outcome("harris", **points), outcome("blur")])
    assert table.rows[0] == (
        "harris",
        "0.20 / 4.30",
        "2.00 / 6.00",
        "1.00 / 12.6",
        "4.00 / 22.1",
        "0.50",
        "5.00",
        "10.0",
    )
    assert set(table.rows[1][1:]) == {"–"}
    assert table.summary[0][-1] == "10.0"


def test_memory_is_told_beside_the_papers() -> None:
    points = {"beam search": {"peak_mib": 80.4}, "batch without memoization": {"peak_mib": 91.0}}
    (table,) = get_experiment("anderson-table5").tables([outcome("bgu", **points)])
    assert table.rows[0] == ("bgu", "84 / 18957", "– / 1590", "– / 144558", "– / 3861", "– / 1536", "95 / 125210")
    assert table.summary[0][1] == "84 / 18957"


def measured(name: str, timeout_seconds: float = 60.0) -> tuple[Experiment, Outcome]:
    experiment = get_experiment(name)
    options = RunOptions(threads=1, timeout_seconds=timeout_seconds)
    setting = Setting((PipelineSource.parse("app:blur"),), (), options)
    (found,) = run_experiment(experiment, setting, circumstances="here")
    assert experiment.tables([found])
    return experiment, found


@pytest.mark.slow
@pytest.mark.exhaustive
def test_filters_and_memoization_are_measured() -> None:
    first, second = (get_experiment(f"anderson-table{number}") for number in (1, 2))
    assert first.measurement == second.measurement
    _, found = measured("anderson-table1")
    assert second.tables([found])
    assert len(found.points) == 8
    assert not any(point.note for point in found.points)
    states = {point.series: point.values["states"] for point in found.points}
    assert states[ALL_ON] < states["memoization + sampling"] < states[NONE_BUT_MEMO]
    # Memoization changes no number.
    assert states["sampling + freezing"] == states[ALL_ON]
    assert states["none"] == states[NONE_BUT_MEMO]


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_search_that_takes_too_long_is_stopped_and_says_so() -> None:
    experiment, found = measured("anderson-table1", timeout_seconds=1e-3)
    assert all(point.note == "stopped after 0.001 s" for point in found.points)
    assert len(experiment.notes([found])) == 8


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.usefixtures("ptxas")
def test_ways_to_a_schedule_are_measured() -> None:
    experiment, found = measured("anderson-table4")
    assert experiment.is_right([found]), experiment.notes([found])
    for series in ("metol grouping", "metol one shot"):
        search, total = (found.value(series, name) for name in ("search_s", "total_s"))
        assert search is not None
        assert total is not None
        assert total > 0


@pytest.mark.slow
@pytest.mark.exhaustive
def test_memory_is_measured() -> None:
    _, found = measured("anderson-table5")
    assert len(found.points) == 6
    assert all(point.values["peak_mib"] > 10 for point in found.points)
