"""Child processes that start at once: forks of an interpreter that has imported and compiled what each of them needs.

A child of `metol.measure.process` spends a second on what is the same for all: imports, and the compilation of Halide's
runtime. Here one process a session does so, without ever running a pipeline, so that it has no threads, and is forked
for each child. The new process is a child of the tests' own (CLONE_PARENT), as one that is started afresh is. A child
forks itself for a child of its own, if it has no threads by then.
"""

import contextlib
import ctypes
import json
import os
import platform
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

__all__ = ["forked_children"]

_CLONE_PARENT = 0x8000
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
_MOST_BYTES = 1 << 20
_MOST_FDS = 1 << 16


class _Forked:
    """What `Child` uses of a `subprocess.Popen`."""

    def __init__(self, pid: int, stdin: IO[bytes]) -> None:
        self.pid = pid
        self.stdin = stdin
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def wait(self, timeout: float | None = None) -> int:
        with self._lock:
            if self.returncode is None:
                if timeout is not None and not self._has_ended(timeout):
                    raise subprocess.TimeoutExpired("child", timeout)
                self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def _has_ended(self, timeout: float) -> bool:
        """Wait for its end, but leave its exit status where it is."""
        watched = os.pidfd_open(self.pid)
        try:
            return bool(select.select([watched], [], [], timeout)[0])
        finally:
            os.close(watched)


class _ForkServer:
    """The process that is forked, from the side of the tests."""

    def __init__(self) -> None:
        # A child dies with the thread of the tests that started this process, which is to be the main one.
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno())]
            # NumPy's BLAS starts threads otherwise, which would not be there after a fork.
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
            self._process = subprocess.Popen(
                command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, env=environment
            )

    def start(self, module: str, arguments: Sequence[str], answer_fd: int, stderr: IO[bytes]) -> _Forked:
        """Start a child with the environment and the working directory that there are now."""
        request_read, request_write = os.pipe()
        request = json.dumps(_request_of(module, arguments)).encode()
        with self._lock:
            socket.send_fds(self._socket, [request], [request_read, stderr.fileno(), answer_fd])
            pid = int(self._socket.recv(64))
        os.close(request_read)
        return _Forked(pid, os.fdopen(request_write, "wb"))

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def _request_of(module: str, arguments: Sequence[str]) -> dict[str, Any]:
    environment = dict(os.environ)
    return {"module": module, "arguments": list(arguments), "cwd": str(Path.cwd()), "environment": environment}


@contextlib.contextmanager
def forked_children(process: Any) -> Iterator[None]:
    """Let `metol.measure.process`, which is passed as `process`, fork its children as long as this is open.

    On a machine whose number of the system call is not known here they start afresh.
    """
    if _SYS_CLONE is None:
        yield
        return
    server = _ForkServer()
    started_afresh = process.start_interpreter
    process.start_interpreter = server.start
    try:
        yield
    finally:
        process.start_interpreter = started_afresh
        server.close()


def _serve(requests: socket.socket) -> None:
    """Fork whenever asked; ends with the tests, who close their side."""
    is_warm = False
    while True:
        message, fds, _, _ = socket.recv_fds(requests, _MOST_BYTES, 3)
        if not message:
            return
        if not is_warm:
            _warm_up()
            is_warm = True
        if _fork_beside() == 0:
            _become_child(json.loads(message), fds, requests.fileno())
        for fd in fds:
            os.close(fd)


def _warm_up() -> None:
    """Import and compile all that children need."""
    import halide as hl

    import metol.candidates  # with all that searches
    import metol.measure.compiled  # with NumPy, which children import late
    import metol.measure.judge_child  # noqa: F401
    from metol.measure import child, process

    process.start_interpreter = partial(_fork_or_start, process.start_interpreter)
    for target in (hl.get_host_target(), hl.Target("host-opencl"), hl.Target("host-cuda")):
        child._compile_runtime(target)
    assert not _has_threads(), "a process with threads must not be forked"


def _has_threads() -> bool:
    return len(list(Path("/proc/self/task").iterdir())) > 1


def _fork_beside() -> int:
    """Fork, but make the new process a child of this one's parent; 0 in the new process."""
    pid = int(ctypes.CDLL(None).syscall(_SYS_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    elif pid < 0:
        raise OSError("clone failed")
    return pid


def _fork_or_start(
    start_afresh: Callable[..., Any], module: str, arguments: Sequence[str], answer_fd: int, stderr: IO[bytes]
) -> Any:
    """Start a child of a child: a fork, where this process has no threads that would not be there after it."""
    if _has_threads():
        return start_afresh(module, arguments, answer_fd, stderr)
    request_read, request_write = os.pipe()
    ready_read, ready_write = os.pipe()
    request = _request_of(module, arguments)
    pid = os.fork()
    if pid == 0:
        _become_child(request, (request_read, stderr.fileno(), answer_fd), ready_write)
    for fd in (request_read, ready_write):
        os.close(fd)
    os.read(ready_read, 64)
    os.close(ready_read)
    return _Forked(pid, os.fdopen(request_write, "wb"))


def _become_child(request: dict[str, Any], fds: Sequence[int], ready: int) -> None:
    """Do what `python -m` does from here on.

    Args:
        request: what `_request_of` makes.
        fds: for its stdin, for what it prints, and for its answers.
        ready: where its number is written when there is a group of processes that can be killed.
    """
    child = sys.modules[request["module"]]
    code = 1
    try:
        os.setsid()
        os.write(ready, str(os.getpid()).encode())
        stdin, stderr, answers = fds
        for fd, number in ((stdin, 0), (stderr, 1), (stderr, 2)):
            os.dup2(fd, number)
        # What else is open is not for it, and an end of a pipe that it held would keep others waiting.
        os.closerange(3, answers)
        os.closerange(answers + 1, _MOST_FDS)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["cwd"])
        sys.modules["__main__"].__file__ = child.__file__
        sys.argv = [child.__file__, str(answers), *request["arguments"]]
        sys.path.insert(0, request["cwd"])
        sys.stdin = open(0, closefd=False)  # noqa: SIM115, of a child it holds what that has read
        child.main(sys.argv[1:])
        code = 0
    except SystemExit as end:
        print(end.code, file=sys.stderr)  # noqa: T201, as the interpreter does
    except BaseException:  # noqa: BLE001, as the interpreter does
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of the tests, which no child has
    _serve(socket.socket(fileno=int(sys.argv[1])))
