"""A bundle of what was built, moved, and used without an environment.

    bundle_test.py SOURCE BUILD
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (os.path.abspath(path) for path in sys.argv[1:3])
del sys.argv[1:3]
MAKE = f"{SOURCE}/tools/packaging/bundle.py"


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **more)


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        made = run(sys.executable, MAKE, SOURCE, BUILD, f"{cls.holder.name}/made")
        assert made.returncode == 0, made.stderr
        cls.said = made.stdout
        cls.folder = f"{cls.holder.name}/moved"
        os.rename(f"{cls.holder.name}/made", cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def run_inside(self, *command):
        return run(f"{self.folder}/{command[0]}", *command[1:], env={}, cwd="/")

    def test_it_says_its_size_and_what_it_needs(self):
        self.assertRegex(self.said, r"[0-9.]+ MiB, needs an x86-64 Linux with glibc 2\.\d+ or later")
        with open(f"{self.folder}/about.json") as file:
            about = json.load(file)
        self.assertRegex(about["commit"], r"^[0-9a-f]{40}(-changed)?$")
        self.assertIn("version", about["build"])

    def test_programs_run_in_an_empty_environment(self):
        info = self.run_inside("bin/tutti", "info")
        self.assertEqual(info.returncode, 0, info.stderr)
        self.assertIn("tutti ", info.stdout)
        bench = self.run_inside("bin/tutti-bench", "allreduce", "-n", "2", "--sizes", "64", "--batches", "2", "--algorithms", "auto")
        self.assertEqual(bench.returncode, 0, bench.stderr)
        self.assertIn("all right", bench.stdout)
        soak = self.run_inside("bin/tutti-soak", "--ranks", "2", "--transport", "inproc,shm", "--cores", "crowded", "--stretch", "1", "--rounds", "1")
        self.assertEqual(soak.returncode, 0, soak.stderr)
        self.assertRegex(soak.stdout, r"shm +2 processes")

    def test_all_libraries_but_the_c_librarys_are_its_own(self):
        programs = [f"{self.folder}/bin/{name}" for name in os.listdir(f"{self.folder}/bin")]
        for at, _, names in os.walk(f"{self.folder}/tests"):
            programs += [f"{at}/{name}" for name in names]
        for at, _, names in os.walk(f"{self.folder}/lib"):  # opened only when it is asked for
            programs += [f"{at}/{name}" for name in names if name.startswith("libuc")]
        self.assertGreater(len(programs), 2)
        for program in programs:
            for line in run("/lib64/ld-linux-x86-64.so.2", "--list", program, env={}).stdout.splitlines():
                found = re.match(r"\s*(\S+) => (\S+)", line)
                if not found or re.match(r"(ld-linux|linux-vdso|lib(c|m|pthread|dl|rt|resolv)\.)", found[1]):
                    continue
                self.assertTrue(os.path.realpath(found[2]).startswith(os.path.realpath(self.folder)), f"{program}: {line}")

    def test_it_has_what_gpu_check_tries_first(self):
        if not glob.glob(f"{BUILD}/tests/gpu/*_test"):
            self.skipTest("built without kernels")
        with open(f"{SOURCE}/tools/gpu-check") as file:
            first = re.findall(r'"(\w+)"', re.search(r"^FIRST_TESTS = \((.*)\)", file.read(), re.MULTILINE)[1])
        self.assertGreater(len(first), 2)
        self.assertLessEqual(set(first), set(os.listdir(f"{self.folder}/tests/gpu")))

    def test_it_has_ucx_where_the_library_can_use_it(self):
        described = re.search(r"^ *ucx +(.*)$", self.run_inside("bin/tutti", "info").stdout, re.MULTILINE)
        if not described or "usable" not in described[1]:
            self.skipTest("the library was built without UCX")
        opened = self.run_inside("bin/tutti-bench", "allreduce", "-n", "2", "--sizes", "64", "--batches", "2", "--algorithms", "ring",
                                 "--transport", "ucx")
        self.assertEqual(opened.returncode, 0, opened.stderr)
        self.assertTrue(os.path.exists(f"{self.folder}/lib/libucp.so.0"))

    def test_a_folder_with_something_else_in_it_stays(self):
        with tempfile.TemporaryDirectory() as other:
            open(f"{other}/mine", "w").close()
            refused = run(sys.executable, MAKE, SOURCE, BUILD, other)
            self.assertEqual(refused.returncode, 1)
            self.assertEqual(refused.stderr, f"tools/bundle: {other} is not empty and no bundle\n")
            self.assertEqual(os.listdir(other), ["mine"])

    def test_the_trainers_sources_configure_and_include_only_what_is_there(self):
        machine = run("c++", "-print-multiarch").stdout.strip()
        if not os.path.exists("/usr/include/torch/csrc/api/include/torch/nn.h"):
            self.skipTest("LibTorch is not installed (tools/setup train)")
        source, configured = f"{self.folder}/source", f"{self.holder.name}/configured"
        torch = f"{self.holder.name}/torch"  # laid out as PyPI's is
        os.makedirs(f"{torch}/include")
        for name in ("ATen", "c10", "caffe2", "torch"):
            os.symlink(f"/usr/include/{name}", f"{torch}/include/{name}")
        os.symlink(f"/usr/lib/{machine}", f"{torch}/lib")
        made = run("meson", "setup", f"-Dlibtorch={torch}", configured, source)
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        targets = json.loads(run("meson", "introspect", "--targets", configured).stdout)
        self.assertIn("tutti-train", [target["name"] for target in targets])
        left = [os.path.relpath(path, source) for target in targets for part in target["target_sources"]
                for path in part.get("sources", []) if path.startswith(source)]
        self.assertGreater(len(left), 30)
        seen = set()
        while left:
            name = left.pop()
            if name in seen:
                continue
            seen.add(name)
            self.assertTrue(os.path.exists(f"{source}/{name}"), f"{name} is not in the bundle")
            with open(f"{source}/{name}") as file:
                left += [found for found in re.findall(r'^#include "(.+)"', file.read(), re.MULTILINE) if not found.startswith("tutti/")]

    def test_without_libtorch_the_trainer_is_refused_in_one_line(self):
        refused = self.run_inside("build-trainer", "/no/such/folder")
        self.assertEqual(refused.returncode, 2)
        self.assertEqual(refused.stderr, "build-trainer: no LibTorch at /no/such/folder\n")


if __name__ == "__main__":
    if not shutil.which("patchelf"):
        print("skipped: patchelf is not installed (tools/setup bundle)")
        sys.exit(77)
    unittest.main(verbosity=2)
