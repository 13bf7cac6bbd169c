"""Who imports whom: between rooms in Python, between folders in C++, and what `import metol` brings along."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "metol"

ROOMS_IN_CPP = {
    "pipeline": {"pipeline"},
    "schedule": {"schedule", "pipeline"},
    "targets": {"targets", "schedule", "pipeline"},
    "cost": {"cost"},
    "emulated_cuda": {"emulated_cuda"},
    "search": {"search", "cost", "targets", "schedule", "pipeline"},
}
"""Folders of C++ files, and those whose headers they may include."""

HEAVY = {"halide", "numpy", "rich", "typer", "torch", "ray", "metol._core"}


def python_files() -> list[Path]:
    return [path for path in sorted(SOURCE.rglob("*.py")) if path.parent != SOURCE]


def cpp_files() -> list[Path]:
    return [path for path in sorted(SOURCE.rglob("*")) if path.suffix in (".cpp", ".hpp") and path.parent != SOURCE]


def relative(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def room_of(module: str) -> tuple[str, ...]:
    """Return the package whose public names a module is part of: a target is a room of its own, and so are programs."""
    parts = tuple(module.split("."))
    is_inner = parts[1:2] == ("targets",) or parts[1:3] == ("pipeline", "random_programs")
    return parts[:3] if is_inner else parts[:2]


def test_rooms_import_only_layers_below() -> None:
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", python_files(), ids=relative)
def test_room_imports_only_public_names_of_others(path: Path) -> None:
    own = room_of(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("metol."):
            room = room_of(node.module)
            assert room == own or node.module == ".".join(room), f"line {node.lineno} reaches into {node.module}"


@pytest.mark.parametrize("path", cpp_files(), ids=relative)
def test_cpp_room_includes_only_rooms_below(path: Path) -> None:
    room = path.relative_to(SOURCE).parts[0]
    included = set(re.findall(r'#include "(\w+)/', path.read_text(encoding="utf-8")))
    assert included <= ROOMS_IN_CPP[room]


@pytest.mark.parametrize("path", cpp_files(), ids=relative)
def test_only_pipeline_includes_halide(path: Path) -> None:
    is_pipeline = path.relative_to(SOURCE).parts[0] == "pipeline"
    assert is_pipeline or "Halide.h" not in path.read_text(encoding="utf-8")


def test_import_metol_brings_nothing_heavy_along() -> None:
    code = f"import sys, metol; sys.exit(sorted({HEAVY!r} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("first", ["Result", "autoschedule"])
def test_autoschedule_is_the_function_whatever_is_named_first(first: str) -> None:
    code = f"import metol; metol.{first}; assert callable(metol.autoschedule)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("package", ["metol", "metol.lower", "metol.measure"])
def test_public_names_are_found_where_they_live(package: str) -> None:
    module = importlib.import_module(package)
    assert sorted(module.__all__) == sorted(module._HOMES)
    # A module of that name would take the name's place when it is imported; of `autoschedule`, see below.
    assert {name for name, home in module._HOMES.items() if home == f"{package}.{name}"} <= {"autoschedule"}
    assert all(hasattr(module, name) for name in module.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = module.nothing


def test_child_that_judges_schedules_starts_without_what_it_does_not_need() -> None:
    unneeded = {"numpy", "metol.targets", "metol.measure.runner", "metol.lower.cpu"}
    code = f"import sys, metol.measure.child; sys.exit(sorted({unneeded!r} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_commands_leave_the_function_where_users_find_it() -> None:
    # One interpreter, which takes a second to begin: what a module hides stays hidden.
    modules = "bench_command", "every_size", "experiments", "option_gains", "tails_cost", "tuned_gains", "variants"
    code = "".join(f"import metol.{module}; assert callable(metol.autoschedule), {module!r}; " for module in modules)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
