"""Where the time of a run goes: what Halide's profiler prints after each run enters, the mean of each Func leaves."""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import TypeAlias

from metol.pipeline import base_name

__all__ = ["FuncTimes", "read_profile"]

FuncTimes: TypeAlias = Mapping[str, float]  # ms a run, by the name of the Func without its running number

_TOTAL = re.compile(r"^ *total time: [\d.e+-]+ ms +samples: \d+ +runs: (\d+)")
_FUNC = re.compile(r"^ +([^\s:]+): +([\d.]+)ms \(")


def read_profile(text: str) -> FuncTimes:
    """Return the mean of all reports in a text, of a pipeline each of whose Funcs has a name of its own."""
    runs = 0
    sums: defaultdict[str, float] = defaultdict(float)
    report_runs = 1
    for line in text.splitlines():
        if total := _TOTAL.match(line):
            report_runs = int(total[1])
            runs += report_runs
        elif runs and (part := _FUNC.match(line)):
            sums[base_name(part[1])] += float(part[2]) * report_runs
    return {name: total / runs for name, total in sums.items()}
