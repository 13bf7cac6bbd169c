"""The registry: names, lookup, and imports only on demand."""

import subprocess
import sys

import pytest

import metol_apps
from metol.errors import UnknownAppError


def test_names_are_the_suite():
    assert metol_apps.names() == (
        "harris",
        "unsharp",
        "stencil_chain",
        "bilateral_grid",
        "hist",
        "matmul",
        "local_laplacian",
        "blur",
        "interpolate",
        "iir_blur",
        "max_filter",
        "nl_means",
        "conv_layer",
    )


def test_names_of_the_full_suite_are_those_and_more():
    core, full = metol_apps.names(), metol_apps.names("full")
    assert full[: len(core)] == core
    assert full[len(core) :] == ("camera_pipe", "lens_blur", "bgu", "depthwise_separable_conv", "learned_demosaic")


@pytest.mark.parametrize("name", metol_apps.names("full") + metol_apps.variants() + metol_apps.network())
def test_get_returns_the_app_of_that_name(name):
    assert metol_apps.get(name).name == name


def test_variants_are_not_counted_in_the_suite():
    assert metol_apps.variants() == ("matmul_f64", "conv_relu")
    assert not set(metol_apps.variants()) & set(metol_apps.names("full"))


def test_get_unknown_lists_what_exists():
    with pytest.raises(UnknownAppError) as error:
        metol_apps.get("haris")
    for name in ("haris", *metol_apps.names("full"), *metol_apps.variants(), *metol_apps.network()):
        assert name in str(error.value)


def test_import_does_not_import_halide():
    code = "import sys, metol_apps; metol_apps.names(); sys.exit('halide' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
