"""Which reasons for refusing schedules are the same but for their numbers.

Enter: reasons as `first_accepted` tells them, ``what it was: why``. Leave: fewer lines for a person.
"""

import re
from collections.abc import Sequence

__all__ = ["are_alike", "group_refusals"]

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def _kind(refusal: str) -> str:
    """The reason without what was refused, and without numbers."""
    return _NUMBER.sub("0", refusal.split(": ", 1)[-1])


def are_alike(refusals: Sequence[str]) -> bool:
    """Return whether there is one reason for all of these."""
    return len({_kind(refusal) for refusal in refusals}) <= 1


def group_refusals(refusals: Sequence[str]) -> tuple[str, ...]:
    """Return a line for each reason: the first refusal for it, and how many more there were."""
    groups: dict[str, list[str]] = {}
    for refusal in refusals:
        groups.setdefault(_kind(refusal), []).append(refusal)
    return tuple(
        first if not others else f"{first} ({len(others)} more, for the same reason)"
        for first, *others in groups.values()
    )
