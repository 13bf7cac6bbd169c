"""Which of several candidates is accepted: the first that is legal and right, and spills no registers."""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest
from small_pipelines import chain, schedule_with

from metol.candidates import Candidate, Choice, first_accepted
from metol.kernel_report import KernelReport
from metol.lower import Call, Directive, Schedule
from metol.measure import Kernel
from metol.verification import Verification


def report_of(spill_bytes: int) -> KernelReport:
    nowhere = (1, 1, 1)
    kernel = Kernel(
        "k", 0, "f", 0, "sm_80", nowhere, nowhere, 0, 32, spill_bytes // 2, spill_bytes - spill_bytes // 2, 0
    )
    return KernelReport(kernel, None, ())


def candidates(searched: int, step: float = 0.01) -> list[Candidate]:
    """As many that a search found, each dearer by `step`, and one that none did; each has as many directives as come
    before it."""

    def made(count: int) -> tuple[Directive, ...]:
        return (Directive(0, 0, Call.COMPUTE_ROOT),) * count

    found = [
        Candidate("alternative" if i else "search", lambda count=i: made(count), 1 + step * i) for i in range(searched)
    ]
    return [*found, Candidate("root", lambda: made(searched), math.nan)]


class Judge:
    """Knows how much each spills, by its directives, and counts what it was asked."""

    def __init__(self, spills: Sequence[int], refused: Collection[int] = ()) -> None:
        self.spills = spills
        self.refused = refused
        self.inspected: list[int] = []
        self.verified: list[int] = []
        self.wrong: Collection[int] = ()

    def refuse(self, schedule: Schedule) -> str:
        return "no" if len(schedule.directives) in self.refused else ""

    def inspect(self, schedule: Schedule) -> Verification:
        place = len(schedule.directives)
        self.inspected.append(place)
        spill = self.spills[place] if place < len(self.spills) else 0
        return Verification(kernels=(report_of(0), report_of(spill)))

    def verify(self, schedule: Schedule, inspected: Verification) -> Verification:
        place = len(schedule.directives)
        self.verified.append(place)
        return replace(inspected, is_compared=True, refusal="it is wrong" if place in self.wrong else "")

    def choose(self, found: list[Candidate] | None = None) -> tuple[Choice | None, tuple[str, ...]]:
        found = found or candidates(len(self.spills))
        return first_accepted(found, schedule_with(chain, ()), self.refuse, self.inspect, self.verify)


@pytest.mark.parametrize(
    ("spills", "chosen"),
    [
        ((0, 0), 0),
        ((8, 0), 1),
        ((8, 8, 0), 2),
        # All spill: the first that spills at most half as much again as the least.
        ((90, 80, 60), 0),
        ((91, 80, 60), 1),
        ((500, 400, 10, 12), 2),
        ((7,), 0),
    ],
)
def test_the_first_that_spills_little_is_chosen(spills: Sequence[int], chosen: int) -> None:
    choice, refusals = Judge(spills).choose()
    assert choice is not None
    assert len(choice.schedule.directives) == chosen
    assert choice.verification.spill_bytes == spills[chosen]
    # Told are those that were passed over, not the one that was taken in the end.
    others = [spill for place, spill in enumerate(spills) if place != chosen and (place < chosen or min(spills) > 0)]
    assert [refusal.partition(": ")[2] for refusal in refusals] == [
        f"its kernels spill {spill} B of registers" for spill in others
    ]


def test_what_is_refused_is_not_looked_at_for_spills() -> None:
    judge = Judge((0, 16, 0), refused=(0,))
    choice, refusals = judge.choose()
    assert choice is not None
    assert len(choice.schedule.directives) == 2
    assert judge.inspected == [1, 2]
    assert judge.verified == [2]
    assert refusals == ("the best found: no", "the next best found: its kernels spill 16 B of registers")


def test_only_a_few_are_assembled_where_all_spill() -> None:
    judge = Judge((900, 800, 700, 600, 500, 0, 0))
    choice, _ = judge.choose()
    assert choice is not None
    assert judge.inspected == [0, 1, 2, 3, 4]
    # Only what is to be returned is run.
    assert judge.verified == [2]
    assert choice.verification.spill_bytes == 700
    assert choice.verification.is_compared


def test_what_is_wrong_gives_way_to_what_spills_no_more_and_then_to_the_rest() -> None:
    judge = Judge((60, 50, 50))
    judge.wrong = (0,)
    choice, refusals = judge.choose()
    assert choice is not None
    assert len(choice.schedule.directives) == 1
    assert judge.verified == [0, 1]
    assert "the best found: it is wrong" in refusals
    judge.wrong = (0, 1, 2)
    choice, refusals = judge.choose()
    assert choice is not None
    assert choice.candidate.origin == "root"
    assert sum("it is wrong" in refusal for refusal in refusals) == 3
    assert sum("its kernels spill" in refusal for refusal in refusals) == 3


def test_what_is_much_dearer_does_not_stand_in_for_what_spills() -> None:
    judge = Judge((40, 0))
    cheap, _ = judge.choose(candidates(2, step=0.2))
    dear, _ = judge.choose(candidates(2, step=0.3))
    assert cheap is not None
    assert dear is not None
    assert (cheap.candidate.origin, dear.candidate.origin) == ("alternative", "search")


def test_what_no_search_found_does_not_stand_in_for_what_spills() -> None:
    choice, _ = Judge((40, 30)).choose()
    assert choice is not None
    assert choice.candidate.origin == "search"


def test_where_all_are_refused_nothing_is_chosen() -> None:
    choice, refusals = Judge((0, 0), refused=(0, 1, 2)).choose()
    assert choice is None
    assert len(refusals) == 3


@pytest.mark.parametrize(("reasons", "chosen"), [("aaa", "narrower"), ("aba", "alternative")])
def test_alternatives_come_late_where_several_before_them_were_refused_for_one_reason(
    reasons: str, chosen: str
) -> None:
    def made(origin: str, count: int) -> Candidate:
        return Candidate(origin, lambda: (Directive(0, 0, Call.COMPUTE_ROOT),) * count)

    origins = ["search", "alternative", "alternative", "alternative", "narrower", "safe"]
    asked: list[int] = []

    def refuse(schedule: Schedule, last: int) -> str:
        asked.append(len(schedule.directives))
        return reasons[asked[-1]] + str(asked[-1]) if asked[-1] < len(reasons) else "late" * (asked[-1] <= last)

    found = [made(origin, count) for count, origin in enumerate(origins)]

    def first(last: int = 0) -> str:
        frame = schedule_with(chain, ())
        nothing = Verification()
        choice, _ = first_accepted(found, frame, lambda one: refuse(one, last), lambda _: nothing, lambda _, one: one)
        return choice.candidate.origin if choice else ""

    assert first() == chosen
    asked.clear()
    # They come before what needs no search.
    assert first(last=4) == "safe"
    assert asked == ([0, 1, 2, 4, 3, 5] if chosen == "narrower" else [0, 1, 2, 3, 4, 5])
