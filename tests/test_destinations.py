import errno
import multiprocessing
from pathlib import Path

import pytest

from metol.destinations import hold_folder, require_writable, require_writable_folder, write_bytes, write_text
from metol.errors import MetolError


def test_what_can_be_written_or_made_is_accepted_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("old")
    for path in (None, tmp_path / "old.json", tmp_path / "new.json", tmp_path / "a" / "b" / "new.json"):
        require_writable(path)
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]
    assert (tmp_path / "old.json").read_text() == "old"


def test_what_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MetolError, match="is a folder; name a file"):
        require_writable(tmp_path)
    with pytest.raises(MetolError, match="file` is not a folder"):
        require_writable(tmp_path / "file" / "rows.json")
    monkeypatch.setattr("metol.destinations.os.access", lambda *_: False)  # whoever runs this may be allowed everything
    with pytest.raises(MetolError, match="no permission to write"):
        require_writable(tmp_path / "rows.json")


def test_what_was_there_stays_until_all_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "folder" / "s.json"
    write_text(file, "old")
    assert file.read_text() == "old"
    whole = Path.write_bytes

    def full_disk(path: Path, content: bytes) -> int:
        whole(path, content[:2])
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full_disk)
        with pytest.raises(MetolError, match=r"s\.json` cannot be written: no space left"):
            write_text(file, "new")
    assert file.read_text() == "old"
    assert sorted(path.name for path in file.parent.iterdir()) == ["s.json"]
    write_text(file, "new")
    assert file.read_text() == "new"
    assert sorted(path.name for path in file.parent.iterdir()) == ["s.json"]


def test_what_is_no_plain_file_stays_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "there.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "there.json")
    write_text(tmp_path / "link.json", "new")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "there.json").read_text() == "new"
    write_text(Path("/dev/null"), "text")


def test_what_has_no_place_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MetolError, match=r"full` cannot be written: No space"):
        write_bytes(Path("/dev/full"), b"text")
    with pytest.raises(MetolError, match="cannot be written"):
        write_text(tmp_path / "file" / "s.json", "text")
    with pytest.raises(MetolError, match="cannot be written"):
        require_writable_folder(tmp_path / "file")
    with pytest.raises(MetolError, match="cannot be used as a folder"), hold_folder(tmp_path / "file"):
        pass


def test_a_folder_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "samples"
    context = multiprocessing.get_context("spawn")
    with hold_folder(folder), context.Pool(1) as pool:
        assert folder.is_dir()
        assert "Another process is writing" in pool.apply(refusal_of, (folder,))
    with hold_folder(folder):
        pass


def refusal_of(folder: Path) -> str:
    """What another process is told of a folder."""
    try:
        with hold_folder(folder):
            return ""
    except MetolError as error:
        return str(error)


def test_a_private_file_stays_private_whatever_its_name(tmp_path: Path) -> None:
    file = tmp_path / ("n" * 250)
    file.write_text("old")
    file.chmod(0o600)
    write_text(file, "new")
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text() == "new"
