"""The parent's end of a child process: start it, ask it, and survive whatever becomes of it.

A child is a fresh interpreter (a fork would inherit Halide's thread pool without its threads) in a process group of its
own, which is killed as a whole. Its stderr goes to a file, whose last lines tell why it died.
"""

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Any

from metol.measure.message import Message, decode, encode

__all__ = ["REQUEST_BYTES", "Child", "ChildDiedError", "ChildTimeoutError", "physical_memory_bytes"]

REQUEST_BYTES = 1 << 20
"""Bytes of requests that a child need not have read before more can be sent; on Linux, and where the user may."""
_STDERR_TAIL_LINES = 4
_STDERR_TAIL_BYTES = 4096


class ChildDiedError(Exception):
    """The child ended before it answered; the message says how, with the last lines of its stderr."""


class ChildTimeoutError(Exception):
    """The child did not answer in time; it has been killed."""


def start_interpreter(
    module: str, arguments: Sequence[str], answer_fd: int, stderr: IO[bytes]
) -> "subprocess.Popen[bytes]":
    """Start a module in a session of its own.

    Args:
        module: its name.
        arguments: its own but the first.
        answer_fd: where its answers go.
        stderr: where all that it prints goes.
    """
    return subprocess.Popen(
        [sys.executable, "-m", module, str(answer_fd), *arguments],
        stdin=subprocess.PIPE,
        stdout=stderr,
        stderr=stderr,
        pass_fds=(answer_fd,),
        start_new_session=True,
    )


class Child:
    """One child process. A context manager: leaving it kills whatever still runs.

    Start it from a thread that outlives it, for the kernel kills it when that thread ends.
    """

    def __init__(self, *, threads: int, memory_bytes: int = 0, module: str = "metol.measure.child") -> None:
        """Start a fresh interpreter.

        Args:
            threads: how many cores it is pinned to and how many threads Halide uses.
            memory_bytes: how much address space it may take; 0 for no limit.
            module: what it runs, which calls `serve_parent`.
        """
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115, closed in `close`
        answer_read, answer_write = os.pipe()
        numbers = [str(number) for number in (os.getpid(), threads, memory_bytes)]
        self._process = start_interpreter(module, numbers, answer_write, self._stderr)
        os.close(answer_write)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(self._process.stdin, fcntl.F_SETPIPE_SZ, REQUEST_BYTES)
        self._answer_fd = answer_read
        self._buffer = b""
        self.spent_seconds = 0.0

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    def ask(self, request: Message, timeout_seconds: float) -> Any:
        """Send a request and return the answer, which is a `Failure` where the child raised an exception.

        Raises:
            ChildDiedError: the child crashed, was killed, or ran out of memory.
            ChildTimeoutError: no answer after `timeout_seconds`; the child is dead then.
        """
        start = time.monotonic()
        try:
            self.send(request)
            return self.receive(timeout_seconds)
        finally:
            self.spent_seconds += time.monotonic() - start

    def send(self, request: Message) -> None:
        """Send a request without waiting for its answer, which `receive` returns; raises ChildDiedError."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encode(request))
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ChildDiedError(self._epitaph()) from None

    def receive(self, timeout_seconds: float) -> Any:
        """Return the answer to what was sent; raises as `ask` does."""
        return decode(self._receive_line(time.monotonic() + timeout_seconds))

    def kill(self) -> None:
        """Kill the child from another thread than the one that asks it, which gets a ChildDiedError."""
        self._kill()

    def has_answer(self, wait_seconds: float) -> bool:
        """Tell whether `receive` has something to return or to raise at once, after waiting for it a while."""
        if b"\n" in self._buffer:
            return True
        ready, _, _ = select.select([self._answer_fd], [], [], wait_seconds)
        return bool(ready)

    def close(self) -> None:
        """Kill the child and all that it started."""
        if self._answer_fd < 0:
            return
        self._kill()
        os.close(self._answer_fd)
        self._answer_fd = -1
        if self._process.stdin is not None:
            # What the child never read may still lie in the buffer.
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._stderr.close()

    def printed(self) -> str:
        """Return all that it has printed so far."""
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")

    def __enter__(self) -> "Child":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _receive_line(self, deadline: float) -> bytes:
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._answer_fd], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self._kill()
                raise ChildTimeoutError(self._tail())
            chunk = os.read(self._answer_fd, 1 << 16)
            if not chunk:
                raise ChildDiedError(self._epitaph())
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _kill(self) -> None:
        # The group still exists as long as the child has not been waited for, which another thread may just have done.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _epitaph(self) -> str:
        """Say how the child ended. Its pipe is closed, so it is dead or as good as."""
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._kill()
            code = self._process.returncode
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        if code == -signal.SIGKILL:
            how += ", probably for want of memory"
        return ": ".join(filter(None, (how, self._tail())))

    def _tail(self) -> str:
        """Return the last lines of stderr as one."""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _STDERR_TAIL_BYTES))
        lines = self._stderr.read().decode(errors="replace").splitlines()
        return " | ".join([line.strip() for line in lines if line.strip()][-_STDERR_TAIL_LINES:])


def physical_memory_bytes() -> int:
    """Return how much memory this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
