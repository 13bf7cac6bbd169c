"""Timing of so short a time that it tells of schedules nothing but that they ran."""

from metol.measure import RacePlan, RunOptions, TimingPlan

__all__ = ["BRIEF_OPTIONS", "BRIEF_RACES", "BRIEF_TIMING"]

BRIEF_TIMING = TimingPlan(round_seconds=0.005, min_rounds=2, max_rounds=2)
BRIEF_RACES = RacePlan(stages=(1, 1), timing=BRIEF_TIMING)
BRIEF_OPTIONS = RunOptions(timing=BRIEF_TIMING, timeout_seconds=60)
