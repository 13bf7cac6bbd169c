"""The pipelines of examples/: each is verified, and has a use for the part of the search it is there for."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from small_pipelines import SOME_TARGET, some_machine

from metol import SearchOptions, autoschedule
from metol.targets.gpu import GpuMachine

FOLDER = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def parts() -> ModuleType:
    return imported("parts")


@pytest.fixture(scope="module")
def everyday() -> ModuleType:
    return imported("everyday")


def imported(name: str) -> ModuleType:
    """Import a file of the folder."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes", "turned"),
    [
        pytest.param("plus_transpose", (4096,), SearchOptions(iterations=False), marks=pytest.mark.exhaustive),
        ("dot_product", (1 << 20,), SearchOptions(rfactor=False)),
        ("transposed_product", (256,), SearchOptions(staging=False)),
        ("extremes", (2048, 64), SearchOptions(rfactor=False)),
        ("shadows_and_lights", (2048, 2048), SearchOptions(fuse=False)),
    ],
)
def test_each_is_scheduled_otherwise_without_its_part(
    parts: ModuleType, name: str, sizes: tuple[int, ...], turned: SearchOptions
) -> None:
    build = getattr(parts, name)
    machine = some_machine()
    found = autoschedule(build(*sizes), machine=machine, target=SOME_TARGET, verify=True)
    other = autoschedule(build(*sizes), machine=machine, target=SOME_TARGET, options=turned)
    assert found.origin == other.origin == "search"
    assert found.verification
    assert found.schedule.directives != other.schedule.directives


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes", "text"),
    [
        ("median_rgb", (320, 100), ".split(c, c_o, c_i, 3, "),
        pytest.param("split_channels", (320, 100), ".split(c, c_o, c_i, 3, ", marks=pytest.mark.exhaustive),
        ("matrix_vector", (512, 512), ".rfactor("),
        ("layer_norm", (256, 512), "spread.update(0).rfactor("),
        ("max_pool", (56, 16, 2), ".vectorize("),
        ("guided_filter", (200, 120), ".vectorize("),
        pytest.param("temporal_denoise", (160, 90, 5), ".vectorize(", marks=pytest.mark.exhaustive),
        pytest.param("nearest_centroid", (2000, 8, 16), ".vectorize(", marks=pytest.mark.exhaustive),
        ("row_moments", (320, 200), "moments.update(0)"),
        pytest.param("colour_matrix", (320, 100), ".split(c, c_o, c_i, 3, ", marks=pytest.mark.exhaustive),
        ("demosaic", (320, 100), ".split(c, c_o, c_i, 3, "),
        pytest.param("optical_flow", (1536, 1024), ".compute_with(", marks=pytest.mark.exhaustive),
        ("local_extremes", (320, 100), ".vectorize("),
        pytest.param("detail_bands", (1536, 1024), ".compute_with(", marks=pytest.mark.exhaustive),
        pytest.param("sums_below", (4096,), ".vectorize(x_u1_", marks=pytest.mark.exhaustive),
        pytest.param("sparse_product", (10000, 100000), ".parallel(", marks=pytest.mark.exhaustive),
        pytest.param("segment_sums", (64, 2000, 100), ".vectorize(x_u1_", marks=pytest.mark.exhaustive),
        ("value_noise", (256, 256), ".vectorize("),
        ("inner_means", (320, 100), ".vectorize(r_x_u1_"),
        pytest.param("column_sums", (2000, 300), ".parallel(r_x_u1_", marks=pytest.mark.exhaustive),
        ("matrix_product", (128,), ".vectorize(r_x_u1_"),
        ("perspective_warp", (320, 100), "output_branch_0"),
        pytest.param("running_sums", (2048, 256), "sums.update(0)", marks=pytest.mark.exhaustive),
        pytest.param("sorted_rows", (16, 2000), ".vectorize(", marks=pytest.mark.exhaustive),
        pytest.param("blurred_across", (512, 384), ".vectorize(", marks=pytest.mark.exhaustive),
        ("triangle_product", (128,), ".parallel(y_u1_"),
        ("luma_chroma", (320, 100), ".unroll(c"),
        pytest.param("lattice_step", (128,), ".unroll(c", marks=pytest.mark.exhaustive),
        ("transposed_convolution", (64, 16), "weights_im_in_sums.compute_"),
        ("cosine_blocks", (2000,), ".vectorize("),
        pytest.param("windowed_halves", (256, 100), ".vectorize(", marks=pytest.mark.exhaustive),
    ],
)
def test_what_people_write_is_scheduled_for_what_it_is(
    everyday: ModuleType, name: str, sizes: tuple[int, ...], text: str
) -> None:
    result = autoschedule(getattr(everyday, name)(*sizes), machine=some_machine(), verify=True)
    assert result.fallbacks == ()
    assert result.is_compared
    assert text in result.to_python()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes", "texts", "absent"),
    [
        (
            "disc_gradient",
            (640, 200),
            ("ends.update(0)", ".split(x_u1_all, x_u1_o, x_u1_i, {lanes},", ".unroll(r_"),
            "rfactor",
        ),
        ("small_products", (4000,), ("product.compute_at(", ".unroll(k_x_u1_i)"), ".vectorize(y_i)"),
    ],
)
def test_sums_of_few_steps_are_unrolled(name: str, sizes: tuple[int, ...], texts: tuple[str, ...], absent: str) -> None:
    build = getattr(imported("short_sums"), name)
    machine = some_machine()
    result = autoschedule(build(*sizes), machine=machine, verify=True)
    assert result.fallbacks == ()
    assert result.is_compared
    found = result.to_python()
    assert [text for text in texts if text.format(lanes=machine.vector_bytes) not in found] == []
    assert absent not in found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("byte_matrices", (48, 64, 128)),
        ("word_matrices", (48, 64, 128)),
        ("byte_vector", (512, 1024)),
        ("channel_convolution", (32, 16, 12)),
    ],
)
def test_products_of_narrow_numbers_have_lanes_that_are_added_up(name: str, sizes: tuple[int, ...]) -> None:
    result = autoschedule(getattr(imported("narrow_products"), name)(*sizes), machine=some_machine(), verify=True)
    assert result.fallbacks == ()
    assert result.is_compared
    assert ".atomic()" in result.to_python()


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
@pytest.mark.parametrize(
    ("name", "sizes", "text"),
    [
        ("interior_step", (96, 60), ".gpu_threads(r_x_u1_thread"),
        ("message_sums", (50, 3000, 4), ".atomic("),
        ("channel_histograms", (320, 100), ".atomic("),
        ("scaled_means", (20000, 4), ".rfactor("),
        ("batch_means", (4, 56, 6), ".rfactor("),
    ],
)
def test_what_people_write_for_gpus_has_threads(name: str, sizes: tuple[int, ...], text: str) -> None:
    build = getattr(imported("everyday_gpu"), name)
    machine = GpuMachine.preset("a100", threads=2)
    result = autoschedule(build(*sizes), machine=machine, target="host-opencl", verify=True)
    assert result.origin == "search"
    assert result.is_compared
    assert text in result.to_python()
