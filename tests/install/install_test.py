"""Installs into a folder of its own and uses what is there as a stranger would: a C11 program by
pkg-config, a C++ program by CMake, and both by Meson, each alone and under the installed `tutti run`.

    install_test.py BUILD_FOLDER PREFIX LIBDIR [--long]
"""

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

LONG = "--long" in sys.argv  # also what compiles the library itself
BUILD, PREFIX, LIBDIR = sys.argv[1:4]
del sys.argv[1:5 if LONG else 4]
HERE = os.path.dirname(os.path.abspath(__file__))


def call(*words, timeout=100, **environment):
    """stdout of a command that must succeed."""
    result = subprocess.run(words, capture_output=True, text=True, timeout=timeout,
                            env={**os.environ, **environment})
    if result.returncode != 0:
        raise AssertionError(f"{shlex.join(words)}: exit status {result.returncode}\n"
                             f"{result.stdout}{result.stderr}")
    return result.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tutti-install-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        call("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", f"{cls.folder}/root")
        cls.sysroot = f"{cls.folder}/root"
        cls.prefix = cls.sysroot + PREFIX
        cls.libdir = f"{cls.prefix}/{LIBDIR}"

    def pkg_config(self, *words):
        return shlex.split(call("pkg-config", *words, "tutti", PKG_CONFIG_SYSROOT_DIR=self.sysroot,
                                PKG_CONFIG_LIBDIR=f"{self.libdir}/pkgconfig"))

    def sums_up(self, program):
        """Alone and as one of two ranks started by the installed launcher."""
        where = {"LD_LIBRARY_PATH": self.libdir}
        self.assertIn("rank 0 of 1: right", call(program, **where))
        both = call(f"{self.prefix}/bin/tutti", "run", "-n", "2", program, **where)
        self.assertEqual([line.split(":")[0] for line in sorted(both.splitlines())],
                         ["rank 0 of 2", "rank 1 of 2"])

    def test_a_c11_program_by_pkg_config(self):
        program = f"{self.folder}/c_user"
        call("cc", "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", f"{HERE}/c_user/main.c",
             "-o", program, *self.pkg_config("--cflags", "--libs"))
        self.sums_up(program)

    def test_the_version_of_pkg_config_is_the_headers(self):
        with open(f"{self.prefix}/include/tutti/tutti.h") as file:
            lines = file.read().splitlines()
        parts = [line.split()[2] for line in lines if line.startswith("#define TUTTI_VERSION_")]
        self.assertEqual(self.pkg_config("--modversion"), [".".join(parts)])

    def test_a_cpp_program_by_cmake(self):
        if shutil.which("cmake") is None:
            self.skipTest("there is no cmake")
        build = f"{self.folder}/cmake"
        call("cmake", "-G", "Ninja", "-S", f"{HERE}/cmake_user", "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        call("cmake", "--build", build)
        self.sums_up(f"{build}/user")

    def meson_user(self, name):
        source = f"{self.folder}/{name}"
        shutil.copytree(f"{HERE}/meson_user", source)
        shutil.copy(f"{HERE}/c_user/main.c", source)
        shutil.copy(f"{HERE}/cmake_user/main.cc", source)
        return source

    def test_c_and_cpp_programs_by_meson(self):
        source = self.meson_user("meson_installed")
        call("meson", "setup", "--wrap-mode=nofallback", f"{source}/build", source,
             PKG_CONFIG_SYSROOT_DIR=self.sysroot, PKG_CONFIG_LIBDIR=f"{self.libdir}/pkgconfig")
        call("ninja", "-C", f"{source}/build")
        for program in ("c_user", "cpp_user"):
            self.sums_up(f"{source}/build/{program}")

    def test_as_a_meson_subproject_it_is_the_library_alone(self):
        source = self.meson_user("meson_subproject")
        os.mkdir(f"{source}/subprojects")
        os.symlink(os.path.dirname(os.path.dirname(HERE)), f"{source}/subprojects/tutti")
        call("meson", "setup", "--wrap-mode=forcefallback", "-Dtutti:instruction_sets=native", "-Dtutti:gpu_kernels=false",
             f"{source}/build", source)
        targets = json.loads(call("meson", "introspect", f"{source}/build", "--targets"))
        programs = [target["name"] for target in targets if target["type"] == "executable"]
        self.assertEqual(sorted(programs), ["c_user", "cpp_user"])
        self.assertEqual([target["name"] for target in targets if target["type"] == "shared library"], ["tutti"])
        if not LONG:
            return
        call("ninja", "-C", f"{source}/build", "c_user", "cpp_user", timeout=1500)
        for program in ("c_user", "cpp_user"):
            self.assertIn("rank 0 of 1: right", call(f"{source}/build/{program}"))

    def fetching(self, folder, *options, **environment):
        """Configures the CMake project that compiles tutti along with itself: the command's result."""
        # What CMake makes is never installed, so it may be for this machine alone.
        few = "-DTUTTI_MESON_OPTIONS=-Dtutti:instruction_sets=native;-Dtutti:gpu_kernels=false"
        return subprocess.run(["cmake", "-G", "Ninja", "-S", f"{HERE}/cmake_fetching", "-B", folder, few,
                               f"-DTUTTI_SOURCE={os.path.dirname(os.path.dirname(HERE))}", *options],
                              capture_output=True, text=True, timeout=150, env={**os.environ, **environment})

    def test_as_part_of_a_cmake_project_it_is_the_library_alone(self):
        if shutil.which("cmake") is None:
            self.skipTest("there is no cmake")
        build = f"{self.folder}/cmake_fetching"
        ninja = f"{self.folder}/ninja"
        with open(ninja, "w") as file:  # compiles the library only in the long form: else it is the one built already
            file.write(f"""#!/bin/sh
for word in "$@"; do case $word in */libtutti.so.*) [ -n '{"1" if LONG else ""}' ] ||
  exec cp -L '{BUILD}/lib/api/libtutti.so.0' "$2/$word";; esac; done
exec {shutil.which("ninja")} "$@"
""")
        os.chmod(ninja, 0o755)
        configured = self.fetching(build, f"-DTUTTI_NINJA={ninja}")
        self.assertEqual(configured.returncode, 0, configured.stdout + configured.stderr)
        self.assertIn("meson setup", configured.stdout)
        call("cmake", "--build", build, timeout=1500)
        for program in ("c_user", "cpp_user"):
            self.assertIn("rank 0 of 1: right", call(f"{build}/{program}"))
            self.assertIn(f"{build}/_deps/tutti-build/", call("ldd", f"{build}/{program}"))
        targets = json.loads(call("meson", "introspect", f"{build}/_deps/tutti-build/meson-build", "--targets"))
        self.assertEqual([target["name"] for target in targets if target["type"] in ("executable", "shared library")],
                         ["tutti"])
        call("cmake", "--install", build, "--prefix", f"{build}/installed")
        self.assertEqual(sorted(os.listdir(f"{build}/installed/lib")), ["libtutti.so.0", "libtutti.so.0.1.0"])
        again = self.fetching(build)  # nothing has changed
        self.assertEqual((again.returncode, "meson setup" in again.stdout), (0, False), again.stderr)

    def test_a_cmake_project_is_told_what_tutti_needs(self):
        if shutil.which("cmake") is None:
            self.skipTest("there is no cmake")
        for number, (options, environment, words) in enumerate((
                (["-DTUTTI_MESON="], {}, ("TUTTI_MESON is not found", "tools/setup build")),
                (["-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64"], {}, ("--cross-file=FILE",)),
                ([], {"PKG_CONFIG_LIBDIR": "/nowhere", "CMAKE_PREFIX_PATH": "/nowhere"},
                 ("tools/setup build", "Meson says", "libhwy")))):
            with self.subTest(words[0]):
                result = self.fetching(f"{self.folder}/told{number}", *options, **environment)
                self.assertEqual(result.returncode, 1, result.stdout)
                for word in words:
                    self.assertIn(word, " ".join(result.stderr.split()))

    def test_the_cmake_package_refuses_another_version(self):
        if shutil.which("cmake") is None:
            self.skipTest("there is no cmake")
        source = f"{self.folder}/other_version"
        shutil.copytree(f"{HERE}/cmake_user", source)
        with open(f"{source}/CMakeLists.txt") as file:
            text = file.read()
        for version in ("0.0", "0.2", "1.0"):
            with open(f"{source}/CMakeLists.txt", "w") as file:
                file.write(text.replace("tutti 0.1", f"tutti {version}"))
            result = subprocess.run(["cmake", "-G", "Ninja", "-S", source, "-B", f"{source}/build",
                                     f"-DCMAKE_PREFIX_PATH={self.prefix}"], capture_output=True, text=True)
            self.assertNotEqual(result.returncode, 0, version)
            self.assertIn("compatible with requested version", " ".join(result.stderr.split()))

    def test_header_map_and_library_have_the_same_functions(self):
        with open(f"{self.prefix}/include/tutti/tutti.h") as file:
            header = re.findall(r"^TUTTI_API[^;(]*?\b(tutti_\w+)\(", file.read(), re.MULTILINE)
        self.assertGreater(len(header), 100)
        self.assertEqual(len(header), len(set(header)))
        listed, node = [], None
        with open(f"{HERE}/../../lib/tutti.map") as file:
            for line in file:
                if line.startswith("TUTTI_"):
                    node = line.split()[0]
                elif re.fullmatch(r" *tutti_\w+;\n", line):
                    listed.append(f"{line.strip(' ;' + chr(10))}@@{node}")
        self.assertEqual(sorted(name.split("@")[0] for name in listed), sorted(header))
        exported = [line.split()[-1] for line in
                    call("nm", "-D", "--defined-only", f"{self.libdir}/libtutti.so").splitlines()
                    if line.split()[-2] != "A"]  # not the nodes themselves
        self.assertEqual(sorted(exported), sorted(listed))

    def test_the_soname_is_what_programs_ask_for(self):
        dynamic = call("readelf", "-d", f"{self.libdir}/libtutti.so")
        self.assertIn("Library soname: [libtutti.so.0]", dynamic)

    def test_manual_pages_have_every_subcommand_and_option(self):
        programs = [os.path.basename(path) for path in glob.glob(f"{self.prefix}/bin/*")]
        pages = [os.path.basename(path)[:-2] for path in glob.glob(f"{self.prefix}/share/man/man1/*.1")]
        self.assertEqual(sorted(pages), sorted(programs))
        self.assertIn("tutti-bench", pages)
        for name in pages:
            path = f"{self.prefix}/share/man/man1/{name}.1"
            with open(path) as file:
                text = file.read().replace("\\-", "-")
            self.assertIn(f"\n{name} - ", text)
            self.assertEqual(text.count("\n.SH SYNOPSIS\n"), 1)
            if shutil.which("groff"):
                said = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", path], capture_output=True, text=True)
                self.assertEqual((said.returncode, said.stderr), (0, ""))
            if name == "tutti":  # as the program says
                program = f"{self.prefix}/bin/tutti"
                where = {"LD_LIBRARY_PATH": self.libdir}
                for command in ("run", "mpi", "info", "show", "tune", "verify"):
                    self.assertIn(f'.SH "TUTTI {command.upper()}"', text)
                    own = text.partition(f'.SH "TUTTI {command.upper()}"')[2].partition(".SH ")[0]
                    for option in re.findall(r"^  (-\S+)", call(program, command, "--help", **where), re.MULTILINE):
                        if option != "-h,--help":
                            self.assertIn(option, own)

    def test_nothing_else_is_installed(self):
        files = [os.path.relpath(path, self.prefix) for path in
                 glob.glob(f"{self.prefix}/**", recursive=True) if not os.path.isdir(path)]
        allowed = ("bin/tutti", "include/tutti/", f"{LIBDIR}/libtutti.so", f"{LIBDIR}/libtutti-mpi-", f"{LIBDIR}/pkgconfig/tutti.pc",
                   f"{LIBDIR}/cmake/tutti/", "share/man/man1/tutti")
        self.assertEqual([path for path in files if not path.startswith(allowed)], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
