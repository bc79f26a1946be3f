"""Mixed precision of tutti-train. Arguments: as those of run_train.py."""
import json
import os
import struct
import sys
import tempfile

import run_train
from run_train import close, digests, logged, refused, resumed, run, small, steps

what = sys.argv[3]
LONG = what == "all"
U = 2.0 ** -8  # of bfloat16: what rounding may change, relative
half = ["--precision", "bf16"]
rest = small + ["--batch", "8", "--steps", "3"]
full = rest + ["--level", "canonical", "--shards", "4", "--dropout", "0.1"]


def check_bf16():
    """Every division and every way to agree computes in bf16."""
    exact = steps(*full)[0]
    found = steps(*full, *half)[0]
    one = [s["parameters"] for s in found]
    assert close(found, exact, 4 * U) and found[-1]["loss"] != exact[-1]["loss"], (found, exact)
    for more in (("--dp", "2"), ("--dp", "4", "--zero", "1")):
        assert digests(*full, *half, *more) == one, more
    # Stages have the bits of one process.
    piped = rest + half + ["--dropout", "0.1", "--micro-batches", "4"]
    one = digests(*piped)
    for more in (("--pp", "3", "--schedule", "zb-h1", "--recompute"), ("--pp", "2", "--schedule", "interleaved", "--no-portals")):
        assert digests(*piped, *more) == one, more
    # Losses and gradients that are scaled by a power of two have the same bits, through stages and divided layers, too.
    scaled = ("--loss-scale", "1024")
    for more in (("--pp", "2"), ("--pp", "3", "--schedule", "zb-h1", "--recompute")):
        assert digests(*piped, *more, *scaled) == one, more
    grid = rest + half + ["--dp", "2", "--tp", "2", "--zero", "1", "--clip", "1"]
    assert digests(*grid, *scaled) == digests(*grid)
    # A gradient of one shard has bf16's values: rounding it once more changes nothing.
    assert digests(*rest, *half, "--wire", "bf16") == digests(*rest, *half)
    assert digests(*rest, "--wire", "bf16") != digests(*rest)
    ways = (("server", "--servers", "2"), ("gossip",), ("local-sgd",), ("server-async",), ("ssp",), ("backup", "--backup", "1"))
    for sync, *more in ways if LONG else ways[:3]:
        found = steps(*rest, *half, "--dp", "2", "--sync", sync, *more)[0]
        assert close(found[:1], steps(*rest, "--dp", "2", "--sync", sync, *more)[0][:1], 8 * U) and found[-1]["loss"] < 6, (sync, found)
    with tempfile.TemporaryDirectory() as top:
        logged(top, *small, *half, "--batch", "4", "--steps", "3", "--dp", "2", "--sync", "server-async")


