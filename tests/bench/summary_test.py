"""bench/results/summary on records that are written here.

    summary_test.py FOLDER_OF_RESULTS_SCRIPTS
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = os.path.abspath(sys.argv.pop(1))


def record(implementation, us, size=1024, collective="allreduce", **more):
    return {"collective": collective, "implementation": implementation, "version": implementation + " 1", "ranks": 2,
            "bytes": size, "data": "live", "median_us": us, "hop_ns": 60.4, "wrong": 0, **more}


class Summary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, *records):
        with open(f"{self.folder}/{name}", "w") as file:
            file.writelines(json.dumps(r) + "\n" for r in records)
        return f"{self.folder}/{name}"

    def summary(self, *arguments):
        return subprocess.run([f"{SCRIPTS}/summary", *arguments], capture_output=True, text=True, timeout=60)

    def rows(self, *arguments):
        done = self.summary(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [re.split(r" {2,}", line) for line in done.stdout.splitlines()]

    def test_a_cell_is_the_median_of_its_runs_against_the_fastest_of_each(self):
        files = [self.write(f"{run}.json", record("tutti", 10), record("MPICH", mpich), record("Open MPI", 40),
                            record("tutti adopted", 5), record("tutti", 1, 2048), record("MPICH", 0.9, 2048))
                 for run, mpich in enumerate((20, 90, 30))]
        rows = self.rows("--limit", "1", *files)
        # Ratios 2, 4 and 3, and 0.9 in every run: sqrt(3 * 0.9).
        self.assertIn(["allreduce", "2", "2", "1.64", "-", "6.00", "0.90", "2 KiB", "1"], rows)
        self.assertIn(["allreduce", "2", "2 KiB", "0.90", "0.90 0.90 0.90", "1", "0.9", "MPICH", "60"], rows)

    def test_several_collectives_have_a_row_for_all_and_a_limit_that_none_is_below(self):
        path = self.write("a.json", record("tutti", 1), record("MPICH", 2),
                          record("tutti", 1, collective="broadcast"), record("MPICH", 8, collective="broadcast"))
        rows = self.rows(path)
        self.assertIn(["all", "2", "4.00", "-", "-", "2.00", "allreduce 1 KiB", "0"], rows)
        self.assertIn(["No cell of the heap is below 0.95."], rows)

    def test_what_does_not_compare_is_refused_in_one_sentence(self):
        wrong = self.write("wrong.json", record("tutti", 1), record("MPICH", 2, wrong=3))
        alone = self.write("alone.json", record("tutti", 1))
        mixed = self.write("mixed.json", record("tutti", 1), record("MPICH", 2), record("MPICH", 2, 8, data="still"))
        other = self.write("other.json", {"collective": "allreduce"})
        for path, words in ((wrong, "line 2: MPICH has wrong results"), (alone, "nothing to compare"),
                            (mixed, "still data do not compare"), (other, "line 1: no record of tutti-bench peers"),
                            (f"{self.folder}/none.json", "No such file")):
            done = self.summary(path)
            self.assertEqual((done.returncode, done.stdout), (1, ""), path)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


class Record(unittest.TestCase):
    def test_it_says_how_it_is_used(self):
        for arguments in ((), ("/tmp/x", "tunde"), ("/tmp/x", "tuned", "two"), ("/tmp/x", "collectives", "2")):
            done = subprocess.run([f"{SCRIPTS}/record", *arguments], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertTrue(done.stderr.startswith("usage: bench/results/record FOLDER"), done.stderr)


unittest.main()
