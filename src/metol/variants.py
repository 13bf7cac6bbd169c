"""Schedules of one pipeline under several options, of which those that come out alike are told apart from the others.

In: a pipeline source and switches. Out: a `Variant` each. Most switches change nothing of most pipelines: what has been
compiled and run once need not be again.
"""

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path

from metol import Result, autoschedule  # from its module, it would hide the function of that name
from metol.errors import MetolError
from metol.lower import Schedule
from metol.measure import PipelineSource
from metol.options import SearchOptions
from metol.provenance import Provenance
from metol.switches import Switch

__all__ = ["DEFAULT", "Variant", "circumstances", "schedule_digest", "schedule_variant", "variant_name"]

DEFAULT = "default"
"""What the default options are called among the variants."""


@dataclass(frozen=True, slots=True)
class Variant:
    """What one set of options makes of one pipeline."""

    name: str
    """DEFAULT, or the switch that was turned and how."""
    result: Result | None
    """The schedule; None where there is none."""
    digest: str
    """The same for schedules that make the same calls."""
    refusal: str = ""
    """Why there is no schedule."""

    def save(self, folder: Path) -> Path:
        """Write the schedule into a folder, under the name of its digest, and return the file."""
        assert self.result is not None
        file = folder / f"{self.digest}.json"
        self.result.save(file)
        return file


def variant_name(switch: Switch | None) -> str:
    """What a variant is called, None being the default options."""
    return DEFAULT if switch is None else str(switch)


def schedule_variant(source: PipelineSource, switch: Switch | None, threads: int) -> Variant:
    """Build a pipeline afresh and schedule it with the default options, or with one switch turned."""
    name = variant_name(switch)
    options = SearchOptions() if switch is None else switch.turned()
    try:
        result = autoschedule(source.build(), threads=threads, options=options)
    except MetolError as error:
        return Variant(name, None, "", str(error))
    return Variant(name, result, schedule_digest(result.schedule))


def schedule_digest(schedule: Schedule) -> str:
    """Return 16 hexadecimal digits that are the same for schedules that make the same calls."""
    return hashlib.sha256("\n".join(map(str, schedule.directives)).encode()).hexdigest()[:16]


@functools.cache  # what this process runs stays as it is, and its rows and notes must agree
def circumstances(threads: int) -> str:
    """Say what a row depends on beside its pipeline and its options: rows of other circumstances are not taken over.

    The code is told by what its files hold, not by its commit, so that a change of the docs loses nothing.
    """
    import metol_apps

    here = Provenance.collect()
    versions = ", ".join(f"{name} {version}" for name, version in here.versions.items())
    code = hashlib.sha256()
    for package in (Path(__file__).parent, Path(metol_apps.__file__).parent):
        for file in sorted(package.rglob("*")):
            if file.suffix in (".py", ".so"):
                code.update(file.read_bytes())
    return f"{threads} threads on {here.cpu}, {here.target}; {versions}, code {code.hexdigest()[:16]}"
