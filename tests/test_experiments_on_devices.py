"""The experiments of Anderson et al. 2021 that run on a GPU: what they make of measurements, and a run on OpenCL."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from brief_timing import BRIEF_OPTIONS, BRIEF_RACES, brief_settings
from command_line import metol

from metol.bench_device import find_bench_device
from metol.errors import MetolError
from metol.experiments import (
    EXPERIMENTS,
    Outcome,
    Point,
    Setting,
    anderson_predictions,
    get_experiment,
    on_device,
)
from metol.experiments.on_device import OnDevice
from metol.measure import PipelineSource, Scheduler
from metol.options import SearchOptions
from metol.targets.gpu import detect_gpu
from metol.tune import TuningBudget

ON_DEVICE = ("anderson-fig6", "anderson-fig7", "anderson-fig8")
TIMES = (4.0, 1.0, 2.0, 3.0)


def batch(subject: str, predicted: tuple[float, ...], retrained: tuple[float, ...]) -> Outcome:
    points = [
        Point(f"metol {number}", {"predicted_ms": before, "retrained_ms": after, "run_ms": run})
        for number, (before, after, run) in enumerate(zip(predicted, retrained, TIMES, strict=True))
    ]
    return Outcome(
        "predictions of a batch", subject, "here", (*points, Point("metol 4", {"predicted_ms": 1.0}, "died"))
    )


def test_those_that_need_a_device_are_known() -> None:
    assert tuple(name for name in EXPERIMENTS if get_experiment(name).needs_device) == ON_DEVICE


@pytest.mark.skipif(detect_gpu() is not None, reason="there is a GPU")
@pytest.mark.parametrize("name", ON_DEVICE)
def test_without_a_gpu_nothing_is_measured(name: str, tmp_path: Path) -> None:
    done = metol("bench", "blur", "--experiment", name, "--plots", str(tmp_path))
    assert done.returncode == 3
    assert "No GPU was found" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_gpu_that_is_merely_named_runs_nothing(tmp_path: Path) -> None:
    done = metol("bench", "blur", "--experiment", "anderson-fig6", "--device", "a100", "--plots", str(tmp_path))
    assert done.returncode == 2
    assert "merely names one" in done.stderr


def test_batches_are_told_by_rank_and_by_what_is_ranked_first() -> None:
    backwards, same = (1.0, 4.0, 3.0, 2.0), (40.0, 10.0, 20.0, 30.0)
    (table,) = get_experiment("anderson-fig8").tables([batch("a", backwards, same), batch("b", same, same)])
    assert table.rows[0][:6] == ("a", "4.00", "-1.00", "1.00", "4.00", "1.00")
    assert table.rows[1][:6] == ("b", "4.00", "1.00", "1.00", "1.00", "1.00")
    assert [row[6] for row in table.rows] == ["2.21", "2.21"]  # the fourth root of 24
    assert table.summary[0][4:] == ("2.00", "1.00", "2.21")


def test_what_is_unknown_is_left_out() -> None:
    for name in ON_DEVICE:
        experiment = get_experiment(name)
        empty = Outcome(experiment.measurement, "blur", "here", note="why")
        assert experiment.tables([empty])
        assert experiment.notes([empty]) == ("blur: why",)


def setting_of(name: str, *, device: bool = True, budget: str = "4 trials") -> Setting:
    return Setting(
        (PipelineSource.parse(name),),
        (),
        BRIEF_OPTIONS,
        budget=TuningBudget.parse(budget),
        device=find_bench_device("opencl", threads=2) if device else None,
    )


def test_a_setting_without_a_device_is_refused() -> None:
    with pytest.raises(MetolError, match="no device was chosen"):
        get_experiment("anderson-fig6").depends_on(setting_of("app:blur", device=False))


class Planted:
    """A schedule by its number, which is how many milliseconds it takes."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.schedule = self

    def to_json(self) -> str:
        return str(self.number)

    def save(self, file: Path) -> None:
        file.write_text(self.to_json())


@pytest.fixture
def raced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was raced: searches with seed s find 9 - s, and among their best also 5 and, unless they sample, 4."""
    contestants: list[str] = []

    def one_shot(app: OnDevice, options: SearchOptions) -> Planted:
        return Planted(8 if options.strategy == "grouping" else 9 - options.seed)

    def best(app: OnDevice, options: SearchOptions, count: int) -> tuple[Planted, ...]:
        return tuple(map(Planted, (9 - options.seed, 5, 4 if options.sampling is False else 5)[:count]))

    def race(app: OnDevice, them: dict[str, Scheduler]) -> dict[str, Point]:
        contestants.extend(them)
        times = {name: 3.0 if one.name == "anderson2021" else float(name.split()[1]) for name, one in them.items()}
        return {
            name: Point(name, {"run_ms": ms} if ms < 9 else {}, "" if ms < 9 else "died") for name, ms in times.items()
        }

    monkeypatch.setattr(OnDevice, "one_shot", one_shot)
    monkeypatch.setattr(OnDevice, "best", best)
    monkeypatch.setattr(OnDevice, "tuned", lambda *_: Planted(2))
    monkeypatch.setattr(OnDevice, "race", race)
    return contestants


def run_of(points: Sequence[Point]) -> dict[str, float | None]:
    return {point.series: point.values.get("run_ms") for point in points}


def test_all_ways_to_a_schedule_are_raced_once(raced: list[str]) -> None:
    points, _ = get_experiment("anderson-fig6").measure("blur", setting_of("app:blur"))
    assert run_of(points) == {
        "metol grouping": 8,
        "metol one shot": None,
        "metol top 5": 5,
        "metol tuned": 2,
        "anderson2021": 3,
    }
    assert [point.note for point in points] == ["", "died", "", "", ""]
    assert raced == ["metol 8", "metol 9", "metol 5", "metol 2", "anderson2021"]


def test_filters_have_the_median_of_their_seeds(raced: list[str]) -> None:
    points, _ = get_experiment("anderson-fig7").measure("blur", setting_of("app:blur"))
    runs = run_of(points)
    assert len(runs) == 8
    assert runs["metol one shot, sampling + freezing"] == 7.5  # of 8 and 7: the third died
    assert runs["metol top 5, sampling"] == 5
    assert runs["metol top 5, neither"] == 4
    assert len(raced) == len(set(raced)) == 5


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
def test_batches_are_measured_on_an_opencl_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anderson_predictions, "_BATCH", SearchOptions(strategy="batch", searches=2))
    monkeypatch.setattr(anderson_predictions, "_QUICK", BRIEF_RACES)
    monkeypatch.setattr(on_device, "TuningSettings", brief_settings)
    setting = setting_of("random:5/least_funcs=3/most_funcs=4")
    points, note = get_experiment("anderson-fig8").measure(setting.sources[0].label, setting)
    assert len(points) > 1
    assert note == ""
    assert [point.note for point in points] == [""] * len(points)
    assert all(point.values["run_ms"] > 0 and point.values["retrained_ms"] > 0 for point in points)