def check_traffic():
    """What layers and stages hand each other has two bytes an element; counters are formulas."""
    run_train.env["TUTTI_TUNING"] = os.path.join(os.path.dirname(__file__), os.pardir, "support", "untried.json")
    layers, width, context, batch, tp = 2, 64, 16, 4, 2  # shorter vectors would go as one part
    size = ["--model", "gpt", "--layers", layers, "--width", width, "--heads", "4", "--context", context, "--batch", batch, "--steps", "2",
            *small[:2]]
    exact = steps(*size)[0]
    grids = (("--tp", tp, "--algorithm", "ring"), ("--tp", tp, "--pp", "2", "--micro-batches", "2", "--optimizer", "lamb"),
             ("--tp", tp, "--sequence-parallel", "--dp", "2", "--algorithm", "two-shot"), ("--pp", "3", "--micro-batches", "2"))
    for grid in grids if LONG else grids[:2]:
        found, total = steps(*size, *half, *grid)
        wide = steps(*size, *grid)[1]
        for name in ("within_layers", "between_stages"):
            assert (name in total) == (name in wide), (grid, total)
            if name in total:
                seen = total[name]
                assert seen["bytes_sent_per_step"] == seen["bytes_by_formula"] > 0, (grid, seen)
                assert seen["messages_sent_per_step"] == seen["messages_by_formula"] > 0, (grid, seen)
        if "between_stages" in total:
            assert 2 * total["between_stages"]["bytes_sent_per_step"] == wide["between_stages"]["bytes_sent_per_step"], (total, wide)
        if "--optimizer" not in grid:
            assert close(found, exact, 4 * U), (grid, found, exact)
        if grid[:3:2] == ("--tp", "--algorithm"):
            # The three sums of the loss are float32.
            elements = batch * context * width
            assert found[0]["tensor_bytes_sent"] == 2 * (tp - 1) / tp * (2 * (4 * layers + 2) * elements + 4 * 3 * batch * context), found
    models = (("rnn", ("--tp", "2")), ("cnn", ("--tp", "2", "--conv-split", "strips")), ("seq2seq", ("--tp", "2")), ("mlp", ("--tp", "3")),
              ("cnn", ("--pp", "3", "--micro-batches", "2")), ("cnn:inception", ("--tp", "2")))
    for model, more in models if LONG else models[:2]:
        shape = ["--model", model, "--batch", "4", "--steps", "2", *(small[:2] + ["--context", "12", "--width", "16"] if "2" in model or model == "rnn" else [])]
        assert close(steps(*shape, *half, *more)[0], steps(*shape)[0], 8 * U), (model, more)


