"""Calls from Python: against NumPy, in mixtures, and what is refused. The cases are in ranks.py."""

import os
import unittest

import support

RANKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks.py")
PYTHON = support.with_numpy()


class Calls(support.WithPackage):
    def case(self, name, n, **more):
        ran = self.package.ranks(n, RANKS, name, python=PYTHON, **more)
        self.assertEqual(ran.returncode, 0, ran.stderr[-4000:])
        self.assertEqual(ran.stdout.count("done"), n, ran.stdout)

    def test_all_types_and_operators_give_numpys_results(self):
        self.case("types", 2)

    def test_all_types_and_operators_with_three_ranks(self):
        self.case("types", 3)

    def test_every_collective_gives_what_numpy_makes_of_all_inputs(self):
        self.case("collectives", 3)

    def test_every_collective_over_tcp(self):
        self.case("collectives", 2, options=("--transport", "tcp"))

    def test_kinds_lengths_places_and_ways_mix(self):
        self.case("sequences", 2)
        self.case("sequences", 4)

    def test_requests_keep_their_buffers(self):
        self.case("requests", 2)

    def test_requests_with_a_progress_thread(self):
        self.case("requests", 2, TUTTI_PROGRESS_THREAD="1")

    def test_objects_travel_by_pickle(self):
        self.case("objects", 3)

    def test_operators_may_be_functions_of_python(self):
        self.case("operators", 2)
        self.case("operators", 4)

    def test_every_call_that_can_be_prepared(self):
        self.case("prepared", 3)

    def test_messages_of_any_rank_name_their_sender(self):
        self.case("any_source", 2)
        self.case("any_source", 4)
        self.case("any_source", 3, options=("--transport", "tcp"))
        self.case("any_source", 3, TUTTI_PROGRESS_THREAD="1")

    def test_groups_of_messages_run_together(self):
        self.case("groups", 2)
        self.case("groups", 3)

    def test_sparse_vectors_and_the_largest_entries(self):
        self.case("sparse", 3)

    def test_encoded_vectors(self):
        self.case("coded", 3)

    def test_what_needs_no_communicator(self):
        self.case("locally", 2)

    def test_communicators_are_split_and_freed(self):
        self.case("communicators", 3)

    def test_what_is_wrong_is_refused_in_words(self):
        self.case("errors", 2)

    def test_tensors_come_by_dlpack(self):
        self.case("dlpack", 2)


if __name__ == "__main__":
    unittest.main()
