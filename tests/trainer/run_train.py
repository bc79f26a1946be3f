"""Runs tutti-train as users do and checks what it claims. Arguments: tutti-train, tutti, what is checked; then perhaps
--device DEVICE, which all runs get that name none."""
import concurrent.futures
import csv
import hashlib
import itertools
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree

train, tutti, what = sys.argv[1:4]
device = sys.argv[4:]
env = {k: v for k, v in os.environ.items()
       if not k.startswith("TUTTI_") and k not in ("RANK", "WORLD_SIZE")}
env["PATH"] = os.path.dirname(tutti) + os.pathsep + env["PATH"]
# The program would start itself again to set these.
env["OMP_NUM_THREADS"] = env["OPENBLAS_NUM_THREADS"] = "1"
# A text that stays the same while somebody edits the sources.
corpus = tempfile.NamedTemporaryFile("w", suffix=".txt")
words = random.Random(1)
corpus.write(" ".join(words.choice(("all", "ranks", "give", "a", "vector", "and", "get", "the", "sum")) for _ in range(30000)))
corpus.flush()
# No ways are tried: those send other messages than the one by the formula.
untried = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support", "untried.json")
# Small, so that ranks are started more than they compute. Two layers, 27 thousand parameters, several buckets.
small = ["--data", "text:" + corpus.name,
         "--model", "gpt", "--layers", "2", "--width", "32", "--heads", "2", "--context", "16",
         "--first-bucket", "0.01", "--bucket", "0.04"]


err_seconds = 0  # from the first line on stderr to the end of the last run


def fitting(args):
    """The arguments, without the buckets of `small` where no gradients are summed over ranks."""
    args, buckets = [str(arg) for arg in args], small[-4:]
    last = dict(zip(args, args[1:]))
    several = any(last.get(axis, "1") != "1" for axis in ("--dp", "--tp", "--pp")) or last.keys() & {"--config", "--topk", "--meet"}
    for i in range(len(args)):
        if (last.get("--sync", "allreduce") != "allreduce" or not several) and args[i:i + 4] == buckets:
            return args[:i] + args[i + 4:]
    return args


def run(*args, timeout=300):
    global err_seconds
    with tempfile.TemporaryFile("w+") as out:
        begun = subprocess.Popen([train, *device, *fitting(args)], env=env, stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=subprocess.PIPE, text=True)
        watch = threading.Timer(timeout, begun.kill)
        watch.start()
        err = begun.stderr.readline()
        first = time.monotonic()
        err += begun.stderr.read()
        code = begun.wait()
        watch.cancel()
        err_seconds = time.monotonic() - first if err else 0
        out.seek(0)
        return code, out.read(), err


def steps(*args):
    """The objects of the steps, and of the summary."""
    code, out, err = run(*args, "--json", "-", "--sample", "0", "--hash")
    assert code == 0, (args, code, out, err)
    found = [json.loads(line) for line in out.splitlines()]
    assert found[-1].get("summary"), found[-1]
    return found[:-1], found[-1]


def digests(*args):
    return [s["parameters"] for s in steps(*args)[0]]


def check_equal():
    """Which runs have the same bits after every step."""
    # Virtual shards: any number of workers.
    shards = small + ["--batch", "16", "--shards", "8", "--steps", "20", "--level", "canonical", "--dropout", "0.1"]
    one = digests(*shards, "--dp", "1")
    assert len(set(one)) == 20
    for dp in (2, 4, 8):
        assert digests(*shards, "--dp", dp) == one, dp
    # The same with numbers that are no powers of two, and with sharded state.
    twelve = small + ["--batch", "12", "--shards", "12", "--steps", "3", "--level", "canonical"]
    one = digests(*twelve, "--dp", "1")
    for more in (("--dp", "3"), ("--dp", "6", "--zero", "1"), ("--dp", "3", "--algorithm", "two-shot")):
        assert digests(*twelve, *more) == one, more
    # Overlap and buckets; every algorithm keeps replicas equal (--hash checks it in every step).
    four = small + ["--dp", "4", "--batch", "8", "--steps", "3"]
    names = ("two-shot", "master-worker", "tree", "butterfly", "ring", "halving-doubling", "circulant", "all-to-all",
             "round-robin")
    by_name = {}
    for name in names:
        by_name[name] = digests(*four, "--algorithm", name)
        if name in ("ring", "two-shot"):
            assert digests(*four, "--algorithm", name, "--no-overlap") == by_name[name], name
    assert by_name["two-shot"] == by_name["master-worker"] == by_name["all-to-all"] == by_name["round-robin"]
    assert by_name["butterfly"] == by_name["halving-doubling"]
    whole = digests(*four, "--algorithm", "two-shot", "--first-bucket", "1000")
    assert whole == by_name["two-shot"]
    # One worker that adds up four shards: the same within rounding, whatever the order.
    losses = [s["loss"] for s in steps(*small, "--dp", "1", "--shards", "4", "--batch", "8", "--steps", "3")[0]]
    other = [s["loss"] for s in steps(*four, "--algorithm", "ring")[0]]
    assert all(abs(a - b) < 1e-4 * a for a, b in zip(losses, other)), (losses, other)
    # ZeRO-1: where both sum in rank order, for every optimizer.
    for optimizer in ("sgd", "adamw", "lamb"):
        rest = four + ["--optimizer", optimizer]
        assert digests(*rest, "--algorithm", "two-shot") == digests(*rest, "--zero", "1", "--algorithm", "direct"), optimizer
    # Unequal shards, empty ones too, are weighted by their samples: one step of plain SGD is that of one worker.
    for batch, shards in ((7, 3), (4, 6)):
        rest = small + ["--batch", batch, "--steps", "2", "--optimizer", "sgd", "--momentum", "0"]
        a = steps(*rest, "--dp", "3", "--shards", shards)[0]
        b = steps(*rest, "--dp", "1", "--shards", "1")[0]
        assert all(abs(x["loss"] - y["loss"]) < 1e-5 * y["loss"] for x, y in zip(a, b)), (a, b)


def check_decay():
    """The rate decays over the steps, alike on all workers; who goes on has the same decay."""
    # A decay to the full rate is none.
    plain = ["--model", "quadratic:1", "--optimizer", "sgd", "--momentum", "0", "--warmup", "0", "--lr", "0.5", "--steps", "6"]
    constant = steps(*plain)[0]
    assert digests(*plain, "--decay", "linear", "--min-lr", "0.5") == [s["parameters"] for s in constant]
    assert digests(*plain, "--decay", "linear")[:2] != [s["parameters"] for s in constant][:2]
    decays = small + ["--batch", "8", "--shards", "4", "--level", "canonical", "--warmup", "2", "--steps", "6", "--decay"]
    one = {kind: digests(*decays, kind, "--min-lr", "1e-4") for kind in ("cosine", "linear")}
    assert one["cosine"][:3] == one["linear"][:3] and one["cosine"][3] != one["linear"][3], one
    assert digests(*decays, "cosine", "--min-lr", "1e-4", "--dp", "2", "--zero", "1") == one["cosine"]
    with tempfile.TemporaryDirectory() as top:
        # The decay is of the run, which is interrupted after the third step.
        code, out, err = run(*decays, "cosine", "--min-lr", "1e-4", "--checkpoint", top + "/c", "--checkpoint-every", "3",
                             "--die-at", "forward:4:0")
        assert code != 0, err
        rest = small + ["--level", "canonical"]
        found, line = resumed(top + "/c", top + "/on", *rest)
        assert [s["parameters"] for s in found] == one["cosine"][3:] and "--decay" not in line, (line, found)
        found, line = resumed(top + "/c", top + "/other", *rest, "--decay", "constant")
        assert '--decay is "constant", was "cosine"' in line and found[-1]["parameters"] != one["cosine"][-1], line
    # Servers make the same updates; where each gradient is one, the decay is over all of them.
    star = digests(*small, "--dp", "2", "--batch", "4", "--steps", "13", "--decay", "linear", "--algorithm", "master-worker")[-1]
    served = small + ["--dp", "2", "--batch", "4", "--steps", "13", "--decay", "linear", "--sync"]
    assert digests(*served, "server")[-1] == star
    for args, *words in ((("--decay", "exponential"), "exponential", "cosine"), (("--min-lr", "0.001"), "--min-lr", "--decay"),
                         (("--decay", "linear", "--lr", "0.1", "--min-lr", "0.2"), "--min-lr 0.2"),
                         (("--decay", "linear", "--steps", "10"), "--decay", "--warmup", "10")):
        refused([*small, *args], *words)


