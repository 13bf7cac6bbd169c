import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parent.parent / "docs"


def loaded(name: str) -> Any:
    """A script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def generated_tables() -> dict[str, str]:
    tables: dict[str, str] = loaded("generate_tables").tables()
    return tables


@pytest.mark.parametrize(
    "name", ["features.md", "cost_terms.md", "gpu_features.md", "gpu_cost_terms.md", "gpu_devices.md"]
)
def test_generated_table_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == generated_tables()[name], "run `make docs`"


def test_gallery_is_up_to_date() -> None:
    gallery = loaded("generate_gallery")
    assert (DOCS / "random_programs.md").read_text(encoding="utf-8") == gallery.page(), "run `make docs`"
    assert len(gallery.SOURCES) == 10


def test_table_numbers_every_row_once() -> None:
    for name, text in generated_tables().items():
        numbers = [int(line.split("|")[1]) for line in text.splitlines() if line.startswith("| ") and "`" in line]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > (5 if name.startswith("gpu") else 30)


@pytest.mark.parametrize("folder", ["src", "apps", "docs", "examples"])
def test_no_advice_takes_metol_from_an_index(folder: str) -> None:
    """There is none that has it: it is installed from a checkout."""
    files = [path for kind in ("*.py", "*.md") for path in (DOCS.parent / folder).rglob(kind)]
    wrong = re.compile(r"pip install [^`\n]*\bmetol\b")
    assert [str(path) for path in files if wrong.search(path.read_text(encoding="utf-8"))] == []
