"""`tutti run` as its users see it: exit status, output, and nothing left behind.

    launcher_test.py TUTTI JOB
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
import uuid

TUTTI, JOB = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))


def run(*words, **options):
    return subprocess.run([TUTTI, "run", *words], capture_output=True, text=True, timeout=60, **options)


def shell(nranks, script, *options, **more):
    return run("-n", str(nranks), *options, "sh", "-c", script, **more)


def children_of(pid, enough, seconds=20):
    """The children of a process, once there are so many."""
    end = time.monotonic() + seconds
    while True:
        found = []
        for other in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{other}/stat") as file:
                    if int(file.read().rpartition(")")[2].split()[1]) == pid:
                        found.append(int(other))
            except (OSError, IndexError):
                pass  # it has ended meanwhile
        if len(found) >= enough or time.monotonic() > end:
            return found
        time.sleep(0.02)


class Marked:
    """A mark in the environment of a job's processes, by which any that are left are found."""

    def __init__(self):
        self.value = uuid.uuid4().hex
        self.environment = {**os.environ, "MARK": self.value}

    def processes(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if f"MARK={self.value}".encode() in file.read():
                        found.append(int(pid))
            except OSError:
                pass  # it has ended meanwhile
        return found

    def wait_for(self, enough, seconds=20):
        end = time.monotonic() + seconds
        while not enough(self.processes()) and time.monotonic() < end:
            time.sleep(0.02)
        return self.processes()


class Ranks(unittest.TestCase):
    def test_every_rank_knows_its_place(self):
        result = shell(3, "echo $TUTTI_RANK $TUTTI_SIZE $TUTTI_LOCAL_RANK $TUTTI_LOCAL_SIZE")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(result.stdout.splitlines()), ["0 3 0 3", "1 3 1 3", "2 3 2 3"])

    def test_only_rank_0_has_the_listener_and_all_have_the_job(self):
        result = shell(2, 'ls -l /proc/self/fd/$TUTTI_JOB_FD >/dev/null && echo "${TUTTI_LISTEN_FD:+listens}"')
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(result.stdout.splitlines()), ["", "listens"])

    def test_transports_and_interface_reach_the_ranks(self):
        result = shell(1, "echo $TUTTI_TRANSPORTS $TUTTI_INTERFACE", "--transport", "tcp,shm", "--interface", "lo")
        self.assertEqual(result.stdout, "tcp,shm lo\n")

    def test_arguments_stay_as_they_are(self):
        for marker in ([], ["--"]):
            result = run("-n", "1", *marker, "printf", "%s|", "-n", "3", "--", "--prefix", "")
            self.assertEqual(result.stdout, "-n|3|--|--prefix||")

    def test_input_goes_to_rank_0(self):
        result = run("-n", "3", "cat", input="a line\n")
        self.assertEqual((result.returncode, result.stdout), (0, "a line\n"))

    def test_cores_are_shared_out(self):
        cores = "grep Cpus_allowed_list /proc/self/status"
        topology = json.loads(subprocess.run([TUTTI, "info", "--json"], capture_output=True, text=True).stdout)["topology"]
        if topology["cores"] < 2:
            self.skipTest("one core only")
        free = set(shell(2, cores, "--bind", "none").stdout.splitlines())
        self.assertEqual(len(free), 1, free)
        for nranks in (2, 2 * topology["cores"]):
            result = shell(nranks, cores, "--bind", "core", "--verbose")
            places = result.stdout.splitlines()
            self.assertEqual(len(places), nranks)
            if "not bound" in result.stderr:  # others use the machine
                self.assertEqual(set(places), free)
                continue
            self.assertEqual(len(set(places)), min(nranks, topology["cores"]), places)
            for place in set(places):
                self.assertEqual(places.count(place), nranks // len(set(places)), places)


class Prefix(unittest.TestCase):
    def test_every_line_names_its_rank(self):
        result = shell(2, "echo out; echo err >&2; printf tail", "--prefix")
        self.assertEqual(sorted(result.stdout.splitlines()), ["[0] out", "[0] tail", "[1] out", "[1] tail"])
        self.assertEqual(sorted(result.stderr.splitlines()), ["[0] err", "[1] err"])

    def test_much_output_comes_whole(self):
        result = run("-n", "2", "--prefix", "seq", "1", "50000")
        lines = result.stdout.splitlines()
        for rank in (0, 1):
            mine = [line for line in lines if line.startswith(f"[{rank}] ")]
            self.assertEqual(mine, [f"[{rank}] {i}" for i in range(1, 50001)])
        self.assertEqual(len(lines), 100000)

    def test_a_long_line_comes_whole_and_at_once(self):
        script = 'head -c 3000000 /dev/zero | tr "\\0" x; echo; echo next'
        start = time.monotonic()
        result = shell(2, script, "--prefix")
        for rank in (0, 1):
            mine = [line for line in result.stdout.splitlines() if line.startswith(f"[{rank}] ")]
            self.assertEqual([len(line) for line in mine], [4 + 3000000, 8])
        self.assertLess(time.monotonic() - start, 20)

    def test_of_a_line_without_an_end_16_mib_are_kept(self):
        job = subprocess.Popen([TUTTI, "run", "-n", "1", "--prefix", "head", "-c", "100000000", "/dev/zero"],
                               stdout=subprocess.PIPE)
        self.addCleanup(job.stdout.close)
        keeper = children_of(job.pid, 1)[0]
        count, most = 0, 0
        while piece := job.stdout.read(1 << 20):
            count += piece.count(b"\0")
            try:
                with open(f"/proc/{keeper}/status") as file:
                    most = max(most, int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)))
            except (OSError, AttributeError):
                pass  # it has ended
        self.assertEqual((job.wait(60), count), (0, 100000000))
        if "ASAN_OPTIONS" not in os.environ:  # a sanitizer needs memory, too
            self.assertLess(most, 64 << 10)  # KiB

    def test_stdout_and_stderr_in_one_pipe_keep_their_lines_whole(self):
        script = 'i=0; while [ $i -lt 2000 ]; do echo outoutoutoutout; echo errerrerrerrerr >&2; i=$((i+1)); done'
        result = subprocess.run([TUTTI, "run", "-n", "2", "--prefix", "sh", "-c", script], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertEqual(set(result.stdout.splitlines()),
                         {f"[{rank}] {word * 5}" for rank in (0, 1) for word in ("out", "err")})
        self.assertEqual(result.stdout.count("\n"), 8000)

    def unread(self, *options):
        job = subprocess.Popen([TUTTI, "run", "-n", "2", "--prefix", *options, "yes"], stdout=subprocess.PIPE)
        self.addCleanup(job.stdout.close)
        return job

    def test_a_reader_that_does_not_read_holds_up_no_timeout(self):
        start = time.monotonic()
        job = self.unread("--timeout", "1")
        self.assertEqual(job.wait(20), 124)
        self.assertLess(time.monotonic() - start, 1 + 1)

    def test_a_reader_that_does_not_read_holds_up_no_signal(self):
        job = self.unread()
        time.sleep(1)
        start = time.monotonic()
        job.terminate()
        self.assertEqual(job.wait(20), 128 + signal.SIGTERM)
        self.assertLess(time.monotonic() - start, 1)

    def test_a_slow_reader_gets_all(self):
        job = subprocess.Popen([TUTTI, "run", "-n", "1", "--prefix", "seq", "1", "300000"], stdout=subprocess.PIPE)
        self.addCleanup(job.stdout.close)
        time.sleep(1)
        self.assertEqual(job.stdout.read().count(b"\n"), 300000)
        self.assertEqual(job.wait(20), 0)

    def test_a_reader_that_goes_away_does_not_stop_the_job(self):
        job = subprocess.Popen([TUTTI, "run", "-n", "2", "--prefix", "seq", "1", "200000"], stdout=subprocess.PIPE)
        job.stdout.readline()
        job.stdout.close()
        self.assertEqual(job.wait(60), 0)


class Failures(unittest.TestCase):
    def test_exit_status_and_sentence_are_the_first_failure(self):
        mark = Marked()
        result = shell(3, '[ $TUTTI_RANK != 1 ] || exit 7; sleep 300; exit 3', env=mark.environment)
        self.assertEqual(result.returncode, 7)
        self.assertRegex(result.stderr, r"^tutti run: rank 1 \(process \d+\) ended with exit status 7\n$")
        self.assertEqual(mark.processes(), [])

    def test_a_killed_rank_gives_128_and_the_signal(self):
        mark = Marked()
        result = shell(3, '[ $TUTTI_RANK != 2 ] || kill -9 $$; sleep 300', env=mark.environment)
        self.assertEqual(result.returncode, 128 + 9)
        self.assertRegex(result.stderr, r"^tutti run: rank 2 \(process \d+\) was ended by signal 9 \(Killed\)\n$")
        self.assertEqual(mark.processes(), [])

    def test_a_survivor_that_is_found_first_is_not_blamed(self):
        for survivor in ("exit 1", "kill -ABRT $$"):
            result = shell(2, f'[ $TUTTI_RANK = 1 ] || {survivor}; sleep 0.03; kill -9 $$')
            self.assertEqual(result.returncode, 128 + 9, survivor)
            self.assertRegex(result.stderr, r"^tutti run: rank 1 \(process \d+\) was ended by signal 9 \(Killed\)\n$")

    def test_of_two_statuses_the_first_counts(self):
        result = shell(2, '[ $TUTTI_RANK = 0 ] || exit 4; sleep 0.03; exit 9')
        self.assertEqual(result.returncode, 4)

    def test_survivors_may_say_what_they_saw(self):
        result = shell(2, '[ $TUTTI_RANK = 0 ] || exit 4; sleep 0.5; echo rank 1 is gone; exit 9')
        self.assertEqual((result.returncode, result.stdout), (4, "rank 1 is gone\n"))

    def test_others_go_on_where_they_may(self):
        result = run("-n", "3", "--keep-going", JOB, "survive")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr,
                         r"^tutti run: rank 1 \(process \d+\) was ended by signal 9 \(Killed\); the others go on\n$")

    def test_where_all_are_killed_nobody_went_on(self):
        self.assertEqual(shell(2, "kill -9 $$", "--keep-going").returncode, 128 + 9)
        self.assertEqual(shell(2, "[ $TUTTI_RANK = 0 ] || exit 4; sleep 300", "--keep-going").returncode, 4)

    def test_a_job_makes_communicators_again_and_again(self):
        result = run("-n", "2", JOB, "again")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_ranks_that_will_not_end_are_killed(self):
        mark = Marked()
        start = time.monotonic()
        result = shell(2, '[ $TUTTI_RANK = 0 ] || exit 4; trap "" TERM; sleep 300; sleep 300', env=mark.environment)
        self.assertEqual(result.returncode, 4)
        self.assertGreater(time.monotonic() - start, 3)
        self.assertEqual(mark.processes(), [])

    def test_a_job_that_takes_too_long_is_ended(self):
        mark = Marked()
        result = run("-n", "2", "--timeout", "0.3", "sleep", "300", env=mark.environment)
        self.assertEqual(result.returncode, 124)
        self.assertEqual(result.stderr, "tutti run: the job was not done after 0.3 s\n")
        self.assertEqual(mark.processes(), [])

    def test_a_program_that_is_not_there(self):
        result = run("-n", "4", "no-such-program")
        self.assertEqual(result.returncode, 127)
        self.assertEqual(result.stderr, "tutti run: cannot run no-such-program: No such file or directory\n")


