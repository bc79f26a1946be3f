"""tutti show and tutti verify, as a user meets them."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

tutti = sys.argv.pop(1)


def run(*arguments):
    return subprocess.run([tutti, *arguments], capture_output=True, text=True, timeout=60)


class Verify(unittest.TestCase):
    def test_json_has_an_object_a_line_for_every_algorithm_and_rank_count(self):
        result = run("verify", "--json", "-", "-n", "2,4:6")
        self.assertEqual(result.returncode, 0, result.stderr)
        objects = [json.loads(line) for line in result.stdout.splitlines()]
        names = {o["algorithm"] for o in objects if o["collective"] == "allreduce"}
        self.assertEqual(names, {"master-worker", "all-to-all", "two-level", "two-shot", "round-robin", "tree",
                                 "butterfly", "halving-doubling", "ring", "circulant"})
        self.assertEqual({o["collective"] for o in objects},
                         {"allreduce", "broadcast", "reduce", "allgather", "gather", "scatter", "reduce_scatter",
                          "alltoall", "scan", "exscan"})
        reductions = {"allreduce", "reduce", "reduce_scatter", "scan", "exscan"}
        self.assertEqual({o["ranks"] for o in objects}, {2, 4, 5, 6})
        for o in objects:
            self.assertIs(o["ok"], True)
            self.assertIs(o["same_bits"], True)
            combines = o["collective"] in reductions
            self.assertEqual(o["tree"] is None, not (combines and o["position_independent"]))
        ring = next(o for o in objects if o["algorithm"] == "ring" and o["ranks"] == 4)
        self.assertEqual((ring["ordered"], ring["rounds"], ring["rounds_multiport"],
                          ring["messages"], ring["max_sent_bytes_over_n"]), (False, 6, 6, 24, 1.5))

    def test_json_goes_to_a_file_beside_the_table(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "proofs.json")
            result = run("verify", "-n", "4", "--algorithms", "ring,tree", "--json", path)
            self.assertEqual(result.returncode, 0)
            self.assertTrue(result.stdout.startswith("collective"))
            with open(path, encoding="utf-8") as file:
                found = [json.loads(line) for line in file]
            self.assertEqual({(o["collective"], o["algorithm"]) for o in found},
                             {("allreduce", "ring"), ("allreduce", "tree"), ("allgather", "ring"),
                              ("reduce_scatter", "ring")})

    def test_bad_input_is_one_line_with_what_is_allowed(self):
        for arguments, allowed in [(("-n", "0"), "1 to 512"), (("-n", "4:2"), "1 to 512"),
                                   (("-n", "many"), "1 to 512"), (("-n", "2,"), "1 to 512"),
                                   (("--algorithms", "rings"), "two-shot"), (("--collective", "allfold"), "all, allreduce, broadcast"),
                                   (("--collective", "scan", "--algorithms", "ring"), "all, direct, chain")]:
            result = run("verify", *arguments)
            self.assertEqual(result.returncode, 2)
            self.assertEqual(result.stdout, "")
            self.assertEqual(result.stderr.count("\n"), 1)
            self.assertIn(allowed, result.stderr)

    def test_a_file_that_cannot_be_written_is_an_error(self):
        result = run("verify", "-n", "2", "--json", "/nowhere/proofs.json")
        self.assertEqual(result.returncode, 1)
        self.assertIn("/nowhere/proofs.json", result.stderr)


class Show(unittest.TestCase):
    def test_prints_the_steps_of_all_ranks_or_of_one(self):
        whole = run("show", "allreduce", "ring", "-n", "3").stdout
        self.assertEqual(whole.count("\nrank "), 3)
        one = run("show", "allreduce", "ring", "-n", "3", "--rank", "1").stdout
        self.assertTrue(one.startswith("rank 1 of 3, 3 chunks"))
        self.assertIn(one, whole)

    def test_draws(self):
        drawing = run("show", "broadcast", "binomial", "-n", "5", "--root", "2", "--svg", "-").stdout
        self.assertTrue(drawing.startswith("<svg "))
        self.assertIn("5 ranks, root 2", drawing)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ring.svg")
            result = run("show", "allreduce", "ring", "-n", "4", "--svg", path)
            self.assertEqual((result.returncode, result.stdout), (0, ""))
            with open(path, encoding="utf-8") as file:
                self.assertTrue(file.read().endswith("</svg>\n"))

    def test_bad_input_is_one_line_with_what_is_allowed(self):
        for arguments, allowed in [(("allreduce", "rings"), "two-shot"),
                                   (("allfold", "ring"), "allreduce, broadcast, reduce"),
                                   (("allreduce", "ring", "-n", "0"), "1 to 512"),
                                   (("allreduce", "ring", "--rank", "4"), "0 to 3"),
                                   (("broadcast", "flat", "--root", "9"), "0 to 3")]:
            result = run("show", *arguments)
            self.assertEqual(result.returncode, 2)
            self.assertEqual(result.stderr.count("\n"), 1)
            self.assertIn(allowed, result.stderr)


unittest.main()
