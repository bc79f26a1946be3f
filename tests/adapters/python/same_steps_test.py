"""The example of lib/adapters/python takes the steps of tutti-train.

    same_steps_test.py SOURCE LIBRARY CALLBACKS TUTTI TUTTI_TRAIN"""

import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

TRAIN = os.path.abspath(sys.argv.pop(5))
import support  # noqa: E402


class SameSteps(support.WithPackage):
    def tutti_train(self, *words):
        """The loss of each step."""
        environment = {name: value for name, value in self.package.environment.items() if name != "PYTHONPATH"}
        ran = subprocess.run([TRAIN, "--model", "mlp", "--data", "digits", "--seed", "7", "--sample", "0", "--json", "-", *words],
                             env=environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return [step["loss"] for step in map(json.loads, ran.stdout.splitlines()) if "summary" not in step]

    def example(self, ranks, *words):
        ran = self.package.ranks(ranks, support.SOURCE + "/lib/adapters/python/examples/train.py", "--seed", "7", "--every", "1",
                                 *words, python=support.with_numpy())
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return [float(loss) for loss in re.findall(r"loss (\S+)", ran.stdout)]

    def losses_are_the_same(self, dtype, batch, steps, close):
        with tempfile.TemporaryDirectory() as folder:
            self.tutti_train("--dtype", dtype, "--steps", "60", "--batch", "96", "--checkpoint", folder)
            file, = glob.glob(folder + "/step-*/rank-0-of-1.safetensors")
            for ranks in (1, 2):
                same = ("--batch", str(batch), "--steps", str(steps), "--lr", "0.1")
                there = self.tutti_train("--dtype", dtype, "--init", folder, "--dp", str(ranks), "--optimizer", "sgd", "--momentum", "0",
                                         "--warmup", "0", *same)
                here = self.example(ranks, "--init", file, *same)
                self.assertEqual((len(here), len(there)), (steps, steps))
                for step, (one, other) in enumerate(zip(here, there), 1):
                    self.assertAlmostEqual(one, other, delta=close, msg=f"step {step} of {ranks} ranks, {dtype}")

    def test_in_float32(self):
        self.losses_are_the_same("float32", 96, 20, 1e-6)

    def test_in_float64_past_the_end_of_an_epoch(self):
        self.losses_are_the_same("float64", 7001, 10, 1e-8)


if __name__ == "__main__":
    unittest.main()
