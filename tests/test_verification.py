"""What verifying says of schedules for CUDA where there is no GPU, in Python and from the shell."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import halide as hl
import pytest
from command_line import metol as command
from gpu_by_hand import Build, computed_a_block, in_shared_memory, tiled
from small_pipelines import X, chain, finish, image, matmul, schedule_with, sizes_of

import metol
from metol import planner, verification
from metol.errors import MetolError, MissingDeviceError, MissingToolError
from metol.lower import Call, Directive, describe_funcs
from metol.measure import BlockLimits, CheckOutcome, SizeCheck, inspect_kernels
from metol.options import SearchOptions
from metol.planner import Planner
from metol.verification import missing_device, require_device, verify_for

QUICK = SearchOptions(strategy="greedy")
PIPELINE = """
import halide as hl


def doubled():
    x, y = hl.Var("x"), hl.Var("y")
    source, output = hl.ImageParam(hl.Int(32), 2, "source"), hl.Func("output")
    output[x, y] = 2 * source[x, y]
    source.set_estimates([(0, 64), (0, 48)])
    output.set_estimates([(0, 64), (0, 48)])
    return output
"""


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "detect_gpu", lambda: None)


@pytest.mark.slow
@pytest.mark.usefixtures("no_gpu", "ptxas")
def test_result_tells_what_each_kernel_takes() -> None:
    result = metol.autoschedule(matmul(), target="cuda", gpu="h200", options=QUICK, verify=True)
    calls = (Call.GPU_BLOCKS, Call.GPU_SINGLE_THREAD)
    kernels = [d for d in result.schedule.directives if d.call in calls and not d.branch]
    launched = [report for report in result.kernels if report.kernel.is_launched]
    assert (len(result.kernels), len(launched)) == (2 * len(kernels), len(kernels))
    assert {report.kernel.architecture for report in result.kernels} == {"sm_90"}
    assert all(report.is_launchable and report.occupancy for report in launched)
    compiled = f"{2 * len(kernels)} kernels compiled for sm_90, {len(kernels)} of them for the estimated sizes"
    run = "; right on an emulated GPU, for there is no GPU here, at "
    assert result.verification.startswith(f"{compiled}{run}")
    assert all(report.text in result.verification for report in launched)


@pytest.mark.usefixtures("no_gpu", "ptxas")
def test_kernels_that_cannot_be_launched_give_way_to_the_next_best(monkeypatch: pytest.MonkeyPatch) -> None:
    real, verdicts = verification.judge_kernel, ["planted"]

    def judge(kernel: object, capability: object) -> object:
        report = real(kernel, capability)  # type: ignore[arg-type]
        return replace(report, problems=(verdicts.pop(),)) if verdicts else report

    monkeypatch.setattr(verification, "judge_kernel", judge)
    result = metol.autoschedule(chain(), target="cuda", options=QUICK, verify=True)
    assert result.origin != "search"
    assert "it cannot be launched: step_2 on sm_75" in result.fallbacks[0]
    assert "planted" in result.fallbacks[0]


def test_blocks_beyond_the_limits_of_the_device_give_way_to_the_next_best(monkeypatch: pytest.MonkeyPatch) -> None:
    few = BlockLimits(threads=50, shared_bytes=48 << 10)
    monkeypatch.setattr(planner, "block_limits", lambda _: few)
    result = metol.autoschedule(chain(), target="opencl", options=QUICK)
    assert result.origin != "search"
    assert result.fallbacks[0].startswith("the best found: of the kernel of `step_2`, a block has ")
    assert result.fallbacks[0].endswith(" threads, and may have 50")


@pytest.mark.usefixtures("no_gpu", "ptxas")
@pytest.mark.parametrize(
    ("build", "make", "problem"),
    [
        (chain, lambda _: tiled(len(describe_funcs(chain())) - 1, 64, 32), "2048 threads, and may have 1024"),
        (in_shared_memory(400), computed_a_block, "52224 B of shared memory, and may have 49152"),
    ],
)
def test_schedule_by_hand_that_exceeds_a_limit_is_refused(
    build: Build, make: Callable[[Build], list[Directive]], problem: str
) -> None:
    schedule = replace(schedule_with(build, tuple(make(build))), target="host-cuda")
    found = verify_for(metol.GpuMachine.preset("a100"), build(), schedule, sizes=sizes_of(build))
    assert found.refusal.startswith("it cannot be launched: ")
    assert problem in found.refusal


@pytest.mark.usefixtures("no_gpu")
def test_missing_assembler_is_told_before_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise MissingToolError("planted")

    monkeypatch.setattr(verification, "find_ptxas", missing)
    monkeypatch.setattr(Planner, "search", lambda *_: pytest.fail("it searched"))
    with pytest.raises(MissingToolError, match="planted"):
        metol.autoschedule(chain(), target="cuda", options=QUICK, verify=True)


def test_missing_opencl_device_is_told_before_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "has_opencl_device", lambda: False)
    monkeypatch.setattr(Planner, "search", lambda *_: pytest.fail("it searched"))
    with pytest.raises(MissingDeviceError, match="OpenCL cannot be run, for there is no OpenCL device here"):
        metol.autoschedule(chain(), target="opencl", options=QUICK, verify=True)


@pytest.mark.slow
@pytest.mark.usefixtures("ptxas")
def test_code_is_not_run_on_a_gpu_that_is_too_old_for_it_but_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "detect_gpu", lambda: metol.GpuMachine.preset("t4"))
    result = metol.autoschedule(matmul(), target="cuda", gpu="a100", options=QUICK, verify=True)
    run = "right on an emulated GPU, for the GPU here, `NVIDIA T4`, has compute capability 7.5, at "
    assert run in result.verification


@pytest.mark.usefixtures("no_gpu", "ptxas")
@pytest.mark.parametrize(
    ("detail", "is_refused"),
    [
        ("wrong result: planted", True),
        ("HalideError: CUDA_ERROR_ILLEGAL_ADDRESS cuLaunchKernel failed", True),
        ("HalideError: CUDA_ERROR_INVALID_PTX cuModuleLoadData failed", False),
        ("HalideError: Input buffer source is accessed at -3", False),
        ("timeout: over 60 s, while running", False),
        ("out_of_memory: running", False),
    ],
)
def test_what_the_emulated_gpu_cannot_tell_refuses_nothing(
    monkeypatch: pytest.MonkeyPatch, detail: str, *, is_refused: bool
) -> None:
    check = SizeCheck("tile+1", "17x9", CheckOutcome.FAILED, detail)
    monkeypatch.setattr(verification, "run_emulated", lambda *_, **__: (check,))
    schedule = replace(schedule_with(chain, tuple(tiled(len(describe_funcs(chain())) - 1, 16, 8))), target="host-cuda")
    found = verify_for(metol.GpuMachine.preset("a100"), chain(), schedule, sizes=sizes_of(chain))
    assert bool(found.refusal) is is_refused
    assert not found.is_compared
    assert f"at 17x9: {detail}" in (found.refusal or found.summary)
    assert is_refused or "; not run, for there is no GPU here, and on an emulated one " in found.summary


@pytest.mark.slow
@pytest.mark.usefixtures("no_gpu", "ptxas")
@pytest.mark.parametrize("fixed_sizes", [False, True])
def test_the_emulated_gpu_runs_all_kernels_of_an_output(*, fixed_sizes: bool) -> None:
    options = SearchOptions(strategy="greedy", fixed_sizes=fixed_sizes)
    result = metol.autoschedule(chain(), target="cuda", gpu="a100", options=options, verify=True)
    assert (result.origin, result.fallbacks) == ("search", ())
    _, sizes = result.verification.split(", at ", 1)
    sizes = sizes.split(";")[0]
    (estimated,) = ["x".join(str(extent) for _, extent in region) for region in sizes_of(chain).outputs]
    assert sizes == estimated if fixed_sizes else sizes.endswith(" and 3x5")
    whole = [d for d in result.schedule.directives if d.call is Call.SPECIALIZE]
    for directive in whole:
        dims, least = directive.args[::2], directive.args[1::2]
        side = [int(text) for text in sizes.split(" and ")[0].split("x")]
        assert all(side[dim] >= extent for dim, extent in zip(dims, least, strict=True))
    assert fixed_sizes or whole


def test_what_is_missing_depends_on_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "detect_gpu", lambda: metol.GpuMachine.preset("t4"))
    for target in ("host", "cuda-cuda_capability_75"):  # Halide adds to "cuda" what the GPU here has
        assert missing_device(target) == ""
        require_device(target)
    with pytest.raises(MissingDeviceError, match=r"Schedules for CUDA cannot be run, .* capability 7\.5"):
        require_device("cuda-cuda_capability_80")


@pytest.mark.parametrize("target", ["arm-64-linux", "x86-64-windows", "x86-32-linux", "arm-64-linux-opencl"])
def test_code_for_another_processor_is_run_nowhere_here(target: str) -> None:
    assert "this machine is x86-64-linux" in missing_device(target)
    with pytest.raises(MissingDeviceError, match=f"Schedules for `{target}` cannot be run"):
        require_device(target)


def test_code_for_a_later_processor_is_not_run_on_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metol.targets.machine.hl.get_host_target", lambda: hl.Target("x86-64-linux-sse41-avx"))
    assert missing_device("x86-64-linux-sse41") == ""
    assert missing_device("x86-64-linux-sse41-avx-avx2-fma") == "the processor of this machine has no fma, avx2"


def test_nothing_is_compiled_where_nobody_asks() -> None:
    result = metol.autoschedule(chain(), target="cuda", options=QUICK)
    assert (result.verification, result.kernels) == ("", ())


@pytest.mark.slow
@pytest.mark.usefixtures("ptxas")
def test_command_prints_a_line_a_kernel_and_compiles_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inspected = []

    def inspect(*words: object, **how: object) -> object:
        inspected.append(words)
        return inspect_kernels(*words, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(verification, "inspect_kernels", inspect)
    (tmp_path / "pipelines.py").write_text(PIPELINE)
    words = ("--strategy", "greedy", "--target", "cuda", "--gpu", "rtx2080ti", "--verify", "-o", "s.json")
    done = command("schedule", "pipelines.py:doubled", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "output on sm_75: " in done.stderr
    assert "2 kernels compiled for sm_75, 1 of them for the estimated sizes" in done.stderr
    assert len(inspected) == 1


@pytest.mark.gpu
@pytest.mark.usefixtures("ptxas")
def test_schedule_is_run_where_there_is_a_gpu() -> None:
    if verification.detect_gpu() is None:
        pytest.skip("no NVIDIA GPU")
    result = metol.autoschedule(matmul(), target="cuda", options=QUICK, verify=True)
    assert "40x24" in result.verification
    assert result.kernels


@pytest.mark.usefixtures("no_gpu", "ptxas")
def test_kernels_that_spill_give_way_to_the_next_best(monkeypatch: pytest.MonkeyPatch) -> None:
    real, spills = verification.judge_kernel, [64]

    def judge(kernel: object, capability: object) -> object:
        report = real(kernel, capability)  # type: ignore[arg-type]
        return replace(report, kernel=replace(report.kernel, spill_store_bytes=spills.pop())) if spills else report

    monkeypatch.setattr(verification, "judge_kernel", judge)
    result = metol.autoschedule(chain(), target="cuda", options=QUICK, verify="kernels")
    assert result.origin == "alternative"
    assert result.fallbacks == ("the best found: its kernels spill 64 B of registers",)
    assert "spills" not in result.verification


@pytest.mark.usefixtures("ptxas")
def test_kernels_alone_are_compiled_where_nothing_is_to_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "detect_gpu", lambda: pytest.fail("it looked for a GPU to run it on"))
    result = metol.autoschedule(matmul(), target="cuda", gpu="a100", options=QUICK, verify="kernels")
    assert result.kernels
    assert "compiled for sm_80, 1 of them for the estimated sizes; not run" in result.verification


def test_a_cpu_has_no_kernels_to_compile() -> None:
    result = metol.autoschedule(chain(), options=QUICK, verify="kernels")
    assert result.verification == ""


@pytest.mark.parametrize("is_input", [True, False])
def test_what_numpy_has_no_type_for_is_told_at_once(is_input: bool) -> None:
    source = image(64, pixel=hl.BFloat(16) if is_input else hl.Float(32), name="source")
    output = hl.Func("doubled")
    output[X] = hl.cast(hl.Float(32) if is_input else hl.BFloat(16), 2 * hl.f32(source[X]))
    pipeline = finish(output, sizes=(64,))
    with pytest.raises(MetolError, match=f"`{'source' if is_input else 'doubled'}.*` holds bfloat16, which NumPy"):
        metol.autoschedule(pipeline, verify=True, threads=2)
    assert metol.autoschedule(pipeline, threads=2).origin == "search"
