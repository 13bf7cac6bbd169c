"""Timing of so short a time that it tells of schedules nothing but that they ran."""

from functools import partial

from metol.measure import RacePlan, RunOptions, TimingPlan
from metol.tune import FinalRace, TuningSettings

__all__ = ["BRIEF_OPTIONS", "BRIEF_RACES", "BRIEF_TIMING", "brief_settings"]

BRIEF_TIMING = TimingPlan(round_seconds=0.005, min_rounds=2, max_rounds=2)
BRIEF_RACES = RacePlan(stages=(1, 1), timing=BRIEF_TIMING)
BRIEF_OPTIONS = RunOptions(timing=BRIEF_TIMING, timeout_seconds=60)
brief_settings = partial(TuningSettings, final=FinalRace(finalists=1, processes=1), plan=BRIEF_RACES)
