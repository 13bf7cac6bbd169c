"""ResNet-50: the parts fit together, and are those of the paper."""

import metol_apps
from metol_apps.resnet50 import PARTS, SEQUENCE


def test_resnet50_has_fifty_layers_with_weights():
    # Convolutions of a bottleneck beside that of what it began with, which the paper does not count.
    assert len(SEQUENCE) == 1 + 3 + 4 + 6 + 3 + 1
    assert 1 + 3 * (len(SEQUENCE) - 2) + 1 == 50


def test_resnet50_parts_take_what_those_before_them_leave():
    left = None
    for name in SEQUENCE[:-1]:
        entering = PARTS[name].inputs()["input"].shape
        assert left is None or entering == left
        left = PARTS[name].output_shape
    assert left == PARTS["resnet50_head"].inputs()["input"].shape[1:]


def test_resnet50_sequence_is_of_all_parts():
    assert set(SEQUENCE) == set(PARTS)
    assert tuple(PARTS) == metol_apps.network()


def test_resnet50_bottleneck_without_filters_leaves_what_enters(realize):
    app = metol_apps.get("resnet50_conv2")
    shape = (5, 9, 256)
    inputs = {name: 0 * value for name, value in app.inputs(shape).items() if name != "input"}
    image = app.inputs(shape)["input"]
    assert (realize(app, shape, {**inputs, "input": image}) == image).all()
