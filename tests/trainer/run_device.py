"""Runs tutti-train on a device and on the host and compares. Arguments: tutti-train, tutti, what is checked, --device
DEVICE. Without a GPU the device is `simulated`: the host, used as though it were one."""
import subprocess
import sys
import tempfile

if "--device" not in sys.argv:
    sys.argv += ["--device", "simulated"]
import run_train
from run_train import close, corpus, digests, small, steps

what, device = sys.argv[3], sys.argv[5]
# How far losses may be from the host's, relative: orders of sums differ, on a GPU also exponentials and the like.
tolerance = {"float64": 1e-9, "float32": 2e-4}
# Which values are the largest, and what bfloat16 becomes of a sum, jumps with the last bit.
coarse = 5e-3
double = small + ["--dtype", "float64", "--batch", "8", "--steps", "3"]
single = small + ["--batch", "8", "--steps", "3"]


def on_host(*args):
    return steps(*args, "--device", "cpu")[0]


def check_ways():
    """Every way to agree, and every division of a model, has the losses that it has on the host."""
    for rest, ways in ((("--clip", "1"),
                        (("--dp", "2"), ("--tp", "2"), ("--tp", "2", "--sequence-parallel", "--zero", "1", "--dp", "2"),
                         ("--pp", "2", "--micro-batches", "4", "--schedule", "zb-h1"),
                         ("--dp", "2", "--tp", "2", "--pp", "2", "--micro-batches", "2", "--recompute"))),
                       (("--optimizer", "lamb"), (("--dp", "4", "--level", "canonical", "--shards", "8"),
                                                  ("--dp", "3", "--zero", "1"))),
                       (("--optimizer", "sgd", "--momentum", "0"), (("--dp", "2", "--no-overlap"),))):
        expected = on_host(*double, *rest)
        for more in ways:
            found = steps(*double, *rest, *more)[0]
            assert close(found, expected, tolerance["float64"]), (rest, more, found, expected)
    for more, allowed in ((("--wire", "bf16"), coarse), (("--topk", "0.1"), coarse),
                          (("--sync", "local-sgd", "--local-steps", "2"), tolerance["float32"]),
                          (("--sync", "server", "--servers", "2"), tolerance["float32"])):
        found = steps(*single, "--dp", "2", *more)[0]
        assert close(found, on_host(*single, "--dp", "2", *more), allowed), (more, found)
    convex = ["--model", "quadratic:100", "--dp", "4", "--optimizer", "sgd", "--momentum", "0", "--steps", "150"]
    assert steps(*convex, "--sync", "gossip")[1]["validation_loss"] < 0.5


def check_models():
    """Every model, and what it writes and validates."""
    rest = ["--batch", "6", "--steps", "3", "--dtype", "float64", "--data"]
    text, digits = rest + ["text:" + corpus.name, "--width", "16", "--context", "12"], rest + ["digits"]
    for more in (["--model", "rnn", "--dropout", "0.2", "--tp", "2", *text], ["--model", "seq2seq", "--tp", "2", *text],
                 ["--model", "mlp", *digits], ["--model", "cnn", "--width", "8", "--tp", "2", "--conv-split", "strips", *digits],
                 ["--model", "cnn:inception", "--width", "8", *digits],
                 ["--model", "quadratic:50", "--batch", "6", "--steps", "3"]):
        found, total = steps(*more)
        expected, other = steps(*more, "--device", "cpu")
        assert close(found, expected, tolerance["float64"]), (more, found, expected)
        assert abs(total["validation_loss"] - other["validation_loss"]) <= 1e-6 * other["validation_loss"], more
    code, out, err = run_train.run(*single, "--sample", "20")
    assert code == 0 and "what it writes" in out, (out, err)


def check_bits():
    """Two runs have the same bits after every step. On the host, too, replicas are compared by --hash."""
    for more in (("--dp", "2", "--dropout", "0.1"), ("--dp", "2", "--tp", "2", "--pp", "2", "--zero", "1", "--dropout", "0.1")):
        assert digests(*single, *more) == digests(*single, *more), more


def check_checkpoints():
    """What the host has begun the device goes on with, and the other way round."""
    whole = on_host(*double, "--dp", "2", "--steps", "6")
    with tempfile.TemporaryDirectory() as top:
        for first, second in ((device, "cpu"), ("cpu", device), (device, device)):
            folder = f"{top}/{first}-{second}"
            rest = [*double, "--dp", "2", "--checkpoint", folder]
            began = steps(*rest, "--steps", "3", "--device", first)[0]
            rest = rest if second == "cpu" else [*rest, "--zero", "1"]
            ended = steps(*rest, "--steps", "6", "--resume", "--device", second)[0]
            assert close(began + ended, whole, tolerance["float64"]), (first, second, began, ended)
        refused = subprocess.run([sys.argv[1], "--device", "gpu"], capture_output=True, text=True, env=run_train.env)
        assert refused.returncode == 2 and "cuda:N" in refused.stderr and refused.stderr.count("\n") == 1, refused


globals()["check_" + what]()
