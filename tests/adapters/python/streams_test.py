"""Calls on streams, and on memory of GPUs, from Python, on the driver that LD_LIBRARY_PATH has. The cases are in streams_ranks.py."""

import os
import unittest

import support

RANKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "streams_ranks.py")
PYTHON = support.with_numpy()


class Streams(support.WithPackage):
    def case(self, name):
        ran = self.package.ranks(2, RANKS, name, python=PYTHON, timeout=60, FAKE_CUDA_DEVICES="2",
                                 FAKE_CUDA_MEMORY=str(256 << 20))
        self.assertEqual(ran.returncode, 0, ran.stderr[-4000:])
        self.assertEqual(ran.stdout.count("done"), 2, ran.stdout)

    def test_every_call_on_a_stream_gives_what_numpy_makes_of_all_inputs(self):
        self.case("collectives")

    def test_blocking_calls_take_memory_of_the_gpu_by_dlpack_and_the_cuda_array_interface(self):
        self.case("memory")

    def test_what_is_wrong_is_refused_in_words(self):
        self.case("bad_input")

    def test_a_rank_that_does_not_come_is_the_status_of_the_device(self):
        self.case("late")

    def test_without_a_device_nothing_of_a_gpu_is_taken(self):
        self.case("without")


if __name__ == "__main__":
    unittest.main()
