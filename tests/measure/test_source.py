import importlib
import sys
from pathlib import Path

import pytest

from metol.errors import MetolError, UnknownAppError
from metol.measure import PipelineSource, SourceKind, save_pipeline
from metol.pipeline import extract


def test_parse_reads_an_app_with_and_without_its_prefix() -> None:
    assert PipelineSource.parse("app:harris") == PipelineSource.parse("harris")
    assert str(PipelineSource.parse("harris")) == "app:harris"
    assert PipelineSource.parse("harris").label == "harris"


def test_parse_reads_a_module() -> None:
    source = PipelineSource.parse("package.module:function")
    assert source == PipelineSource(SourceKind.MODULE, "package.module", "function")


def test_parse_reads_a_random_program() -> None:
    source = PipelineSource.parse("random:17/most_funcs=4")
    assert source == PipelineSource(SourceKind.RANDOM, "17/most_funcs=4")
    assert str(source) == source.label == "random:17/most_funcs=4"
    assert extract(source.build()).algorithm_hash == extract(PipelineSource.parse(str(source)).build()).algorithm_hash


@pytest.mark.parametrize("text", ["random:", "random:x", "random:-1", "random:1/funcs=3", "random:1/most_funcs"])
def test_parse_rejects_what_names_no_random_program(text: str) -> None:
    with pytest.raises(MetolError, match="names no"):
        PipelineSource.parse(text)


def test_parse_makes_the_path_of_a_file_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").touch()
    monkeypatch.chdir(tmp_path)
    source = PipelineSource.parse("mine.py:build")
    assert source == PipelineSource(SourceKind.FILE, str(tmp_path / "mine.py"), "build")
    assert source.label == "mine.py:build"
    assert PipelineSource.parse(str(source)) == source


@pytest.mark.parametrize("text", ["", "mine.py:", "mine.py:no-name", "module:"])
def test_parse_rejects_what_names_no_pipeline(text: str) -> None:
    with pytest.raises(MetolError, match="names no pipeline"):
        PipelineSource.parse(text)


@pytest.mark.parametrize("text", ["nowhere.py:build", "nowhere.hlpipe"])
def test_parse_names_a_missing_file(text: str) -> None:
    with pytest.raises(MetolError, match="no file `nowhere"):
        PipelineSource.parse(text)


def test_build_makes_fresh_funcs_each_time(planted) -> None:
    first, second = planted("blur").build(), planted("blur").build()
    assert not first.outputs()[0].has_update_definition()
    assert first.outputs()[0].name().split("$")[0] == second.outputs()[0].name().split("$")[0] == "result"


def test_build_wraps_a_func(planted) -> None:
    assert len(planted("pair").build().outputs()) == 1


def test_build_finds_a_module(planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some_pipelines.py").write_text("from planted import blur\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert PipelineSource.parse("some_pipelines:blur").build().outputs()


def test_build_lists_apps_where_there_is_no_such_app() -> None:
    with pytest.raises(UnknownAppError, match="harris"):
        PipelineSource.parse("app:nothing").build()


def test_build_lists_functions_where_there_is_no_such_function(planted) -> None:
    with pytest.raises(MetolError, match=r"no function `blurr`; it has: .*blur"):
        planted("blurr").build()


def test_build_says_what_it_got_instead_of_a_pipeline(planted) -> None:
    with pytest.raises(MetolError, match="returned a int"):
        planted("returns_a_number").build()


def test_build_says_that_there_is_no_such_module() -> None:
    with pytest.raises(MetolError, match=r"no module `not_there\.at_all`"):
        PipelineSource.parse("not_there.at_all:build").build()


def test_build_does_not_hide_what_a_module_imports_in_vain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imports_in_vain.py").write_text("import not_there_either\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MetolError, match="ModuleNotFoundError: No module named 'not_there_either'"):
        PipelineSource.parse("imports_in_vain:build").build()
    assert "imports_in_vain" not in sys.modules


def test_parameters_of_a_generator_survive_the_way_to_another_process(tmp_path: Path) -> None:
    (tmp_path / "mine.py").touch()
    source = PipelineSource.parse(f"{tmp_path}/mine.py:Blur?radius=3").with_parameters(["wide=true"])
    assert source.parameters == (("radius", "3"), ("wide", "true"))
    assert PipelineSource.parse(str(source)) == source


