"""What the tests of Python share: a package made of the sources and what was built, and ranks that use it.

    SOME_test.py SOURCE LIBRARY CALLBACKS TUTTI
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, LIBRARY, CALLBACKS, TUTTI = [os.path.abspath(path) for path in sys.argv[1:5]]
del sys.argv[1:5]


def with_numpy():
    """A Python that has NumPy: this one, or the system's."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
            return python
    raise SystemExit("no Python with NumPy: tools/setup test installs one")


class Package:
    """The package as the wheel has it, in a folder that PYTHONPATH gets."""

    def __init__(self):
        self.holder = tempfile.TemporaryDirectory()
        self.folder = self.holder.name
        package = pathlib.Path(self.folder) / "tutti"
        shutil.copytree(pathlib.Path(SOURCE) / "lib/adapters/python/src/tutti", package)
        shutil.copyfile(LIBRARY, package / "libtutti.so.0")
        shutil.copyfile(CALLBACKS, package / "_callbacks.so")
        unwanted = ("TUTTI_LIBRARY", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
        self.environment = {name: value for name, value in os.environ.items() if name not in unwanted}
        self.environment.update(PYTHONPATH=self.folder, PYTHONFAULTHANDLER="1", OMP_NUM_THREADS="1",
                                OPENBLAS_NUM_THREADS="1")

    def python(self, *words, python=sys.executable, timeout=60, **more):
        return subprocess.run([python, *words], env={**self.environment, **more}, capture_output=True, text=True,
                              timeout=timeout)

    def ranks(self, n, *words, python=sys.executable, timeout=120, options=(), **more):
        return subprocess.run([TUTTI, "run", "-n", str(n), *options, python, *words],
                              env={**self.environment, **more}, capture_output=True, text=True, timeout=timeout)


class WithPackage(unittest.TestCase):
    """Tests that share a package."""

    @classmethod
    def setUpClass(cls):
        cls.package = Package()

    @classmethod
    def tearDownClass(cls):
        cls.package.holder.cleanup()
