"""The wheel: built by the README's lines, installed where nothing else of tutti is, with NumPy and without.

    wheel_test.py SOURCE LIBRARY CALLBACKS TUTTI BUILD

Packages come from PyPI. The library is that of BUILD; with --clone it is compiled in a clone, as a newcomer's is,
and the types are checked by mypy."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

CLONE = "--clone" in sys.argv
if CLONE:
    sys.argv.remove("--clone")
BUILD = os.path.abspath(sys.argv.pop(5))
import support  # noqa: E402

README = pathlib.Path(support.SOURCE) / "lib/adapters/python/README.md"


def block(mark, language):
    """The lines of the README between ```language after `mark`, and ```."""
    text = README.read_text()
    return re.search("```" + language + "\n(.*?)```", text[text.index(mark):], flags=re.S).group(1)


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = cls.holder.name
        unwanted = ("TUTTI_LIBRARY", "PYTHONPATH", "LD_LIBRARY_PATH", "RANK", "WORLD_SIZE")
        cls.environment = {name: value for name, value in os.environ.items() if name not in unwanted}
        cls.environment.update(HOME=cls.folder, PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_QUIET="1",
                               XDG_CACHE_HOME=os.path.expanduser("~/.cache"))
        cls.clone = support.SOURCE
        if CLONE:
            cls.clone = cls.folder + "/clone"
            subprocess.run(["git", "clone", "-q", support.SOURCE, cls.clone], check=True)
        else:
            cls.environment["TUTTI_BUILD_DIR"] = BUILD
        pathlib.Path(cls.folder, "program.py").write_text(block("program.py", "python"))
        script = "set -e\n" + block("A newcomer's path", "sh").replace("program.py", cls.folder + "/program.py")
        cls.ran = subprocess.run(["bash", "-c", script], cwd=cls.clone, env=cls.environment, text=True,
                                 stdin=subprocess.DEVNULL, capture_output=True, timeout=3000)
        cls.python = cls.folder + "/tutti-venv/bin/python"

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def run_there(self, *words, **more):
        return subprocess.run([*words], cwd="/", env={**self.environment, **more}, capture_output=True, text=True,
                              timeout=120)

    def test_the_newcomers_lines_run_as_they_are_written(self):
        self.assertLessEqual(len(block("A newcomer's path", "sh").splitlines()), 5)
        self.assertEqual(self.ran.returncode, 0, self.ran.stderr[-3000:])
        self.assertEqual(self.ran.stdout.count("[3. 3. 3.]"), 2, self.ran.stdout)

    def test_it_is_complete_and_needs_nothing_of_the_build(self):
        found = self.run_there(self.python, "-c", "import tutti; print(tutti.library_path())")
        library = found.stdout.strip()
        self.assertTrue(library.startswith(self.folder), found)
        for binary in (library, os.path.dirname(library) + "/bin/tutti"):
            dynamic = self.run_there("readelf", "-d", binary).stdout
            self.assertIn("$ORIGIN", dynamic)
            self.assertNotIn(BUILD, dynamic)
            needed = self.run_there("ldd", binary).stdout
            self.assertNotIn("not found", needed)
            self.assertNotIn("libhwy", needed)  # of a build with the kernels for all processors, too

    def test_it_is_for_any_python_3_on_this_kind_of_machine(self):
        wheels = list(pathlib.Path(self.folder, "tutti-wheel").glob("tutti-*.whl"))
        self.assertEqual(len(wheels), 1)
        self.assertRegex(wheels[0].name, r"^tutti-[\d.]+-py3-none-linux_\w+\.whl$")
        names = zipfile.ZipFile(wheels[0]).namelist()
        for name in ("py.typed", "libtutti.so.0", "_callbacks.so", "bin/tutti"):
            self.assertIn("tutti/" + name, names)

    def test_without_numpy_there_are_memoryviews(self):
        bare = self.folder + "/bare"
        self.run_there(sys.executable, "-m", "venv", bare)
        wheel = next(pathlib.Path(self.folder, "tutti-wheel").glob("tutti-*.whl"))
        self.assertEqual(self.run_there(bare + "/bin/pip", "install", "--no-index", str(wheel)).returncode, 0)
        ran = self.run_there(bare + "/bin/tutti", "run", "--prefix", "-n", "2", bare + "/bin/python", "-c", """if True:
            import array, tutti
            try:
                import numpy
                raise SystemExit("NumPy is here")
            except ImportError: pass
            with tutti.init() as comm:
                out = array.array("f", [0, 0])
                comm.Allreduce(array.array("f", [1, 2]), out)
                data = bytearray(b"abc" if comm.rank == 0 else b"   ")
                comm.Bcast(data)
                view = comm.empty(4, tutti.Dtype.INT32)
                view[0] = comm.rank + 1
                comm.Allreduce(tutti.IN_PLACE, view)
                def most(lower, higher, out):
                    for i in range(len(out)): out[i] = max(lower[i], higher[i])
                top = memoryview(bytearray(8)).cast("q")
                comm.Allreduce(array.array("q", [comm.rank]), top, tutti.UserOp(most))
                print(list(out), bytes(data), view[0], type(view).__name__, top[0])
        """)
        line = "[2.0, 4.0] b'abc' 3 memoryview 1"
        self.assertEqual(sorted(ran.stdout.splitlines()), ["[0] " + line, "[1] " + line], ran.stderr)

    def types_are_checked_strictly(self):
        mypy = self.run_there(self.python, "-m", "pip", "install", "mypy", "ml_dtypes")
        self.assertEqual(mypy.returncode, 0, mypy.stderr)
        checked = self.run_there(self.python, "-m", "mypy", "--cache-dir=/dev/null", "--config-file",
                                 str(README.parent / "pyproject.toml"), str(README.parent / "src/tutti"))
        self.assertEqual(checked.returncode, 0, checked.stdout)
        ranks = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks.py")
        ran = self.run_there(self.folder + "/tutti-venv/bin/tutti", "run", "-n", "2", self.python, ranks, "types")
        self.assertEqual(ran.stdout.count("with ml_dtypes"), 2, ran.stderr[-2000:])

    if CLONE:
        test_types_are_checked_strictly = types_are_checked_strictly


if __name__ == "__main__":
    unittest.main()
