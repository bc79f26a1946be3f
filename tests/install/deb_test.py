"""The Debian packages: what is in them, and the README's lines for newcomers with them, in a folder of this system.

    deb_test.py BUILD_FOLDER SOURCE_ROOT
"""

import glob
import os
import shutil
import sys
import tempfile
import unittest

import newcomers
from newcomers import call

BUILD, ROOT = sys.argv[1:3]
del sys.argv[1:]


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tutti-deb-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        # As tools/package does it, which would wait for whoever runs this test.
        call(sys.executable, f"{ROOT}/tools/packaging/deb.py", BUILD, f"{cls.folder}/packages")
        cls.files = {os.path.basename(path).partition("_")[0]: path
                     for path in glob.glob(f"{cls.folder}/packages/*.deb")}

    def field(self, name, field):
        return call("dpkg-deb", "--field", self.files[name], field).strip()

    def test_the_readme_has_five_lines_at_most(self):
        for way in newcomers.MARKS:
            self.assertLessEqual(len(newcomers.lines(ROOT, way)), 5)
        self.assertEqual(newcomers.lines(ROOT, "C")[0], "tools/package deb packages")

    def test_there_are_four_and_each_depends_on_what_it_needs(self):
        self.assertEqual(sorted(self.files), ["libtutti-dev", "libtutti0", "tutti-mpi", "tutti-tools"])
        version = self.field("libtutti0", "Version")
        for name in ("libtutti-dev", "tutti-tools", "tutti-mpi"):
            self.assertIn(f"libtutti0 (= {version})", self.field(name, "Depends"))
        for wanted in ("libc6 (>= ", "libstdc++6 (>= ", "libssl3"):
            self.assertIn(wanted, self.field("libtutti0", "Depends"))
        self.assertIn("libhwloc15", self.field("tutti-tools", "Depends"))
        self.assertIn("/usr/share/man/man1/tutti-bench.1.gz\n", call("dpkg-deb", "--contents", self.files["tutti-tools"]))
        self.assertNotIn("mpi", self.field("tutti-mpi", "Depends"))  # whichever the program has
        found = call("dpkg-deb", "--contents", self.files["tutti-mpi"])
        for abi in ("ompi", "mpich"):
            self.assertIn(f"/libtutti-mpi-{abi}.so.0 -> ", found)

    def test_they_install_and_the_readmes_lines_run(self):
        root = f"{self.folder}/root"
        for path in self.files.values():
            call("dpkg-deb", "--extract", path, root)
        libdir = os.path.dirname(glob.glob(f"{root}/usr/lib/*/libtutti.so")[0])
        with open(f"{libdir}/pkgconfig/tutti.pc") as file:
            self.assertIn("prefix=/usr\n", file.read())
        environment = {**os.environ, "PATH": f"{root}/usr/bin:{os.environ['PATH']}", "LD_LIBRARY_PATH": libdir,
                       "PKG_CONFIG_SYSROOT_DIR": root, "PKG_CONFIG_LIBDIR": f"{libdir}/pkgconfig",
                       "CMAKE_PREFIX_PATH": f"{root}/usr"}
        for way in ("C", "CMake", "MPI"):
            with self.subTest(way):
                newcomers.lay_out(ROOT, way, self.folder)
                shell = [line for line in newcomers.lines(ROOT, way) if not line.startswith(("tools/package ", "apt-get "))]
                newcomers.check(self, way, shell, call("sh", "-ec", "exec 2>&1\n" + "\n".join(shell), cwd=self.folder, env=environment))
        self.assertEqual(os.path.realpath(shutil.which("tutti", path=environment["PATH"])),
                         f"{os.path.realpath(root)}/usr/bin/tutti")


if __name__ == "__main__":
    unittest.main(verbosity=2)
