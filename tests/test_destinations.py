from pathlib import Path

import pytest

from metol.destinations import require_writable, write_text
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
    whole = Path.write_text

    def full_disk(path: Path, text: str, **words: str) -> int:
        whole(path, text[:2], **words)
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full_disk)
        with pytest.raises(OSError, match="no space"):
            write_text(file, "new")
    assert file.read_text() == "old"
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
