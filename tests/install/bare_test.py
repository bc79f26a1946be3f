"""The READMEs' lines for newcomers, as they are written, in a bare Debian 12, which debootstrap makes (as root).

    bare_test.py SOURCE_ROOT     status 77: only root can make one, with debootstrap

Programs in C, C++ and of MPI, Python and PyTorch each have such a system, with a clone of the repository, what is committed, and
nothing else. pip gets packages from where it gets them here: its settings and variables come along, with the certificates and
folders that they name."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import newcomers
from newcomers import call

ROOT = os.path.abspath(sys.argv.pop(1))
if os.geteuid() != 0 or shutil.which("debootstrap") is None:
    sys.exit(77)


def settings_of_pip():
    """What pip is told here, as variables for a system that has this one's files in /host."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    settings = {}
    for name, value in re.findall(r"^(?!:env:)[^.\n]*\.([^=\n]+)=(.+)$", listed, re.MULTILINE):
        settings["PIP_" + name.upper().replace("-", "_")] = str(ast.literal_eval(value))
    settings.update((name, value) for name, value in os.environ.items() if name.startswith("PIP_"))
    settings.pop("PIP_CONFIG_FILE", None)  # which the list above has read
    there = re.compile(r"(?<!\S)(file://)?(?=/)")
    return {name: there.sub(r"\1/host", value) for name, value in settings.items()}


class Debian:
    """A bare system in a folder. What it mounts, only its own processes see."""

    MOUNT = """
        mount -t proc proc "$0/proc"
        mount -t tmpfs tmpfs "$0/dev/shm"
        mount --bind / "$0/host"
        mount -o remount,bind,ro "$0/host"
        exec chroot "$0" "$@"
    """

    def __init__(self, folder):
        self.folder = folder
        proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
        self.environment = {"HOME": "/root", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                            "DEBIAN_FRONTEND": "noninteractive", **proxies, **settings_of_pip()}

    def bash(self, script, place="/root"):
        return call("unshare", "--mount", "sh", "-ec", self.MOUNT, self.folder, "bash", "-ec", f"exec 2>&1\ncd {place}\n{script}",
                    env=self.environment, timeout=3600)


class Newcomers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory(prefix="tutti-bare-test-")
        cls.addClassCleanup(holder.cleanup)
        cls.folder = holder.name
        pristine = f"{cls.folder}/pristine"
        call("debootstrap", "--variant=minbase", "bookworm", pristine, timeout=1800)
        for name in ("resolv.conf", "hosts"):
            shutil.copy(f"/etc/{name}", f"{pristine}/etc/{name}")
        for place in ("host", "dev/shm", "root/project"):
            os.makedirs(f"{pristine}/{place}", exist_ok=True)
        call("git", "clone", "--quiet", ROOT, f"{pristine}/root/tutti")

    def system(self, name):
        call("cp", "-a", f"{self.folder}/pristine", f"{self.folder}/{name}")
        debian = Debian(f"{self.folder}/{name}")
        self.addCleanup(shutil.rmtree, debian.folder)
        return debian

    def the_lines_run(self, debian, way, place, readme=newcomers.TOP):
        newcomers.lay_out(ROOT, way, debian.folder + place)
        shell = newcomers.lines(ROOT, way, readme)
        newcomers.check(self, way, shell, debian.bash("\n".join(shell), place))

    def test_a_c_program_one_by_cmake_and_one_of_mpi(self):
        debian = self.system("programs")
        self.the_lines_run(debian, "C", "/root/tutti")
        self.the_lines_run(debian, "CMake", "/root/project")
        self.the_lines_run(debian, "MPI", "/root/tutti")
        self.assertIn("libtutti.so.0", debian.bash("ldconfig -p"))
        self.assertIn("algbw", debian.bash("tutti-bench allreduce -n 2 --sizes 8:1K"))

    def test_python(self):
        debian = self.system("python")
        self.the_lines_run(debian, "Python", "/root/tutti")
        self.the_lines_run(debian, "Python", "/root/tutti", newcomers.PYTHON)

    def test_pytorch(self):
        debian = self.system("pytorch")
        self.the_lines_run(debian, "PyTorch", "/root/tutti")
        if newcomers.lines(ROOT, "PyTorch") != newcomers.lines(ROOT, "PyTorch", newcomers.TORCH):
            self.the_lines_run(debian, "PyTorch", "/root/tutti", newcomers.TORCH)


if __name__ == "__main__":
    unittest.main(verbosity=2)
