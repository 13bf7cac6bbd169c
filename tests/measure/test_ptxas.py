"""NVIDIA's assembler: found, and asked about PTX that is written here."""

import importlib.metadata
import shutil
from pathlib import Path

import pytest

from metol.errors import KernelError, MissingToolError
from metol.measure.ptxas import Resources, assemble, find_ptxas

EMPTY = """
.version 6.0
.target sm_50
.address_size 64
.visible .entry first() { ret; }
.visible .entry second(.param .u64 place)
{
    .shared .align 4 .b8 buffer[400];
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [place];
    ld.shared.u32 %r1, [buffer];
    st.global.u32 [%rd1], %r1;
    ret;
}
"""
BROKEN = EMPTY.replace("st.global.u32 [%rd1], %r1;", "st.global.u32 [%rd1], %r9;")


def without_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", missing)


@pytest.mark.parametrize("architecture", ["sm_50", "sm_75", "sm_80", "sm_90"])
def test_assemble_tells_of_every_kernel(ptxas: Path, architecture: str) -> None:
    resources = assemble(EMPTY, architecture, ptxas)
    assert set(resources) == {"first", "second"}
    assert resources["first"].registers > 0
    assert resources["first"].static_shared_bytes == 0
    assert resources["second"] == Resources(resources["second"].registers, 0, 0, 0, 400)


def test_refused_code_is_told_with_its_kernel_and_architecture(ptxas: Path) -> None:
    with pytest.raises(KernelError, match=r"kernel `second` for sm_80: .*%r9"):
        assemble(BROKEN, "sm_80", ptxas)


def test_unknown_architecture_is_told(ptxas: Path) -> None:
    with pytest.raises(KernelError, match="'sm_12' is not defined"):
        assemble(EMPTY, "sm_12", ptxas)


def test_what_is_no_assembler_is_told(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match="cannot be run"):
        assemble(EMPTY, "sm_80", tmp_path)


def test_the_path_is_looked_at_last(ptxas: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: str(tmp_path / name))
    assert find_ptxas() == ptxas
    without_packages(monkeypatch)
    assert find_ptxas() == tmp_path / "ptxas"


def test_missing_assembler_is_told_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    without_packages(monkeypatch)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(MissingToolError, match=r"`pip install \.\[cuda\]` in Metol's checkout"):
        find_ptxas()
