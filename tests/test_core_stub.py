"""Holds the stub of the core to what was compiled, name by name."""

import ast
from importlib.resources import files

import pytest

from metol import _core


def stub_body() -> list[ast.stmt]:
    return ast.parse(files("metol").joinpath("_core.pyi").read_text(encoding="utf-8")).body


def declared(body: list[ast.stmt]) -> set[str]:
    names = {node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    return names | {ast.unparse(node.target) for node in body if isinstance(node, ast.AnnAssign)}


def public(names: set[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def test_stub_declares_every_name_of_the_core() -> None:
    assert public(declared(stub_body())) == public(set(dir(_core)))


@pytest.mark.parametrize("node", [n for n in stub_body() if isinstance(n, ast.ClassDef)], ids=lambda node: node.name)
def test_stub_declares_every_member_of_a_class(node: ast.ClassDef) -> None:
    assert public(declared(node.body)) == public(set(dir(getattr(_core, node.name))))
