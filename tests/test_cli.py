import inspect
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from brief_timing import BRIEF_TIMING
from command_line import PIPELINES, metol, metol_process

import metol_apps
from metol import SearchOptions, cli, demo
from metol.measure import RunOptions
from metol.targets import cpu


def test_version_is_shown() -> None:
    done = metol_process("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("metol ")


def test_command_line_starts_without_halide() -> None:
    code = "import sys, metol.cli; sys.exit(sorted({'halide', 'numpy', 'torch', 'ray'} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_apps_are_listed() -> None:
    done = metol_process("apps")
    assert done.returncode == 0
    listed = tuple(line.split()[0] for line in done.stdout.splitlines())
    assert listed == metol_apps.names("full") + metol_apps.variants() + metol_apps.network()
    assert listed[0] == "harris"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("bench", "nothing"), "No application is called `nothing`"),
        (("bench", "nowhere.py:build"), "There is no file `nowhere.py`"),
        (("bench", "harris", "--schedulers", "li2017"), "There is no scheduler `li2017`"),
        (("bench", "--gpu", "--tails"), "`--tails` measures on the CPU"),
        (("bench", "--device", "a100"), "add `--gpu`"),
        (("bench", "--gpu", "--device", "a100"), "`--device a100` merely names one"),
        (("bench", "--gpu", "--search-speed", "--device", "voodoo"), "`voodoo` is not there; use one of gtx750ti,"),
        (("bench", "--gpu", "--device", "opencl", "--schedulers", "adams2019"), "`adams2019` schedules for CPUs alone"),
        (("bench", "--gpu", "--device", "opencl", "--schedulers", "hand"), "`hand` is what people wrote for CPUs"),
        (("bench", "--schedulers", "li2018"), "`li2018` schedules for GPUs alone; for CPUs there are adams2019"),
        (("bench", "--schedulers", "metol-analytical"), "`metol-analytical` makes kernels for a GPU"),
        (("bench", "--size", "tiny"), "There is no size `tiny`; there are small, large"),
        (("bench", "conv_layer", "--size", "small"), "`conv_layer` has no size `small`"),
        (("schedule", "app:nothing"), "No application is called `nothing`"),
    ],
)
def test_mistake_is_told_in_one_line_with_exit_code_2(words: tuple[str, ...], message: str) -> None:
    done = metol(*words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.strip().count("\n") == 0
    assert "Traceback" not in done.stderr


MISTAKEN = """
import halide as hl

x, y = hl.Var("x"), hl.Var("y")

def image(name, *sizes):
    param = hl.ImageParam(hl.Int(32), len(sizes), name)
    param.set_estimates([(0, size) for size in sizes])
    return param

def unbounded():
    table, index, result = image("table", 100), image("index", 64, 48), hl.Func("result")
    result[x, y] = table[index[x, y]]
    result.set_estimates([(0, 64), (0, 48)])
    return result

def contradictory():
    source, result = hl.ImageParam(hl.Int(32), 2, "source"), hl.Func("result")
    source.dim(0).set_bounds(0, 64)
    source.set_estimates([(0, 128), (0, 48)])  # after the constraint, which sets the estimate, too
    result[x, y] = source[x, y]
    result.set_estimates([(0, 64), (0, 48)])
    return result

def without_estimate():
    result = hl.Func("result")
    result[x, y] = x
    return result
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "unbounded",
            "Func `result` reads `table(index(x, y))` in dimension 0 at a coordinate that is unbounded; clamp",
        ),
        ("contradictory", "`source` in dimension 0 has extent 64 by its constraint, and 128 by its estimate"),
        ("without_estimate", "Output Func `result` has no estimate in dimension 0 (`x`); call result.set_estimate"),
    ],
)
def test_mistake_in_a_pipeline_is_told_in_one_line(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "mistaken.py").write_text(MISTAKEN)
    done = metol("schedule", f"mistaken.py:{name}", "-o", "s.json", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.strip().count("\n") == 0
    assert not (tmp_path / "s.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("schedule", "mine.py:ramp", "--python", "mine.py/s.py"), "mine.py` is not a folder"),
        (("bench", "mine.py:ramp", "--json", "mine.py/rows.json"), "mine.py` is not a folder"),
        (("bench", "mine.py:ramp", "--tails", "--markdown", "mine.py"), "`mine.py` has no place for the table"),
        (("bench", "mine.py:ramp", "--every-size", "--json", "mine.py"), "`mine.py` is not a file of checked sizes"),
        (("bench", "mine.py:ramp", "--every-size", "--options"), "ask for one at a time"),
        (("bench", "mine.py:ramp", "--tuned", "mine.py", "--tails"), "ask for one at a time"),
        (("bench", "mine.py:ramp", "--tuned", "no.db"), "There are no records"),
        (("bench", "nothing", "--options"), "No application is called `nothing`"),
        (("bench", "mine.py:ramp", "--markdown", "latin.md"), "`latin.md` cannot be read as Markdown"),
        (("demo", "--image", "mine.py/a.png"), "mine.py` is not a folder"),
        (("schedule", "mine.py"), "write mine.py:FUNCTION"),
    ],
)
def test_mistake_about_files_and_flags_is_told_before_anything_runs(
    words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(PIPELINES)
    (tmp_path / "latin.md").write_bytes("Märkte".encode("latin-1"))
    done = metol(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.strip().count("\n") == 0
    assert (tmp_path / "mine.py").read_text() == PIPELINES


INTERRUPTED_BENCH = """
import os, signal, sys
from metol import bench
real = bench.LocalRunner.prepare

def prepare(self, source, schedulers):
    if "second" in str(source):
        os.kill(os.getpid(), signal.SIGINT)
    return real(self, source, schedulers)

bench.LocalRunner.prepare = prepare
sys.argv = ["metol", "bench", "mine.py:ramp", "mine.py:second", "--schedulers", "reference", "--rounds", "1"]
sys.argv += ["--json", "rows.json"]
from metol.cli import main
main()
"""


@pytest.mark.slow
def test_interrupted_bench_keeps_and_prints_what_it_has_measured(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PIPELINES + "\nsecond = ramp\n")
    command = [sys.executable, "-c", INTERRUPTED_BENCH]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert "mine.py:ramp" in done.stdout
    (row,) = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert row["app"] == "mine.py:ramp"


def test_bench_prints_a_table_and_writes_both_files(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    words = (
        "--schedulers",
        "mullapudi2016,reference",
        "--rounds",
        "1",
        "--json",
        "rows.json",
        "--markdown",
        "docs/bench.md",
    )
    done = metol("bench", "pipelines.py:ramp", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Run time (ms)" in done.stdout
    assert "pipelines.py:ramp" in done.stdout
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert [row["status"] for row in rows] == ["ok", "ok"]
    assert "| pipelines.py:ramp |" in (tmp_path / "docs" / "bench.md").read_text()


def test_png_holds_the_image(tmp_path: Path) -> None:
    imageio = pytest.importorskip("imageio.v3")
    from metol.demo import write_png

    image = np.arange(35, dtype=np.uint8).reshape(5, 7)
    write_png(tmp_path / "image.png", image)
    np.testing.assert_array_equal(imageio.imread(tmp_path / "image.png"), image)


def test_schedule_is_printed_as_python_that_runs(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    done = metol("schedule", "pipelines.py:ramp", "--strategy", "greedy", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    compile(done.stdout, "schedule.py", "exec")
    assert "def apply_schedule" in done.stdout


@pytest.mark.slow
def test_schedule_is_written_to_the_files_named_and_verified(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    files = ("--python", "new/folder/s.py", "--cpp", "headers/s.schedule.h", "-o", "new/s.json")
    done = metol_process("schedule", "pipelines.py:ramp", "--strategy", "greedy", *files, "--verify", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "verified" in done.stderr
    assert "void apply_schedule" in (tmp_path / "headers" / "s.schedule.h").read_text()
    assert "def apply_schedule" in (tmp_path / "new" / "folder" / "s.py").read_text()
    assert json.loads((tmp_path / "new" / "s.json").read_text())


def test_schedule_for_fixed_sizes_is_verified_at_its_own(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    words = ("--strategy", "greedy", "--fixed-sizes", "--verify")
    done = metol("schedule", "pipelines.py:ramp", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert ".set_bounds(0, " in done.stdout
    assert "verified" in done.stderr


@pytest.mark.slow
def test_bench_verifies_metol_beside_a_saved_schedule(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    metol("schedule", "pipelines.py:ramp", "-o", "s.json", cwd=tmp_path)
    words = ("--schedulers", "metol:strategy=greedy,schedule:s.json", "--rounds", "1", "--json", "rows.json")
    done = metol("bench", "pipelines.py:ramp", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert all(row["verified"] for row in rows), rows


@pytest.mark.slow
def test_demo_prints_one_table_and_writes_the_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "RunOptions", partial(RunOptions, timing=BRIEF_TIMING, timeout_seconds=8.0))
    monkeypatch.setattr(demo, "_SCHEDULERS", ("metol", "adams2019:beam_size=1", "mullapudi2016"))
    done = metol("demo", "--image", "corners.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "adams2019" in done.stdout
    assert (tmp_path / "corners.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [(("--budget", "1min"), "what `--full` may take"), (("-o", "{folder}"), "is a folder; name a file")],
)
def test_what_calibrate_cannot_do_is_told_before_it_measures(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metol.targets.cpu.calibrate", lambda *_, **__: pytest.fail("it measures"))
    done = metol("calibrate", *(word.format(folder=tmp_path) for word in words), cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.slow
def test_calibrate_writes_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metol.targets.cpu.calibrate", partial(cpu.calibrate, budget_seconds=1.0))
    done = metol("calibrate", "--threads", "1", "-o", "machine.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "l1_bytes" in done.stdout
    assert json.loads((tmp_path / "machine.json").read_text())


GENERATOR = """
import halide as hl

@hl.generator(name="shift_by")
class ShiftBy:
    distance = hl.GeneratorParam(1)
    twice = hl.GeneratorParam(False)
    source = hl.InputBuffer(hl.Int(32), 2)
    factor = hl.InputScalar(hl.Int(32))
    result = hl.OutputBuffer(hl.Int(32), 2)

    def generate(self):
        g = self
        x, y = hl.Var("x"), hl.Var("y")
        shifted = hl.Func(f"shifted_by_{g.distance}{'_twice' if g.twice else ''}")
        shifted[x, y] = g.source[x + g.distance, y] * g.factor
        g.result[x, y] = shifted[x, y] + shifted[x, y + 1]
        if not g.using_autoscheduler():
            raise AssertionError("there is no schedule by hand")
        g.source.set_estimates([(0, 100), (0, 100)])
        g.factor.set_estimate(3)
        g.result.set_estimates([(0, 64), (0, 48)])


def sized(size):
    return hl.Func("sized")
"""


def test_generator_is_scheduled_and_verified(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GENERATOR)
    words = ("--strategy", "greedy", "--generator-param", "distance=5", "--generator-param", "twice=false")
    done = metol_process("schedule", "mine.py:ShiftBy", *words, "-o", "s.json", "--verify", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "shifted_by_5" in {func["name"] for func in json.loads((tmp_path / "s.json").read_text())["funcs"]}
    assert "64x48" in done.stderr


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("mine.py:ShiftBy?radius=3", "no GeneratorParam(s) named: ['radius']"),
        ("mine.py:ShiftBy?distance=far", "cannot be built: invalid literal"),
        ("mine.py:ShiftBy?twice=perhaps", "`twice` is true or false, not `perhaps`"),
        ("mine.py:Shift", "has no function `Shift`; it has: ShiftBy"),
        ("mine.py:ShiftBy?twice", "`twice` is no GeneratorParam; write NAME=VALUE"),
        ("mine.py:sized", "is called without arguments, and wants some: missing a required argument: 'size'"),
    ],
)
def test_mistake_about_a_generator_is_told_in_one_line(source: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GENERATOR)
    done = metol_process("schedule", source, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.strip().count("\n") == 0


def serialize(folder: Path, *, has_estimate: bool = False) -> None:
    """A pipeline whose file knows no sizes at all, or that of its output alone."""
    import halide as hl

    source, factor, result = hl.ImageParam(hl.Int(32), 2, "source"), hl.Param(hl.Int(32), "factor"), hl.Func("result")
    x, y = hl.Var("x"), hl.Var("y")
    result[x, y] = source[x + 1, y] * factor
    if has_estimate:
        result.set_estimates([(0, 100), (0, 50)])
    hl.serialize_pipeline(hl.Pipeline(result), str(folder / "p.hlpipe"))


def test_serialized_pipeline_takes_its_sizes_from_a_file(tmp_path: Path) -> None:
    serialize(tmp_path)
    sizes = {"source": [[0, 101], [0, 50]], "result": [[0, 100], [0, 50]], "factor": 3}
    (tmp_path / "sizes.json").write_text(json.dumps(sizes))
    words = ("--estimates", "sizes.json", "--strategy", "greedy", "-o", "s.json", "--verify")
    done = metol("schedule", "p.hlpipe", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "100x50" in done.stderr
    written = json.loads((tmp_path / "s.json").read_text())["estimates"]
    assert {entry["name"]: entry["bounds"] for entry in written}["result"] == [[0, 100], [0, 50]]


def test_serialized_pipeline_has_the_sizes_of_its_outputs(tmp_path: Path) -> None:
    serialize(tmp_path, has_estimate=True)
    (tmp_path / "sizes.json").write_text('{"source": [[0, 101], [0, 50]], "factor": 3}')
    words = ("--estimates", "sizes.json", "--strategy", "greedy", "-o", "s.json", "--verify")
    done = metol("schedule", "p.hlpipe", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "100x50" in done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read"),
        ("[]", "must be an object of names"),
        ('{"source": [[0, 101], [0, 50]], "result": [[0, 100], [0, 50]], "factor": 3, "nothing": 3}', "nothing"),
        ('{"source": "large"}', "`source` must be a number, or one (min, extent) a dimension"),
        ('{"source": [[0, 101], [0, 50]], "factor": 3}', "result"),
    ],
)
def test_mistake_about_estimates_is_told_in_one_line(content: str, message: str, tmp_path: Path) -> None:
    serialize(tmp_path)
    (tmp_path / "sizes.json").write_text(content)
    done = metol("schedule", "p.hlpipe", "--estimates", "sizes.json", cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr
    assert done.stderr.strip().count("\n") == 0


KEEPING = (
    PIPELINES
    + """
def kept():
    x, y = hl.Var("x"), hl.Var("y")
    first, second = hl.Func("first"), hl.Func("second")
    first[x, y] = x * y
    second[x, y] = first[x, y] + first[x + 1, y]
    first.compute_root().split(x, hl.Var("by_hand"), hl.Var("inner"), 5, hl.TailStrategy.GuardWithIf)
    second.set_estimates([(0, 64), (0, 48)])
    return second
"""
)


def test_kept_func_is_named_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(KEEPING)
    done = metol("schedule", "mine.py:kept", "--keep", "first", "--strategy", "greedy", "--verify", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Schedule by hand, before: first" in done.stdout
    assert "verified" in done.stderr


INTERRUPTED = """
import os, signal, sys
import halide as hl
from metol.search import strategy

def interrupt(*_):
    os.kill(os.getpid(), signal.SIGINT)
    return real(*_)

real = strategy.Budget.is_spent

def interrupt_once(*arguments):
    strategy.Budget.is_spent = real
    return interrupt(*arguments)

strategy.Budget.is_spent = interrupt if {again} else interrupt_once
sys.argv = ["metol", "schedule", "pipelines.py:ramp", "-o", "s.json"]
from metol.cli import main
main()
"""


@pytest.mark.slow
def test_first_interrupt_settles_for_the_best_so_far(tmp_path: Path) -> None:
    done = interrupt(tmp_path, again=False)
    assert done.returncode == 0, done.stderr
    assert "finishing with the best schedule found so far; Ctrl-C again gives up" in done.stderr
    assert "stopped early" in done.stderr
    assert json.loads((tmp_path / "s.json").read_text())["directives"]


def test_second_interrupt_gives_up_in_one_line_with_exit_code_130(tmp_path: Path) -> None:
    done = interrupt(tmp_path, again=True)
    assert done.returncode == 130, done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("interrupted")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "s.json").exists()


def interrupt(folder: Path, *, again: bool) -> subprocess.CompletedProcess[str]:
    """Run `metol schedule`, with an interrupt when the search first asks for its budget, or each time it does."""
    (folder / "pipelines.py").write_text(PIPELINES)
    command = [sys.executable, "-c", INTERRUPTED.format(again=again)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


@pytest.mark.slow
def test_bench_of_searches_prints_and_writes_their_table(tmp_path: Path) -> None:
    (tmp_path / "pipelines.py").write_text(PIPELINES)
    done = metol(
        *("bench", "pipelines.py:ramp", "--search-speed", "--schedulers", "metol:beam_width=2", "--threads", "1"),
        *("--json", "speed.json", "--markdown", "speed.md"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "candidates/s" in done.stdout
    (row,) = json.loads((tmp_path / "speed.json").read_text())["rows"]
    assert row["candidates"] > 0
    assert "| pipelines.py:ramp |" in (tmp_path / "speed.md").read_text()


def test_defaults_of_the_command_are_those_of_the_library() -> None:
    parameters = inspect.signature(cli.schedule).parameters
    options = SearchOptions()
    assert parameters["strategy"].default == options.strategy
    assert parameters["beam_width"].default == options.beam_width
    assert parameters["budget"].default == options.budget_seconds
    assert parameters["fixed_sizes"].default == options.fixed_sizes
