"""Descriptions of GPUs, and the choice of a machine by Halide target."""

import re
from dataclasses import replace
from pathlib import Path

import halide as hl
import pytest
from small_pipelines import matmul

from metol.errors import MachineFormatError, UnsupportedTargetError
from metol.pipeline import extract
from metol.targets import choose_machine, fit_target, load_machine, machine_parameters, parse_target
from metol.targets import machine as machine_choice
from metol.targets.cpu import CpuMachine
from metol.targets.gpu import DEVICES, GpuMachine, gpu_parameters


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        (None, CpuMachine),
        ("host", CpuMachine),
        ("host-cuda", GpuMachine),
        ("x86-64-linux-opencl", GpuMachine),
        ("opencl", GpuMachine),
    ],
)
def test_the_target_chooses_the_machine(target: str | None, kind: type) -> None:
    machine = choose_machine(parse_target(target), threads=3)
    assert isinstance(machine, kind)
    assert machine.host_threads == 3


def test_a_given_machine_is_kept() -> None:
    machine = GpuMachine.preset("a100")
    assert choose_machine(parse_target("host-cuda"), machine) is machine


@pytest.mark.parametrize(
    ("text", "long"),
    [
        ("cuda", "cuda"),
        ("host-no_asserts-cuda", "no_asserts-cuda"),
        ("cuda-cuda_capability_80", "cuda-cuda_capability_80"),
        ("opencl-cl_half", "opencl-cl_half"),
    ],
)
def test_a_gpu_is_beside_the_cpu_of_this_machine_and_nobody_is_asked(text: str, long: str) -> None:
    # What names the CPU has the same features, and Halide does not look for a GPU.
    assert parse_target(text).to_string() == hl.Target(f"{hl.get_host_target()}-{long}").to_string()


def test_the_target_of_this_machine_may_name_another_cpu() -> None:
    assert "tune_znver3" in parse_target("host-tune_znver3-cuda").to_string()


def test_a_gpu_is_chosen_by_name() -> None:
    machine = choose_machine(parse_target("cuda"), gpu="H200", threads=2)
    assert machine == GpuMachine.preset("h200", threads=2)


@pytest.mark.parametrize(
    ("target", "machine", "gpu", "message"),
    [
        ("host", None, "h200", r"has none beside the GPU `h200`; use the target `cuda` or `opencl`"),
        ("cuda", "a100", "h200", "`NVIDIA A100 40 GB` and the GPU `h200` are two; pass one of them"),
        ("cuda", None, "opencl-cpu", "needs a GPU with CUDA, and `OpenCL on a CPU` has none. Use the target `host-op"),
    ],
)
def test_a_gpu_that_has_no_place_is_refused(target: str, machine: str | None, gpu: str, message: str) -> None:
    other = None if machine is None else GpuMachine.preset(machine)
    with pytest.raises(UnsupportedTargetError, match=message):
        choose_machine(parse_target(target), other, gpu=gpu)


def test_an_unknown_gpu_names_those_there_are() -> None:
    with pytest.raises(MachineFormatError, match=f"`voodoo` is not there; use one of {', '.join(DEVICES)}, or desc"):
        choose_machine(parse_target("cuda"), gpu="voodoo")


def features_of(target: str | None, gpu: str, *, is_chosen: bool = True) -> set[str]:
    fitted = fit_target(target, GpuMachine.preset(gpu), is_chosen=is_chosen)
    return set(fitted.to_string().split("-"))


@pytest.mark.parametrize(
    ("target", "gpu", "capability"),
    [
        ("cuda", "a100", "cuda_capability_80"),
        (hl.Target("x86-64-linux-cuda"), "h100", "cuda_capability_86"),
        ("cuda-cuda_capability_75", "a100", "cuda_capability_75"),
        ("cuda-cuda_capability_86", "h100", "cuda_capability_86"),
    ],
)
def test_a_chosen_gpu_completes_a_target_without_a_capability(target: str, gpu: str, capability: str) -> None:
    features = features_of(target, gpu)
    assert {feature for feature in features if feature.startswith("cuda_capability")} == {capability}
    assert "cuda" in features


@pytest.mark.parametrize(("target", "is_chosen"), [("opencl", True), ("cuda", False)])
def test_no_capability_is_added_where_none_belongs(target: str, is_chosen: bool) -> None:
    machine = choose_machine(parse_target(target), gpu="a100")
    assert fit_target(target, machine, is_chosen=is_chosen).to_string() == parse_target(target).to_string()


