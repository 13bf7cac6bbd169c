"""Every app on a GPU, as grouping schedules it for the size of the suite: run on the emulated GPU, and some on OpenCL.

What is run is of the small shape, which the references are cheap for; it is many blocks, and no multiple of any. Each
kernel is the same at every size.
"""

import pytest
from slow_cases import EXHAUSTIVE, slow_but

import metol
import metol_apps
from metol.lower import Call
from metol.options import SearchOptions

pytestmark = pytest.mark.slow
GROUPING = SearchOptions(strategy="grouping")
# Of ResNet-50 one part of each kind: a bottleneck with a stride and a filter of its own for what it began with, and one
# without. The others differ from these in their numbers.
NETWORK = ("resnet50_stem", "resnet50_conv3_first", "resnet50_conv3", "resnet50_head")
# The longest to compile and to run, whose kinds of Stages the others have, too.
LONGEST = (
    "lens_blur",
    "local_laplacian",
    "interpolate",
    "stencil_chain",
    "bgu",
    "learned_demosaic",
    "camera_pipe",
    "resnet50_conv3_first",
)
# Of most kinds one, for what OpenCL code has of its own. Each app but the longest runs every time, on one of the two.
ON_OPENCL = ("harris", "hist", "iir_blur", "nl_means", "conv_layer", "depthwise_separable_conv", NETWORK[0])


@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
@pytest.mark.parametrize("name", ON_OPENCL)
def test_grouping_computes_the_reference_on_opencl(name: str, computes_reference) -> None:
    app = metol_apps.get(name)
    pipeline = app.build()
    result = metol.autoschedule(pipeline, target="opencl", gpu="opencl-cpu", options=GROUPING, threads=2)
    # Where a block of the best has too many threads, the next best has not.
    assert result.origin in ("search", "alternative")
    assert all("threads, and may have 1024" in refusal for refusal in result.fallbacks)
    assert any(directive.call is Call.GPU_BLOCKS for directive in result.schedule.directives)
    assert computes_reference(app, pipeline, app.small_output_shape, result.schedule.target)


@pytest.mark.usefixtures("emulated_gpu")
@pytest.mark.parametrize("name", slow_but((), [*metol_apps.names("full"), *NETWORK], further={*LONGEST, *ON_OPENCL}))
def test_grouping_computes_the_reference_on_the_emulated_gpu(name: str, computes_reference) -> None:
    app = metol_apps.get(name)
    pipeline = app.build()
    result = metol.autoschedule(pipeline, target="cuda", gpu="a100", options=GROUPING, threads=2)
    assert result.origin in ("search", "alternative")
    assert computes_reference(app, pipeline, app.small_output_shape, result.schedule.target)


@pytest.mark.usefixtures("ptxas")
@pytest.mark.parametrize(
    ("name", "gpu", "architecture"),
    [
        ("harris", "rtx2080ti", "sm_75"),
        ("matmul", "a100", "sm_80"),
        pytest.param("harris", "h100", "sm_90", marks=EXHAUSTIVE),
        pytest.param("matmul", "rtx2080ti", "sm_75", marks=EXHAUSTIVE),
        pytest.param("harris", "a100", "sm_80", marks=EXHAUSTIVE),
        pytest.param("matmul", "h100", "sm_90", marks=EXHAUSTIVE),
    ],
)
def test_kernels_of_grouping_are_assembled(name: str, gpu: str, architecture: str) -> None:
    pipeline = metol_apps.get(name).build()
    result = metol.autoschedule(pipeline, target="cuda", gpu=gpu, options=GROUPING, threads=2, verify=True)
    assert (result.origin, result.fallbacks) == ("search", ())
    assert {report.kernel.architecture for report in result.kernels} == {architecture}
    assert all(report.is_launchable for report in result.kernels)


@pytest.mark.usefixtures("ptxas")
@pytest.mark.parametrize("name", slow_but((), metol_apps.network(), further=set(metol_apps.network()) - set(NETWORK)))
def test_every_part_of_a_network_is_assembled(name: str) -> None:
    pipeline = metol_apps.get(name).build()
    result = metol.autoschedule(pipeline, target="cuda", gpu="a100", options=GROUPING, threads=2, verify="kernels")
    assert result.origin in ("search", "alternative"), result.fallbacks
    assert all(report.is_launchable for report in result.kernels)
    on_gpu = {d.func for d in result.schedule.directives if d.call in (Call.GPU_BLOCKS, Call.GPU_SINGLE_THREAD)}
    at_root = {d.func for d in result.schedule.directives if d.call is Call.COMPUTE_ROOT}
    assert at_root <= on_gpu
