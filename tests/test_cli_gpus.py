"""What the command line does and says about GPUs."""

import json
from pathlib import Path

import pytest
from command_line import PIPELINES, metol

from metol import verification
from metol.measure import PipelineSource
from metol.targets.gpu import detect_gpu


def test_schedule_for_a_gpu_is_printed(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    done = metol("schedule", "pipelines.py:ramp", "--target", "host-opencl", "--strategy", "greedy", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert ".gpu_blocks(" in done.stdout


@pytest.mark.parametrize(("gpu", "target"), [("a100", "cuda_capability_80"), ("opencl-cpu", "opencl")])
def test_gpu_is_enough_of_a_target(gpu: str, target: str, tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    words = ("schedule", "pipelines.py:ramp", "--gpu", gpu, "--strategy", "greedy", "-o", "ramp.json")
    done = metol(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert target in json.loads((tmp_path / "ramp.json").read_text())["target"]


def test_gpu_to_schedule_for_is_named(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    words = ("schedule", "pipelines.py:ramp", "--target", "cuda", "--gpu", "H-200", "--strategy", "greedy")
    done = metol(*words, "-o", "ramp.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "cuda" in json.loads((tmp_path / "ramp.json").read_text())["target"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--target", "host", "--gpu", "h200"), "has none beside the GPU `h200`"),
        (("--gpu", "voodoo"), "`voodoo` is not there; use one of gtx750ti,"),
        (("--target", "cuda", "--gpu", "voodoo"), "`voodoo` is not there; use one of gtx750ti,"),
    ],
)
def test_mistake_about_a_gpu_is_told_in_one_line(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    done = metol("schedule", "pipelines.py:ramp", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.strip().count("\n") == 0


@pytest.mark.skipif(detect_gpu() is not None, reason="there is a GPU here")
@pytest.mark.parametrize("words", [(), ("--search-speed",)])
def test_bench_on_a_gpu_says_that_there_is_none(words: tuple[str, ...]) -> None:
    done = metol("bench", "--gpu", *words)
    assert done.returncode == 3
    assert "No GPU was found" in done.stderr
    assert done.stderr.strip().count("\n") == 0


@pytest.mark.parametrize(
    "words",
    [
        ("schedule", "no.py:build", "--target", "opencl", "--verify"),
        ("bench", "--gpu", "--device", "opencl"),
        ("tune", "pipelines.py:ramp", "--target", "opencl"),
    ],
)
def test_missing_opencl_device_is_named_with_exit_code_3(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "has_opencl_device", lambda: False)
    monkeypatch.setattr(PipelineSource, "build", lambda _: pytest.fail("it began to work"))
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    done = metol(*words, cwd=tmp_path)
    assert done.returncode == 3
    assert "there is no OpenCL device here. Install a driver" in done.stderr
    assert done.stderr.strip().count("\n") == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("schedule", "--target", "cuda", "--gpu", "voodoo"), "`voodoo` is not there; use one of gtx750ti,"),
        (("schedule", "--target", "host", "--gpu", "a100"), "use the target `cuda` or `opencl` with it"),
        (("schedule", "--target", "opencl", "--gpu", "a100", "--strategy", "none"), "none"),
        (("schedule", "--target", "cuda", "--gpu", "opencl-cpu"), "needs a GPU with CUDA"),
        (("schedule", "--strategy", "grouping"), "`grouping` makes kernels for a GPU"),
        (("tune", "--target", "opencl", "--cold"), "caches of a GPU cannot be emptied"),
    ],
)
def test_what_makes_no_sense_for_a_target_is_told_before_anything_is_built(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "has_opencl_device", lambda: True)
    monkeypatch.setattr(PipelineSource, "build", lambda _: pytest.fail("it began to work"))
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    command, *options = words
    done = metol(command, "pipelines.py:ramp", *options, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.strip().count("\n") == 0


@pytest.mark.slow
def test_bench_of_searches_for_a_gpu_prints_and_writes_their_table(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    words = ("--gpu", "--search-speed", "--device", "A-100", "--json", "rows.json", "--markdown", "gpu.md")
    done = metol("bench", "pipelines.py:ramp", *words, "--schedulers", "metol-analytical,li2018", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "li2018 / metol-analytical" in done.stdout
    content = json.loads((tmp_path / "rows.json").read_text())
    assert content["device"] == "NVIDIA A100 40 GB"
    assert content["target"] == "host-cuda-cuda_capability_80"
    assert [row["scheduler"] for row in content["rows"]] == ["metol-analytical", "li2018"]
    assert all(row["seconds"] > 0 for row in content["rows"])
    assert ", for NVIDIA A100 40 GB with 2 threads" in (tmp_path / "gpu.md").read_text()


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
def test_bench_on_an_opencl_device_verifies_times_and_draws(tmp_path: Path) -> None:
    words = ("--size", "small", "--gpu", "--device", "opencl", "--rounds", "1", "--plots", "plots", "--json", "o.json")
    done = metol("bench", "blur", *words, "--schedulers", "metol-analytical,anderson2021,li2018", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    content = json.loads((tmp_path / "o.json").read_text())
    assert (content["device"], content["target"]) == ("OpenCL on a CPU", "host-opencl")
    own, *_ = rows = content["rows"]
    assert [row["scheduler"] for row in rows] == ["metol-analytical", "anderson2021", "li2018"]
    assert own["verified"]
    assert own["run_ms"] > 0
    assert "blur?size=small,metol-analytical," in (tmp_path / "plots" / "roofline.csv").read_text()
    assert (tmp_path / "plots" / "roofline.png").read_bytes().startswith(b"\x89PNG")
