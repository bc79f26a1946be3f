"""torch's own tests of torch.distributed (torch.testing._internal.distributed.distributed_test) with the backend
that the environment variable BACKEND names.

    BACKEND=tutti WORLD_SIZE=2 upstream.py [-v] [T.test_NAME...]
"""

import os
import sys
import tempfile
import types

os.environ.pop("CI", None)  # with which these tests ask for the packages of torch's own CI
os.environ.setdefault("WORLD_SIZE", "2")
os.environ.setdefault("INIT_METHOD", "file://")
if "TEMP_DIR" not in os.environ:
    os.environ["TEMP_DIR"] = tempfile.mkdtemp()
for folder in ("barrier", "test_dir"):
    os.makedirs(os.path.join(os.environ["TEMP_DIR"], folder), exist_ok=True)

try:
    import expecttest  # noqa: F401
except ImportError:  # of which these tests use no more than the class
    import unittest
    stand_in = types.ModuleType("expecttest")
    stand_in.ACCEPT = False
    stand_in.TestCase = unittest.TestCase
    sys.modules["expecttest"] = stand_in

if os.environ["BACKEND"] == "tutti":
    import tutti_torch
    tutti_torch.use(os.environ["FORM"])

import torch
from torch.testing._internal.common_distributed import DistTestCases
from torch.testing._internal.common_utils import run_tests

# Many are skipped by the name of the backend, when they are imported.
backend, os.environ["BACKEND"] = os.environ["BACKEND"], "gloo"
from torch.testing._internal.distributed import distributed_test
os.environ["BACKEND"] = distributed_test.BACKEND = backend

for feature in ("plugin", "ddp", "subgroup"):
    if feature in DistTestCases.backend_feature:
        DistTestCases.backend_feature[feature].add("tutti")


class T(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        distributed_test.INIT_METHOD = os.environ["INIT_METHOD"]  # set since that was imported
        # Forked: torch is imported once, not by each rank of each test.
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


if __name__ == "__main__":
    run_tests()
