"""Samples in files: nothing is lost on the way in or out, and what is something else is refused in one line."""

import json
import lzma
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metol.errors import MetolError
from metol.measure import Status
from metol.targets.cpu import CpuMachine
from metol.train import ProgramSamples, Sample, SampleFiles, SampleFolders
from metol.train.samples import sample_id

MACHINE = CpuMachine.default(threads=2)
NEST = '{"version":1,"path":[[1,2],[3]],"rfactors":[],"stagings":[],"specialize_estimate":true}'
SAMPLE = Sample(sample_id("0" * 16, "x86-64", NEST), "greedy", NEST, Status.OK, (3.0, 2.0, 2.5), 0.5)
PROGRAM = ProgramSamples(
    program="random:1/size=4",
    algorithm="0" * 16,
    machine={"cpu": "some", "cores": 2},
    target="x86-64",
    threads=2,
    versions={"metol": "1", "halide": "2"},
    has_fixed_sizes=True,
    generation=0,
    samples=(SAMPLE, replace(SAMPLE, id="1", status=Status.TIMEOUT, rounds_ms=(), detail="over 3 s")),
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
seconds = st.floats(0, 1e9) | st.integers(0, 9)
samples = st.builds(
    Sample,
    texts,
    texts,
    texts,
    st.sampled_from(Status),
    st.lists(seconds.filter(bool), max_size=4).map(tuple),
    st.none() | seconds,
    texts,
)
programs = st.builds(
    ProgramSamples,
    program=texts,
    algorithm=texts,
    machine=st.dictionaries(texts, texts | st.integers(0, 9) | st.lists(st.integers(0, 9), max_size=3), max_size=3),
    target=texts,
    threads=st.integers(1, 64),
    versions=st.dictionaries(texts, texts, max_size=2),
    has_fixed_sizes=st.booleans(),
    generation=st.integers(0, 5),
    samples=st.lists(samples, max_size=3).map(tuple),
    note=texts,
)


def named(name: str, generation: int = 0) -> ProgramSamples:
    return replace(PROGRAM, program=name, generation=generation)


@given(program=programs)
def test_a_row_loses_nothing(program: ProgramSamples) -> None:
    line = json.dumps(program.to_row())
    assert ProgramSamples.from_row(json.loads(line)) == program


@settings(max_examples=20)
@given(made=st.lists(programs, min_size=1, max_size=4))
def test_a_folder_loses_nothing(made: list[ProgramSamples], tmp_path_factory: pytest.TempPathFactory) -> None:
    files = SampleFiles(tmp_path_factory.mktemp("samples") / "made when needed")
    for program in made:
        files.append(program, MACHINE)
    assert files.load() == tuple(made)
    assert SampleFiles(files.folder).load() == tuple(made)


def test_the_time_of_a_sample_is_its_quickest_round() -> None:
    assert SAMPLE.run_ms == 2.0
    assert PROGRAM.samples[1].run_ms is None


def test_a_sample_leads_to_its_decisions() -> None:
    assert SAMPLE.to_nest().path == ((1, 2), (3,))
    with pytest.raises(MetolError, match="is no loop nest"):
        replace(SAMPLE, nest="spam").to_nest()


def test_ids_differ_with_program_target_and_decisions() -> None:
    parts = ("a" * 16, "x86-64", NEST), ("b" * 16, "x86-64", NEST), ("a" * 16, "arm-64", NEST), ("a" * 16, "x86-64", "")
    assert len({sample_id(*each) for each in parts}) == 4
    assert sample_id("ab", "c", "d") != sample_id("a", "bc", "d")
    assert sample_id(*parts[0]) == sample_id(*parts[0])


def test_an_empty_folder_has_no_programs_and_says_how_to_make_some(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        files = SampleFiles(folder)
        assert files.programs() == frozenset()
        with pytest.raises(MetolError, match=r"no samples in .*`metol train generate`"):
            files.load()
    assert list(tmp_path.iterdir()) == []


def test_programs_are_known_with_their_generation(tmp_path: Path) -> None:
    files = SampleFiles(tmp_path)
    for program in (named("a"), named("b"), named("a", 1)):
        files.append(program, MACHINE)
    assert files.programs() == {("a", 0), ("b", 0), ("a", 1)}


def test_a_line_cut_short_is_left_out_and_written_over(tmp_path: Path) -> None:
    files = SampleFiles(tmp_path)
    files.append(named("a"), MACHINE)
    with (tmp_path / "samples.jsonl").open("a") as file:
        file.write('{"version": 1, "program": "b')
    assert files.load() == (named("a"),)
    assert files.programs() == {("a", 0)}
    files.append(named("c"), MACHINE)
    assert files.load() == (named("a"), named("c"))


def test_packed_samples_are_the_same_and_new_ones_follow_them(tmp_path: Path) -> None:
    files = SampleFiles(tmp_path)
    files.append(named("b"), MACHINE)
    assert files.pack("second") == tmp_path / "second.jsonl.xz"
    files.append(named("a"), MACHINE)
    files.pack("first")
    files.append(named("c"), MACHINE)
    assert [program.program for program in files.load()] == ["a", "b", "c"]
    assert files.load()[1] == named("b")
    assert files.programs() == {("a", 0), ("b", 0), ("c", 0)}


def test_what_is_packed_leaves_out_a_line_cut_short(tmp_path: Path) -> None:
    files = SampleFiles(tmp_path)
    files.append(named("a"), MACHINE)
    with (tmp_path / "samples.jsonl").open("a") as file:
        file.write('{"version": 1, "program": "b')
    files.pack("old")
    assert files.load() == (named("a"),)


def test_nothing_is_packed_twice_or_over_another(tmp_path: Path) -> None:
    files = SampleFiles(tmp_path)
    with pytest.raises(MetolError, match="Nothing is packed"):
        files.pack("old")
    files.append(named("a"), MACHINE)
    files.pack("old")
    with pytest.raises(MetolError, match="Nothing is packed"):
        files.pack("new")
    files.append(named("b"), MACHINE)
    with pytest.raises(MetolError, match="Nothing is packed"):
        files.pack("old")
    assert files.load() == (named("a"), named("b"))


def write_open(folder: Path, content: bytes) -> None:
    (folder / "samples.jsonl").write_bytes(content)


def write_packed(folder: Path, content: bytes) -> None:
    (folder / "old.jsonl.xz").write_bytes(lzma.compress(content))


@pytest.mark.parametrize("write", [write_open, write_packed])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"some notes of mine\n", "not a file of samples"),
        (b"[1, 2]\n", "not a file of samples"),
        (b"{}\n", "not a file of samples"),
        (b'{"version": 99}\n', "version 99; this Metol reads version 1"),
        (b'{"version": 1, "app": "harris"}\n', "not a file of samples"),
        (b'{"version": 1, "samples": [{"id": 1}]}\n', "not a file of samples"),
        (b"\xff\xfe\n", "not a file of samples"),
    ],
)
def test_another_file_is_refused_with_its_name(
    write: Callable[[Path, bytes], None], content: bytes, message: str, tmp_path: Path
) -> None:
    write(tmp_path, content)
    for use in (SampleFiles(tmp_path).load, SampleFiles(tmp_path).programs):
        with pytest.raises(MetolError, match=message) as caught:
            use()
        assert str(tmp_path) in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"no archive", lzma.compress(b"{}\n" * 99)[:-20]])
