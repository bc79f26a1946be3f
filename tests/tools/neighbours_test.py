"""What `tutti run` does beside others: other jobs, busy programs, pinned jobs of Open MPI.

    neighbours_test.py TUTTI

The machine may be busy with something else, too. So what must never be is checked at once, and what can only be with
free cores is tried until there are some; a test that never finds any is skipped.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

TUTTI = os.path.abspath(sys.argv.pop(1))
CPUS = sorted(os.sched_getaffinity(0))
LOOP = "while :; do :; done"


def one_of_each_core():
    """One CPU of each core."""
    firsts = []
    for cpu in CPUS:
        with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as file:
            siblings = parsed(file.read())
        if cpu == min(siblings & set(CPUS)):
            firsts.append(cpu)
    return firsts


def parsed(text):
    """The CPUs of a list like 0-3,8."""
    cpus = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


CORES = one_of_each_core()


class Process(subprocess.Popen):
    """Ended with everything that it started at the end of the test."""

    def __init__(self, test, command, **options):
        super().__init__(command, text=True, start_new_session=True, **options)
        test.addCleanup(self.end)

    def end(self):
        self.terminate()  # a launcher ends what its ranks have started, too
        try:
            self.wait(10)
        finally:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.wait()
        for stream in (self.stdout, self.stderr):
            if stream:
                stream.close()


def busy(test, cpu):
    return Process(test, ["sh", "-c", LOOP], preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))


class Job(Process):
    """`tutti run` whose ranks say where they are, and then do what the script says."""

    def __init__(self, test, nranks, script="exec sleep 300", *options):
        self.nranks = nranks
        say = "echo $$ $(grep Cpus_allowed_list /proc/self/status | cut -f 2);"
        super().__init__(test, [TUTTI, "run", "-n", str(nranks), *options, "sh", "-c", say + script],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lines = [self.stdout.readline().split() for _ in range(nranks)]
        self.pids = [int(line[0]) for line in lines]
        self.places = [parsed(line[1]) for line in lines]

    def bound(self):
        return all(place < set(CPUS) for place in self.places)


@unittest.skipIf(len(CORES) < 2, "one core only")
class Neighbours(unittest.TestCase):
    def retried(self, attempt, seconds=5):
        """The first true result of an attempt."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if result := attempt():
                return result
            time.sleep(0.3)
        self.skipTest("other programs use this machine all the time")

    def bound_job(self, *arguments):
        def attempt():
            job = Job(self, *arguments)
            if job.bound():
                return job
            job.end()

        return self.retried(attempt)

    def test_two_jobs_take_different_cores(self):
        def attempt():
            jobs = [Job(self, 1) for _ in range(2)]
            if all(job.bound() for job in jobs):
                self.assertFalse(jobs[0].places[0] & jobs[1].places[0])
                return True
            for job in jobs:
                job.end()

        self.retried(attempt)

    def test_a_core_is_free_again_after_its_job(self):
        place = self.bound_job(1).places[0]
        self.doCleanups()
        self.retried(lambda: Job(self, 1).places[0] == place)

    def test_jobs_that_start_at_once_do_not_share(self):
        def attempt():
            jobs = [Process(self, [TUTTI, "run", "-n", "1", "sh", "-c", "cat /proc/self/status; sleep 1"],
                            stdout=subprocess.PIPE) for _ in range(len(CORES))]
            places = [parsed(re.search(r"Cpus_allowed_list:\s*(\S+)", job.communicate()[0])[1]) for job in jobs]
            bound = [place for place in places if place < set(CPUS)]
            self.assertEqual(len(set.union(set(), *bound)), sum(map(len, bound)), places)
            return len(bound) == len(CORES)

        self.retried(attempt)

    def test_a_busy_core_is_not_taken(self):
        busy(self, CORES[0])
        for _ in range(3):
            job = Job(self, 1)
            self.assertTrue(CORES[0] not in job.places[0] or not job.bound(), job.places)
            job.end()
        self.assertNotIn(CORES[0], self.bound_job(1).places[0])

    def test_ranks_without_enough_free_cores_are_not_bound(self):
        busy(self, CORES[0])
        for nranks in (len(CORES), 2 * len(CORES)):
            job = Job(self, nranks, "exit", "--verbose")
            self.assertEqual(job.places, nranks * [set(CPUS)])
            self.assertRegex(job.communicate()[1],
                             rf"^tutti run: ranks are not bound: {nranks} ranks need {len(CORES)} free cores, but ")

    def test_the_cores_of_ranks_can_be_asked(self):
        def attempt():
            job = Job(self, 2, "exit", "--verbose")
            told = re.search(r"^tutti run: ranks have the cores of CPUs (\d+), (\d+)\n$", job.communicate()[1])
            self.assertEqual(bool(told), job.bound())
            if told:
                for rank in (1, 2):
                    self.assertTrue(any(int(told[rank]) in place for place in job.places))
            return told

        self.retried(attempt)
        self.assertEqual(Job(self, 2, "exit").communicate()[1], "")

    def test_a_rank_that_keeps_losing_its_core_moves(self):
        job = self.bound_job(1, f"sh -c '{LOOP}' & {LOOP}", "--verbose")
        busy(self, min(job.places[0]))
        end = time.monotonic() + 20
        while os.sched_getaffinity(job.pids[0]) == job.places[0]:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
        now = os.sched_getaffinity(job.pids[0])
        self.assertTrue(now == set(CPUS) or not now & job.places[0], now)
        self.assertRegex(job.stderr.readline(), "the cores of CPUs")
        self.assertRegex(job.stderr.readline(), "^tutti run: (rank 0 lost its core to others and has another one: ranks "
                                                "have the cores of CPUs|ranks are not bound: others have the core of rank 0)")

    def test_a_rank_alone_stays_and_so_does_one_that_bound_itself(self):
        # To a core that it was not given: else it is as the launcher has bound it, which may give it another.
        pin = (f"import os; cores = set({CORES}); core = max(cores - os.sched_getaffinity(0) or cores); "
               "os.sched_setaffinity(0, {core}); print(core, flush=True)\nwhile True: pass")
        job = Job(self, 1, f"exec {sys.executable} -c '{pin}'", "--verbose")
        core = int(job.stdout.readline())
        time.sleep(0.5)
        busy(self, core)
        time.sleep(2)
        self.assertEqual(os.sched_getaffinity(job.pids[0]), {core})

    @unittest.skipIf(not shutil.which("mpirun.openmpi"), "no Open MPI here")
    def test_the_core_of_a_pinned_job_of_open_mpi_is_not_taken(self):
        say = "grep Cpus_allowed_list /proc/self/status | cut -f 2;"
        peer = Process(self, ["mpirun.openmpi", "-n", "1", "--bind-to", "core", "sh", "-c", say + LOOP], stdout=subprocess.PIPE,
                       env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        place = parsed(peer.stdout.readline())
        job = self.bound_job(1)
        self.assertFalse(job.places[0] & place)


if __name__ == "__main__":
    unittest.main(verbosity=2)
