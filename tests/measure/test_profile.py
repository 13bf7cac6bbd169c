"""What Halide's profiler prints, as times of Funcs."""

import pytest

from metol.measure.profile import read_profile

REPORT = """harris
 total time: 3.000000 ms  samples: 3  runs: {runs}  time per run: 3.000000 ms
 average threads used: 2.000000
 heap allocations: 384  peak heap usage: 96448 bytes
    halide_malloc:                             0.000ms ( 0.0%)   threads: 0.000
    harris:                                    {harris}ms (33.4%)   threads: 2.000
    gray$1:                                    1.000ms (33.0%)   threads: 2.000  peak: 96448    num: 384
"""


def test_reports_are_averaged_over_runs() -> None:
    text = "something else: 7.000ms (1%)\n" + REPORT.format(runs=1, harris=1.0) + REPORT.format(runs=3, harris=2.0)
    assert read_profile(text) == pytest.approx({"halide_malloc": 0, "harris": 1.75, "gray": 1.0})


def test_no_report_is_no_times() -> None:
    assert read_profile("Error: nothing\n") == {}
