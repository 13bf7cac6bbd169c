"""The child processes of the tests."""

import os
from pathlib import Path

__all__ = ["children"]


def children() -> set[int]:
    """All children of this process, those included that are dead and that nobody has waited for."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == os.getpid():
            found.add(int(stat.parent.name))
    return found
