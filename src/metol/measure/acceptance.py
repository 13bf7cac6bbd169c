"""Judges schedules of a live pipeline without touching it, in a child process where that can be had.

Enters: a pipeline and, one by one, schedules. Leaves: a reason for each refusal. Lowering can run for ever, need all
memory, or abort: in a child that is one more reason for a refusal. The child starts at once and gets ready while its
parent searches, and begins with what it will probably be asked, so that it costs little time. Where the pipeline cannot
be serialized, or no child can be started, a copy is lowered in this process instead, unprotected.
"""

import contextlib
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from metol.errors import MetolError
from metol.lower import Schedule
from metol.measure.block_limits import BlockLimits
from metol.measure.gate import BufferSizes, Gate
from metol.measure.gate_messages import Foresee, Judge, OpenGate
from metol.measure.message import Done, Failure
from metol.measure.process import (
    REQUEST_BYTES,
    Child,
    ChildDiedError,
    ChildTimeoutError,
    physical_memory_bytes,
)
from metol.measure.serialized import save_pipeline
from metol.pipeline import copy_pipeline

__all__ = ["Acceptance"]

_CHILD = "metol.measure.judge_child"
# Enough for any schedule that compiles in a minute: lowering takes a fifth of compiling, or less.
_LIMIT_SECONDS = 30.0
# For starting an interpreter and reading the pipeline on a busy machine.
_START_SECONDS = 60.0
_MEMORY_SHARE = 0.5
# A schedule as JSON that is larger is not foreseen, nor are more that a child has not yet read: its pipe has room for
# these, and a search that is under way must not wait for it.
_MOST_FORESEEN_BYTES = REQUEST_BYTES // 4
_MOST_FORESEEN = 3


class Acceptance:
    """Judges schedules of one pipeline. A context manager: leaving it ends the child."""

    def __init__(
        self,
        pipeline: Any,
        sizes: BufferSizes,
        *,
        target: str,
        limits: BlockLimits | None = None,
        limit_seconds: float = _LIMIT_SECONDS,
    ) -> None:
        """Get ready.

        Args:
            pipeline: an `hl.Pipeline`, with whatever schedule it carries.
            sizes: what the schedules are made for.
            target: the Halide target to lower for.
            limits: what a block of threads may have on the GPU that they are for; None for a CPU.
            limit_seconds: for lowering the first schedule, in a child; all of them together get twice that, and each at
                least a third of it.
        """
        self._limit_seconds = limit_seconds
        self._spent_seconds = 0.0
        self._here = Gate(lambda: copy_pipeline(pipeline), sizes, target, limits)
        self._folder = tempfile.TemporaryDirectory(prefix="metol-")
        self._child: Child | None = None
        self._is_open = False
        self._due = 0  # answers that nobody has read yet, to what was foreseen
        self._request: OpenGate | None = None
        file = Path(self._folder.name) / "pipeline.hlpipe"
        try:
            save_pipeline(pipeline, file)
        except (MetolError, RuntimeError):  # Halide cannot write every pipeline
            return
        self._request = OpenGate(str(file), target, sizes.to_json(), "" if limits is None else limits.to_json())
        self._start()

    @property
    def is_protected(self) -> bool:
        """Whether a child does the lowering."""
        return self._request is not None

    def foresee(self, schedule: Schedule) -> None:
        """Begin with a schedule that will probably be asked about, in place of the one before; never waits for it."""
        text = schedule.to_json()
        with contextlib.suppress(ChildDiedError):  # whoever asks next will be told
            self._read_what_is_there()
            if self._child is not None and len(text) <= _MOST_FORESEEN_BYTES and self._due < _MOST_FORESEEN:
                self._child.send(Foresee(text))
                self._due += 1

    def refusal(self, schedule: Schedule) -> str:
        """Tell why a schedule must not be used, or "" where it may."""
        if not self._open():
            return self._here.refusal(schedule)
        assert self._child is not None
        left_seconds = 2 * self._limit_seconds - self._spent_seconds
        limit_seconds = max(self._limit_seconds / 3, min(self._limit_seconds, left_seconds))
        started = time.monotonic()
        try:
            while self._due > 0:
                self._receive_due(limit_seconds)
            answer = self._child.ask(Judge(schedule.to_json()), limit_seconds)
        except ChildTimeoutError:
            self._end()
            return f"Halide does not lower it within {limit_seconds:.0f} s"
        except ChildDiedError as death:
            self._end()
            return f"Halide fails to lower it: {death}"
        finally:
            self._spent_seconds += time.monotonic() - started
        return str(answer.message if isinstance(answer, Failure) else answer.refusal)

    def _open(self) -> bool:
        """Make sure of a child that has read the pipeline; False where there can be none."""
        if self._request is None:
            return False
        if self._child is None:
            self._start()
        if self._child is not None and not self._is_open:
            try:
                self._is_open = isinstance(self._child.receive(_START_SECONDS), Done)
            except (ChildDiedError, ChildTimeoutError):
                self._is_open = False
        if not self._is_open:
            self._end()
            self._request = None
        return self._is_open

    def _read_what_is_there(self) -> None:
        """Read answers that nobody has waited for, as far as the child has given them."""
        while self._child is not None and (self._due > 0 or not self._is_open) and self._child.has_answer(0):
            if self._is_open:
                self._receive_due(_START_SECONDS)
            else:
                self._open()

    def _receive_due(self, limit_seconds: float) -> None:
        assert self._child is not None
        self._due -= 1
        self._child.receive(limit_seconds)

    def _start(self) -> None:
        """Start a child and let it read the pipeline; `_open` waits for it."""
        assert self._request is not None
        with contextlib.suppress(OSError, ChildDiedError):
            self._child = Child(threads=1, memory_bytes=int(_MEMORY_SHARE * physical_memory_bytes()), module=_CHILD)
            self._child.send(self._request)

    def _end(self) -> None:
        if self._child is not None:
            self._child.close()
        self._child = None
        self._is_open = False
        self._due = 0

    def close(self) -> None:
        """End the child and remove its files."""
        self._end()
        self._folder.cleanup()

    def __enter__(self) -> "Acceptance":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
