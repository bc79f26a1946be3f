"""The ways to use tutti, in at most five lines of shell each, as READMEs have them for newcomers."""

import os
import re
import shlex
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
TOP, PYTHON, TORCH = "README.md", "lib/adapters/python/README.md", "lib/adapters/torch/README.md"

# What only the lines of a way have, and what lies there before: a file of this folder and its name in the README.
MARKS = {
    "C": ("pkg-config --cflags", {"c_user/main.c": "program.c"}),
    "CMake": ("cmake --build", {"cmake_user/CMakeLists.txt": "CMakeLists.txt", "cmake_user/main.cc": "main.cc"}),
    "MPI": ("tutti mpi -- ", {"mpi_user/main.c": "mpi_program.c"}),
    "Python": ("python program.py", {}),
    "PyTorch": ("torchrun", {}),
}


def call(*words, timeout=600, **options):
    """stdout of a command that must succeed."""
    result = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, **options)
    if result.returncode != 0:
        raise AssertionError(f"{shlex.join(words)}: exit status {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def blocks(root, readme, *languages):
    with open(f"{root}/{readme}") as file:
        found = re.findall(r"^```(\w*)\n(.*?)^```", file.read(), re.DOTALL | re.MULTILINE)
    return [block for language, block in found if language in languages]


def lines(root, way, readme=TOP):
    """The shell lines of a README for a way, without comments."""
    found = [block for block in blocks(root, readme, "", "sh") if MARKS[way][0] in block]
    assert len(found) == 1, f"{readme} has {len(found)} blocks of shell with {MARKS[way][0]!r}"
    return [line.partition("#")[0].strip() for line in found[0].splitlines()]


def lay_out(root, way, folder):
    """Beside the lines of a way, the program that they run."""
    for source, name in MARKS[way][1].items():
        shutil.copy(f"{HERE}/{source}", f"{folder}/{name}")
    if way == "Python":
        program = next(block for block in blocks(root, PYTHON, "python") if "tutti.init()" in block)
        with open(f"{folder}/program.py", "w") as file:
            file.write(program)


def check(test, way, shell, output):
    """That the output of the lines `shell` is right."""
    if way == "Python":
        test.assertEqual(output.count("[3. 3. 3.]\n"), 2, output)
    elif way == "PyTorch":
        test.assertIn("2 ranks over tutti (compiled): loss ", output)
    else:
        runs = sum(bool(re.search(r"\btutti (run|mpi) ", line)) for line in shell)
        said = sorted(line.split(",")[0] for line in output.splitlines() if line.startswith("rank "))
        test.assertEqual(said, runs * ["rank 0 of 2: right"] + runs * ["rank 1 of 2: right"], output)
    if way == "MPI":  # the interposer says that it carried the call
        test.assertRegex(output, r"(?m)^.*Allreduce +1 +4000\b", output)
