"""Files that a long measurement or search is to write: looked at before it starts, not when it has ended."""

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from metol.errors import MetolError

__all__ = ["hold_folder", "require_writable", "require_writable_folder", "write_bytes", "write_text"]


def require_writable(path: Path | None) -> None:
    """Raise MetolError where a file could not be written, or made together with its folders; None needs nothing."""
    if path is None:
        return
    if path.is_dir():
        raise MetolError(f"`{path}` is a folder; name a file to write.")
    there = path if path.exists() else next(folder for folder in path.absolute().parents if folder.exists())
    if there != path and not there.is_dir():
        raise MetolError(f"`{path}` cannot be written, for `{there}` is not a folder.")
    if not os.access(there, os.W_OK):
        raise MetolError(f"`{path}` cannot be written: there is no permission to write `{there}`.")


def require_writable_folder(path: Path | None) -> None:
    """Raise MetolError where no file could be written in a folder, which need not exist; None needs nothing."""
    if path is not None:
        require_writable(path / "file")


def write_text(path: Path, text: str) -> None:
    """Write a file in UTF-8, and make its folders; what was there stays as it is until all of it is written.

    Raises:
        MetolError: there is no permission, no space, or no such place.
    """
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file as `write_text` does; errors as there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A device, what lies elsewhere, or a file in a folder that takes no other.
        if path.exists() and (path.is_symlink() or not path.is_file() or not os.access(path.parent, os.W_OK)):
            path.write_bytes(content)
            return
        partial = path.with_name(f".{secrets.token_hex(8)}.partial")
        try:
            partial.write_bytes(content)
            if path.exists():
                shutil.copymode(path, partial)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise MetolError(f"`{path}` cannot be written: {error.strerror}.") from error


@contextlib.contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Keep other processes that ask for it out of a folder, which is made where there is none.

    Raises:
        MetolError: one is there, or the folder cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise MetolError(f"`{folder}` cannot be used as a folder: {error.strerror}.") from error
    try:
        if not os.access(folder, os.W_OK):
            raise MetolError(f"`{folder}` cannot be written: there is no permission.")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise MetolError(
                f"Another process is writing to `{folder}`; wait for it, or name another folder."
            ) from error
        yield
    finally:
        os.close(handle)
