"""Which record answers for a pipeline on this machine.

In: a pipeline and how it will run. Out: the key of its records, and the best of them.
"""

import halide as hl

from metol.framing import frame_of
from metol.pipeline import EstimateMap, extract
from metol.targets import choose_machine, fit_target, parse_target
from metol.tune.machine_identity import fingerprint, machine_identity
from metol.tune.record import RecordKey, SearchTerms

__all__ = ["key_of"]


def key_of(
    pipeline: hl.Pipeline | hl.Func,
    terms: SearchTerms,
    *,
    target: str | hl.Target | None = None,
    estimates: EstimateMap | None = None,
) -> RecordKey:
    """Return the key under which schedules of a pipeline are measured on this machine.

    Args:
        pipeline: The pipeline, or the Func of its only output.
        terms: How it will run, and what has been promised.
        target: A Halide target; the CPU of this machine if None.
        estimates: Sizes and parameter values that the pipeline does not tell, by name.

    Raises:
        MetolError: the pipeline cannot be read; `metol.autoschedule` answers for some of these all the same.
    """
    whole = pipeline if isinstance(pipeline, hl.Pipeline) else hl.Pipeline(pipeline)
    machine = choose_machine(parse_target(target), threads=terms.threads)
    text = str(fit_target(target, machine, is_chosen=False).to_string())
    frame = frame_of(whole, extract(pipeline, estimates, target=text), text, ())
    return RecordKey.of(frame, fingerprint(machine_identity(machine)), terms)
