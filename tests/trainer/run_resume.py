"""Runs of tutti-train that are divided in one way go on divided in another. Arguments: as those of run_train.py."""
import itertools
import shutil
import sys
import tempfile

from run_train import close, digests, small, steps

what = sys.argv[3]
divisions = list(itertools.product((1, 2, 4), (1, 2), (1, 2)))  # dp, tp, pp
rest = small + ["--batch", "8"]
FIRST, LAST = 2, 4


def grid(dp, tp, pp):
    shards = ("--micro-batches", 4 // dp, "--pp", pp) if pp > 1 else ("--shards", 4)
    return ["--dp", dp, "--tp", tp, *shards]


def bits(folder):
    """A digest of a checkpoint's parameters, as one process has them."""
    still = ["--steps", "1", "--lr", "1e-30", "--optimizer", "sgd", "--momentum", "0"]
    return digests(*rest, *still, "--init", folder)[0]


def check_matrix(every=37):
    """From any division to any other one: at level canonical, and with the same --tp, the parameters have the bits of a run
    that was not interrupted; else they are those but for rounding."""
    pairs = list(itertools.product(divisions, divisions))[every // 3::every]
    for level, exact in ((["--level", "canonical"], True), (["--dtype", "float64"], False)):
        if every > 1 and not exact:
            continue  # test `other-division`
        with tempfile.TemporaryDirectory() as top:
            def folder(*numbers):
                return top + "/" + "-".join(map(str, numbers))
            whole = {}
            for tp in (1, 2):
                losses = steps(*rest, *level, *grid(1, tp, 1), "--steps", LAST, "--checkpoint", folder("whole", tp))[0]
                whole[tp] = (losses, bits(folder("whole", tp)) if exact else None)
            for one in sorted({one for one, _ in pairs}):
                losses = steps(*rest, *level, *grid(*one), "--steps", FIRST, "--checkpoint", folder(*one))[0]
                assert close(losses, whole[1][0][:FIRST], 1e-5 if exact else 1e-9), (one, losses, whole)
            for one, other in pairs:
                shutil.copytree(folder(*one), folder("on"))
                found = steps(*rest, *level, *grid(*other), "--steps", LAST, "--checkpoint", folder("on"), "--resume")[0]
                assert [s["step"] for s in found] == [FIRST + 1, LAST]
                assert close(found, whole[1][0][FIRST:], 1e-5 if exact else 1e-9), (one, other, found, whole)
                if exact and one[1] == other[1]:
                    assert bits(folder("on")) == whole[one[1]][1], (one, other)
                shutil.rmtree(folder("on"))
    print(f"{len(pairs)} of {len(divisions) ** 2} pairs")


def check_matrix_all():
    check_matrix(1)


globals()["check_" + what.replace("-", "_")]()
