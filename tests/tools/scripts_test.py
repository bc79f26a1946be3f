"""What the scripts of tools/ say while they wait and build, without a terminal.

    scripts_test.py TOOLS_FOLDER
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

COMMON = os.path.join(os.path.abspath(sys.argv.pop(1)), "common.sh")

# What a build takes seconds for.
NINJA = """#!/bin/bash
for i in 1 2 3 4; do echo "[$i/8] Compiling C++ object $i.o"; sleep 0.7; done
[ "$3" != broken ] || { echo "the compiler's complaint"; exit 1; }
"""


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = folder.name
        os.mkdir(f"{self.build}/bin")
        with open(f"{self.build}/bin/ninja", "w") as file:
            file.write(NINJA)
        os.chmod(f"{self.build}/bin/ninja", 0o755)

    def begin(self, commands):
        return subprocess.Popen(["bash", "-c", f"source {COMMON}; report_s=1; {commands}"], text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**os.environ, "TUTTI_BUILD_DIR": self.build,
                                     "PATH": f"{self.build}/bin:{os.environ['PATH']}"})

    def run_script(self, commands):
        script = self.begin(commands)
        out, err = script.communicate(timeout=60)
        return script.returncode, out, err

    def test_a_build_says_how_far_it_is(self):
        code, out, err = self.run_script("compile all")
        self.assertEqual((code, out), (0, ""))
        self.assertRegex(err, r"building: [1-4] of 8 files, about \d+ s left\n")

    def test_a_short_build_says_nothing(self):
        self.assertEqual(self.run_script("report_s=15; compile all"), (0, "", ""))

    def test_what_fails_is_shown_without_what_went_well(self):
        code, out, err = self.run_script("report_s=15; compile broken")
        self.assertEqual((code, out, err), (1, "", "the compiler's complaint\nthe build failed\n"))

    def test_who_waits_for_another_script_says_for_whom(self):
        first = self.begin("lock_build; echo locked; sleep 2.5")
        self.assertEqual(first.stdout.readline(), "locked\n")
        begun = time.monotonic()
        code, out, err = self.run_script("lock_build; echo locked")
        first.communicate()
        self.assertEqual((code, out), (0, "locked\n"))
        self.assertGreater(time.monotonic() - begun, 1)
        lines = set(err.splitlines())
        self.assertEqual(len(lines), 1, err)
        self.assertRegex(lines.pop(), rf"^waiting for .+ \(process {first.pid}\), which works in {re.escape(self.build)}$")

    def test_tests_say_how_far_they_are(self):
        code, out, err = self.run_script(
            "ended=0 tests= told=0 started=0; "
            "{ echo ' 1/2 tutti:tools / one  OK  0.1s'; sleep 2.5; echo ' 2/2 tutti:tools / two  OK  2.5s'; } | follow report_tests")
        self.assertEqual(code, 0)
        self.assertEqual(len(out.splitlines()), 2)
        self.assertRegex(err, r"testing: 1 of 2 ended in \d+ s\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