@pytest.mark.parametrize(
    ("target", "capability"), [("cuda", "75"), ("host-cuda", "75"), ("x86-64-linux-cuda", None), ("opencl", None)]
)
def test_the_gpu_here_completes_the_target_of_this_machine(
    target: str, capability: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_choice, "detect_gpu", lambda threads=1: GpuMachine.preset("t4", threads=threads))
    machine = choose_machine(parse_target(target), threads=3)
    fitted = fit_target(target, machine, is_chosen=False).to_string()
    assert re.findall(r"cuda_capability_(\d+)", fitted) == ([capability] if capability else [])


def test_what_halide_says_of_the_gpu_here_gives_way_to_a_chosen_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_choice, "detect_gpu", lambda: GpuMachine.preset("t4"))
    by_halide = hl.Target("x86-64-linux-cuda-cuda_capability_75")
    fitted = fit_target(by_halide, GpuMachine.preset("a100"), is_chosen=True).to_string()
    assert re.findall(r"cuda_capability_(\d+)", fitted) == ["80"]


def test_a_gpu_below_the_capability_of_the_target_is_refused() -> None:
    message = r"8\.0 and above, and `NVIDIA GeForce RTX 2080 Ti` has 7\.5. Leave `cuda_capability_80` out"
    with pytest.raises(UnsupportedTargetError, match=message):
        fit_target("cuda-cuda_capability_80", GpuMachine.preset("rtx2080ti"), is_chosen=True)


@pytest.mark.parametrize("here", [None, "t4"])
def test_a_gpu_that_nobody_named_runs_the_code_of_the_target(here: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    detected = None if here is None else GpuMachine.preset(here)
    monkeypatch.setattr(machine_choice, "detect_gpu", lambda **_: detected)
    names = [choose_machine(parse_target(f"cuda-cuda_capability_{number}")).name for number in (75, 80, 86)]
    assert names == [
        detected.name if detected else "NVIDIA GeForce RTX 2080 Ti",
        "NVIDIA A100 40 GB",
        "NVIDIA GeForce RTX 3090",
    ]


@pytest.mark.parametrize("field", ["multiprocessors", "clock_hz", "launch_seconds"])
def test_a_machine_of_nothing_is_refused(field: str) -> None:
    with pytest.raises(MachineFormatError, match=field):
        replace(GpuMachine.preset("a100"), **{field: 0})


def test_parameters_are_of_the_kind_of_the_machine() -> None:
    dag = extract(matmul())
    for machine in (GpuMachine.preset("a100"), CpuMachine.default(threads=1)):
        kind = type(machine).__name__.replace("Machine", "Parameters")
        assert type(machine_parameters(machine, dag)).__name__ == kind


def test_arithmetic_is_per_stage_and_faster_with_more_lanes() -> None:
    dag = extract(matmul())
    machine = GpuMachine.preset("a100")
    few, many = (
        gpu_parameters(replace(machine, capability=replace(machine.capability, lanes=lanes)), dag).point_seconds
        for lanes in (64, 128)
    )
    assert len(few) == len(dag.stages)
    assert few == [2 * seconds for seconds in many]
    # The update multiplies and adds; the pure definition is a constant.
    zero, product = dag.funcs[dag.stages[0].func].stages
    assert few[product] > few[zero]


@pytest.mark.parametrize("name", ["h100", "gtx1080ti", "opencl-cpu"])
def test_a_description_is_read_as_it_was_written(name: str, tmp_path: Path) -> None:
    machine = GpuMachine.preset(name, threads=3)
    machine.save(str(tmp_path / "gpu.json"))
    assert load_machine(tmp_path / "gpu.json") == machine
    CpuMachine.default(threads=2).save(tmp_path / "cpu.json")
    assert load_machine(tmp_path / "cpu.json") == CpuMachine.default(threads=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "machine file"),
        ("7", "gpu.json"),
        ('{"capability": 7}', "cannot be read"),
        ('{"format": "metol gpu", "version": 2, "capability": 7}', "of version 2"),
    ],
)
def test_what_describes_no_machine_is_an_error_that_names_the_file(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "gpu.json").write_text(text)
    with pytest.raises(MachineFormatError, match=message) as caught:
        load_machine(tmp_path / "gpu.json")
    assert "gpu.json" in str(caught.value)


def test_a_fingerprint_tells_gpus_apart_whatever_cpu_is_beside_them() -> None:
    names = {GpuMachine.preset(name, threads=2).fingerprint for name in DEVICES}
    assert len(names) == len(DEVICES)
    assert GpuMachine.preset("a100", threads=3).fingerprint == GpuMachine.preset("a100", threads=2).fingerprint
