"""Rows in a file, one JSON object a line, each written at once: what an interrupted run has measured is kept.

In: rows. Out: the same rows, in this process or the next.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from metol.errors import MetolError

__all__ = ["RowFile"]


class _Row(Protocol):
    def to_row(self) -> dict[str, Any]: ...


Row = TypeVar("Row", bound=_Row)


class RowFile(Generic[Row]):
    """A file of rows of one kind and one version."""

    def __init__(self, path: Path, version: int, read: Callable[[dict[str, Any]], Row], what: str) -> None:
        """Name a file, which need not exist.

        Args:
            path: the file.
            version: of the lines; others are refused.
            read: makes a row of what its `to_row` returned.
            what: the rows, for messages: "not a file of ...".
        """
        self.path = path
        self._version = version
        self._read = read
        self._what = what

    def load(self) -> tuple[Row, ...]:
        """Read the rows; those of a missing file are none, and a last line cut short by a crash is left out.

        Raises:
            MetolError: the file holds something else.
        """
        return self.read(self.path.read_bytes(), self.path) if self.path.exists() else ()

    def read(self, content: bytes, path: Path) -> tuple[Row, ...]:
        """Read rows that lie in another file; `path` is for messages. Errors as `load`."""
        whole = content[: content.rfind(b"\n") + 1]
        return tuple(self._row(line, path, number) for number, line in enumerate(whole.splitlines(), 1))

    def append(self, row: Row) -> None:
        """Write a row at the end, on a line of its own even where the last one was cut short."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"version": self._version, **row.to_row()}) + "\n"
        with self.path.open("a+b") as file:
            if file.tell() > 0:
                whole = self.path.read_bytes().rfind(b"\n") + 1
                file.truncate(whole)
            file.write(line.encode())

    def _row(self, line: bytes, path: Path, number: int) -> Row:
        try:
            content: dict[str, Any] = json.loads(line)
            version = content.pop("version")
            row = self._read(content) if version == self._version else None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise MetolError(
                f"`{path}` is not a file of {self._what}: line {number} is none of them; "
                "take it out, or name another file."
            ) from None
        if row is None:
            raise MetolError(f"`{path}` has version {version}; this Metol reads version {self._version}.")
        return row
