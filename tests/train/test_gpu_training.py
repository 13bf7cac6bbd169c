"""`metol train gpu` with planted measurements: a budget becomes samples, weights and a report, again where it ended."""

import hashlib
import importlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from measured_programs import program_of
from typer.testing import CliRunner

from metol.cli import app
from metol.cost import Weights
from metol.cost_choice import AUTO, choose_weights, own_weights_path
from metol.errors import MetolError, MissingDeviceError, UnsupportedTargetError
from metol.lower import Schedule
from metol.measure import Measurement, PipelineSource, RunOptions, Status, TogetherPlan
from metol.options import SearchOptions
from metol.planner import Planner
from metol.targets.gpu import GpuMachine
from metol.train import Collector, CollectPlan, DrawPlan, SampleFiles, collect
from metol.tune import TuningBudget, fingerprint

pytest.importorskip("torch")

fitting = importlib.import_module("metol.train.fit")
DEVICE = replace(GpuMachine.preset("h100", threads=2), name="NVIDIA H100 80GB HBM3")
# What is quick to search, and has more than a handful of schedules.
APPS = "blur", "hist"


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[RunOptions]:
    """A GPU that measures nothing: how long a schedule takes is made of its directives; what was asked for."""
    asked: list[RunOptions] = []

    def measure(
        source: PipelineSource, schedules: Sequence[Schedule], options: RunOptions, plan: TogetherPlan
    ) -> tuple[Measurement, ...]:
        asked.append(options)
        return tuple(_row(source, schedule) for schedule in schedules)

    monkeypatch.setattr("metol.train.collect.measure_together", measure)
    quick = replace(collect._SEARCH, strategy="greedy", refine=False, budget_seconds=0.2)
    monkeypatch.setattr(collect, "_SEARCH", quick)
    learn = fitting._constant_gains
    few = partial(replace, constant_steps=9)
    monkeypatch.setattr(fitting, "_constant_gains", lambda batch, options: learn(batch, few(options)))
    monkeypatch.setattr(CollectPlan, "source", lambda _, seed: PipelineSource.parse(f"{program_of(seed)}/size=16"))
    monkeypatch.setattr("metol.train.gpu_training.os.sched_getaffinity", lambda _: {0})
    monkeypatch.setattr("metol_apps.names", lambda _: APPS)
    for module in ("metol.verification", "metol.targets.machine"):
        monkeypatch.setattr(f"{module}.detect_gpu", lambda **_: DEVICE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return asked


def _row(source: PipelineSource, schedule: Schedule) -> Measurement:
    """Some 1 ms for each kernel, with a tenth of noise."""
    kernels = sum(one.call.value.startswith("gpu_blocks") for one in schedule.directives)
    noise = int(hashlib.sha256(repr(schedule.directives).encode()).hexdigest()[:4], 16) / 65536
    ms = max(1, kernels) * (1 + 0.1 * noise)
    return Measurement(source.label, "#", run_ms=ms, run_ms_samples=(ms, 1.1 * ms), compile_seconds=0.1)


def train(*words: object) -> str:
    """Run `metol train` in this process; what it prints."""
    done = CliRunner().invoke(app, ["train", *map(str, words)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def train_gpu(out: Path, *words: object, budget: str = "5 trials") -> str:
    for name in ("torch", "sklearn", "matplotlib"):
        pytest.importorskip(name)
    return train("gpu", "--out", out, "--budget", budget, "--members", 1, "--epochs", 2, "--threads", 2, *words)


@pytest.mark.slow
def test_one_command_writes_samples_weights_and_a_report(device: list[RunOptions], tmp_path: Path) -> None:
    printed = train_gpu(tmp_path / "h100.npz")
    assert all("cuda-cuda_capability_86" in options.target for options in device)
    samples = SampleFiles(tmp_path / "h100.samples")
    programs = [one for one in samples.load() if one.samples]
    # Applications and random programs take turns.
    names = [one.program for one in programs]
    assert [name for name in names if name.startswith("app:")] == [f"app:{name}" for name in APPS]
    assert names[0] == "app:blur"
    assert len(names) == 5
    assert {one.device for one in programs} == {DEVICE.name}
    assert samples.machine_of(programs[0]) == DEVICE
    weights = Weights.load(tmp_path / "h100.npz")
    assert "num_warps_per_block" in weights.features
    assert weights.notes["data"]["gpus"] == [DEVICE.name]
    machine = dict(weights.notes["machine"])
    assert machine["gpu"] == DEVICE.name
    assert machine.pop("fingerprint") == fingerprint(machine)
    assert set(weights.notes["scores"]["held_out"]) == {f"app:{name}" for name in APPS}
    report = (tmp_path / "h100.md").read_text()
    assert report.startswith(f"# Weights for {DEVICE.name}")
    for name in APPS:
        assert f"| app:{name} | 24 |" in report
        assert f"app:{name}, not fitted to: rank correlation" in printed
    assert "regret, trained" in report


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
def test_on_a_device_that_is_here_it_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from metol.train import FitOptions, GpuTraining

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("metol.train.gpu_training.os.sched_getaffinity", lambda _: {0})
    monkeypatch.setattr("metol.train.gpu_training._COUNT", 6)
    monkeypatch.setattr(CollectPlan, "source", lambda _, seed: PipelineSource.parse(program_of(seed)))
    monkeypatch.setattr(CollectPlan, "suits", lambda *_: True)
    applications = tuple(PipelineSource.parse(program_of(seed)) for seed in (100, 101))
    training = GpuTraining(
        tmp_path / "w.npz",
        "opencl",
        threads=1,
        applications=applications,
        options=FitOptions(members=1, epochs=1, constant_steps=9),
    )
    measured = [one for one in training.collect(TuningBudget(trials=2)) if one.samples]
    assert len(measured) == 2
    assert len({one.device for one in measured}) == 1
    ran = [sample for one in measured for sample in one.samples if sample.run_ms]
    assert len(ran) > 8
    trained = training.fit()
    assert Weights.load(tmp_path / "w.npz").notes["data"]["gpus"] == [measured[0].device]
    assert {one.program for one in trained.judged.programs} <= {str(source) for source in applications}
    assert trained.report("metol train gpu").startswith(f"# Weights for {measured[0].device}")


@pytest.mark.slow
def test_it_goes_on_where_it_ended(device: list[RunOptions], tmp_path: Path) -> None:
    out = tmp_path / "h100.npz"
    train_gpu(out, budget="4 trials")
    before = [one.program for one in SampleFiles(tmp_path / "h100.samples").load()]
    with pytest.raises(MetolError, match=r"h100.samples` holds the samples of \d+ programs; .* by --resume"):
        train_gpu(out, budget="2 trials")
    train_gpu(out, "--resume", budget="2 trials")
    after = [one.program for one in SampleFiles(tmp_path / "h100.samples").load()]
    assert after[: len(before)] == before
    assert len(set(after)) == len(after)
    assert Weights.load(out).notes["data"]["programs"] == 6


@pytest.mark.slow
def test_samples_of_another_gpu_are_neither_used_nor_in_the_way(
    device: list[RunOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "gpu.npz"
    train_gpu(out, budget="4 trials")
    other = replace(GpuMachine.preset("a100", threads=2), name="Another GPU")
    for module in ("metol.verification", "metol.targets.machine"):
        monkeypatch.setattr(f"{module}.detect_gpu", lambda **_: other)
    train_gpu(out, "--resume", budget="4 trials")
    weights = Weights.load(out)
    assert weights.notes["data"]["gpus"] == ["Another GPU"]
    assert weights.notes["data"]["programs"] == 4
    with pytest.raises(MetolError, match="choose one device by `--target` and `--gpu`"):
        train("fit", tmp_path / "gpu.samples", "--out", tmp_path / "mixed.npz")
    with pytest.raises(MetolError, match="choose one device"):
        train("evaluate", out, tmp_path / "gpu.samples")
    assert "app:blur" in train("evaluate", out, tmp_path / "gpu.samples", "--target", "cuda", "--gpu", "another")


@pytest.mark.slow
def test_weights_are_used_from_then_on_if_they_are_better(
    device: list[RunOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = Planner(PipelineSource.parse("app:blur").build(), SearchOptions(), target="cuda").form().space
    for is_better in (False, True, False, True):
        monkeypatch.setattr("metol.train.hold_one_out.HoldOneOut.is_better", is_better)
        printed = train_gpu(tmp_path / "h100.npz", "--resume", budget="3 trials" if not device else "1 trial")
        used = choose_weights(AUTO, DEVICE, space)
        assert (used is not None) == is_better
        assert ("these weights are used from now on" in printed) == is_better
        assert ("They are better" in (tmp_path / "h100.md").read_text()) == is_better
    assert own_weights_path(DEVICE).is_relative_to(tmp_path / "cache")
    # Of another GPU nothing is known.
    assert choose_weights(AUTO, replace(DEVICE, name="Another GPU"), space) is None


def test_without_a_device_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metol.verification.detect_gpu", lambda: None)
    monkeypatch.setattr("metol.verification.has_opencl_device", lambda: False)
    out = tmp_path / "weights.npz"
    for words in (
        ("gpu", "--out", out),
        ("gpu", "--out", out, "--target", "opencl"),
        ("generate", "--out", tmp_path / "samples", "--target", "cuda", "--gpu", "h100"),
    ):
        with pytest.raises(MissingDeviceError, match="cannot be run, for there is no"):
            train(*words)
    assert list(tmp_path.iterdir()) == []


def test_a_gpu_that_is_named_must_be_the_one_that_is_here(device: list[RunOptions], tmp_path: Path) -> None:
    files = SampleFiles(tmp_path / "samples")
    with pytest.raises(UnsupportedTargetError, match=r"`NVIDIA A100 40 GB` has 108 .* GPU here, `NVIDIA H100 80GB"):
        Collector(files, CollectPlan().for_target("cuda", "a100"))
    plan = replace(CollectPlan(threads=2, draw=DrawPlan(8)).for_target("cuda", "h100"), run_ms=(0.0, 1e9))
    (one,) = Collector(files, plan).run(TuningBudget(trials=1))
    # Times are filed under what was measured, and described as was asked for.
    assert one.device == DEVICE.name
    assert files.machine_of(one) == GpuMachine.preset("h100", threads=2)


def test_what_there_was_no_time_for_is_no_sample(
    device: list[RunOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Measurement("app", "#").with_failure(Status.REFUSED, "there was no time left to compile it")
    limits: list[float] = []
    ran = 20

    def measure(source: PipelineSource, schedules: Sequence[Schedule], _: RunOptions, plan: TogetherPlan) -> tuple:
        limits.append(plan.compile_seconds)
        rows = [_row(source, schedule) for schedule in schedules]
        return (*rows[:ran], *[late] * len(rows[ran:]))

    monkeypatch.setattr("metol.train.collect.measure_together", measure)
    plan = replace(CollectPlan(threads=2, draw=DrawPlan(24)).for_target("cuda"), program_seconds=60.0)
    collector = Collector(SampleFiles(tmp_path), plan)
    blur = PipelineSource.parse("app:blur")
    assert len(collector.measure(blur, 0, is_any_time_right=True).samples) == 20
    ran = 7
    # With more time it would go no further; with a budget that has ended, it may another time.
    assert collector.measure(blur, 0, is_any_time_right=True).note == "7 of its schedules were compiled in 60 s"
    assert collector.measure(blur, 0, is_any_time_right=True, limit_seconds=5.0) is None
    assert limits == [60.0, 60.0, 5.0]
