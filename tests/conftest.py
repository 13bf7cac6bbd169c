"""What all tests share: the option to rewrite golden files, and a fixture that compares with them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# No test asserts a time, so Hypothesis is not to fail one that a busy machine slows down.
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files with what comes out now")


@pytest.fixture
def check_golden(request: pytest.FixtureRequest) -> Callable[[str, Path], None]:
    """Compare a text with a golden file, or write the file where `--update-golden` is given."""

    def check(text: str, path: Path) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return check
