"""The examples of lib/adapters/python do what they say."""

import re
import unittest

import support


class Examples(support.WithPackage):
    def test_training_learns_the_same_on_any_number_of_ranks(self):
        script = support.SOURCE + "/lib/adapters/python/examples/train.py"
        losses = []
        for ranks in (1, 2, 3):
            ended = self.package.ranks(ranks, script, "300", python=support.with_numpy())
            self.assertEqual(ended.returncode, 0, ended.stderr)
            losses.append([float(loss) for loss in re.findall(r"loss (\S+)", ended.stdout)])
            self.assertEqual(len(losses[-1]), 4, ended.stdout)
            self.assertLess(losses[-1][-1], 0.5 * losses[-1][0])
            for one, other in zip(losses[0], losses[-1]):  # sums in another order
                self.assertAlmostEqual(one, other, delta=1e-5)


if __name__ == "__main__":
    unittest.main()
