"""The examples of lib/adapters/python do what they say."""

import re
import unittest

import support


class Examples(support.WithPackage):
    def test_training_learns_the_same_on_any_number_of_ranks(self):
        script = support.SOURCE + "/lib/adapters/python/examples/train.py"
        losses = []
        for ranks in (1, 2, 3):
            ended = self.package.ranks(ranks, script, python=support.with_numpy())
            self.assertEqual(ended.returncode, 0, ended.stderr)
            losses.append([float(loss) for loss in re.findall(r"loss (\S+)", ended.stdout)])
            self.assertEqual(len(losses[-1]), 7, ended.stdout)
            self.assertLess(losses[-1][-1], 0.5 * losses[-1][0])
            for one, other in zip(losses[0], losses[-1]):  # sums in another order
                self.assertAlmostEqual(one, other, delta=1e-5)

    def test_a_file_without_weights_is_refused_with_a_sentence(self):
        script = support.SOURCE + "/lib/adapters/python/examples/train.py"
        for file in (script, "/nowhere"):
            ended = self.package.ranks(2, script, "--init", file, python=support.with_numpy())
            self.assertEqual(ended.returncode, 1)
            self.assertIn(f"--init {file}: no weights of such a network: ", ended.stderr)
            self.assertNotIn("Traceback", ended.stderr)


if __name__ == "__main__":
    unittest.main()