def test_function_takes_no_parameters(planted) -> None:
    with pytest.raises(MetolError, match="is no Halide Generator"):
        planted("blur").with_parameters(["radius=3"]).build()


@pytest.mark.parametrize(("text", "extents"), [("blur?size=small", [190, 318]), ("app:matmul?size=small", [512, 512])])
def test_application_at_another_size_has_other_estimates(text: str, extents: list[int]) -> None:
    source = PipelineSource.parse(text)
    assert PipelineSource.parse(str(source)) == source
    assert source.label == text.removeprefix("app:")
    dag = extract(source.build())
    (output,) = dag.outputs
    assert [interval.extent for interval in dag.funcs[output].root_region] == extents
    assert list(reversed(source.app().output_shape)) == extents


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("blur?size=tiny", "no size `tiny`; there are small, large"),
        ("conv_layer?size=small", "`conv_layer` has no size `small`"),
        ("blur?width=3", "a parameter `width`; applications have `size` alone"),
    ],
)
def test_application_is_of_no_size_but_its_own(text: str, message: str) -> None:
    with pytest.raises(MetolError, match=message):
        PipelineSource.parse(text).build()


@pytest.mark.parametrize("content", [b"", b"hello", bytes(range(256)) * 4])
def test_a_file_that_is_damaged_ends_a_child_and_not_this_process(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "damaged.hlpipe").write_bytes(content)
    source = PipelineSource.parse(str(tmp_path / "damaged.hlpipe"))
    with pytest.raises(MetolError, match=r"damaged\.hlpipe"):
        source.require_readable()


def test_a_file_of_a_pipeline_is_readable(tmp_path: Path) -> None:
    save_pipeline(PipelineSource.parse("blur").build(), tmp_path / "whole.hlpipe")
    PipelineSource.parse(str(tmp_path / "whole.hlpipe")).require_readable()


@pytest.mark.parametrize("place", ["at_import", "when_called"])
def test_code_that_ends_python_is_told(place: str, tmp_path: Path) -> None:
    body = "sys.exit(0)" if place == "at_import" else "def build():\n    sys.exit(0)"
    (tmp_path / f"ending_{place}.py").write_text(f"import sys\n{body}\n")
    with pytest.raises(MetolError, match=r"ended Python \(`sys.exit\(0\)`\)"):
        PipelineSource.parse(f"{tmp_path}/ending_{place}.py:build").build()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "def build():\n    return helper()\n\ndef helper():\n    return 1 / 0\n",
            ["ZeroDivisionError", "line 5, in helper"],
        ),
        ("value = nowhere\n", ["NameError: name 'nowhere' is not defined", "line 1, in <module>", "value = nowhere"]),
        ("def build(:\n", ["SyntaxError", "line 1", "def build(:"]),
    ],
)
def test_what_code_raises_is_told_with_its_own_lines_alone(text: str, told: list[str], tmp_path: Path) -> None:
    file = tmp_path / f"raising_{len(text)}.py"
    file.write_text(text)
    with pytest.raises(MetolError, match="cannot be built") as raised:
        PipelineSource.parse(f"{file}:build").build()
    assert all(part in str(raised.value) for part in told)
    assert "importlib" not in str(raised.value)
    assert "metol" not in str(raised.value)
    assert raised.value.__cause__ is not None


BLUR_ELSEWHERE = """
import metol_apps
print("noise")
def build():
    print("more noise")
    return metol_apps.get("blur").build()
"""


def test_what_code_prints_is_none_of_our_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "noisy.py").write_text(BLUR_ELSEWHERE)
    PipelineSource.parse(f"{tmp_path}/noisy.py:build").build()
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "noise\nmore noise\n")


@pytest.mark.parametrize("name", ["json", "numpy", "halide"])
def test_a_file_may_be_called_like_a_module(name: str, tmp_path: Path) -> None:
    before = importlib.import_module(name)
    (tmp_path / f"{name}.py").write_text(BLUR_ELSEWHERE)
    source = PipelineSource.parse(f"{tmp_path}/{name}.py:build")
    assert extract(source.build()).algorithm_hash == extract(source.build()).algorithm_hash
    assert sys.modules[name] is before is importlib.import_module(name)


def test_modules_are_found_in_the_folder_that_one_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blur_from_here.py").write_text(BLUR_ELSEWHERE)
    PipelineSource.parse("blur_from_here:build").build()
