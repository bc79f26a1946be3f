"""tools/gpu-check where there is no GPU, and what it makes of a part.

    gpu_check_test.py GPU_CHECK
"""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))


def load():
    loader = importlib.machinery.SourceFileLoader("gpu_check", PROGRAM)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_without_gpu(self, *arguments):
        with tempfile.TemporaryDirectory() as no_driver:
            open(f"{no_driver}/libcuda.so.1", "w").close()  # nothing that can be loaded, whatever the machine has
            return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60, cwd=self.folder,
                                  env={**os.environ, "LD_LIBRARY_PATH": no_driver})

    def test_without_a_gpu_it_says_so_and_ends(self):
        for arguments in ((), ("--part", "3"), ("/no/such/bundle",)):
            done = self.run_without_gpu(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, r"^gpu-check: there is no GPU here: .*\n$")
            self.assertEqual(os.listdir(self.folder), [])

    def test_an_unknown_part_is_refused(self):
        done = self.run_without_gpu("--part", "9")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--part", done.stderr)

    def part(self):
        return load().Part(1, "a part", "/bundle", self.folder, {"gpus": ["one"]})

    def written(self):
        with open(f"{self.folder}/part-1.json") as file:
            return json.load(file)

    def test_results_are_written_after_each_check(self):
        part = self.part()
        part.check("says something", ["sh", "-c", "echo said; exit 3"])
        report = self.written()
        self.assertEqual(report["gpus"], ["one"])
        self.assertEqual([(c["name"], c["result"], c["output"]) for c in report["checks"]],
                         [("says something", "failed: exit status 3", "said\n")])
        with open(f"{self.folder}/part-1.txt") as file:
            self.assertIn("== says something: failed: exit status 3", file.read())
        self.assertFalse(part.passed())

    def test_the_end_of_what_a_failed_check_says_is_shown(self):
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            self.part().check("says something", ["sh", "-c", "seq 100; exit 3"])
        self.assertIn("failed: exit status 3", shown.getvalue())
        self.assertIn("      100\n", shown.getvalue())
        self.assertNotIn("      50\n", shown.getvalue())

    def test_ucx_is_tried_where_it_is_for_memory_of_gpus(self):
        for said, expected in (("also for memory of GPUs", ["broadcast", "allgather", "alltoall", "gather", "scatter"]),
                               ("not for memory of GPUs", ["straight"])):
            bundle = f"{self.folder}/{said[:4].strip()}"
            os.makedirs(f"{bundle}/bin")
            for name in ("tutti", "tutti-bench"):
                with open(f"{bundle}/bin/{name}", "w") as file:
                    file.write(f"#!/bin/sh\necho ucx usable: {said}; env | grep ^TUTTI_\n")
                os.chmod(f"{bundle}/bin/{name}", 0o755)
            gpu_check = load()
            part = gpu_check.Part(1, "a part", bundle, self.folder, {"gpus": ["one"]})
            gpu_check.straight_by_ucx(part)
            checks = self.written()["checks"]
            self.assertEqual([check["name"].split()[0] for check in checks], expected)
            self.assertEqual("TUTTI_UCX_DEVICE=always" in checks[0].get("output", ""), len(expected) > 1)

    def test_children_are_found_in_their_order(self):
        begun = [subprocess.Popen(["sleep", "60"]) for _ in range(3)]
        try:
            self.assertEqual([child for child in load().children(os.getpid()) if child in [one.pid for one in begun]],
                             [one.pid for one in begun])
        finally:
            for one in begun:
                one.kill()
                one.wait()

    def test_what_does_not_end_is_killed_with_all_that_it_started(self):
        part = self.part()
        part.check("sleeps", ["sh", "-c", "sleep 60 & wait"], 1)
        self.assertEqual(self.written()["checks"][0]["result"], "failed: not done within 1 s")
        self.assertLess(self.written()["checks"][0]["seconds"], 20)

    def test_nothing_begins_when_the_parts_time_is_over(self):
        part = self.part()
        part.begun -= 1000
        part.check("never", ["false"])
        self.assertIn("not run", self.written()["checks"][0]["result"])
        self.assertFalse(part.passed())


if __name__ == "__main__":
    unittest.main(verbosity=2)
