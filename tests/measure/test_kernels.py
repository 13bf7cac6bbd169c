"""What the kernels of a schedule take, beside what Halide and ptxas say of them by other ways; no GPU is needed."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import halide as hl
import pytest
from gpu_by_hand import Build, computed_a_block, in_shared_memory, spilling, sums_in_registers, tiled
from slow_cases import half_of, slow_but
from small_pipelines import PIPELINES, WIDTH, chain, gpu_space, matmul, one_dimension, schedule_with, sizes_of

from metol.errors import KernelError, ScheduleMismatchError
from metol.lower import Call, Directive, describe_funcs, gpu_directives
from metol.measure import BufferSizes, Kernel, find_ptxas, inspect_kernels
from metol.measure.kernels import kernels_of

pytestmark = pytest.mark.usefixtures("ptxas")

QUICK = ("chain", "matmul", "histogram", "in_place", "tuples", "channels", "no_dimension")
ARCHITECTURES = ("sm_75", "sm_80", "sm_90")


def kernels_in(build: Build, directives: list[Directive], **options: Any) -> tuple[Kernel, ...]:
    """What a child is asked for, in this process: it starts in a second."""
    words = {"target": "host-cuda", "architectures": ("sm_80",), "sizes": sizes_of(build), "ptxas": find_ptxas()}
    return tuple(kernels_of(build(), schedule_with(build, tuple(directives)), **(words | options)))


def searched(build: Build, *, at_root: bool = False) -> list[Directive]:
    """A loop nest of the search space of GPUs, drawn at random; with every Func a kernel, or inline, if asked for."""
    dag, space = gpu_space(build)
    options = space.options
    options.allow_compute_at = not at_root
    space = space.restrict(options)
    return list(gpu_directives(dag, space.rollout(space.root(), [3]).describe()))


@pytest.mark.parametrize("name", slow_but(QUICK, PIPELINES, further=half_of(PIPELINES, QUICK)))
def test_every_kernel_compiles_for_every_architecture(name: str) -> None:
    build = PIPELINES[name]
    directives = searched(build)
    kernels = kernels_in(build, directives, architectures=ARCHITECTURES)
    launched = [(d.func, d.stage) for d in directives if d.call in (Call.GPU_BLOCKS, Call.GPU_SINGLE_THREAD)]
    for architecture in ARCHITECTURES:
        own = [kernel for kernel in kernels if kernel.architecture == architecture]
        assert sorted((kernel.func, kernel.stage) for kernel in own) == sorted(launched)
        assert {(kernel.func, kernel.stage) for kernel in own if kernel.is_launched} == set(
            launched
        )  # each Stage has a kernel that runs at the estimated sizes
    for kernel in kernels:
        assert 0 < kernel.registers <= 255
        if kernel.is_launched:
            assert 0 < (kernel.threads_per_block or 0) <= 1024
            assert None not in kernel.blocks
            assert 0 <= (kernel.shared_bytes or 0) <= 48 * 1024
        else:
            assert kernel.threads == kernel.blocks == (None, None, None)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_registers_are_those_of_ptxas_by_hand(ptxas: Path, architecture: str, tmp_path: Path) -> None:
    directives = searched(matmul)
    pipeline = matmul()
    schedule_with(matmul, tuple(directives)).apply(pipeline)
    code = tmp_path / "kernels.ptx"
    target = hl.Target("host-cuda-cuda_capability_75")
    pipeline.compile_to({hl.OutputFileType.device_code: str(code)}, pipeline.infer_arguments(), "matmul", target)
    options = ["-v", "-maxrregcount=64", f"-arch={architecture}"]
    command = [str(ptxas), *options, str(code), "-o", str(tmp_path / "kernels.cubin")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    by_hand = [int(number) for number in re.findall(r"Used (\d+) registers", said)]
    kernels = kernels_in(matmul, directives, target=str(target), architectures=(architecture,))
    assert sorted(kernel.registers for kernel in kernels) == sorted(by_hand)


def test_kernels_are_named_by_their_stages() -> None:
    assert {kernel.label for kernel in kernels_in(matmul, searched(matmul, at_root=True))} == {
        "product",
        "product update 0",
        "output",
    }


def test_more_threads_than_a_block_may_have_are_counted() -> None:
    output = len(describe_funcs(chain())) - 1
    (kernel,) = kernels_in(chain, tiled(output, 64, 32))
    assert kernel.threads == (64, 32, 1)
    assert kernel.threads_per_block == 2048
    assert kernel.blocks == (1, 1, 1)


def test_threads_along_a_whole_dimension_are_those_of_the_estimated_size() -> None:
    output = len(describe_funcs(chain())) - 1
    directives = tiled(output, "whole", 4)
    (kernel,) = kernels_in(chain, directives)
    assert kernel.threads == (WIDTH, 4, 1)
    (kernel,) = kernels_in(chain, directives, sizes=BufferSizes((), {}, {}))
    assert kernel.threads == (None, 4, 1)
    assert kernel.threads_per_block is None


@pytest.mark.parametrize(("pad", "rows"), [(2, 10), (400, 408)])
def test_shared_memory_is_what_the_largest_block_asks_for(pad: int, rows: int) -> None:
    build = in_shared_memory(pad)
    (kernel,) = kernels_in(build, computed_a_block(build))
    assert kernel.shared_bytes == 32 * rows * 4
    assert kernel.threads == (32, rows, 1)


@pytest.mark.slow
def test_sums_that_find_no_registers_spill() -> None:
    (kernel,) = kernels_in(spilling, sums_in_registers())
    assert kernel.registers <= 64  # as Halide's runtime tells the driver
    assert kernel.spill_store_bytes > 0
    assert kernel.spill_load_bytes > 0
    assert kernel.stack_bytes > 0


def test_what_runs_on_the_cpu_has_no_kernels() -> None:
    assert kernels_in(one_dimension, []) == ()


def test_code_for_a_later_architecture_is_refused() -> None:
    with pytest.raises(KernelError, match=r"for sm_75: .*SM version"):
        kernels_in(chain, searched(chain), target="host-cuda-cuda_capability_80", architectures=("sm_75",))


def test_a_child_tells_the_same() -> None:
    schedule = schedule_with(matmul, tuple(searched(matmul)))
    asked = {"target": "host-cuda", "architectures": ARCHITECTURES, "sizes": sizes_of(matmul)}
    told = inspect_kernels(matmul(), schedule, **asked)  # type: ignore[arg-type]
    here = kernels_in(matmul, list(schedule.directives), **asked)
    # Names of Funcs are used up in a process.
    assert told == tuple(replace(one, name=other.name) for one, other in zip(here, told, strict=True))


def test_schedule_of_another_pipeline_is_refused() -> None:
    with pytest.raises(ScheduleMismatchError):
        inspect_kernels(chain(), schedule_with(matmul, ()), target="host-cuda", architectures=("sm_80",))


def test_what_takes_too_long_is_told() -> None:
    with pytest.raises(KernelError, match=r"within 0.001 s"):
        inspect_kernels(
            chain(), schedule_with(chain, ()), target="host-cuda", architectures=("sm_80",), limit_seconds=0.001
        )
