"""What tutti-soak notices, and how it goes on.

    soak_test.py SOAK LIAR
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOAK, LIAR = (os.path.abspath(path) for path in sys.argv[1:3])
del sys.argv[1:3]


def run(*arguments, lie=None, ranks="2", transport="shm"):
    environment = dict(os.environ)
    if lie:
        environment |= {"LD_PRELOAD": LIAR, "LIAR": lie}
    return subprocess.run([SOAK, "--ranks", ranks, "--transport", transport, "--cores", "crowded", *arguments], capture_output=True, text=True,
                          timeout=240, env=environment)


def brief(*arguments, **more):
    return run("--steps", "60", "--rounds", "1", *arguments, **more)


class PeerStatusPage(unittest.TestCase):
    def test_nothing_where_nothing_is_wrong(self):
        for transport in ("shm", "inproc", "tcp"):
            done = brief(transport=transport, ranks="2,3")
            self.assertEqual(done.returncode, 0, done.stderr)

    def check_wrong(self, lie, text):
        done = brief(lie=lie)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, r"WRONG on rank [01] of 2, thread 0, step \d+, .*: allreduce of " + text)
        self.assertRegex(done.stderr, r"again: tools/soak --transport shm --ranks 2 --cores crowded --seed 1 --steps 60 --rounds 1\n")

    def test_a_wrong_result(self):
        self.check_wrong("result", r".*receive vector of (\d+) bytes: 1 wrong")

    def test_a_changed_input(self):
        self.check_wrong("input", r".*send vector of (\d+) bytes: 1 wrong, from byte 0 ")

    def test_a_byte_behind_the_result(self):
        self.check_wrong("guard", r".*receive vector of (\d+) bytes: 1 wrong")

    def test_a_call_that_does_not_end(self):
        done = brief("--timeout", "1", lie="late")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("TIMEOUT", done.stderr)
        self.assertRegex(done.stdout, r"all .* 1 +0\n")  # one hang

    def test_ranks_that_do_nothing_at_all(self):
        done = brief("--timeout", "0.5", lie="stuck")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, r"HANG: shm, 2 ranks crowded\n(.*\n)*.*rank 1, thread 0 calls in step \d+, call \d+ of \d+: barrier")
        self.assertRegex(done.stdout, r"all .* 1 +0\n")


class GoesOn(unittest.TestCase):
    def test_by_the_state_file(self):
        with tempfile.TemporaryDirectory() as folder:
            state = ["--state", f"{folder}/state", "--seed", "5"]
            first = brief(*state)
            self.assertEqual(first.returncode, 0, first.stderr)
            with open(f"{folder}/state") as file:
                before = json.load(file)["configurations"][0]
            second = run("--steps", "60", "--rounds", "2", *state, "--json", f"{folder}/json")
            self.assertEqual(second.returncode, 0, second.stderr)
            with open(f"{folder}/json") as file:
                after = json.load(file)["configurations"][0]
            self.assertEqual((before["stretches"], after["stretches"]), (1, 2))
            self.assertGreater(after["calls"], before["calls"])
            refused = brief("--state", f"{folder}/state", "--seed", "6")
            self.assertEqual(refused.returncode, 1)
            self.assertRegex(refused.stderr, "is of a run with another seed or other configurations\n$")

    def test_an_interrupted_stretch_is_made_again(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [SOAK, "--ranks", "2", "--transport", "shm", "--cores", "crowded", "--stretch", "2", "--state", f"{folder}/state"]
            running = subprocess.Popen([*command, "--rounds", "50"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            while not os.path.exists(f"{folder}/state"):
                time.sleep(0.1)
            running.send_signal(signal.SIGINT)
            running.communicate(timeout=60)
            self.assertEqual(running.returncode, 130)
            with open(f"{folder}/state") as file:
                done = json.load(file)["configurations"][0]
            self.assertIn(done["stretches"], (1, 2))
            again = subprocess.run([*command, "--rounds", str(done["stretches"] + 1)], capture_output=True, text=True, timeout=60)
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertIn(f" 1-{done['stretches'] + 1} ", again.stdout)


class Refuses(unittest.TestCase):
    def test_what_there_is_not(self):
        for arguments in (["--transport", "carrier-pigeon"], ["--ranks", "0"], ["--no-such-option"]):
            done = subprocess.run([SOAK, *arguments], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