class NothingStays(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Whoever runs the tests in the background ignores these, and children would inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    def start(self, mark, script, nranks=3):
        job = subprocess.Popen([TUTTI, "run", "-n", str(nranks), "sh", "-c", script], env=mark.environment,
                               stdout=subprocess.DEVNULL)
        # The launcher, the process that keeps the ranks, and each rank with its child.
        self.assertGreaterEqual(len(mark.wait_for(lambda there: len(there) >= 2 + 2 * nranks)), 2 + 2 * nranks)
        return job

    def test_an_interrupt_ends_all(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            mark = Marked()
            job = self.start(mark, "sleep 300; true")
            job.send_signal(number)
            self.assertEqual(job.wait(20), 128 + number)
            self.assertEqual(mark.processes(), [])

    def test_a_second_interrupt_does_not_wait(self):
        mark = Marked()
        job = self.start(mark, 'trap "" INT TERM; sleep 300; true')
        start = time.monotonic()
        job.send_signal(signal.SIGINT)
        time.sleep(0.2)
        job.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(20), 128 + signal.SIGINT)
        self.assertLess(time.monotonic() - start, 1.5)
        self.assertEqual(mark.processes(), [])

    def test_ranks_die_with_a_killed_launcher(self):
        mark = Marked()
        job = subprocess.Popen([TUTTI, "run", "-n", "3", "sleep", "300"], env=mark.environment)
        mark.wait_for(lambda there: len(there) == 5)
        job.kill()
        job.wait(20)
        self.assertEqual(mark.wait_for(lambda there: not there), [])

    def test_what_has_left_its_session_dies_with_a_killed_launcher(self):
        for whom in ("launcher", "keeper"):
            mark = Marked()
            job = subprocess.Popen([TUTTI, "run", "-n", "2", "sh", "-c", "setsid sleep 300 & sleep 300"],
                                   env=mark.environment, stderr=subprocess.DEVNULL)
            mark.wait_for(lambda there: len(there) >= 2 + 3 * 2)
            keeper = children_of(job.pid, 1)[0]
            os.kill(job.pid if whom == "launcher" else keeper, signal.SIGKILL)
            job.wait(20)
            self.assertEqual(mark.wait_for(lambda there: not there), [], whom)
            if whom == "keeper":
                self.assertEqual(job.returncode, 128 + signal.SIGKILL)

    def test_what_has_left_its_session_is_ended(self):
        mark = Marked()
        result = shell(2, "setsid sleep 300 >/dev/null 2>&1 & exit 0", env=mark.environment)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(mark.processes(), [])

    def test_each_rank_has_a_session_of_its_own(self):
        result = shell(2, "cut -d' ' -f1,6 /proc/$$/stat")
        for line in result.stdout.splitlines():
            pid, session = line.split()
            self.assertEqual(pid, session)

    def test_what_a_rank_leaves_in_the_background_is_ended(self):
        mark = Marked()
        result = shell(2, "sleep 300 >/dev/null 2>&1 & exit 0", env=mark.environment)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(mark.processes(), [])


class BadInput(unittest.TestCase):
    def refused(self, words, pattern):
        result = subprocess.run([TUTTI, *words], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 2, words)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertRegex(result.stderr, "^tutti: ")
        self.assertRegex(result.stderr, pattern)

    def test_one_line_says_what_is_allowed(self):
        self.refused([], r"run, mpi, info")
        self.refused(["fly"], r"unknown command fly \(allowed: run, mpi, info")
        self.refused(["run"], r"-n is required")
        for count in ("0", "-1", "two", "5000", "1.5"):
            self.refused(["run", "-n", count, "true"], r"1 to 4096|-n")
        self.refused(["run", "-n", "2"], r"which program\?")
        self.refused(["run", "-n", "2", "--fast", "true"], r"unknown option --fast \(allowed.*--prefix")
        self.refused(["run", "-n", "2", "--bind", "socket", "true"], r"none,core,numa")
        self.refused(["run", "-n", "2", "--transport", "pigeon", "true"], r"inproc,shm,ucx,tcp")
        self.refused(["run", "-n", "2", "--timeout", "0", "true"], r"--timeout")


class Info(unittest.TestCase):
    def test_the_environment_table_is_that_of_the_readme(self):
        result = subprocess.run([TUTTI, "info", "--environment"], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0)
        readme = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib/config/README.md")
        with open(readme) as file:
            self.assertIn(result.stdout, file.read())

    def test_text_and_json_agree(self):
        text = subprocess.run([TUTTI, "info"], capture_output=True, text=True, timeout=60).stdout
        data = json.loads(subprocess.run([TUTTI, "info", "--json"], capture_output=True, text=True, timeout=60).stdout)
        self.assertEqual([t["name"] for t in data["transports"]], ["inproc", "shm", "ucx", "tcp"])
        for feature in data["build"]["features"]:
            self.assertRegex(text, rf"(?m)^  {feature['name']} +{'yes' if feature['found'] else 'no'}\b")
        self.assertIn(data["build"]["reductions"], text)
        self.assertEqual(data["topology"]["processors"], os.cpu_count())
        if os.path.exists("/sys/kernel/mm/transparent_hugepage/enabled"):
            with open("/sys/kernel/mm/transparent_hugepage/enabled") as file:
                self.assertIn(f"[{data['topology']['huge_pages']['private']}]", file.read().split())
            self.assertIn(f"transparent huge pages: {data['topology']['huge_pages']['private']};", text)
        self.assertIn("lo", [i["name"] for i in data["interfaces"]])
        gpus = data["gpus"]
        self.assertIn(f"device buffers: yes, driver {gpus['driver']}" if gpus["usable"]
                      else f"device buffers: no: {gpus['reason']}", text)
        self.assertNotEqual(gpus["usable"], bool(gpus["reason"]))

    def test_under_the_launcher_it_names_the_job(self):
        result = run("-n", "2", "--prefix", TUTTI, "info")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, re.escape("[1]   started by tutti run, rank 1 of 2, key: inherited descriptor"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
