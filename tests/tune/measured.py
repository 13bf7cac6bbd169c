"""What the tests of tuning measure without measuring: proposals and records that nobody ran."""

from metol.lower import Call, Directive, FuncRef, Schedule, Tail, Var
from metol.measure import Status
from metol.tune import Record, RecordKey, SearchTerms
from metol.tune.proposals import Proposal
from metol.tune.record import canonical

KEY = RecordKey(
    "0" * 16, canonical([["output", [[0, 64], [0, 48]]]]), "m" * 16, "x86-64", "21.0.0", SearchTerms(2).to_text()
)


def proposal(name: str, origin: str = "sample") -> Proposal:
    """A schedule that differs from others, by a factor that its name stands for."""
    funcs = (FuncRef(0, "output", ("x",), output=0),)
    split = (Var("x"), Var("xo"), Var("xi"), ord(name[0]), Tail.GUARD_WITH_IF)
    return Proposal(origin, Schedule(funcs, (Directive(0, 0, Call.SPLIT, split),), algorithm_hash="0" * 16))


def record_of(proposed: Proposal, run_ms: float) -> Record:
    """A record of it."""
    text = proposed.schedule.to_json()
    return Record(KEY, "app", proposed.origin, Status.OK, schedule=text, run_ms=run_ms, is_verified=True)