def test_a_packed_file_that_is_no_archive_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "old.jsonl.xz").write_bytes(content)
    with pytest.raises(MetolError, match=r"old.jsonl.xz` is not a file of samples"):
        SampleFiles(tmp_path).load()


def test_several_folders_are_read_as_one_each_with_its_machines(tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    other = replace(named("b"), machine={**named("b").machine, "cpu": "another"})
    SampleFiles(folders[0]).append(named("a"), MACHINE)
    SampleFiles(folders[1]).append(other, replace(MACHINE, name="another"))
    files = SampleFolders(folders)
    assert [program.program for program in files.load()] == ["a", "b"]
    assert [files.machine_of(program).name for program in files.load()] == [MACHINE.name, "another"]
    with pytest.raises(MetolError):
        SampleFolders([folders[0]]).machine_of(other)


@pytest.mark.parametrize(
    "damage", [{"nest": None}, {"rounds_ms": [float("nan")]}, {"rounds_ms": [0.0]}, {"status": "good"}]
)
def test_a_line_that_is_no_sample_is_told_by_its_number(damage: dict, tmp_path: Path) -> None:
    files = SampleFiles(tmp_path)
    for name in ("random:1", "random:2"):
        files.append(named(name), MACHINE)
    first, second = (tmp_path / "samples.jsonl").read_text().splitlines()
    row = json.loads(second)
    row["samples"][0] |= damage
    (tmp_path / "samples.jsonl").write_text(f"{first}\n{json.dumps(row)}\n")
    with pytest.raises(MetolError, match="line 2 is none of them"):
        files.load()
