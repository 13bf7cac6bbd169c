"""The child process that judges schedules, as its parent asks over a pipe.

Run as ``python -m metol.measure.judge_child ANSWER_FD PARENT_PID THREADS MEMORY_BYTES``. Each search starts one and may
be over before it is there, so that it imports no more than lowering takes.
"""

import sys
import time
from pathlib import Path
from typing import Any

from metol.lower import Schedule
from metol.measure.foresight import Foresight
from metol.measure.gate import BufferSizes, Gate
from metol.measure.gate_messages import Foresee, Judge, Judgement, OpenGate
from metol.measure.message import Done, Message
from metol.measure.serialized import load_pipeline
from metol.measure.serving import error_text, serve_parent

__all__ = ["main"]


class JudgeSession:
    """The state of a child between requests: a gate, and what goes through it before it is asked about."""

    def __init__(self) -> None:
        """Begin without a pipeline."""
        self._gate: Gate | None = None
        self._foresight = Foresight(self._refusal)

    def answer(self, request: Any) -> Message:
        """Do what is asked; exceptions are the caller's to report."""
        start = time.perf_counter()
        match request:
            case OpenGate():
                self._open(request)
            case Foresee():
                self._foresight.begin(request.schedule)
            case Judge():
                foreseen = self._foresight.take(request.schedule)
                return Judgement(self._refusal(request.schedule) if foreseen is None else foreseen)
        return Done(time.perf_counter() - start)

    def explain(self, error: Exception) -> str:
        """Return what an exception says."""
        return error_text(error)

    def use_pause(self) -> None:
        """Lower the reference while the parent still searches."""
        if self._gate is not None:
            self._gate.prepare()

    def _open(self, request: OpenGate) -> None:
        limits = None
        if request.limits:
            from metol.measure.block_limits import BlockLimits

            limits = BlockLimits.from_json(request.limits)
        file = Path(request.file)
        load_pipeline(file)  # whether it can be read at all is this request's answer, not the first schedule's
        self._gate = Gate(lambda: load_pipeline(file), BufferSizes.from_json(request.sizes), request.target, limits)

    def _refusal(self, schedule: str) -> str:
        assert self._gate is not None, "asked to judge before the gate was opened"
        return self._gate.refusal(Schedule.from_json(schedule))


def main(arguments: list[str]) -> None:
    """Answer requests until stdin ends."""
    serve_parent(JudgeSession(), *map(int, arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
