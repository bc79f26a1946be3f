"""The Debian packages: what is in them, and the newcomer's path of the README with them.

    deb_test.py BUILD_FOLDER SOURCE_ROOT           in a folder of this system
    deb_test.py BUILD_FOLDER SOURCE_ROOT --bare    in a bare Debian 12, which debootstrap makes (as root)
"""

import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

BARE = "--bare" in sys.argv
BUILD, ROOT = sys.argv[1:3]
del sys.argv[1:]
HERE = os.path.dirname(os.path.abspath(__file__))


def call(*words, timeout=150, **options):
    """stdout of a command that must succeed."""
    result = subprocess.run(words, capture_output=True, text=True, timeout=timeout, **options)
    if result.returncode != 0:
        raise AssertionError(f"{shlex.join(words)}: exit status {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


# How each of the README's ways begins, and what lies there before: a file of this folder and its name in the README.
WAYS = {
    "C": ("tools/package deb ", [("c_user/main.c", "program.c")]),
    "CMake": ("apt-get install -y cmake ", [("cmake_user/CMakeLists.txt", "CMakeLists.txt"),
                                            ("cmake_user/main.cc", "main.cc")]),
    "MPI": ("apt-get install -y mpich ", [("mpi_user/main.c", "mpi_program.c")]),
}


def newcomers_lines(way):
    """The shell lines of the README for a way."""
    with open(f"{ROOT}/README.md") as file:
        block = re.search(rf"```\n({WAYS[way][0]}.*?)```", file.read(), re.DOTALL)[1]
    return [line.partition("#")[0].strip() for line in block.splitlines()]


def lay_out(folder):
    for _, files in WAYS.values():
        for source, name in files:
            shutil.copy(f"{HERE}/{source}", f"{folder}/{name}")


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

    def both_are_right(self, output):
        self.assertEqual([line.split(",")[0] for line in sorted(output.splitlines()) if line.startswith("rank ")],
                         ["rank 0 of 2: right", "rank 1 of 2: right"], output)

    def the_lines_run(self, run):
        """Each way's; run(line) gives what one prints. Of MPI the interposer says that it carried the call."""
        for way in WAYS:
            with self.subTest(way):
                for line in newcomers_lines(way):
                    output = run(line)
                    if line.startswith("tutti "):
                        self.both_are_right(output)
                if way == "MPI":
                    self.assertRegex(output, r"(?m)^.*Allreduce +1 +4000\b", output)

    def test_the_readme_has_five_lines_at_most(self):
        for way in WAYS:
            self.assertLessEqual(len(newcomers_lines(way)), 5)
        self.assertEqual(newcomers_lines("C")[0], "tools/package deb packages")

    @unittest.skipIf(BARE, "the other form")
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

    @unittest.skipIf(BARE, "the other form")
    def test_they_install_and_the_readmes_lines_run(self):
        root = f"{self.folder}/root"
        for path in self.files.values():
            call("dpkg-deb", "--extract", path, root)
        libdir = os.path.dirname(glob.glob(f"{root}/usr/lib/*/libtutti.so")[0])
        lay_out(self.folder)
        with open(f"{libdir}/pkgconfig/tutti.pc") as file:
            self.assertIn("prefix=/usr\n", file.read())
        environment = {**os.environ, "PATH": f"{root}/usr/bin:{os.environ['PATH']}", "LD_LIBRARY_PATH": libdir,
                       "PKG_CONFIG_SYSROOT_DIR": root, "PKG_CONFIG_LIBDIR": f"{libdir}/pkgconfig",
                       "CMAKE_PREFIX_PATH": f"{root}/usr", "OMPI_ALLOW_RUN_AS_ROOT": "1",  # mpirun may be Open MPI's here
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}

        def run(line):
            if line.startswith(("tools/package ", "apt-get ")):
                return ""
            return call("sh", "-ec", f"exec 2>&1; {line}", cwd=self.folder, env=environment)

        self.the_lines_run(run)
        self.assertEqual(os.path.realpath(shutil.which("tutti", path=environment["PATH"])),
                         f"{os.path.realpath(root)}/usr/bin/tutti")

    @unittest.skipUnless(BARE, "the other form")
    def test_the_readmes_lines_run_on_a_bare_debian(self):
        if os.geteuid() != 0 or shutil.which("debootstrap") is None:
            self.skipTest("only root can make one, with debootstrap")
        root = f"{self.folder}/debian"
        call("debootstrap", "--variant=minbase", "bookworm", root, timeout=900)
        shutil.copy("/etc/resolv.conf", f"{root}/etc/resolv.conf")
        work = f"{root}/root/work"
        os.makedirs(work)
        shutil.copytree(f"{self.folder}/packages", f"{work}/packages")
        lay_out(work)
        mounts = [("proc", "proc"), ("tmpfs", "dev/shm")]
        os.makedirs(f"{root}/dev/shm", exist_ok=True)
        try:
            for kind, place in mounts:
                call("mount", "-t", kind, kind, f"{root}/{place}")
            def run(line):
                if line.startswith("tools/package "):
                    return ""
                return call("chroot", root, "sh", "-ec", f"exec 2>&1; cd /root/work && {line}", timeout=900,
                            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root"})

            self.the_lines_run(run)
            self.assertIn("libtutti.so.0", call("chroot", root, "ldconfig", "-p"))
            bench = call("chroot", root, "tutti-bench", "allreduce", "-n", "2", "--sizes", "8:1K")
            self.assertIn("algbw", bench)
        finally:
            for _, place in reversed(mounts):
                subprocess.run(["umount", f"{root}/{place}"], capture_output=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
