"""What experiments that run on a GPU share: schedules of one application for it, and a race of them on it.

In: a pipeline, and a setting with a device. Out: schedules, and a `Point` for each of those that were raced.
"""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from metol.autoschedule import autoschedule
from metol.bench_device import BenchDevice
from metol.errors import MetolError
from metol.experiments.experiment import Point, Setting
from metol.experiments.schedulers import AppExperiment, point_of
from metol.lower import Schedule
from metol.measure import LocalRunner, Measurement, PipelineSource, RacePlan, RunOptions, Scheduler
from metol.options import SearchOptions
from metol.planner import Planner
from metol.tune import Problem, TunerOptions, TuningFailure, TuningResult, TuningSettings, tune_all
from metol.verification import has_cuda

__all__ = ["DeviceExperiment", "OnDevice"]


class DeviceExperiment(AppExperiment):
    """An experiment about applications on a GPU."""

    needs_device = True

    def depends_on(self, setting: Setting) -> str:
        """Which GPU it is, too."""
        return f"{setting}, on {_device(setting).machine.name}"


class OnDevice:
    """One application on the GPU of a setting."""

    def __init__(self, source: PipelineSource, setting: Setting, folder: Path) -> None:
        self.source = source
        self.setting = setting
        self.device = _device(setting)
        self._folder = folder
        self._files = 0

    @staticmethod
    @contextlib.contextmanager
    def of(source: PipelineSource, setting: Setting) -> Iterator["OnDevice"]:
        """Yield one, with a folder for as long as it is used."""
        with tempfile.TemporaryDirectory(prefix="metol-") as folder:
            yield OnDevice(source, setting, Path(folder))

    @property
    def how(self) -> dict[str, Any]:
        """Target, machine and threads, as `autoschedule`, `Planner` and `Problem` take them."""
        threads = self.setting.options.threads
        return {"target": self.device.target, "machine": self.device.machine, "threads": threads}

    def one_shot(self, options: SearchOptions) -> Schedule:
        """Return what a search ranks first; for CUDA, the first of them that spills no registers (§6.1)."""
        verify: bool | Literal["kernels"] = "kernels" if has_cuda(self.device.target) else False
        return autoschedule(self.source.build(), options=options, verify=verify, **self.how).schedule

    def best(self, options: SearchOptions, count: int) -> tuple[Schedule, ...]:
        """Return the best few that a search finds."""
        planner = Planner(self.source.build(), options, **self.how)
        return planner.best(planner.search(), count)

    def tuned(self, options: SearchOptions, tuner: TunerOptions) -> TuningResult:
        """Tune for as long as the setting allows.

        Raises:
            MetolError: nothing was right.
        """
        with self.problem(options) as problem:
            return self.tune(problem, tuner)

    def problem(self, options: SearchOptions) -> Problem:
        """Return the application as something to tune; close it."""
        return Problem(self.source, options=options, **self.how)

    def tune(self, problem: Problem, tuner: TunerOptions) -> TuningResult:
        """Tune a problem that is open; raises what `tuned` does."""
        (result,) = tune_all([problem], self.setting.budget, TuningSettings(tuner=tuner))
        if isinstance(result, TuningFailure):
            raise MetolError(result.reason)
        return result

    def file_of(self, schedule: Schedule) -> Scheduler:
        """Return a scheduler that reads this schedule."""
        file = self._folder / f"schedule_{self._files}.json"
        self._files += 1
        schedule.save(file)
        return Scheduler.of_file(file)

    def race(self, contestants: Mapping[str, Scheduler]) -> dict[str, Point]:
        """Verify schedules on the device and time them in turn: a point each, by series."""
        told = [self.device.tell(one) for one in contestants.values()]
        rows = LocalRunner(self._options, self.setting.progress).run(self.source, told)
        return {series: point_of(series, row) for series, row in zip(contestants, rows, strict=True)}

    def measure(self, problem: Problem, schedules: Sequence[Schedule], plan: RacePlan) -> tuple[Measurement, ...]:
        """Verify many schedules on the device, compiled on all cores, and time them in turn: a row each."""
        self.setting.progress(f"{self.source.label}: {len(schedules)} schedules")
        with contextlib.closing(problem.workbench(self._options, plan)) as workbench:
            return tuple(outcome.measurement for outcome in workbench.measure(schedules))

    @property
    def _options(self) -> RunOptions:
        return replace(self.setting.options, target=self.device.target)


def _device(setting: Setting) -> BenchDevice:
    if setting.device is None:
        raise MetolError("This experiment runs on a GPU, and no device was chosen.")
    return setting.device
