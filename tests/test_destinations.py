from pathlib import Path

import pytest

from metol.destinations import require_writable
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
