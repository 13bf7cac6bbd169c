"""Files that a long measurement or search is to write: looked at before it starts, not when it has ended."""

import os
from pathlib import Path

from metol.errors import MetolError

__all__ = ["require_writable", "write_text"]


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


def write_text(path: Path, text: str) -> None:
    """Write a file, and make its folders; what was there stays as it is until all of it is written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A device, what lies elsewhere, or a file in a folder that takes no other.
    if path.exists() and (path.is_symlink() or not path.is_file() or not os.access(path.parent, os.W_OK)):
        path.write_text(text, encoding="utf-8")
        return
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