def values(folder):
    """What rank 0's file of the newest checkpoint has of the parameters, as 32-bit words."""
    newest = sorted(name for name in os.listdir(folder) if name.startswith("step-"))[-1]
    with open(f"{folder}/{newest}/rank-0-of-1.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        body = file.read()
    parts = [about for name, about in header.items() if name.startswith("parameters/")]
    assert all(about["dtype"] == "F32" for about in parts), parts
    return [word for about in parts for (word,) in struct.iter_unpack("<I", body[slice(*about["data_offsets"])])]


def check_kept():
    """Checkpoints have the float32 parameters, and other divisions and precisions go on from them."""
    with tempfile.TemporaryDirectory() as top:
        whole = digests(*full, *half, "--steps", "5")
        assert digests(*full, *half, "--checkpoint", top + "/c") == whole[:3]
        words = values(top + "/c")
        assert sum(word & 0xffff != 0 for word in words) > 0.9 * len(words)
        on = small + ["--level", "canonical", "--dropout", "0.1", "--steps", "5"]
        for name, grid in (("same", ()), ("dp2", ("--dp", "2", "--zero", "1")), ("pp2", ("--pp", "2"))):
            found, line = resumed(top + "/c", f"{top}/{name}", *on, *grid)
            assert [s["parameters"] for s in found] == whole[3:] and "--precision" not in line, (name, found, line)
        found, line = resumed(top + "/c", top + "/full", *on, "--precision", "full")
        assert '--precision is "full", was "bf16"' in line and found[-1]["parameters"] != whole[-1], line


# Half types of the host's LibTorch 1.13 have no products of matrices; the convex problem needs none.
convex = ["--model", "quadratic:64", "--precision", "fp16", "--optimizer", "sgd", "--momentum", "0", "--batch", "8", "--lr", "0.5",
          "--warmup", "0", "--level", "canonical", "--shards", "4"]


def follow(rows, scale, good=0):
    """Each step's scale is what GradScaler makes of those before; one that overflowed changes no parameter."""
    before = None
    for row in rows:
        assert row["loss_scale"] == scale, (row, scale)
        assert not row["overflow"] or before in (None, row["parameters"]), row
        assert row["overflow"] or row["parameters"] != before, row
        before = row["parameters"]
        good = 0 if row["overflow"] else good + 1
        scale = scale / 2 if row["overflow"] else scale * 2 if good == 2000 else scale
        good %= 2000
    return scale, good


def check_fp16():
    """Loss scaling: what it is for, when it changes, that all ranks do alike, and that a checkpoint has it."""
    first = 2.0 ** 26
    begins = ("--loss-scale", f"dynamic:{first:.0f}")
    rows, total = steps(*convex, *begins, "--steps", "16")
    assert rows[0]["overflow"] and not rows[-1]["overflow"] and rows[-1]["loss"] < 0.2 * rows[0]["loss"], rows
    follow(rows, first)
    assert total["skipped_steps"] == sum(row["overflow"] for row in rows) > 3, total
    for more in (("--dp", "2"), ("--dp", "4", "--zero", "1"), ("--dp", "2", "--no-overlap")):
        others = steps(*convex, *begins, "--steps", "16", *more)[0]
        assert [(r["parameters"], r["loss_scale"], r["overflow"]) for r in others] == \
            [(r["parameters"], r["loss_scale"], r["overflow"]) for r in rows], more
    # The length is that of the gradient, not of the scaled one; scaling rounds nothing.
    for clip in (100, 0.1):
        ways = [steps(*convex, "--steps", "3", "--clip", clip, "--loss-scale", scale)[0] for scale in ("256", "2048")]
        assert [r["parameters"] for r in ways[0]] == [r["parameters"] for r in ways[1]], ways
        wide = steps(*convex[:2], *convex[4:], "--steps", "3", "--clip", clip)[0]
        assert all(abs(a["gradient_norm"] - b["gradient_norm"]) < 2e-3 * b["gradient_norm"] for a, b in zip(ways[0], wide)), (ways, wide)
    # Gradients below what fp16 has vanish; a scale that always overflows leaves out all steps.
    still = steps(*convex, "--steps", "3", "--loss-scale", f"{2.0 ** -26}")[0]
    assert len({row["parameters"] for row in still}) == 1 and not any(row["overflow"] for row in still), still
    never, total = steps(*convex, "--steps", "3", "--loss-scale", f"{2.0 ** 40:.0f}")
    assert all(row["overflow"] for row in never) and total["skipped_steps"] == 3, never
    # Doubled after 2000 steps; from a checkpoint in between, too, and by other ranks.
    with tempfile.TemporaryDirectory() as top:
        long = convex + ["--loss-scale", f"dynamic:{2.0 ** 24:.0f}", "--steps", "2012", "--lr", "0.001"]
        rows = steps(*long)[0]
        scale, good = follow(rows, 2.0 ** 24)
        assert rows[0]["overflow"] and rows[2010]["loss_scale"] == 2 * rows[100]["loss_scale"], (rows[0], rows[-1])
        assert digests(*long, "--checkpoint", top + "/c", "--checkpoint-every", "1990")[-1] == rows[-1]["parameters"]
        os.rename(top + "/c/step-000002012", top + "/last")
        on = [word for word in convex if word != "--lr" and word != "0.5"]
        for name, more in (("same", ()), ("dp2", ("--dp", "2", "--zero", "1"))):
            found, line = resumed(top + "/c", f"{top}/{name}", *on, *more)
            assert [(r["parameters"], r["loss_scale"]) for r in found] == \
                [(r["parameters"], r["loss_scale"]) for r in rows[1990:]], (name, line)
        found, line = resumed(top + "/c", top + "/told", *on, "--loss-scale", "128")
        assert {row["loss_scale"] for row in found} == {128}, found
    # No number any more, whatever the scale.
    code, out, err = run(*convex, "--steps", "60", "--lr", "1000")
    assert code == 1 and "diverged" in err, (code, err)
    # Products of matrices: said before any rank starts where LibTorch has none.
    code, out, err = run(*rest, "--precision", "fp16", "--dp", "2", "--json", "-", "--sample", "0")
    if code == 0:
        assert close([json.loads(line) for line in out.splitlines()[:3]], steps(*rest, "--dp", "2")[0], 2 * U), out
    else:
        assert code == 2 and out == "" and err.count("\n") == 1 and "--precision fp16: LibTorch" in err, (code, out, err)


def kept_scales(folder):
    """What the newest checkpoint has of each rank's loss scale."""
    newest = sorted(name for name in os.listdir(folder) if name.startswith("step-"))[-1]
    with open(f"{folder}/{newest}/checkpoint.json", encoding="utf-8") as file:
        return [about["loss-scale"] for about in json.load(file)["contents"]["files"]]


def check_scales_of_ways():
    """Ways to agree that sum no gradients: one scale where a step takes all gradients, else each worker's own."""
    first = 2.0 ** 26
    # Of shards of two samples and of one the first overflows at a scale that the other can stand.
    uneven = convex[:-4] + ["--dp", "2", "--batch", "3", "--loss-scale", f"dynamic:{first:.0f}"]
    servers = (("server", "--servers", "1"), ("server", "--servers", "2"), ("ssp", "--staleness", "0"), ("backup", "--backup", "0", "--servers", "2"))
    own = (("server-async", "--servers", "2"), ("ssp", "--staleness", "1"), ("backup", "--backup", "1", "--servers", "2", "--straggler", "1:3"),
           ("local-sgd", "--local-steps", "3"), ("gossip",))

    def figures(rows):
        return [(r["loss_scale"], r["overflow"]) for r in rows]

    # AdamW knows how many steps were made.
    adam = uneven[:4] + ["--optimizer", "adamw", "--lr", "0.1"] + uneven[-6:]
    for args in (uneven, adam):
        rows, total = steps(*args, "--steps", "16", "--algorithm", "master-worker")
        follow(rows, first)
        assert 3 < total["skipped_steps"] < 14, total
        for sync, *way in servers if args == uneven or LONG else servers[1:3]:
            others, ended = steps(*args, "--steps", "16", "--sync", sync, *way)
            assert figures(others) == figures(rows) and others[-1]["parameters"] == rows[-1]["parameters"], (sync, way, others, rows)
            assert ended["skipped_steps"] == total["skipped_steps"] and (sync != "server" or close(others, rows, 1e-6)), (sync, way, ended)
    for sync, *way in own:
        rows, total = steps(*uneven, "--lr", "0.2", "--steps", "60", "--sync", sync, *way)
        scale = first
        for row in rows:
            assert row["loss_scale"] == scale, (sync, rows)
            scale /= 2 if row["overflow"] else 1
        assert total["skipped_steps"] == sum(row["overflow"] for row in rows) > 3, (sync, total)
        assert not rows[-1]["overflow"] and total["validation_loss"] < 0.2 * rows[0]["loss"], (sync, total, rows)
    # A scale that always overflows leaves all parameters as they are.
    start = steps(*uneven, "--steps", "1")[0][0]["parameters"]
    for sync, *way in (servers[1], *own):
        rows = steps(*uneven, "--loss-scale", f"{2.0 ** 40:.0f}", "--steps", "3", "--sync", sync, *way)[0]
        assert all(row["overflow"] for row in rows) and rows[-1]["parameters"] == start, (sync, rows)
    with tempfile.TemporaryDirectory() as top:
        # A run goes on with the scales and counts that it had.
        for (sync, *way), other in ((servers[1], ("--servers", "1")), (servers[2], ()), (own[3], ()), (("server-async", "--dp", "1"), ("--servers", "2"))):
            kept = [*adam, "--sync", sync, *way, "--checkpoint-every", "11", "--steps", "16", "--checkpoint", f"{top}/{sync}"]
            want = steps(*kept)[0]
            scales = kept_scales(f"{top}/{sync}")
            assert sync not in ("server", "ssp") or scales[0] == scales[1], (sync, scales)
            os.rename(f"{top}/{sync}/step-000000016", f"{top}/{sync}-last")
            assert all(int(text.split(":")[-1]) > 3 for text in kept_scales(f"{top}/{sync}")), (sync, kept_scales(f"{top}/{sync}"))
            found = steps(*(word for word in kept if word not in adam[-2:]), *other, "--resume")[0]
            assert figures(found) == figures(want[11:]) and found[-1]["parameters"] == want[-1]["parameters"], (sync, found, want)
            again = kept_scales(f"{top}/{sync}")
            assert again[0] == scales[0] and again[-1] == scales[-1] and (other or again == scales), (sync, scales, again)
        for sync, *way in (servers[1], *own[:3]):
            logs = logged(top, *uneven, "--steps", "16", "--sync", sync, *way)[1]
            assert sync == "server" or any(event.get("used") is False for event in logs[0]), (sync, logs)


def tensors(folder):
    """The bytes of every tensor in the newest checkpoint."""
    newest = sorted(name for name in os.listdir(folder) if name.startswith("step-"))[-1]
    found = {}
    for name in os.listdir(f"{folder}/{newest}"):
        if name.endswith(".safetensors"):
            with open(f"{folder}/{newest}/{name}", "rb") as file:
                header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
                body = file.read()
            found.update({(name, tensor): body[slice(*about["data_offsets"])] for tensor, about in header.items() if tensor != "__metadata__"})
    return found


def check_scales_of_topk():
    """A step that is left out changes nothing of what the largest values of a gradient leave for later."""
    first = 2.0 ** 26
    # As above: one of two workers overflows where the other does not.
    uneven = convex[:-4] + ["--dp", "2", "--batch", "3"]
    dynamic = ("--loss-scale", f"dynamic:{first:.0f}", "--steps", "16")
    # All values: the bits of sums in the order of the ranks.
    rows, total = steps(*uneven, *dynamic, "--topk", "1")
    follow(rows, first)
    others = steps(*uneven, *dynamic, "--algorithm", "two-shot")[0]
    assert [(r["parameters"], r["loss_scale"], r["overflow"]) for r in rows] == [(r["parameters"], r["loss_scale"], r["overflow"]) for r in others], (rows, others)
    assert total["skipped_steps"] > 3, total
    largest = uneven + ["--topk", "0.1"]
    with tempfile.TemporaryDirectory() as top:
        rows, total = steps(*largest, *dynamic, "--lr", "0.1", "--steps", "40", "--checkpoint", top + "/c", "--checkpoint-every", "21")
        follow(rows, first)
        assert total["skipped_steps"] > 3 and rows[-1]["loss"] < 0.3 * rows[0]["loss"], (total, rows)
        os.rename(top + "/c/step-000000040", top + "/last")
        on = [word for word in largest if word != "--lr" and word != "0.5"]
        found = resumed(top + "/c", top + "/same", *on)[0]
        assert [(r["parameters"], r["loss_scale"]) for r in found] == [(r["parameters"], r["loss_scale"]) for r in rows[21:]], (found, rows)
    with tempfile.TemporaryDirectory() as top:
        # Gradients as at the beginning: with twice the greatest scale that both can stand, one worker's overflows.
        rows = steps(*largest, *dynamic, "--lr", "1e-6", "--checkpoint", top + "/c")[0]
        before = tensors(top + "/c")
        kept = [values for (_, tensor), values in before.items() if tensor.startswith("kept")]
        assert len(kept) == 2 and all(any(values) for values in kept), before.keys()
        for scale in (2.0 ** 40, 2 * rows[-1]["loss_scale"]):
            copy = f"{top}/{scale:.0f}"
            found = resumed(top + "/c", copy, *on, "--loss-scale", f"{scale:.0f}", "--steps", "19")[0]
            assert len(found) == 3 and all(row["overflow"] for row in found), found
            assert tensors(copy) == before, scale


def check_bad_input():
    for args, *words in ((("--precision", "fp8"), "fp8", "bf16"), (("--precision", "bf16", "--dtype", "float64"), "--precision bf16", "--dtype"),
                         (("--loss-scale", "1024"), "--loss-scale", "fp16 or bf16")):
        refused([*small, *args], *words)
    refused([*convex, "--loss-scale", "1000"], "--loss-scale 1000", "power of two")


def check_mixed():
    """All of the above, a part of what differs in the model or in the way to agree alone."""
    check_bad_input()
    check_bf16()
    check_traffic()
    check_kept()
    check_fp16()
    check_scales_of_ways()
    check_scales_of_topk()


def check_all():
    check_mixed()


globals()["check_" + what.replace("-", "_")]()
