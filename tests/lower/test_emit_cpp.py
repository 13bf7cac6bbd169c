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

// Usage: program CASE PIPELINE RESULT EXTENT...: writes the values of every output, one after the other.
int main(int argc, char **argv) {
    const std::map<std::string, std::function<void(Halide::Pipeline)>> schedules = {SCHEDULES};
    Halide::Pipeline pipeline = Halide::deserialize_pipeline(std::string(argv[2]), {});
    try {
        schedules.at(argv[1])(pipeline);
    } catch (const Halide::CompileError &refusal) {
        std::cerr << refusal.what();
        return 1;
    }
    std::vector<int32_t> sizes;
    for (int i = 4; i < argc; i++) {
        sizes.push_back(std::atoi(argv[i]));
    }
    Halide::Realization result = pipeline.realize(sizes);
    std::ofstream file(argv[3], std::ios::binary);
    for (size_t i = 0; i < result.size(); i++) {
        file.write((const char *)result[i].data(), result[i].size_in_bytes());
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


def run(program: Path, name: str, pipeline: hl.Pipeline, size: tuple[int, ...]) -> subprocess.CompletedProcess[str]:
    serialized = str(program.parent / f"{name}.hlpipe")
    hl.serialize_pipeline(pipeline, serialized)
    extents = [str(extent) for extent in size]
    command = [str(program), name, serialized, str(program.parent / "result"), *extents]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


@pytest.mark.slow
def test_cpp_keeps_the_result_and_checks_the_number_of_funcs(program: Path) -> None:
    # One test, which workers that share the tests do not compile twice.
    for name in [*CASES, "awkward"]:
        build = CASES[name].build if name in CASES else build_with_awkward_names
        size = CASES[name].sizes[0] if name in CASES else (5, 3)
        finished = run(program, name, build(), size)
        assert (finished.returncode, finished.stderr) == (0, ""), name
        expected = b"".join(np.ascontiguousarray(output).tobytes() for output in realize_at_root(build, size))
        assert (program.parent / "result").read_bytes() == expected, name
    finished = run(program, "blur", CASES["tuple"].build(), (5, 3))
    assert finished.returncode == 1
    assert "for a pipeline of 3 Funcs, not 2" in finished.stderr
