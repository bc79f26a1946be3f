"""`tutti doctor`, what `tutti run` says of a job that has failed, and TUTTI_LOG.

    doctor_test.py TUTTI JOB
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

JOB = os.path.abspath(sys.argv.pop(2))
TUTTI = os.path.abspath(sys.argv.pop(1))
CALL = r"allreduce of 4 float32, sum, [a-z-]+"


def run(*options, ending="", **variables):
    environment = {**os.environ, "TUTTI_TIMEOUT_MS": "1500", **variables}
    return subprocess.run([TUTTI, "run", "-n", "3", *options, JOB, ending], capture_output=True, text=True,
                          timeout=60, env=environment)


def doctor(*words):
    environment = {name: value for name, value in os.environ.items() if name != "TUTTI_RECORD_DIR"}
    return subprocess.run([TUTTI, "doctor", *words], capture_output=True, text=True, timeout=60, env=environment)


class Run(unittest.TestCase):
    def diagnosis(self, result):
        found = re.findall("^tutti run: diagnosis: (.*)$", result.stderr, re.MULTILINE)
        self.assertEqual(len(found), 1, result.stderr)
        return found[0]

    def test_a_job_without_failure_says_nothing(self):
        result = run()
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_says_who_was_killed_and_in_which_call_others_met_it(self):
        for transport in ("shm", "tcp"):
            result = run("--transport", transport, ending="kill")
            self.assertEqual(result.returncode, 128 + 9)
            self.assertRegex(self.diagnosis(result),
                             rf"^rank 1 \(process \d+ on .+\) was ended by signal 9 \(Killed\) after call 2, {CALL}; "
                             rf"rank [02] found out over {transport} in call 3, {CALL}$")

    def test_says_who_was_stopped_though_all_are_gone_by_then(self):
        self.assertRegex(self.diagnosis(run(ending="stop")),
                         rf"^rank 1 .* is stopped, by a signal or a debugger, after call 2, {CALL}, before call 3, "
                         rf"{CALL}; rank [02] waited for it over shm until the deadline$")

    def test_says_at_the_timeout_for_whom_the_job_waits(self):
        result = run("--timeout", "2", ending="late", TUTTI_TIMEOUT_MS="30000")
        self.assertEqual(result.returncode, 124)
        self.assertRegex(self.diagnosis(result),
                         rf"^rank 1 .* has not entered call 3, {CALL}: its latest is call 2, {CALL}, [\d.]+ m?s "
                         rf"before; rank [02] waited for it over shm for [\d.]+ s$")

    def test_fails_on_purpose(self):
        for action, says in (("kill", r"was ended by signal 9 \(Killed\)"), ("stop", "is stopped, by a signal or a debugger,")):
            found = self.diagnosis(run("--fault", f"rank 2 {action} at call 3"))
            self.assertRegex(found, rf"^rank 2 \(process \d+ on .+\) {says} after call 2, {CALL}[;,]")
        result = run("--fault", "rank 1 kill at call 4")  # there are three
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_faults_that_cannot_be_are_refused(self):
        for fault, sentence in (("rank 3 kill at call 1", "ranks are 0 to 2"), ("kill at call 1", "must be 'rank R kill at"),
                                ("rank 1 burn at call 1", "the fault is 'burn at call 1', but must be 'kill at call N'"),
                                ("rank 1 kill at call 0", "but must be"), ("rank 1 kill at call 1x", "but must be")):
            result = run("--fault", fault)
            self.assertEqual(result.returncode, 2)
            self.assertIn(sentence, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)
        result = run("--fault", "rank 1 kill at call 1", "--fault", "rank 1 stop at call 2")
        self.assertIn("rank 1 has two", result.stderr)

    def test_leaves_no_folder_behind(self):
        for script in ("echo $TUTTI_RECORD_DIR", "echo $TUTTI_RECORD_DIR; kill -9 $$"):
            result = subprocess.run([TUTTI, "run", "-n", "1", "sh", "-c", script], capture_output=True, text=True,
                                    timeout=60)
            self.assertRegex(result.stdout, "^/.*/tutti-record-")
            self.assertFalse(os.path.exists(result.stdout.strip()))


class Doctor(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = place.name

    def test_of_a_job_that_is_well(self):
        self.assertEqual(run(TUTTI_RECORD_DIR=self.folder).returncode, 0)
        result = doctor(self.folder)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stdout, "nothing is wrong: 3 processes, 1 communicator, 3 calls; all have ended in "
                                        "order\n")
        self.assertEqual(json.loads(doctor("--json", self.folder).stdout)["finding"], "healthy")

    def test_of_a_job_that_has_failed(self):
        run(ending="exit", TUTTI_RECORD_DIR=self.folder)
        result = doctor(self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout.count("\n"), 1)
        self.assertRegex(result.stdout, rf"^rank 1 \(process \d+ on .+\) has ended by exit after call 2, {CALL}; rank")
        told = json.loads(doctor("--json", self.folder).stdout)
        self.assertEqual((told["finding"], told["who"]["rank"], told["call"]["number"], told["link"]),
                         ("left", 1, 3, "shm"))
        self.assertEqual(told["sentence"], result.stdout.strip())
        self.assertEqual(told["communicator"]["ranks"], 3)
        self.assertIn("rank 1", told["why"])

    def test_a_damaged_file_is_named_and_the_others_count(self):
        self.assertEqual(run(TUTTI_RECORD_DIR=self.folder).returncode, 0)
        with open(self.folder + "/bad.record", "w") as file:
            file.write("not this")
        result = doctor(self.folder)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stderr, f"tutti: doctor: {self.folder}/bad.record is no flight record: it is too "
                                        "short\n")
        self.assertEqual(len(json.loads(doctor("--json", self.folder).stdout)["unreadable"]), 1)

    def test_bad_input(self):
        with open(self.folder + "/bad.record", "w") as file:
            file.write("not this")
        empty = tempfile.TemporaryDirectory()
        self.addCleanup(empty.cleanup)
        for words, sentence in (((empty.name,), "there is no flight record"),
                                ((self.folder,), "is no flight record: it is too short"),
                                (("/no/such",), "cannot read the folder /no/such: No such file or directory")):
            result = doctor(*words)
            self.assertEqual(result.returncode, 2)
            self.assertIn(sentence, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)

    def test_a_folder_that_is_not_there_is_refused(self):
        result = run(TUTTI_RECORD_DIR="/no/such")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("TUTTI_RECORD_DIR is '/no/such', but no flight record can be made there: No such file",
                      result.stderr)


class OwnFolder(unittest.TestCase):
    """Jobs of other launchers, of which nobody has said where records are to be left."""

    folder = f"/dev/shm/tutti-records-{os.geteuid()}"

    def job(self, ending, **variables):
        """Runs three ranks, and returns their processes' numbers."""
        self.before = self.names()  # a process before may have had one of those numbers
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with tempfile.NamedTemporaryFile(suffix=".key") as key:
            key.write(os.urandom(32))
            key.flush()
            environment = {name: value for name, value in os.environ.items() if name != "TUTTI_RECORD_DIR"}
            environment |= {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                            "TUTTI_KEY_FILE": key.name, "TUTTI_TIMEOUT_MS": "1500", **variables}
            ranks = [subprocess.Popen([JOB, ending], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(3)]
            for rank in ranks:
                if ending != "stop" or rank is not ranks[1]:
                    rank.wait(timeout=60)
            ranks[1].send_signal(signal.SIGKILL)
            ranks[1].wait(timeout=60)
        return [rank.pid for rank in ranks]

    def names(self):
        return set(os.listdir(self.folder)) if os.path.isdir(self.folder) else set()

    def records_of(self, processes):
        return [name for name in self.names() - self.before for process in processes if f"-{process}-" in name]

    def test_has_the_records_of_a_job_that_failed(self):
        processes = self.job("kill")
        self.assertEqual(len(self.records_of(processes)), 3)
        result = doctor()
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, rf"^rank 1 \(process {processes[1]} on .+\) has .* after call 2, {CALL}; rank [02]")
        self.assertEqual(os.stat(self.folder).st_mode & 0o777, 0o700)

    def test_has_none_of_a_job_that_ended_well(self):
        self.assertEqual(self.records_of(self.job("")), [])

    def test_none_records_nothing(self):
        self.assertEqual(self.records_of(self.job("kill", TUTTI_RECORD_DIR="none")), [])


class Log(unittest.TestCase):
    def test_has_what_was_made_chosen_and_has_failed(self):
        with tempfile.TemporaryDirectory() as folder:
            log = folder + "/log"
            run(ending="kill", TUTTI_LOG=log)
            with open(log) as file:
                lines = file.read().splitlines()
            start = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \S+ \d+ "
            for line in (r"info: rank 0 of 3: a communicator over shm \(to 1-2\) with the tuning table ",
                         rf"info: rank 2: {CALL}: ", rf"error: rank 0: in call 3, {CALL}: rank 1 died"):
                self.assertTrue(any(re.search(start + line, one) for one in lines), (line, lines))
            self.assertTrue(all(re.search(start, one) for one in lines), lines)

    def test_a_file_that_cannot_be_is_refused(self):
        result = run(TUTTI_LOG="/no/such")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("TUTTI_LOG is '/no/such', which cannot be opened: No such file or directory", result.stderr)


if __name__ == "__main__":
    unittest.main()