def check_threads():
    """Each rank computes with as many threads as it is told to, whatever the environment says."""
    def threads_of_ranks(*more):
        """The most threads that a rank has had while it trained."""
        with tempfile.NamedTemporaryFile("w+") as out:
            begun = subprocess.Popen([train, *device, "--model", "mlp", "--width", "512", "--dp", "2", "--steps", "1000000", "--json", out.name, *more],
                                     env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            deadline = time.monotonic() + 100
            while time.monotonic() < deadline and sum(1 for _ in open(out.name)) < 3:
                time.sleep(0.05)
            ranks = subprocess.run(["ps", "-ww", "-e", "-o", "nlwp=,args="], check=True, capture_output=True, text=True).stdout
            counts = [int(line.split()[0]) for line in ranks.splitlines() if out.name in line]
            begun.send_signal(signal.SIGINT)
            assert begun.wait(100) == 130 and len(counts) > 2, counts
            return max(counts)

    one = threads_of_ranks()
    assert threads_of_ranks("--threads", "2") > one, one
    # The same losses but for rounding.
    rest = small + ["--dp", "2", "--batch", "8", "--steps", "4"]
    assert close(steps(*rest, "--threads", "2")[0], steps(*rest)[0], 1e-4)
    refused([*rest, "--sync", "server", "--threads", "2", "--log", "x"], "--log", "--threads 1")


def check_config():
    """Options from a file are those of the command line, which has the last word; text of a checkpoint without a run."""
    with tempfile.TemporaryDirectory() as top:
        def file(text):
            with open(top + "/run.toml", "w") as out:
                out.write(text)
            return top + "/run.toml"
        path = file("# a run\nsteps = 3\nbatch = 4\ngrid-order = pp,dp,tp\ndp = 2\nno-overlap = true\nresume = false\n"
                    "sync = 'server'\n")
        want = digests(*small, "--steps", "4", "--batch", "4", "--dp", "2", "--grid-order", "pp,dp,tp", "--no-overlap")
        assert digests(*small, "--sync", "allreduce", "--config", path, "--steps", "4") == want
        path = file(f"steps = 2\ndp = 2\nsync = server\nlog = {top}/log\n")
        steps(*small[:-4], "--config=" + path)
        os.remove(path)
        assert run("--replay", top + "/log")[0] == 0  # the log knows the options of the file
        for text, *words in (("stepz = 3\n", "--config", "stepz is none"), ("steps =\n", "--steps"), ("[run]\nsteps = 3\n", "--config", "run is none"),
                             (" ".join("one two three\nfour" for _ in range(300)), "NAME = VALUE", "one two three is none")):
            refused([*small, "--config", file(text)], *words)
        refused([*small, "--config", top + "/none"], "--config", top + "/none")
        refused([*small, "--config", top], "--config", "folder")
        refused([*small, "--config"], "--config")
        # The checkpoint knows its model, whoever held which part of it.
        trained = ("--steps", "3", "--batch", "4", "--checkpoint")
        assert run(*small, *trained, top + "/c", "--tp", "2", "--pp", "2", "--micro-batches", "2")[0] == 0
        texts = []
        for more in ((), (), ("--seed", "2"), ("--prompt", "all ranks")):
            code, out, err = run("--generate", "40", "--init", top + "/c", *more)
            assert code == 0 and len(out) == 1 + 40 + len(more[1] if "--prompt" in more else "x"), (more, out, err)
            texts.append(out)
        assert texts[0] == texts[1] != texts[2] and texts[3].startswith("all ranks"), texts
        # It is the text of the sample that a run of the same seed writes with these weights.
        code, out, err = run(*small, "--init", top + "/c", "--steps", "1", "--lr", "1e-30", "--batch", "4", "--weight-decay", "0", "--sample", "40")
        assert texts[0].strip() in out, (texts[0], out)
        assert run("--model", "mlp", *trained, top + "/mlp")[0] == 0
        for args, *words in ((("--generate", "5"), "--generate", "--init"), (("--generate", "0", "--init", top + "/c"), "--generate 0"),
                             (("--generate", "5", "--init", top + "/mlp"), "mlp", "no text"),
                             (("--generate", "5", "--init", top + "/c", "--steps", "3"), "--generate", "--steps"),
                             (("--generate", "5", "--init", top), "no checkpoint"), (("--prompt", "x"), "--prompt", "--generate")):
            refused(args, *words)


def check_straggler():
    """A slow worker: who waits for it, and who goes on. A step of 16 samples sleeps for most of its time."""
    rest = small + ["--dp", "2", "--batch", "32", "--steps", "15", "--sync"]
    plain = digests(*rest, "allreduce")
    found, total = steps(*rest, "allreduce", "--straggler", "1:8")
    assert [s["parameters"] for s in found] == plain  # it changes no bit
    waits = [w["waited"] / w["seconds"] for w in total["worked"]]
    assert waits[0] > 0.5 > 0.3 > waits[1], total["worked"]
    # Nobody waits where each gradient is an update; with a bound he does, so that both make steps at the slow one's pace.
    def pace(sync, *more):
        worked = steps(*rest, sync, "--straggler", "1:8", *more)[1]["worked"]
        assert [w["steps"] for w in worked] == [15, 15], worked
        return worked[0]["seconds"] / worked[1]["seconds"]
    assert pace("server-async") < 0.5 < 0.7 < pace("ssp", "--staleness", "1")
    # A backup's late gradients are dropped, and its steps are fewer.
    worked = steps(*rest, "backup", "--straggler", "1:8")[1]["worked"]
    assert worked[0]["steps"] == 15 > 8 > worked[1]["steps"], worked
    assert digests(*rest, "allreduce", "--straggler", "jitter") == plain


def check_wire():
    """Gradients in bf16, and only the largest ones."""
    four = small + ["--dp", "4", "--batch", "8", "--steps", "40"]
    exact, total = steps(*four, "--algorithm", "ring")
    half, half_total = steps(*four, "--algorithm", "ring", "--wire", "bf16")
    assert half[-1]["loss"] < 0.8 * half[0]["loss"] and abs(half[-1]["loss"] - exact[-1]["loss"]) < 0.3
    # Chunks are cut at 64 bytes.
    assert abs(half[0]["bytes_sent"] * 2 - exact[0]["bytes_sent"]) < 0.02 * exact[0]["bytes_sent"], (half[0], exact[0])
    assert half_total["bytes_by_formula"] * 2 == total["bytes_by_formula"], (half_total, total)
    few, few_total = steps(*four, "--topk", "0.05")
    assert few[-1]["loss"] < 0.85 * few[0]["loss"], (few[0], few[-1])
    # At most as much as if no two workers picked the same places, and what says who has how many.
    assert 0.3 * few_total["bytes_by_formula"] < few_total["bytes_sent_per_step"], few_total
    assert few_total["bytes_sent_per_step"] < 1.2 * few_total["bytes_by_formula"] + 3000, few_total
    # Sending everything is a sum of all gradients in rank order: two-shot's bits.
    everything = digests(*small, "--dp", "4", "--batch", "8", "--steps", "3", "--topk", "1")
    assert everything == digests(*small, "--dp", "4", "--batch", "8", "--steps", "3", "--algorithm", "two-shot")


def sent_by_schedule(name, ranks):
    """(messages, vectors) that the busiest rank sends, counted in the steps that `tutti show` prints."""
    text = subprocess.run([tutti, "show", "allreduce", name, "-n", str(ranks)], env=env, check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    messages, vectors, chunks, rank = {}, {}, 1, None
    for line in text.splitlines():
        words = line.split()
        if line.startswith("rank "):
            rank, chunks = words[1], int(words[4])
        elif words and words[0] == "send":
            begin, end = map(int, re.findall(r"\[(\d+):(\d+)\)", line)[0])
            messages[rank] = messages.get(rank, 0) + 1
            vectors[rank] = vectors.get(rank, 0) + (end - begin) / chunks
    return max(messages.values()), max(vectors.values())


def check_volume():
    """23,000,000 parameters and 8 workers: the plan's figures; the steps' against the schedules'."""
    for name in ("ring", "two-shot", "master-worker", "tree", "butterfly", "halving-doubling", "circulant", "all-to-all",
                 "round-robin", "two-level"):
        ranks = 6
        found = run("--model", "quadratic:100000", "--dp", ranks, "--algorithm", name, "--dry-run")[1]
        messages, vectors = sent_by_schedule(name, ranks)
        told = re.search(r"([\d.]+) MB in (\d+) messages", found)
        # A circulant message may have two parts.
        assert int(told[2]) == messages or name == "circulant", (name, ranks, told[0], messages)
        assert abs(float(told[1]) - 0.4 * vectors) < 0.006, (name, ranks, told[0], vectors)
    code, out, err = run("--model", "quadratic:23000000", "--dp", "8", "--algorithm", "ring", "--dry-run")
    assert code == 0 and "161.00 MB in 14 messages" in out, (code, out, err)
    code, out, err = run("--model", "quadratic:23000000", "--dp", "8", "--sync", "server", "--dry-run")
    assert code == 0 and "1472.00 MB" in out, (code, out, err)
    # Counted: chunks of equal length, so that every rank's are those of the formula.
    found, total = steps("--model", "quadratic:80000", "--dp", "5", "--algorithm", "ring", "--steps", "2",
                         "--optimizer", "sgd")
    assert all(s["bytes_sent"] == 2 * 4 * 64000 and s["messages_sent"] == 8 for s in found), found
    env["TUTTI_TUNING"] = untried
    for name in ("ring", "two-shot", "master-worker", "tree", "butterfly", "halving-doubling", "circulant", "all-to-all",
                 "round-robin"):
        found, total = steps("--model", "quadratic:96000", "--dp", "6", "--algorithm", name, "--steps", "1",
                             "--optimizer", "sgd", "--momentum", "0")
        messages, vectors = sent_by_schedule(name, 6)
        assert abs(total["bytes_sent_per_step"] - 384000 * vectors) < 1, (name, total, vectors)
        assert total["bytes_sent_per_step"] == round(total["bytes_by_formula"]), (name, total)
        assert total["messages_sent_per_step"] == total["messages_by_formula"], (name, total)
        assert total["messages_sent_per_step"] == messages or name == "circulant", (name, total, messages)
    # Sharded state: the same bytes.
    found, total = steps("--model", "quadratic:96000", "--dp", "6", "--zero", "1", "--algorithm", "direct", "--steps", "1")
    assert total["bytes_sent_per_step"] == total["bytes_by_formula"] == 2 * 5 * 64000, total


def check_formulas():
    """What the summary shows beside each other is equal, or there is no formula; where no ways are tried there is one."""
    sets = (("--pp", "2", "--stage-widths", "1,2"), ("--pp", "2", "--stage-widths", "1,2", "--dp", "2"), ("--dp", "4", "--zero", "1", "--optimizer", "lamb"),
            ("--dp", "4", "--algorithm", "two-level"), ("--dp", "4", "--algorithm", "all-to-all"), ("--dp", "3"), ("--dp", "2"),
            ("--dp", "4", "--level", "canonical"), ("--dp", "2", "--sync", "local-sgd"), ("--dp", "3", "--sync", "local-sgd", "--local-steps", "3"),
            ("--dp", "4", "--wire", "bf16"), ("--dp", "2", "--tp", "2", "--pp", "2"), ("--dp", "3", "--sync", "gossip"), ("--dp", "2", "--elastic"))
    for tuning, args in itertools.product((None, untried), sets):
        env.pop("TUTTI_TUNING", None)
        env.update({"TUTTI_TUNING": tuning} if tuning else {})
        total = steps(*small, "--batch", "12", *args, "--steps", "7")[1]
        for seen in (total, total.get("within_layers"), total.get("between_stages")):
            if not seen or not tuning and seen["bytes_by_formula"] is None:
                continue
            # A vector is cut at multiples of 64 bytes.
            assert abs(seen["bytes_sent_per_step"] - seen["bytes_by_formula"]) < 0.005 * seen["bytes_sent_per_step"], (args, seen)
            assert seen["messages_by_formula"] in (None, seen["messages_sent_per_step"]), (args, seen)
    env.pop("TUTTI_TUNING")
    code, out, err = run("--model", "quadratic:800000", "--dp", "4", "--steps", "2")
    assert code == 0 and "no formula: the library takes ways that send different amounts" in out, (out, err)


def close(a, b, tolerance):
    """Whether two runs' losses agree, relative."""
    assert len(a) == len(b)
    return all(abs(x["loss"] - y["loss"]) <= tolerance * abs(y["loss"]) for x, y in zip(a, b))


def check_tensor():
    """Layers divided among ranks: the losses of one process. --hash also compares what several ranks hold, bit for bit,
    after every step."""
    gpt = ["--model", "gpt", "--layers", "2", "--width", "32", "--heads", "4", "--context", "16", "--batch", "4",
           "--steps", "6"]
    one, total = steps(*gpt)
    dropped = steps(*gpt, "--dropout", "0.2")[0]
    for more, expected in ((("--tp", "2"), one), (("--tp", "4", "--algorithm", "two-shot"), one),
                           (("--tp", "2", "--sequence-parallel", "--level", "canonical"), one),
                           (("--tp", "2", "--dropout", "0.2"), dropped),
                           (("--tp", "4", "--dropout", "0.2", "--sequence-parallel"), dropped)):
        found, other = steps(*gpt, *more)
        assert close(found, expected, 2e-5), (more, found, expected)
    # With data parallelism.
    two = gpt + ["--dp", "2", "--tp", "2", "--shards", "2"]
    for more in (("--algorithm", "ring"), ("--zero", "1", "--grid-order", "tp,dp,pp")):
        found, other = steps(*two, *more)
        assert close(found, one, 2e-5), (more, found, one)
    code, out, err = run(*gpt, "--tp", "2", "--sample", "20")
    assert code == 0 and "what it writes" in out, (out, err)
    # Layer by layer, branch by branch, encoder and decoder: the bits of one process.
    waves = ("--layers", "3", "--width", "16", "--context", "12", "--rnn-chunk", "5")
    handed = (("rnn", waves, (2,)), ("rnn", (*waves, "--dropout", "0.2"), (3,)),
              ("seq2seq", ("--width", "16", "--context", "12"), (2,)))
    for model, size, widths in handed:
        rest = ["--model", model, *size, "--batch", "4", "--steps", "4"]
        expected = [s["loss"] for s in steps(*rest)[0]]
        for tp in widths:
            found = [s["loss"] for s in steps(*rest, "--tp", tp)[0]]
            assert found == expected, (model, tp, found, expected)
    for model, more in (("mlp", ("--tp", "3")), ("cnn", ("--tp", "2", "--conv-split", "output")),
                        ("cnn", ("--tp", "2", "--conv-split", "input")), ("cnn", ("--tp", "2", "--conv-split", "strips")),
                        ("cnn:inception", ("--tp", "3"))):
        rest = ["--model", model, "--batch", "6", "--steps", "4"]
        assert close(steps(*rest, *more)[0], steps(*rest)[0], 1e-3), (model, more)


def check_mesh():
    """Grids of ranks against one process: losses, the length of the gradient."""
    # Rounding grows with the rate: at 0.002 the losses of 50 steps in float32 may differ by more than 1e-3.
    tiny = ["--model", "gpt:tiny", "--context", "64", "--batch", "4", "--steps", "50", "--lr", "0.0005"]
    for dtype, tolerance in (("float64", 1e-9), ("float32", 1e-3)):
        rest = tiny + ["--dtype", dtype, "--clip", "1"]
        one = steps(*rest)[0]
        for grid in (("--dp", "2", "--tp", "2", "--zero", "1"),
                     ("--dp", "2", "--tp", "2", "--pp", "2", "--micro-batches", "2")):
            found, total = steps(*rest, *grid)
            assert close(found, one, tolerance), (dtype, grid, found[-1], one[-1])
            for a, b in zip(found, one):
                assert abs(a["gradient_norm"] - b["gradient_norm"]) <= tolerance * b["gradient_norm"], (a, b)
                assert not a["overflow"] and not b["overflow"]
    # Whoever is whose neighbour: the same bits.
    cube = [*small, "--steps", "2", "--batch", "4", "--dp", "2", "--tp", "2", "--pp", "2", "--stages", "even",
            "--micro-batches", "2", "--clip", "1", "--grid-order"]
    orders = [",".join(order) for order in itertools.permutations(("dp", "pp", "tp"))]
    usual = digests(*cube, orders[0])
    for order in orders[1:]:
        assert digests(*cube, order) == usual, order


def planned(*args):
    """What ranks of a grid hold according to --dry-run, as the summary has it."""
    code, out, err = run(*args, "--dry-run")
    assert code == 0, err
    return [{"parameters": int(p), "optimizer_state": int(s)}
            for p, s in re.findall(r"; (\d+) parameters, (\d+) values of optimizer state", out)]


def check_held():
    """What ranks of a grid hold and send; an overflow."""
    # All but normalisations, places and the biases of rows is divided by tp, the optimizer's state by dp.
    layers, width, context, tp, dp = 2, 32, 16, 2, 2
    size = ["--model", "gpt", "--layers", layers, "--width", width, "--heads", "4", "--context", context, "--batch", "4",
            "--steps", "2", "--algorithm"]
    divided = 256 * width + layers * (3 * width * (width + 1) + width * width + 4 * width * (width + 1) + 4 * width * width)
    shared = context * width + layers * (2 * width + 4 * width) + 2 * width
    found, total = steps(*size, "direct", "--tp", tp, "--dp", dp, "--zero", "1")
    held = divided / tp + shared
    assert total["parameters"] == divided + shared, total
    assert [h["parameters"] for h in total["held"]] == [held] * 4, total["held"]
    assert all(abs(h["optimizer_state"] - 2 * held / dp) <= 2 for h in total["held"]), total["held"]
    assert sum(h["optimizer_state"] for h in total["held"]) == 2 * 2 * held
    assert planned(*size, "direct", "--tp", tp, "--dp", dp, "--zero", "1") == total["held"]
    block = (12 * width * width + 7 * width) / tp + 6 * width
    piped = [*size, "auto", "--tp", tp, "--pp", "2", "--stages", "2,2", "--micro-batches", "2", "--grid-order", "dp,pp,tp"]
    found, total = steps(*piped)
    stages = [256 * width / tp + context * width + block, block + 2 * width]
    assert [h["parameters"] for h in total["held"]] == [stages[0]] * 2 + [stages[1]] * 2, (total["held"], stages)
    assert planned(*piped) == total["held"]
    # Ranks that hold different layers, in several buckets.
    waves = ["--model", "rnn", "--layers", "3", "--width", "20", "--tp", "2", "--dp", "2", "--zero", "1", "--steps", "1",
             "--first-bucket", "0.01", "--bucket", "0.02", "--optimizer", "sgd"]
    found, total = steps(*waves)
    assert planned(*waves) == total["held"] and len({h["parameters"] for h in total["held"]}) == 2, total["held"]
    # What the divided layers send: four allreduces of batch x context x width a layer, one each for the words and for
    # the logits, three of batch x context for the loss.
    found, total = steps(*size, "ring", "--tp", tp)
    elements = 4 * context * width
    assert found[0]["tensor_bytes_sent"] == 4 * 2 * (tp - 1) / tp * ((4 * layers + 2) * elements + 3 * 4 * context), found
    # Every group's counters are its formula: layers divided in every way, stages, the norms of lamb, sharded state.
    env["TUTTI_TUNING"] = untried
    grids = ((*size, "ring", "--tp", "4"), (*size, "two-shot", "--tp", "2", "--dp", "2", "--sequence-parallel"),
             (*size, "ring", "--tp", "2", "--dp", "2", "--optimizer", "lamb"),
             (*size, "ring", "--tp", "2", "--pp", "2", "--micro-batches", "2", "--evaluate-every", "1"),
             (*size, "auto", "--pp", "3", "--micro-batches", "2", "--dp", "2"), ("--model", "rnn", "--tp", "2", "--steps", "2"),
             ("--model", "cnn", "--tp", "2", "--conv-split", "strips", "--algorithm", "all-to-all", "--steps", "2", "--batch", "4"),
             ("--model", "cnn", "--pp", "3", "--no-portals", "--batch", "9", "--micro-batches", "4", "--steps", "2"))
    for grid in grids:
        found, total = steps(*grid)
        for axis, name in (("--tp", "within_layers"), ("--pp", "between_stages")):
            assert (name in total) == (axis in grid), (grid, total)
            if name in total:
                seen = total[name]
                assert seen["bytes_sent_per_step"] == seen["bytes_by_formula"] > 0, (grid, name, seen)
                assert seen["messages_sent_per_step"] == seen["messages_by_formula"] > 0, (grid, name, seen)
                assert seen["exposed_ms"] > 0, (grid, name, seen)
    found, total = steps("--model", "quadratic:96000", "--dp", "6", "--zero", "1", "--algorithm", "direct", "--steps", "1",
                         "--optimizer", "lamb")
    assert total["bytes_sent_per_step"] == total["bytes_by_formula"], total
    # An overflow is known to all, and nothing is learnt.
    for grid in ((), ("--tp", "2"), ("--dp", "2", "--zero", "1")):
        found, total = steps(*size, "auto", "--clip", "1e30", "--optimizer", "sgd", "--momentum", "0", "--lr", "1e6",
                             "--warmup", "0", "--steps", "8", "--keep-going", *grid)
        assert any(s["overflow"] for s in found), (grid, found)
        for a, b in zip(found, found[1:]):
            assert not b["overflow"] or not a["overflow"] or a["parameters"] == b["parameters"], (grid, a, b)


def check_reshard():
    """A rank dies; another grid goes on from the checkpoint."""
    with tempfile.TemporaryDirectory() as top:
        run8 = ["--data", "text:" + corpus.name, "--model", "gpt", "--layers", "2", "--width", "32", "--heads", "4", "--context", "16", "--batch", "8",
                "--steps", "8"]
        every = ("--checkpoint-every", "2", "--checkpoint")
        plain, piped = ("--shards", "4"), ("--pp", "2", "--micro-batches")
        grids = (plain, (*plain, "--tp", "4"), (*plain, "--dp", "2", "--tp", "2", "--grid-order", "tp,pp,dp"),
                 (*piped, "2", "--dp", "2", "--tp", "2"), (*piped, "4"))
        whole = steps(*run8, *plain)[0]
        for i, grid in enumerate(((*plain, "--dp", "2", "--tp", "2", "--zero", "1"),
                                  (*piped, "2", "--dp", "2", "--tp", "2", "--zero", "1"))):
            folder = f"{top}/{i}"
            code, out, err = run(*run8, *grid, *every, folder, "--die-at", "backward:4:3")
            others = range(4 if i == 0 else 8)
            # In a pipeline some are ended by the launcher before they have heard of it.
            assert code == 128 + 9 and "rank 3 (process" in err, err
            assert len([r for r in others if f"rank {r}: " in err]) >= 3, err
            print(f"after a rank of {len(others)} was killed, the last end came {err_seconds:.2f} s after the first word")
            assert err_seconds < 1.5, err_seconds
            assert sorted(name for name in os.listdir(folder) if name.startswith("step-"))[-1] == "step-000000004"
            for j, other in enumerate(grids):
                subprocess.run(["cp", "-r", folder, f"{folder}-{j}"], check=True)
                found = steps(*run8, *other, "--resume", *every, f"{folder}-{j}")[0]
                assert close(found, whole[4:], 1e-5), (grid, other, found, whole)


def log_of(path):
    """The log's first line, a list of the events of each server, and the digest."""
    lines = [json.loads(line) for line in open(path)]
    servers = []
    for line in lines[1:-1]:
        if "server" in line:
            servers.append([])
        else:
            servers[-1].append(line)
    return lines[0], servers, lines[-1]["parameters"]


def logged(folder, *args):
    """A run with a log, which is then replayed."""
    path = folder + "/log"
    found, total = steps(*args, "--log", path)
    head, servers, digest = log_of(path)
    assert found[-1]["parameters"] == digest
    code, out, err = run("--replay", path)
    assert code == 0 and digest in out, (code, out, err)
    # Staleness is what the order of events says: updates between a worker's read and its push.
    for events in servers:
        read, updates = {}, 0
        for event in events:
            if "read" in event:
                read[event["read"]] = updates
                assert event["updates"] == updates
            else:
                before, updates = updates, event["updates"]
                if "async" in args or "ssp" in args:
                    assert event["staleness"] == before - read.get(event["push"], 0), event
    return head, servers, digest


def check_servers():
    with tempfile.TemporaryDirectory() as top:
        four = small + ["--dp", "4", "--batch", "8", "--steps", "5"]
        # Synchronous: the star's bits, for any number of servers.
        for optimizer, counts in (("adamw", (3,)), ("lamb", (1, 2, 3))):
            star = digests(*four, "--optimizer", optimizer, "--algorithm", "master-worker")
            for count in counts:
                assert star == digests(*four, "--optimizer", optimizer, "--sync", "server", "--servers", count), count
        star = digests(*four, "--algorithm", "master-worker")[-1]
        head, servers, digest = logged(top, *four, "--sync", "server", "--servers", "2")
        assert digest == star
        assert logged(top, *four, "--sync", "ssp", "--staleness", "0")[2] == star
        # For lamb servers hold whole tensors.
        logged(top, *four, "--optimizer", "lamb", "--sync", "server-async", "--servers", "3")
        for count in (1, 2):
            assert logged(top, *four, "--sync", "backup", "--backup", "0", "--servers", count)[2] == star, count
        # Bytes through the servers: 2 |A| p b an iteration.
        found, total = steps("--model", "quadratic:80000", "--dp", "8", "--sync", "server", "--steps", "2", "--servers",
                             "2", "--log", top + "/bytes")
        assert all(s["bytes_sent"] == 320_000 + 2 * 8 and s["messages_sent"] == 4 for s in found), found
        assert total["bytes_sent_per_step"] == total["bytes_by_formula"], total
        # 8 workers and 2 servers tell each other numbers of 8 bytes: 2 iterations, the next ones, the end.
        assert [s["bytes_received"] for s in total["servers"]] == [2 * 8 * (160_000 + 8) + 8 * 8] * 2, total
        assert [s["bytes_sent"] for s in total["servers"]] == [2 * 8 * (160_000 + 8)] * 2, total
        assert log_of(top + "/bytes")[0]["server_bytes"] == 2 * 2 * 320_000 * 8 + 8 * 2 * (2 + 2 + 1) * 8
        # So too where parts differ, gradients are dropped, and checkpoints are written.
        for more in (("server", "--servers", "3"), ("backup", "--servers", "2", "--checkpoint", top + "/kept", "--checkpoint-every", "2"),
                     ("ssp",)):
            for seen in steps(*four, "--sync", *more)[1]["servers"]:
                assert seen["bytes_received"] == seen["received_by_formula"] > 0, (more, seen)
                assert seen["bytes_sent"] == seen["sent_by_formula"] > 0, (more, seen)
        # Asynchronous.
        for count in (1, 2):
            head, servers, digest = logged(top, *small, "--dp", "4", "--batch", "8", "--steps", "12", "--sync",
                                           "server-async", "--servers", count, "--staleness-aware", "--compensation", "0.1")
            assert all(sum("push" in e for e in events) == 48 for events in servers)
        # One worker is never stale: what staleness brings in has no effect.
        alone = small + ["--dp", "1", "--batch", "4", "--steps", "4", "--sync", "server-async"]
        plain = steps(*alone)[0][-1]["parameters"]
        assert steps(*alone, "--compensation", "5")[0][-1]["parameters"] == plain
        assert steps(*alone, "--staleness-aware")[0][-1]["parameters"] == plain
        # Stale-synchronous: nobody starts an iteration more than s ahead of the slowest.
        for bound in (1, 3):
            head, servers, digest = logged(top, *small, "--dp", "4", "--batch", "8", "--steps", "15", "--sync", "ssp",
                                           "--staleness", bound)
            clocks = dict.fromkeys(range(4), 0)
            for event in servers[0]:
                if "push" in event:
                    clocks[event["push"]] = event["clock"] + 1
                    assert max(clocks.values()) - min(clocks.values()) <= bound + 1, clocks
                else:
                    assert event["next"] == clocks[event["read"]] and event["next"] - min(clocks.values()) <= bound
        # Backup workers: every update takes exactly the first N gradients of its step, no late one is ever used. All
        # servers take the same.
        for count, dp in ((1, 4), (3, 3)):
            head, servers, digest = logged(top, *small, "--dp", dp, "--batch", "8", "--steps", "10", "--sync", "backup",
                                           "--backup", "1", "--servers", count)
            used, updates = 0, 0
            for event in servers[0]:
                if "push" in event:
                    assert event["used"] == (event["clock"] == updates), event
                    used += event["used"]
                    updates = event["updates"]
                    assert updates == used // (dp - 1), event
            assert updates == 10 and used == 10 * (dp - 1)
            assert len(servers) == count and all(events == servers[0] for events in servers), count
        # A damaged log is refused.
        text = open(top + "/log").read().splitlines()
        for bad in (text[:-1], ["x"] + text[1:], text[:2] + text[4:], []):
            with open(top + "/bad", "w") as file:
                file.write("\n".join(bad))
            code, out, err = run("--replay", top + "/bad")
            assert code in (1, 2) and out == "" and err.count("\n") == 1, (bad[:3], code, out, err)
        # A worker or a server dies: the others end and say who it was.
        for mode, dies in ((("server",), ("forward:2:1", "server:0:4")), (("ssp",), ("forward:2:1", "server:0:4")),
                           (("backup", "--servers", "2"), ("forward:0:1", "server:0:4", "server:0:5"))):
            for die in dies:
                code, out, err = run(*four, "--sync", *mode, "--die-at", die, "--steps", "1000")
                assert code == 128 + 9 and f"rank {die[-1]}" in err and "rank 0: " in err, (mode, die, code, err)
                assert err_seconds < 1.5, (mode, die, err_seconds)


def check_decentralised():
    convex = ["--model", "quadratic:100", "--dp", "4", "--optimizer", "sgd", "--momentum", "0", "--steps", "150"]
    start = steps("--model", "quadratic:100", "--steps", "1", "--lr", "1e-9")[1]["validation_loss"]
    for more in (("--sync", "local-sgd", "--local-steps", "8"), ("--sync", "gossip"), ("--sync", "server-async")):
        found, total = steps(*convex, *more)
        assert total["validation_loss"] < 0.01 * start, (more, start, total)
    found, total = steps("--model", "quadratic:128", "--dp", "4", "--steps", "16", "--sync", "local-sgd", "--local-steps",
                         "8", "--algorithm", "ring")
    assert [s["bytes_sent"] for s in found] == ([0] * 7 + [6 * 128]) * 2, found
    assert total["bytes_sent_per_step"] == total["bytes_by_formula"] == 96, total
    found, total = steps("--model", "quadratic:128", "--dp", "2", "--steps", "4", "--sync", "gossip")
    assert all(s["bytes_sent"] == 4 * 128 + 8 for s in found) and total["bytes_by_formula"] == 4 * 128 + 8, found
    # Of more workers, the busiest may be one that answers, as often as it was picked.
    busiest = set()
    for dp, seed in ((3, 1), (4, 1), (4, 2), (6, 3)):
        found, total = steps("--model", "quadratic:128", "--dp", dp, "--steps", "7", "--sync", "gossip", "--seed", seed)
        assert total["bytes_sent_per_step"] == total["bytes_by_formula"], (dp, seed, total)
        assert total["messages_sent_per_step"] == total["messages_by_formula"], (dp, seed, total)
        busiest.add(total["messages_sent_per_step"] == 2)
    assert busiest == {True, False}, busiest
    # Averaging after every step is data parallelism, but for rounding.
    one = steps(*convex, "--sync", "local-sgd", "--local-steps", "1")[1]["validation_loss"]
    other = steps(*convex)[1]["validation_loss"]
    assert abs(one - other) < 1e-3 * other, (one, other)
    for dp, more in ((4, ("--sync", "local-sgd")), (4, ("--sync", "gossip")), (3, ("--sync", "gossip"))):
        found, total = steps(*small, "--dp", dp, "--batch", "16", "--steps", "60", "--evaluate-every", "30", *more)
        assert total["validation_loss"] < 0.8 * found[0]["loss"], (more, total)
        assert total["validation_loss"] < found[29]["validation_loss"], (more, found[29], total)
        code, out, err = run(*small, "--dp", "4", "--steps", "1000", *more, "--die-at", "forward:9:1")
        assert code == 128 + 9 and "rank 1" in err and "rank 0: " in err, (more, code, err)


def check_models():
    """Every model learns; what is said is there."""
    for model, extra, bound in (("mlp", (), 0.5), ("cnn", (), 0.8), ("rnn", ("--context", "16"), 0.95)):
        found, total = steps("--model", model, "--dp", "2", "--steps", "600" if model == "mlp" else "300" if model == "cnn" else "40", *extra)
        assert found[-1]["loss"] < bound * found[0]["loss"], (model, found[0], found[-1])
        for key in ("step", "loss", "samples_per_s", "comm_exposed_ms", "bytes_sent"):
            assert all(isinstance(s[key], (int, float)) for s in found), key
        assert total["validation_loss"] > 0 and total["ranks"] == 2
    found, total = steps("--model", "quadratic:100", "--dp", "4", "--steps", "150", "--optimizer", "sgd",
                         "--momentum", "0")
    assert total["validation_loss"] < 0.05, total
    code, out, err = run(*small, "--dp", "2", "--steps", "3", "--sample", "30")
    assert code == 0 and "throughput" in out and "rank 1 " in out and "what it writes" in out, (out, err)
    # The page and the trace.
    with tempfile.TemporaryDirectory() as folder:
        for sync in ("allreduce", "gossip", "server"):
            code, out, err = run(*small, "--dp", "2", "--steps", "25", "--sync", sync, "--report", folder + "/r.html",
                                 "--trace", folder + "/t.json", "--sample", "0")
            assert code == 0, err
            trace = json.load(open(folder + "/t.json"))["traceEvents"]
            done = [e for e in trace if e["ph"] == "X"]
            assert {e["pid"] for e in done} == {0, 1} and all(e["dur"] >= 0 for e in done)
            assert {e["args"]["step"] for e in done} == set(range(1, 21)) | {25}, {e["args"]["step"] for e in done}
            page = open(folder + "/r.html").read()
            assert "<svg" in page and "rank 1 communication" in page and "http" not in page
            xml.etree.ElementTree.fromstring(page[page.index("<html"):].replace('<meta charset="utf-8">', ""))
    # The same figures as lines; a run that goes on adds to them, with the names once.
    with tempfile.TemporaryDirectory() as folder:
        rest = small + ["--dp", "2", "--clip", "1", "--evaluate-every", "2", "--checkpoint", folder + "/c", "--csv", folder + "/csv"]
        seen = steps(*rest, "--steps", "2")[0] + steps(*rest, "--steps", "3", "--resume")[0]
        with open(folder + "/csv") as file:
            lines = list(csv.DictReader(file))
        assert len(lines) == 3 and "loss" in lines[0] and "gradient_norm" in lines[0], lines
        for line, object in zip(lines, seen):
            assert all(object.get(name) == (float(value) if value else None) for name, value in line.items()), (line, object)
        assert [bool(line["validation_loss"]) for line in lines] == [False, True, True]
        code, out, err = run(*small, "--steps", "2", "--csv", "-", "--sample", "0")
        assert code == 0 and out.startswith("step,") and out.count("\n") == 3, (out, err)
    # A user's own pictures.
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/train-images-idx3-ubyte", "wb") as file:
            file.write(bytes([0, 0, 8, 3, 0, 0, 0, 60, 0, 0, 0, 8, 0, 0, 0, 8]))
            file.write(bytes((i // 64 % 2) * 200 for i in range(60 * 64)))
        with open(f"{folder}/train-labels-idx1-ubyte", "wb") as file:
            file.write(bytes([0, 0, 8, 1, 0, 0, 0, 60]) + bytes(i % 2 for i in range(60)))
        found, total = steps("--model", "mlp", "--data", "idx:" + folder, "--dp", "2", "--steps", "30")
        assert total["validation_loss"] < 0.3, total
        with open(f"{folder}/train-images-idx3-ubyte", "ab") as file:
            file.write(b"x")
        refused(("--model", "mlp", "--data", "idx:" + folder), "3841", "3840")


def begun(folder, *more, die=None, steps_=8):
    """A run with checkpoints every second step, that dies where asked."""
    args = small + ["--dp", "2", "--batch", "8", "--shards", "4", "--steps", steps_, "--level", "canonical",
                    "--checkpoint", folder, "--checkpoint-every", "2", "--json", "-", "--hash", "--sample", "0", *more]
    if die:
        args += ["--die-at", die]
    code, out, err = run(*args)
    return code, [s for s in map(json.loads, out.splitlines()) if "parameters" in s and "step" in s], err


def check_checkpoint():
    """Saved, resumed, resharded: the bits of a run without interruption. What is damaged is refused."""
    with tempfile.TemporaryDirectory() as top:
        code, whole, err = begun(top + "/whole")
        assert code == 0 and len(whole) == 8, err
        last = {s["step"]: s["parameters"] for s in whole}
        assert sorted(os.listdir(top + "/whole")) == ["step-000000006", "step-000000008"]
        code, part, err = begun(top + "/part", steps_=4)
        assert code == 0, err
        code, out, err = run(*small, "--dp", "2", "--checkpoint", top + "/part")
        assert code == 2 and "--resume" in err, err
        # With more steps, by other numbers of workers, with sharded state, the data in another place: the same.
        subprocess.run(["cp", corpus.name, top + "/moved.txt"], check=True)
        for name, more in (("same", ()), ("one", ("--dp", "1")), ("four", ("--dp", "4")),
                           ("zero", ("--dp", "4", "--zero", "1")), ("moved", ("--data", "text:" + top + "/moved.txt")),
                           ("level", ("--level", "fast"))):
            subprocess.run(["cp", "-r", top + "/part", top + "/" + name], check=True)
            if name == "level":  # another level is another run
                code, rest, err = begun(top + "/level", "--resume", *more)
                assert code == 2 and "--level" in err, err
                continue
            code, rest, err = begun(top + "/" + name, "--resume", *more)
            assert code == 0, (name, err)
            assert {s["step"]: s["parameters"] for s in rest} == {k: v for k, v in last.items() if k > 4}, name
        # Sharded state: saved by 4, read by 2 without shards and by 3 with them.
        plain = small + ["--batch", "12", "--shards", "12", "--hash", "--json", "-", "--sample", "0", "--steps"]
        for optimizer in ("adamw", "lamb", "sgd"):
            rest = [*plain, "3", "--checkpoint", f"{top}/{optimizer}", "--optimizer", optimizer]
            code, out, err = run(*rest, "--dp", "4", "--zero", "1")
            assert code == 0, err
            results = []
            for dp, zero in ((2, 0), (2, 1)):
                subprocess.run(["cp", "-r", f"{top}/{optimizer}", f"{top}/{optimizer}{dp}{zero}"], check=True)
                code, out, err = run(*plain, "5", "--checkpoint", f"{top}/{optimizer}{dp}{zero}", "--optimizer", optimizer,
                                     "--dp", dp, "--zero", zero, "--resume")
                assert code == 0, err
                results.append([json.loads(line)["parameters"] for line in out.splitlines()])
            assert results[0] == results[1], optimizer
        # top-k's rest is kept too.
        keep = small + ["--dp", "2", "--batch", "4", "--topk", "0.1", "--hash", "--json", "-", "--sample", "0"]
        code, out, err = run(*keep, "--steps", "6")
        want = json.loads(out.splitlines()[5])["parameters"]
        assert run(*keep, "--steps", "3", "--checkpoint", top + "/topk")[0] == 0
        code, out, err = run(*keep, "--steps", "6", "--checkpoint", top + "/topk", "--resume")
        assert code == 0 and json.loads(out.splitlines()[2])["parameters"] == want, err
        code, out, err = run(*keep, "--dp", "1", "--shards", "2", "--steps", "9", "--checkpoint", top + "/topk", "--resume")
        assert code == 2 and "--dp must be 2" in err, err
        # Other runs, other data, damaged files.
        again = small + ["--dp", "2", "--batch", "8", "--shards", "4", "--steps", "8", "--level", "canonical",
                         "--resume", "--checkpoint"]
        refused(again + [top + "/part", "--seed", "2"], "--seed is 2, was 1")
        refused(again + [top + "/part", "--layers", "3"], "--layers is 3, was 2")
        refused(again + [top + "/empty"], "no checkpoint")
        refused(again + [top + "/part", "--steps", "4"], "4 steps")
        names = sorted(os.listdir(top + "/part"))
        newest = f"{top}/part/{names[-1]}/rank-1-of-2.safetensors"
        data = bytearray(open(newest, "rb").read())
        data[len(data) // 2] ^= 1
        open(newest, "wb").write(data)
        code, rest, err = begun(top + "/part", "--resume")
        assert code == 0 and "damaged" in err and names[0] in err, err
        assert {s["step"]: s["parameters"] for s in rest} == {k: v for k, v in last.items() if k > 2}
        for name in os.listdir(top + "/part"):
            with open(f"{top}/part/{name}/rank-0-of-2.safetensors", "r+b") as file:
                file.truncate(100)
        refused(again + [top + "/part", "--steps", "9"], "no checkpoint is whole", "length")


def resumed(folder, copy, *args):
    """The steps of a run that goes on from a copy of the folder, and the line that says so."""
    subprocess.run(["cp", "-r", folder, copy], check=True)
    code, out, err = run(*args, "--checkpoint", copy, "--resume", "--json", copy + ".json", "--sample", "0", "--hash")
    assert code == 0 and "goes on after step" in out, (args, out, err)
    found = [json.loads(line) for line in open(copy + ".json")]
    return found[:-1], re.search("goes on after step .*", out)[0]


def check_other_division():
    """What a run computes does not depend on how it is divided: others go on from its checkpoints."""
    with tempfile.TemporaryDirectory() as top:
        canonical = small + ["--level", "canonical", "--dropout", "0.1"]
        whole = digests(*canonical, "--batch", "8", "--shards", "4", "--steps", "5")
        ways = {"dp1": ("--dp", "1"), "dp2": ("--dp", "2"), "dp4": ("--dp", "4"), "pp2": ("--pp", "2"),
                "dp2pp2": ("--dp", "2", "--pp", "2", "--zero", "1")}
        first = {"dp2": ("--shards", "4"), "pp2": ("--micro-batches", "4"), "dp2pp2": ("--micro-batches", "2")}
        # Neither --batch nor --shards are told again, nor the number of steps where it stays.
        for one, more in first.items():
            assert digests(*canonical, *ways[one], *more, "--batch", "8", "--steps", "3", "--checkpoint", f"{top}/{one}") == whole[:3]
            for other, grid in ways.items():
                found, line = resumed(f"{top}/{one}", f"{top}/{one}-{other}", *canonical, *grid, "--steps", "5")
                assert [s["parameters"] for s in found] == whole[3:], (one, other, found)
                assert "--steps is 5, was 3" in line, line
                for axis in ("--dp", "--pp"):
                    def size(grid):
                        return dict(zip(grid[::2], grid[1::2])).get(axis, "1")
                    assert (f"{axis} is {size(grid)}, was {size(ways[one])}" in line) == (size(grid) != size(ways[one])), line
        # By default, in doubles: but for rounding. Steps, rate and what is left of a run that was interrupted.
        plain = small + ["--dtype", "float64", "--batch-per-rank", "3"]
        whole = steps(*plain, "--dp", "2", "--steps", "5")[0]
        assert run(*plain, "--dp", "2", "--steps", "5", "--checkpoint", top + "/plain", "--checkpoint-every", "2", "--die-at",
                   "forward:3:0")[0] != 0
        for name, grid in (("one", ("--dp", "1")), ("four", ("--dp", "4")), ("tensor", ("--tp", "2")), ("piped", ("--pp", "2"))):
            found, line = resumed(top + "/plain", f"{top}/plain-{name}", *plain[:-2], *grid)
            assert [s["step"] for s in found] == [3, 4, 5] and close(found, whole[2:], 1e-9), (name, found, whole)
        found, line = resumed(top + "/plain", top + "/plain-slow", *plain[:-2], "--dp", "2", "--lr", "0.001")
        assert "; --lr is 0.001, was 0.002" in line and found[-1]["loss"] != whole[-1]["loss"], line
        refused([*plain, "--dp", "4", "--checkpoint", top + "/plain", "--resume"], "--batch is 12, was 6")
        # Under a launcher, too, a folder that is used is not used again.
        before = sorted(os.listdir(top + "/plain"))
        again = subprocess.run([tutti, "run", "-n", "2", train, *map(str, plain), "--dp", "2", "--checkpoint", top + "/plain"], env=env,
                               capture_output=True, text=True, timeout=120)
        assert again.returncode == 2 and "rank 0: --checkpoint" in again.stderr and "--resume" in again.stderr, again
        assert "rank 1: " not in again.stderr and sorted(os.listdir(top + "/plain")) == before, again
        # The weights alone: of another division, by other ways to agree.
        total = steps(*small, "--dp", "2", "--steps", "4", "--checkpoint", top + "/weights")[1]
        still = small + ["--steps", "1", "--lr", "1e-30", "--optimizer", "sgd", "--momentum", "0", "--seed", "7"]
        for more in (("--dp", "2"), ("--tp", "2", "--pp", "2"), ("--dp", "2", "--sync", "server"), ("--dp", "2", "--sync", "local-sgd")):
            other = steps(*still, *more, "--init", top + "/weights")[1]
            assert abs(other["validation_loss"] - total["validation_loss"]) < 1e-4, (more, other, total)
        assert abs(steps(*still, "--init", top + "/weights/step-000000004")[1]["validation_loss"] - total["validation_loss"]) < 1e-5
        steps(*small, "--dp", "2", "--steps", "2", "--sync", "server", "--init", top + "/weights", "--log", top + "/log")
        assert run("--replay", top + "/log")[0] == 0
        refused([*small, "--layers", "3", "--init", top + "/weights"], "--init", "--layers is 3, was 2")
        refused([*small, "--dtype", "float64", "--init", top + "/weights"], "--init", "--dtype")
        refused([*small, "--init", top + "/none"], "--init", "no checkpoint")


def check_damaged():
    """21 and more damaged checkpoints: refused in a line, or the one before is taken, and that is said."""
    with tempfile.TemporaryDirectory() as top:
        rest = small + ["--dp", "2", "--batch", "4", "--hash", "--sample", "0"]
        whole = digests(*small, "--dp", "2", "--batch", "4", "--steps", "5")
        code, out, err = run(*rest, "--steps", "4", "--checkpoint-every", "2", "--checkpoint", top + "/good")
        assert code == 0, err

        def described(change):
            """checkpoint.json with other contents, under a checksum that fits."""
            def damage(folder):
                path = folder + "/checkpoint.json"
                about = json.load(open(path))
                change(about["contents"])
                text = json.dumps(about["contents"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
                about["sha256"] = hashlib.sha256(text.encode()).hexdigest()
                json.dump(about, open(path, "w"))
            return damage

        def changed(**values):
            return described(lambda contents: contents.update(values))

        def rewritten(name, change):
            def damage(folder):
                data = bytearray(open(f"{folder}/{name}", "rb").read())
                change(data)
                open(f"{folder}/{name}", "wb").write(data)
            return damage

        def flip(data):
            data[len(data) // 2] ^= 1

        def cut(data):
            del data[len(data) // 2:]

        def without(name):
            return lambda folder: os.remove(f"{folder}/{name}")

        file, about = "rank-1-of-2.safetensors", "checkpoint.json"
        damages = [changed(step=-5), changed(step=0), changed(step="4"), changed(step=3), changed(step=4.5), changed(identity=[1]),
                   changed(settings=None), changed(data="x"), changed(copies=0), changed(copies="two"), changed(files=[]),
                   changed(files={}), changed(tensors=[]), changed(tensors={"parameters/x": 1}),
                   described(lambda c: c["files"][0].update(name="../rank-0-of-2.safetensors")),
                   described(lambda c: c["files"][1].update(name=c["files"][0]["name"])),
                   described(lambda c: c["files"][1].update(sha256="")),
                   described(lambda c: c["files"][1].update(bytes=1)),
                   described(lambda c: c.pop("step")),
                   described(lambda c: next(iter(c["tensors"].values()))[0].update(file=9)),
                   described(lambda c: next(iter(c["tensors"].values()))[0].update(file=-1)),
                   rewritten(about, flip), rewritten(about, cut), rewritten(about, bytearray.clear), without(about),
                   rewritten(about, lambda data: data.__setitem__(slice(None), data.replace(b'"format": 3', b'"format": 2'))),
                   rewritten(about, lambda data: data.__setitem__(slice(None), data.replace(b'"batch": 4', b'"batch": 8'))),
                   rewritten(about, lambda data: data.__setitem__(slice(None), b"[1]")),
                   rewritten(file, flip), rewritten(file, cut), rewritten(file, bytearray.clear), without(file),
                   rewritten(file, lambda data: data.extend(b"x"))]
        for i, damage in enumerate(damages):
            subprocess.run(["cp", "-r", top + "/good", f"{top}/{i}"], check=True)
            damage(f"{top}/{i}/step-000000004")
            if i % 6 == 0:  # the one before it is there: a line says that it is taken
                code, out, err = run(*rest, "--steps", "5", "--checkpoint", f"{top}/{i}", "--resume", "--dry-run")
                assert code == 0 and err.count("\n") == 1 and "step-000000004 is damaged" in err and "step-000000002" in err, (i, code, err)
            subprocess.run(["rm", "-r", f"{top}/{i}/step-000000002"], check=True)
            refused([*rest, "--steps", "5", "--checkpoint", f"{top}/{i}", "--resume"], "no checkpoint is whole", "step-000000004")
        # What can be said but is of another run.
        for i, (change, word) in enumerate(((lambda c: c["identity"].clear(), "--model"),
                                            (lambda c: c["identity"].update(batch=8), "--batch"),
                                            (lambda c: c.update(data=7), "other data"))):
            subprocess.run(["cp", "-r", top + "/good", f"{top}/other{i}"], check=True)
            described(change)(f"{top}/other{i}/step-000000004")
            refused([*rest, "--steps", "5", "--checkpoint", f"{top}/other{i}", "--resume"], word)
        # What follows the checkpoint that was gone on from is not taken for newer.
        subprocess.run(["cp", "-r", top + "/good", top + "/late"], check=True)
        os.rename(top + "/late/step-000000004", top + "/late/step-000000009")
        found, line = resumed(top + "/late", top + "/late2", *rest[:-3], "--steps", "5")
        assert [s["parameters"] for s in found] == whole[2:] and "after step 2" in line, (line, found)
        assert sorted(os.listdir(top + "/late2")) == ["step-000000002", "step-000000005"], os.listdir(top + "/late2")


def check_killed():
    """A rank is killed at every point of a checkpoint, and in each phase of a step: the others end within a second
    and name it, and --resume continues from the last checkpoint, bit for bit."""
    with tempfile.TemporaryDirectory() as top:
        code, whole, err = begun(top + "/whole", steps_=6)
        last = {s["step"]: s["parameters"] for s in whole}
        slowest = 0
        for i, place in enumerate(("save-begin", "save-header", "save-half", "save-written", "save-synced", "save-about",
                                   "save-named", "save-renamed", "save-pruned", "forward", "backward", "allreduce",
                                   "update")):
            folder = f"{top}/{place}"
            own_of_zero = place in ("save-about", "save-named", "save-renamed", "save-pruned")
            rank = 0 if own_of_zero else i % 2
            step = 5 if place == "save-pruned" else 3
            started = time.monotonic()
            code, seen, err = begun(folder, die=f"{place}:{step}:{rank}", steps_=6)
            slowest = max(slowest, err_seconds)
            assert code != 0 and f"rank {1 - rank}: " in err and f"rank {rank} " in err, (place, code, err)
            assert time.monotonic() - started < 30, place
            complete = sorted(name for name in os.listdir(folder) if name.startswith("step-"))
            renamed = place in ("save-renamed", "save-pruned")
            assert complete[-1] == f"step-{step + 1 if renamed else 2:09}", (place, complete)
            code, rest, err = begun(folder, "--resume", steps_=6 if place != "save-pruned" else 7)
            assert code == 0, (place, err)
            assert all(last.get(s["step"], s["parameters"]) == s["parameters"] for s in rest), place
            assert rest[-1]["step"] == (7 if place == "save-pruned" else 6)
            assert not any(name.startswith("unfinished") for name in os.listdir(folder)), os.listdir(folder)
        print(f"after a rank was killed, the slowest end came {slowest:.2f} s after the first word")
        assert slowest < 1.5, slowest
        # A disk that is full in the middle: files longer than 60 KB cannot be written.
        folder = top + "/limited"
        code, out, err = begun(folder, steps_=2)
        assert code == 0, err
        limited = subprocess.run(["bash", "-c", 'ulimit -f 60; trap "" XFSZ; exec "$0" "$@"', train, *map(str, small), "--dp", "2", "--batch", "8", "--shards", "4", "--steps", "4", "--level",
                                  "canonical", "--checkpoint", folder, "--resume", "--transport", "tcp"], env=env, capture_output=True, text=True)
        assert limited.returncode == 1 and "File too large" in limited.stderr, limited
        assert "rank 0: the checkpoint of step 4 cannot be written" in limited.stderr, limited.stderr
        assert os.listdir(folder) == ["step-000000002"], os.listdir(folder)
        # A full disk.
        if os.geteuid() == 0:
            mount = top + "/small"
            os.mkdir(mount)
            done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount], stderr=subprocess.DEVNULL)
            if done.returncode == 0:
                try:
                    code, seen, err = begun(mount + "/c", "--width", "64")
                    assert code == 2 and "are free" in err, (code, err)
                finally:
                    subprocess.run(["umount", mount])


def check_other_checkpoints():
    """The same where servers hold the parameters, or each worker has its own."""
    kept = small + ["--batch", "8", "--hash", "--json", "-", "--sample", "0"]

    def parameters(*args):
        code, out, err = run(*kept, *args, *(("--checkpoint-every", "2") if "--checkpoint" in args else ()))
        assert code == 0, (args, err)
        found = [s for s in map(json.loads, out.splitlines()) if "step" in s]
        return found[-1]["parameters"], [s["step"] for s in found]

    server = ("--sync", "server", "--servers")
    backup = ("--sync", "backup", "--backup", "0", "--servers")
    alone = ("--sync", "server-async", "--staleness-aware", "--compensation", "0.1")
    with tempfile.TemporaryDirectory() as top:
        # What the servers hold may be divided among another number of them.
        for name, args, other in (("server", (*server, "1"), (*server, "2")),
                                  ("servers", (*server, "2", "--optimizer", "lamb"), (*server, "1", "--optimizer", "lamb")),
                                  ("ssp", ("--sync", "ssp", "--staleness", "0"), ()),
                                  ("backup", (*backup, "1"), (*backup, "2")),
                                  ("backups", (*backup, "2"), (*backup, "1")),
                                  # The checkpoint is between two averages.
                                  ("local-sgd", ("--sync", "local-sgd", "--local-steps", "3"), ()),
                                  # One worker is never stale, so that this has one outcome, too.
                                  ("async", (*alone, "--dp", "1"), ())):
            rest = ("--dp", "2", *args)
            want, seen = parameters(*rest, "--steps", "7")
            folder = f"{top}/{name}"
            parameters(*rest, "--steps", "4", "--checkpoint", folder)
            if other:
                subprocess.run(["cp", "-r", folder, folder + "-other"], check=True)
                got, seen = parameters("--dp", "2", *other, "--steps", "7", "--checkpoint", folder + "-other", "--resume")
                assert got == want, name
            got, seen = parameters(*rest, "--steps", "7", "--checkpoint", folder, "--resume")
            assert got == want and seen == [5, 6, 7], (name, seen)
            assert sorted(os.listdir(folder)) == ["step-000000006", "step-000000007"], os.listdir(folder)
        refused([*kept, "--sync", "local-sgd", "--local-steps", "3", "--dp", "4", "--checkpoint", top + "/local-sgd", "--resume",
                 "--steps", "9"], "--dp is 4, was 2")
        refused([*kept, *server, "1", "--dp", "2", "--checkpoint", top + "/server", "--resume", "--steps", "9", "--log",
                 top + "/log"], "--log", "whole run")
        # Where it matters who was first, from a state that all have agreed on.
        for name, args in (("server-async", ("--sync", "server-async", "--servers", "2")),
                           ("ssp-2", ("--sync", "ssp", "--staleness", "2")),
                           ("backup-1", ("--sync", "backup", "--backup", "1")),
                           ("backup-2", ("--sync", "backup", "--backup", "2", "--servers", "2")), ("gossip", ("--sync", "gossip"))):
            rest = ["--model", "quadratic:100", "--dp", "4", "--optimizer", "sgd", "--momentum", "0", *args,
                    "--checkpoint-every", "30", "--checkpoint", f"{top}/{name}"]
            first, total = steps(*rest, "--steps", "70")
            assert sorted(os.listdir(f"{top}/{name}")) == ["step-000000060", "step-000000070"]
            found, ended = steps(*rest, "--steps", "150", "--resume")
            assert found[0]["step"] == 71 and found[0]["loss"] < 0.5 * first[0]["loss"], (name, first[0], found[0])
            assert ended["validation_loss"] < 1.1 * total["validation_loss"] + 0.01, (name, total, ended)


def check_other_killed(syncs=("server",)):
    """A worker or a server is killed while a checkpoint is written, or in a step: as check_killed()."""
    with tempfile.TemporaryDirectory() as top:
        for sync in syncs:
            args = small + ["--dp", "2", "--batch", "8", "--sync", sync, "--steps", "6", "--checkpoint-every", "2", "--json", "-",
                            "--hash", "--sample", "0", *(("--local-steps", "3") if sync == "local-sgd" else ()), "--checkpoint"]
            code, out, err = run(*args, top + "/whole-" + sync)
            assert code == 0, err
            want = [json.loads(line).get("parameters") for line in out.splitlines()][5]
            # The server holds the state; of gossip only even ranks ask.
            for place, rank in (("save-begin", 1), ("save-half", 2 if sync == "server" else 1), ("save-written", 0),
                                ("save-synced", 2 if sync == "server" else 0), ("save-named", 0), ("save-renamed", 0),
                                ("forward", 0), ("allreduce", 1 if sync != "gossip" else 0)):
                folder = f"{top}/{sync}-{place}-{rank}"
                step = 2 if sync == "local-sgd" and place == "allreduce" else 3  # the only average between two checkpoints
                code, out, err = run(*args, folder, "--die-at", f"{place}:{step}:{rank}")
                assert code == 128 + 9 and f"rank {rank} " in err, (sync, place, code, err)
                assert err_seconds < 1.5, (sync, place, err_seconds)
                complete = max(name for name in os.listdir(folder) if name.startswith("step-"))
                assert complete == ("step-000000004" if place == "save-renamed" else "step-000000002"), (place, complete)
                code, out, err = run(*args, folder, "--resume")
                assert code == 0, (sync, place, err)
                got = [s for s in map(json.loads, out.splitlines()) if "step" in s][-1]["parameters"]
                assert got == want or sync == "gossip", (sync, place)
                assert not any(name.startswith("unfinished") for name in os.listdir(folder)), os.listdir(folder)


def check_deadline():
    """A rank that computes for longer than any call's default limit is waited for; where --timeout is given, it is not."""
    rest = small + ["--batch", "4", "--steps", "3"]
    slow = ["--sleep-at", "forward:1:1:90000"]
    runs = [(*slow, "--dp", "2", *more) for more in (
        (), ("--zero", "1"), ("--sync", "server"), ("--sync", "server-async"), ("--sync", "ssp"),
        ("--sync", "backup", "--backup", "0", "--servers", "2"), ("--sync", "local-sgd", "--local-steps", "2"), ("--sync", "gossip"))]
    runs += [("--sleep-at", "forward:1:0:90000", "--dp", "2", "--sync", "gossip"),
             ("--sleep-at", "forward:1:0:90000", "--sync", "server"),
             (*slow, "--tp", "2"), (*slow, "--pp", "2", "--micro-batches", "2"),
             ("--sleep-at", "profile:0:0:90000", "--pp", "2", "--micro-batches", "2")]
    with concurrent.futures.ThreadPoolExecutor(len(runs)) as pool:
        for found, total in pool.map(lambda more: steps(*rest, *more), runs):
            assert [s["step"] for s in found] == [1, 2, 3] and total["loss"] > 0, (found, total)
    # The ranks of the run are named, not those of a pair.
    for sync, who, waiting in (("gossip", 2, (1, 3)), ("server", 1, (2,))):
        code, out, err = run(*small, "--dp", 4 if sync == "gossip" else 2, "--batch", "4", "--steps", "1000", "--sync", sync,
                             "--die-at", f"forward:3:{who}")
        assert code == 128 + 9, (sync, code, err)
        assert any(re.search(rf"rank {rank}: rank {who}, in the exchange of ranks {who} and {rank}, ", err) for rank in waiting), (sync, err)
    code, out, err = run(*rest, "--dp", "2", "--sleep-at", "forward:1:1:20000", "--timeout", "500")
    assert code == 1 and "rank 0 waited for rank 1" in err, (code, err)


def lines_in(path):
    try:  # tutti-train first tries whether it can write there, and removes what it made
        with open(path) as file:
            return sum(1 for _ in file)
    except FileNotFoundError:
        return 0


def check_ended_early():
    """A run that diverges or is interrupted says so, keeps what is worth keeping, and does not end with 0."""
    with tempfile.TemporaryDirectory() as top:
        # No checkpoint of numbers that are none; the others end quietly.
        wild = small + ["--dp", "2", "--batch", "4", "--steps", "50", "--optimizer", "sgd", "--momentum", "0", "--lr", "1e6", "--warmup",
                        "0", "--sample", "0", "--json"]
        for i, more in enumerate(((), ("--zero", "1", "--clip", "1e30"), ("--sync", "server"), ("--sync", "local-sgd", "--local-steps", "2"),
                                  ("--sync", "gossip"))):
            # Of gossip workers meet where a checkpoint is due only.
            kept = ("--checkpoint", f"{top}/kept{i}", "--checkpoint-every", "1000") if "gossip" not in more else ()
            code, out, err = run(*wild, f"{top}/wild{i}", *more, *kept, "--report", f"{top}/page{i}")
            assert code == 1 and err.count("the run has diverged: at step ") == 1 and "--keep-going" in err, (more, code, err)
            assert not os.path.exists(f"{top}/kept{i}") and os.path.getsize(f"{top}/page{i}") > 1000, (more, err)
            found = [json.loads(line) for line in open(f"{top}/wild{i}")]
            assert found[-1].get("summary") and found[-1]["steps"] < 50, (more, found[-1])
        code, out, err = run(*wild, f"{top}/on", "--keep-going")
        assert code == 0 and [json.loads(line).get("step") for line in open(f"{top}/on")][-2] == 50, (code, err)
        # Ctrl-C.
        ways = {"allreduce": (), "grid": ("--tp", "2", "--pp", "2", "--micro-batches", "2"), "server": ("--sync", "server"),
                "local-sgd": ("--sync", "local-sgd", "--local-steps", "3"), "gossip": ("--sync", "gossip"),
                "server-async": ("--sync", "server-async"), "backup": ("--sync", "backup", "--servers", "2")}
        for name, more in ways.items():
            kept = ("--checkpoint", f"{top}/{name}", "--checkpoint-every", "10") if name != "backup" else ()
            args = [train, *device, *fitting([*small, *more]), "--batch", "8", "--steps", "1000000", "--sample", "0", "--json", f"{top}/{name}.json",
                    "--report", f"{top}/{name}.html", *([] if name == "grid" else ["--dp", "2"])]
            begun = subprocess.Popen([*args, *kept], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                     text=True)
            deadline = time.monotonic() + 100
            while time.monotonic() < deadline and lines_in(f"{top}/{name}.json") <= 4:
                time.sleep(0.05)
            begun.send_signal(signal.SIGINT)
            out, err = begun.communicate(timeout=100)
            found = [json.loads(line) for line in open(f"{top}/{name}.json")]
            said = re.search(r"interrupted after step (\d+) of 1000000", err)
            assert begun.returncode == 130 and said and int(said[1]) == found[-2]["step"] and found[-1]["summary"], (name, err)
            assert os.path.getsize(f"{top}/{name}.html") > 1000, name
            if not kept:
                continue
            # What it says is there: go on for one step.
            step = int(re.search(r"goes on from step (\d+) in", err)[1])
            assert step == int(said[1]) or name in ("gossip", "server-async"), (name, err)
            code, out, err = run(*args[1 + len(device):], *kept, "--resume", "--steps", step + 1)
            assert code == 0, (name, err)
    # The loss of a synchronous server is that of the whole step.
    whole = steps(*small, "--dp", "2", "--batch", "8", "--steps", "3", "--algorithm", "master-worker")[0]
    served = steps(*small, "--dp", "2", "--batch", "8", "--steps", "3", "--sync", "server")[0]
    assert close(served, whole, 1e-12), (served, whole)


def refused(args, *words):
    code, out, err = run(*args)
    assert code == 2, (args, code, out, err)
    assert out == "" and err.count("\n") == 1, (args, out, err)
    assert all(word in err for word in words), (args, words, err)


def check_bad_input():
    for args, *words in ((("--model", "gtp"), "gtp", "gpt"),
                         (("--model", "gpt:huge"), "huge", "124m"),
                         (("--heads", "3"), "3", "128"),
                         (("--dp", "3", "--shards", "4"), "4", "3"),
                         (("--dp", "0"), "0"),
                         (("--dp", "many"), "--dp"),
                         (("--data", "text:/no/such"), "/no/such"),
                         (("--data", "idx:/no/such", "--model", "mlp"), "/no/such"),
                         (("--data", "digits"), "gpt", "digits"),
                         (("--batch", "-1"), "-1"),
                         (("--algorithm", "rign"), "rign", "ring"),
                         (("--level", "canonical", "--dp", "3", "--shards", "9"), "--shards", "not 3"),
                         (("--level", "canonical", "--algorithm", "ring", "--dp", "2"), "ring"),
                         (("--optimizer", "adagrad"), "adamw"),
                         (("--sync", "servers"), "server"),
                         (("--zero", "1", "--sync", "server"), "--zero"),
                         (("--servers", "2"), "--servers", "--sync server"),
                         (("--staleness", "2", "--sync", "server"), "--staleness", "ssp"),
                         (("--model", "quadratic:9", "--sync", "server", "--servers", "2", "--optimizer", "lamb"), "--servers 2",
                          "1 only"),
                         (("--topk", "0.1", "--algorithm", "ring"), "--algorithm", "--topk"),
                         (("--sync", "gossip", "--dp", "1"), "two workers"),
                         (("--sync", "backup", "--dp", "2", "--evaluate-every", "2"), "--evaluate-every"),
                         (("--resume",), "--checkpoint"),
                         (("--json", "/no/such/x"), "/no/such/x"),
                         (("--steps", "0x"), "--steps"),
                         (("--tp", "3"), "--heads 4", "--tp 3"),
                         (("--tp", "0"), "--tp 0"),
                         (("--dtype", "float16"), "float16", "float64"),
                         (("--dtype", "float64", "--sync", "gossip", "--dp", "2"), "--dtype", "allreduce"),
                         (("--clip", "-1"), "-1"),
                         (("--tp", "2", "--topk", "0.1"), "--topk", "--tp"),
                         (("--tp", "2", "--context", "15", "--sequence-parallel"), "--context 15", "--tp 2"),
                         (("--sequence-parallel",), "--tp"),
                         (("--grid-order", "dp,tp"), "dp,tp", "dp,pp,tp"),
                         (("--tp", "2", "--sync", "server"), "--tp 2", "server"),
                         (("--dp", "64", "--tp", "64"), "4096", "1024"),
                         (("--model", "cnn", "--tp", "4", "--conv-split", "strips", "--layers", "4"), "5 rows", "--tp 4"),
                         (("--model", "cnn", "--tp", "2", "--conv-split", "rows"), "rows", "strips"),
                         (("--conv-split", "strips", "--tp", "2"), "--conv-split", "cnn"),
                         (("--model", "rnn", "--tp", "3"), "--tp 3", "2 recurrent layers"),
                         (("--model", "seq2seq", "--tp", "3"), "--tp 3", "2 halves"),
                         (("--model", "rnn", "--tp", "2", "--recompute"), "--recompute", "--tp 1"),
                         (("--model", "cnn:inception", "--tp", "5"), "--tp 5", "4 branches"),
                         (("--model", "quadratic:10", "--tp", "2"), "--tp 2"),
                         (("--rnn-chunk", "4"), "--rnn-chunk", "rnn"),
                         (("--no-such",), "--no-such"),
                         (("--transport", "carrier-pigeon", "--dp", "2"), "carrier-pigeon", "shm"),
                         (("--transport", "carrier-pigeon", "--dp", "2", "--threads", "2"), "carrier-pigeon", "shm")):
        refused(args, *words)
    # A plan leaves nothing behind; a disk that is full on the way.
    with tempfile.TemporaryDirectory() as top:
        code, out, err = run(*small, "--dp", "2", "--dry-run", "--json", top + "/json", "--csv", top + "/csv", "--report", top + "/report", "--checkpoint",
                             top + "/deep/er/checkpoints/")
        assert code == 0 and err == "" and os.listdir(top) == [], (out, err, os.listdir(top))
    for option in ("--json", "--csv", "--report", "--log"):
        code, out, err = run(*small, "--dp", "2", "--steps", "2", "--sync", "server", option, "/dev/full")
        assert code == 1 and "/dev/full" in err and "No space left" in err, (option, code, err)


def check_odd_options(every=3):
    """What can be known to be wrong, or to do nothing, is refused before any rank starts; what cannot is taken and meant so."""
    text = "text:" + corpus.name
    zeros = [((option, value), option, value) for option in ("--lr", "--steps", "--batch", "--layers", "--width", "--heads",
                                                            "--context", "--clip", "--shards", "--batch-per-rank", "--accumulate",
                                                            "--chunks", "--topk", "--rnn-chunk", "--dp", "--tp", "--pp",
                                                            "--micro-batches", "--bucket", "--first-bucket", "--timeout", "--threads")
             for value in ("0", "-1")]
    numbers = [((option, value), option) for option, value in (
        ("--seed", "-1"), ("--seed", "1.5"), ("--seed", "x"), ("--seed", ""), ("--seed", "99999999999999999999999"),
        ("--steps", "1.5"), ("--steps", "1e3"), ("--batch", "8x"), ("--lr", "nan"), ("--lr", "inf"), ("--lr", "1e9"),
        ("--clip", "nan"), ("--dropout", "1"), ("--dropout", "-0.1"), ("--momentum", "2"), ("--weight-decay", "-1"),
        ("--warmup", "-1"), ("--topk", "2"), ("--zero", "2"), ("--zero", "-1"), ("--evaluate-every", "-1"), ("--sample", "-1"),
        ("--heads", "3"), ("--width", "99999999"), ("--dp", "2000"), ("--threads", "1.5"), ("--threads", "2000"))]
    nothing = [((*rest, option, *value), option, needed) for rest, option, value, needed in (
        (("--optimizer", "sgd"), "--weight-decay", ("0.1",), "adamw"), (("--optimizer", "adamw"), "--momentum", ("0.5",), "sgd"),
        (("--optimizer", "lamb"), "--momentum", ("0.5",), "sgd"), ((), "--momentum", ("0.9",), "sgd"),
        ((), "--stages", ("even",), "--pp"), ((), "--no-portals", (), "--pp"), ((), "--conv-split", ("output",), "cnn"),
        ((), "--checkpoint-every", ("5",), "--checkpoint"), (("--model", "mlp"), "--sample", ("20",), "gpt"),
        (("--model", "seq2seq"), "--sample", ("20",), "gpt"), (("--model", "mlp"), "--dropout", ("0.1",), "mlp"),
        (("--model", "mlp"), "--tokens", ("300",), "mlp"), (("--model", "mlp"), "--heads", ("2",), "mlp"), (("--model", "quadratic:9"), "--width", ("3",), "quadratic"),
        (("--sync", "gossip", "--dp", "2"), "--no-overlap", (), "allreduce"),
        (("--sync", "server"), "--bucket", ("1",), "allreduce"), (("--sync", "local-sgd", "--dp", "2"), "--first-bucket", ("1",), "allreduce"),
        (("--sync", "gossip", "--dp", "2"), "--zero", ("1",), "allreduce"), ((), "--servers", ("1",), "server"),
        (("--sync", "server"), "--backup", ("1",), "backup"), ((), "--local-steps", ("2",), "local-sgd"),
        (("--sync", "local-sgd", "--dp", "2"), "--log", ("x",), "server"), ((), "--resume", (), "--checkpoint"),
        (("--batch", "8"), "--batch-per-rank", ("8",), "--batch"), (("--shards", "2"), "--accumulate", ("2",), "--shards"),
        (("--replay", "x"), "--steps", ("5",), "--replay"), (("--dp", "2"), "--straggler", ("2:3",), "0 to 1"),
        (("--dp", "2"), "--straggler", ("-1:3",), "0 to 1"), (("--dp", "2"), "--straggler", ("1",), "RANK:FACTOR"),
        (("--dp", "2"), "--straggler", ("1:",), "RANK:FACTOR"), (("--dp", "2"), "--straggler", ("x:2",), "jitter"),
        (("--dp", "2"), "--straggler", ("1:1",), "above 1"), (("--dp", "2"), "--straggler", ("1:nan",), "above 1"),
        *(((), option, value, "two ranks") for option, *value in (("--algorithm", "ring"), ("--bucket", "1"), ("--first-bucket", "1"), ("--no-overlap",),
                                                                  ("--transport", "inproc"), ("--grid-order", "tp,pp,dp"))),
        ((), "--straggler", ("1:3",), "--dp"), (("--dp", "2", "--tp", "2"), "--straggler", ("1:3",), "--tp"),
        (("--dp", "2", "--pp", "2"), "--straggler", ("jitter",), "--pp"))]
    # Each starts the program; with `--long` all do.
    for args, option, *words in (zeros + numbers + nothing)[::every]:
        option = option.replace("--no-", "--") if option in ("--no-portals", "--no-overlap") else option
        refused(["--data", text, *args] if "--model" not in args and "--replay" not in args else args, option, *words[-1:] if words else ())
    for args, *words in ((("--batch", "3", "--dp", "4"), "--batch 3", "--dp 4"),
                         (("--batch", "1", "--dp", "2", "--sync", "server"), "--batch 1", "--dp 2"),
                         (("--json", ""), "--json", "empty"), (("--tensorboard", "/dev/null"), "--tensorboard /dev/null"), (("--checkpoint", ""), "--checkpoint", "empty"),
                         (("--json", "/tmp/same", "--report", "/tmp/same"), "--json", "--report", "/tmp/same")):
        refused(["--data", text, *args], *words)
    # Folders that cannot have checkpoints.
    with tempfile.TemporaryDirectory() as top:
        open(top + "/file", "w").close()
        for path in (top + "/file", top + "/file/below", "/proc/checkpoints", "/dev/null", top + "/" + "x" * 300):
            refused([*small, "--checkpoint", path], "--checkpoint " + path)
        for path in ("/", top):
            assert run(*small, "--checkpoint", path, "--dry-run")[0] == 0, path
        assert os.listdir(top) == ["file"]
    # Zeros that mean something.
    for args in (("--warmup", "0"), ("--optimizer", "sgd", "--momentum", "0"), ("--weight-decay", "0"), ("--dropout", "0"), ("--zero", "0"),
                 ("--evaluate-every", "0"), ("--seed", "0"), ("--sync", "ssp", "--dp", "2", "--staleness", "0"),
                 ("--shards", "16", "--batch", "8"), ("--topk", "1"), ("--steps", "1", "--steps", "2")):
        code, out, err = run(*small, *args, "--dry-run")
        assert code == 0 and err == "", (args, code, err)


def check_other_killed_all():
    check_other_killed(("server", "local-sgd", "gossip"))


def check_odd_options_all():
    check_odd_options(1)


if __name__ == "__main__":
    globals()["check_" + what.replace("-", "_")]()
