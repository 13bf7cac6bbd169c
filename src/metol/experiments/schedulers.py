"""What experiments about applications share: which they are, tuning of one, and a race of several schedules of it.

In: a setting. Out: pipeline sources, and a `Point` for each schedule.
"""

from collections.abc import Sequence
from pathlib import Path

from metol.errors import MetolError
from metol.experiments.experiment import Experiment, Point, Setting
from metol.measure import LocalRunner, Measurement, PipelineSource, Scheduler
from metol.options import SearchOptions
from metol.tune import Problem, TunerOptions, TuningFailure, TuningResult, TuningSettings, tune_all

__all__ = ["RUN", "SEARCH", "AppExperiment", "TuningExperiment", "point_of", "race", "source_of", "tune", "tuned"]

RUN = "run_ms"
"""What run times are called among the values of a point, in milliseconds."""

SEARCH = "search_s"
"""What the time of a search is called there, in seconds."""


class AppExperiment(Experiment):
    """An experiment about applications."""

    takes_apps = True

    def subjects(self, setting: Setting) -> Sequence[str]:
        """What the applications are called."""
        return tuple(source.label for source in setting.sources)


class TuningExperiment(AppExperiment):
    """One that tunes them."""

    def depends_on(self, setting: Setting) -> str:
        """How long tuning may take, too."""
        return f"{setting}, tuning for {setting.budget}"


def source_of(subject: str, setting: Setting) -> PipelineSource:
    """Return the application that is called so."""
    return next(source for source in setting.sources if source.label == subject)


def race(source: PipelineSource, contestants: Sequence[tuple[str, Scheduler]], setting: Setting) -> tuple[Point, ...]:
    """Verify schedules of one pipeline and time them in turn: a point each, in the order given."""
    rows = LocalRunner(setting.options, setting.progress).run(source, [one for _, one in contestants])
    return tuple(point_of(series, row) for (series, _), row in zip(contestants, rows, strict=True))


def point_of(series: str, row: Measurement) -> Point:
    """Return what counts of a measurement: of Metol's own schedules, more is asked than of others."""
    run_ms = row.verified_ms if series.startswith("metol") else row.run_ms if row.is_ok else None
    values = {SEARCH: row.schedule_seconds} if row.schedule_seconds is not None else {}
    if run_ms is None:
        return Point(series, values, row.problem or "not verified")
    return Point(series, {RUN: run_ms, **values})


def tune(
    source: PipelineSource, setting: Setting, tuner: TunerOptions, options: SearchOptions | None = None
) -> tuple[Problem, TuningResult]:
    """Tune one pipeline for as long as the setting allows; raises MetolError where it cannot be tuned."""
    with Problem(source, options=options, threads=setting.options.threads) as problem:
        (result,) = tune_all([problem], setting.budget, TuningSettings(tuner=tuner))
    if isinstance(result, TuningFailure):
        raise MetolError(result.reason)
    return problem, result


def tuned(
    source: PipelineSource, setting: Setting, tuner: TunerOptions, file: Path, options: SearchOptions | None = None
) -> tuple[Scheduler, TuningResult]:
    """Tune one pipeline, and write what was found into a file, which the scheduler reads; raises what `tune` does."""
    _, result = tune(source, setting, tuner, options)
    result.save(file)
    return Scheduler.of_file(file), result
