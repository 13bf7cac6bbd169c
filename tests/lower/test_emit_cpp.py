import subprocess
from pathlib import Path

import halide as hl
import numpy as np
import pytest
from lower_cases import CASES, realize_at_root
from test_emit_python import awkward_schedule, build_with_awkward_names

GOLDEN = Path(__file__).parent / "golden"

MAIN = """
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

// Writes the values of every output, one after the other.
void write(const Halide::Realization &result, const std::string &path) {
    std::ofstream file(path, std::ios::binary);
    for (size_t i = 0; i < result.size(); i++) {
        file.write((const char *)result[i].data(), result[i].size_in_bytes());
    }
}

// Usage: program [CASE PIPELINE RESULT EXTENT... --]...: one process, for Halide's runtime is compiled in each.
int main(int argc, char **argv) {
    const std::map<std::string, std::function<void(Halide::Pipeline)>> schedules = {SCHEDULES};
    const std::vector<std::string> words(argv + 1, argv + argc);
    for (auto word = words.begin(); word != words.end(); ++word) {
        const std::string name = *word++, source = *word++, path = *word++;
        std::vector<int32_t> sizes;
        for (; *word != "--"; ++word) {
            sizes.push_back(std::atoi(word->c_str()));
        }
        Halide::Pipeline pipeline = Halide::deserialize_pipeline(source, {});
        try {
            schedules.at(name)(pipeline);
        } catch (const Halide::CompileError &refusal) {
            std::cerr << name << ": " << refusal.what();
            return 1;
        }
        write(pipeline.realize(sizes), path);
    }
    return 0;
}
"""


@pytest.mark.parametrize("name", ["blur", "specialized", "rfactor", "staged"])
def test_cpp_reads_as_expected(name: str, check_golden) -> None:
    check_golden(CASES[name].schedule().to_cpp(f"apply_schedule_{name}"), GOLDEN / f"{name}.h")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the headers of all schedules into one program: Halide.h takes seconds to read."""
    folder = tmp_path_factory.mktemp("cpp")
    schedules = {name: case.schedule() for name, case in CASES.items()} | {"awkward": awkward_schedule()}
    for name, schedule in schedules.items():
        (folder / f"{name}.h").write_text(schedule.to_cpp(f"apply_schedule_{name}"), encoding="utf-8")
    includes = "".join(f'#include "{name}.h"\n' for name in schedules)
    table = ", ".join(f'{{"{name}", apply_schedule_{name}}}' for name in schedules)
    (folder / "main.cpp").write_text(includes + MAIN.replace("SCHEDULES", table), encoding="utf-8")
    root = Path(hl.install_dir())
    flags = ["-std=c++17", "-Wall", "-Werror", "-O0", f"-isystem{root / 'include'}"]
    link = [f"-L{root / 'lib64'}", "-lHalide", f"-Wl,-rpath,{root / 'lib64'}"]
    command = ["g++", *flags, str(folder / "main.cpp"), *link, "-o", str(folder / "program")]
    subprocess.run(command, check=True, timeout=60)
    return folder / "program"


def words_of(program: Path, name: str, pipeline: hl.Pipeline, size: tuple[int, ...]) -> list[str]:
    """Save a pipeline; return what asks the program to schedule and run it."""
    serialized = str(program.parent / f"{name}.hlpipe")
    hl.serialize_pipeline(pipeline, serialized)
    return [name, serialized, str(program.parent / f"{name}.result"), *map(str, size), "--"]


def run(program: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program), *words], capture_output=True, text=True, timeout=60)


@pytest.mark.slow
def test_cpp_keeps_the_result_and_checks_the_number_of_funcs(program: Path) -> None:
    # One test, which workers that share the tests do not compile twice.
    builds = {name: (case.build, case.sizes[0]) for name, case in CASES.items()}
    builds["awkward"] = build_with_awkward_names, (5, 3)
    words = [word for name, (build, size) in builds.items() for word in words_of(program, name, build(), size)]
    finished = run(program, words)
    assert (finished.returncode, finished.stderr) == (0, "")
    for name, (build, size) in builds.items():
        expected = b"".join(np.ascontiguousarray(output).tobytes() for output in realize_at_root(build, size))
        assert (program.parent / f"{name}.result").read_bytes() == expected, name
    finished = run(program, words_of(program, "blur", CASES["tuple"].build(), (5, 3)))
    assert finished.returncode == 1
    assert "for a pipeline of 3 Funcs, not 2" in finished.stderr
