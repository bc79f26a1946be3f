"""Runs tutti-bench COLLECTIVE as users do and checks what it says.

Arguments: tutti-bench, the folder of `tutti`, then what is checked: of allreduce one of shm, tcp, inproc,
all, bad-input, workload, levels, compressed; of every collective one of every-shm, every-tcp, every-inproc,
every-type, every-form, every-limit, every-bad-input.
"""
import csv
import json
import os
import subprocess
import sys
import tempfile

bench, folder, what = sys.argv[1:4]
env = {k: v for k, v in os.environ.items()
       if not k.startswith("TUTTI_") and k not in ("RANK", "WORLD_SIZE")}
env["PATH"] = folder + os.pathsep + env["PATH"]


def run(*args, collective="allreduce"):
    done = subprocess.run([bench, collective, *args], env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=100)
    return done.returncode, done.stdout, done.stderr


def rows(*args, collective="allreduce"):
    code, out, err = run(*args, "--json", "-", collective=collective)
    assert code == 0, (code, out, err)
    return [json.loads(line) for line in out.splitlines()]


# Of each collective: whether buffers have a block a rank, whether it reduces, whether it has a root, whether
# it can be called in place, busbw / algbw.
share = lambda n: (n - 1) / n
one = lambda n: 1
collectives = {
    "allreduce": (False, True, False, True, lambda n: 2 * share(n)),
    "reduce": (False, True, True, True, one),
    "broadcast": (False, False, True, False, one),
    "allgather": (True, False, False, True, share),
    "reduce_scatter": (True, True, False, True, share),
    "alltoall": (True, False, False, True, share),
    "gather": (True, False, True, True, share),
    "scatter": (True, False, True, True, share),
    "scan": (False, True, False, True, one),
    "exscan": (False, True, False, True, one),
    "barrier": (False, False, False, False, one),
    "sendrecv": (False, False, False, False, one),
}


def check_collective(name, transport, ranks, in_place):
    blocks, reduces, rooted, can_in_place, factor = collectives[name]
    args = ["-n", str(ranks), "--transport", transport, "--batches", "2", "--iterations", "2"]
    sizes = [0]
    if name != "barrier":
        args += ["--sizes", "4,4K,100000"]
        unit = 4 * ranks if blocks else 4
        sizes = [max(size // unit, 1) * unit for size in (4, 4096, 100000)]
    if in_place and can_in_place:
        args.append("--in-place")
    data = "live" if in_place and name != "barrier" else "still"
    if data == "live":
        args += ["--data", "live"]
    root = ranks - 1 if in_place else 0
    if rooted:
        args += ["--root", str(root)]
    found = rows(*args, collective=name)
    assert {r["bytes"] for r in found} == set(sizes), (sizes, found)
    for size in sizes:
        here = [r for r in found if r["bytes"] == size]
        assert sum(r["algorithm"] == "auto" for r in here) == 1, here
        assert name in ("barrier", "sendrecv") or len(here) >= 3, here  # two algorithms at least
    for r in found:
        assert r["collective"] == name and r["ranks"] == ranks and r["transport"] == transport, r
        assert r["dtype"] == ("none" if name == "barrier" else "float32"), r
        assert r["op"] == ("sum" if reduces else "none"), r
        assert r.get("root") == (root if rooted else None), r
        assert r["in_place"] == (in_place and can_in_place) and r["data"] == data, r
        assert r["count"] * 4 * (ranks if blocks else 1) == r["bytes"], r
        if r["median_us"] is None:
            assert r["reason"] and r["algorithm"] != "auto", r
            continue
        assert r["wrong"] == (None if name == "barrier" else 0), r
        assert r["batches"] + r["batches_dropped"] == 2, r
        assert abs(r["algbw_GBs"] - r["bytes"] / r["median_us"] / 1e3) < 1e-3 * r["algbw_GBs"] + 1e-3, r
        assert abs(r["busbw_GBs"] - r["algbw_GBs"] * factor(ranks)) < 1e-3, r


def check_types():
    """--dtype all --op all: every type with every operator that it has."""
    integers = [sign + "int" + bits for sign in ("", "u") for bits in ("8", "16", "32", "64")]
    floats = ["float16", "bfloat16", "float32", "float64", "float8_e4m3", "float8_e5m2"]
    others = ["complex64", "complex128", "bool", "float32_int32", "int64_int64"]
    operators = ["sum", "prod", "min", "max", "avg"]
    only_integers = ["land", "lor", "lxor", "band", "bor", "bxor"]
    wanted = {(t, o) for t in integers + floats for o in operators}
    wanted |= {(t, o) for t in integers + ["bool"] for o in only_integers}
    wanted |= {("complex64", "prod"), ("complex128", "avg"), ("float64_int64", "minloc")}
    fixed = ["-n", "3", "--sizes", "16,8K", "--algorithms", "auto", "--batches", "1", "--iterations", "1"]
    for name in ("allreduce", "reduce_scatter", "scan", "exscan"):
        found = rows(*fixed, "--dtype", "all", "--op", "all", collective=name)
        assert wanted <= {(r["dtype"], r["op"]) for r in found}, found
        assert len(found) == 2 * len({(r["dtype"], r["op"]) for r in found})
        assert all(r["wrong"] == 0 for r in found), found
    found = rows(*fixed, "--dtype", "all", collective="alltoall")
    assert set(integers + floats + others) <= {r["dtype"] for r in found}, found
    assert all(r["wrong"] == 0 and r["op"] == "none" for r in found), found
    code, out, err = run(*fixed, "--dtype", "int32", "--op", "all")
    assert code == 0 and "int32 bxor, 8 KiB" in out and "all right" in out, (code, out, err)


def check_levels():
    """--level: each is measured and checked, and its time set beside that of fast."""
    fixed = ["-n", "3", "--sizes", "16,8K", "--algorithms", "auto,ring", "--batches", "2", "--iterations", "2"]
    for name in ("allreduce", "reduce_scatter"):
        found = rows(*fixed, "--level", "all", collective=name)
        assert {r["level"] for r in found} == {"fast", "layout", "canonical", "exact"}, found
        for r in found:
            if r["algorithm"] == "ring" and r["level"] != "fast":
                assert r["median_us"] is None and "at level " + r["level"] in r["reason"], r
                continue
            assert r["wrong"] == 0 and r["of_fast"] > 0, r
            assert r["level"] != "fast" or r["of_fast"] == 1, r
    assert all(r["of_fast"] is None for r in rows(*fixed, "--level", "exact"))
    code, out, err = run(*fixed, "--level", "fast,canonical")
    assert code == 0 and "What the levels cost" in out and "8 KiB, canonical" in out, (code, out, err)
    code, out, err = run(*fixed, "--level", "canonical")
    assert code == 0 and ", level canonical, " in out and "What the levels cost" not in out, (code, out, err)
    code, out, err = run(*fixed, "--level", "best")
    assert code == 2 and 'unknown level "best"' in err and "canonical" in err, (code, out, err)
    code, out, err = run("-n", "2", "--level", "exact", collective="alltoall")
    assert code == 2, "nothing is reduced"


def check_forms():
    """--nonblocking, --persistent and --vary-counts: their figures fit together, and their results are checked."""
    fixed = ["--batches", "2", "--iterations", "2"]
    for name in collectives:
        sizes = [] if name == "barrier" else ["--sizes", "64,40000"]
        for form, transport, more in (("nonblocking", "shm", ["--progress", "thread"]),
                                      ("nonblocking", "tcp", ["--tests", "3", "-n", "3"]),
                                      ("persistent", "inproc", []), ("persistent", "tcp", ["-n", "3"])):
            found = rows("--" + form, "--transport", transport, *sizes, *fixed, *more, collective=name)
            assert len(found) == (2 if sizes else 1), found
            for r in found:
                assert r["form"] == form and r["collective"] == name and r["algorithm"] == "auto", r
                assert r["wrong"] == (0 if sizes else None), r
                assert r["median_us"] > 0 and r["form_median_us"] > 0, r
                if form == "persistent":
                    assert r["overlap_percent"] is None, r
                    continue
                assert r["progress"] == ("thread" if "--progress" in more else "caller"), r
                assert r["tests"] == (3 if "--tests" in more else 0), r
                overlap = 100 * (1 - (r["together_median_us"] - r["compute_median_us"]) / r["form_median_us"])
                assert abs(r["overlap_percent"] - min(max(overlap, 0), 100)) < 1, r
    for name in collectives:
        if name == "barrier":
            continue
        for transport, more in (("shm", []), ("tcp", ["-n", "3"]), ("inproc", ["--in-place"])):
            if name in ("broadcast", "sendrecv") and more == ["--in-place"]:
                continue
            found = rows("--vary-counts", "5", "--transport", transport, "--sizes", "64,40000", *fixed, *more, collective=name)
            assert len(found) == 2, found
            for r in found:
                assert r["form"] == "varied" and r["wrong"] == 0 and 1 <= r["counts"] <= 5, r
                assert r["form_median_us"] > 0 and r["repeated_median_us"] > 0, r
    code, out, err = run("--persistent", "--algorithms", "ring,auto", "--sizes", "64", *fixed)
    assert code == 0 and "persistent" in out and "ring" in out and "all right" in out, (code, out, err)


def check_limits():
    """Where there is a limit, and where a sentence says that there is none."""
    fixed = ["--batches", "2", "--iterations", "2", "--algorithms", "auto"]
    ahead = ("reduce", "broadcast", "gather", "scatter", "scan", "exscan", "sendrecv")
    for name in collectives:
        if name == "barrier":
            continue
        for ranks in ("2", "3"):
            found = rows("-n", ranks, "--transport", "shm,tcp", "--sizes", "64,256K,2M", *fixed, collective=name)
            found += rows("-n", ranks, "--transport", "shm,tcp", "--sizes", "64,256K,2M", "--data", "live", *fixed, collective=name)
            for r in found:
                if r["transport"] == "shm":
                    known = r["bytes"] > 1000 or name not in ahead
                else:
                    known = ranks == "2" or name not in ("gather", "scatter")
                assert (r["limit_us"] is not None) == known, r
                assert bool(r["limit_way"]) == known, r
    code, out, err = run("--sizes", "64", *fixed, collective="broadcast")
    assert code == 0 and "Below 64 KiB there is none" in out, (code, out, err)


def check_rows(found, transports, sizes, ranks):
    assert {r["transport"] for r in found} == set(transports), found
    assert {r["bytes"] for r in found} == set(sizes), found
    ran = [r for r in found if r["median_us"] is not None]
    for transport in transports:
        for size in sizes:
            names = {r["algorithm"] for r in ran if (r["transport"], r["bytes"]) == (transport, size)}
            assert {"auto", "ring"} <= names, names
    for r in ran:
        assert r["collective"] == "allreduce" and r["ranks"] == ranks, r
        assert r["wrong"] == 0, r
        assert 0 < r["min_us"] <= r["median_us"] <= r["p95_us"] <= r["p99_us"], r
        assert abs(r["algbw_GBs"] - r["bytes"] / r["median_us"] / 1e3) < 1e-3 * r["algbw_GBs"] + 1e-3, r
        assert abs(r["busbw_GBs"] - r["algbw_GBs"] * 2 * (ranks - 1) / ranks) < 1e-3, r
        assert r["batches"] + r["batches_dropped"] == 3 and r["iterations"] >= 1, r
        assert r["limit_us"] is None or r["limit_us"] > 0, r
        assert r["path"] in ("fused", "schedule"), r
    for r in found:
        if r["median_us"] is None:
            assert r["reason"], r


if what in ("shm", "tcp", "inproc"):
    check_rows(rows("-n", "2", "--sizes", "4,1K", "--batches", "3", "--transport", what),
               [what], [4, 1024], 2)
    check_rows(rows("-n", "3", "--sizes", "12,40000", "--batches", "3", "--transport", what,
                    "--dtype", "bfloat16", "--op", "max", "--in-place", "--unfused"),
               [what], [12, 40000], 3)
    for memory in ("symmetric", "adopted"):
        check_rows(rows("-n", "2", "--sizes", "4,64K", "--batches", "3", "--transport", what,
                        "--memory", memory), [what], [4, 65536], 2)
elif what in ("every-shm", "every-tcp", "every-inproc"):
    transport = what.removeprefix("every-")
    for name in collectives:
        check_collective(name, transport, 2, False)
        check_collective(name, transport, 3, True)
elif what == "every-type":
    check_types()
elif what == "levels":
    check_levels()
elif what == "every-form":
    check_forms()
elif what == "every-limit":
    check_limits()
elif what == "every-bad-input":
    for name, args, words in (("broadcast", ("--root", "2"), ("--root 2",)),
                              ("reduce", ("--root", "-1"), ("--root -1",)),
                              ("allgather", ("--op", "sum"), ("--op",)),
                              ("allgather", ("--root", "0"), ("--root",)),
                              ("alltoall", ("--algorithms", "ring"), ("ring", "bruck")),
                              ("broadcast", ("--in-place",), ("--in-place",)),
                              ("scan", ("--workload", "gpt2"), ("--workload",)),
                              ("barrier", ("--sizes", "4"), ("--sizes",)),
                              ("barrier", ("--algorithms", "ring"), ("ring", "auto")),
                              ("sendrecv", ("-n", "1"), ("2 ranks",)),
                              ("scan", ("--sizes", "4", "--dtype", "all"), ("16",)),
                              ("allreduce", ("--dtype", "float32", "--op", "band"), ("band", "float32")),
                              ("allreduce", ("--workload", "gpt2", "--op", "all"), ("--workload",)),
                              ("scan", ("--nonblocking", "--persistent"), ("one of them",)),
                              ("scan", ("--vary-counts", "4", "--persistent"), ("one of them",)),
                              ("scan", ("--vary-counts", "1"), ("--vary-counts",)),
                              ("allreduce", ("--vary-counts", "4", "--workload", "gpt2"), ("--vary-counts",)),
                              ("scan", ("--nonblocking", "--progress", "nobody"), ("nobody", "caller, thread")),
                              ("scan", ("--nonblocking", "--tests", "-1"), ("--tests",)),
                              ("scan", ("--persistent", "--tests", "2"), ("--tests", "--nonblocking")),
                              ("barrier", ("--progress", "thread"), ("--progress", "--nonblocking")),
                              ("allreduce", ("--persistent", "--workload", "gpt2"), ("--workload",)),
                              ("allreduce", ("--persistent", "--codec", "bf16"), ("--codec",)),
                              ("scan", ("--data", "fresh"), ("fresh", "still, live")),
                              ("scan", ("--data", "live", "--persistent"), ("--data live", "--persistent")),
                              ("allreduce", ("--data", "live", "--codec", "bf16"), ("--data live", "--codec")),
                              ("barrier", ("--data", "live"), ("--data",)),
                              ("allfold", (), ("allfold",))):
        code, out, err = run(*args, collective=name)
        assert code == 2, (name, args, code, out, err)
        assert out == "" and err.count("\n") == 1, (name, args, out, err)
        assert all(word in err for word in words), (name, args, err)
elif what == "all":
    with tempfile.TemporaryDirectory() as temporary:
        name = os.path.join(temporary, "out.json")
        table = os.path.join(temporary, "out.csv")
        code, out, err = run("-n", "2", "--sizes", "4", "--batches", "3", "--transport",
                             "inproc,shm,tcp", "--json", name, "--csv", table)
        assert code == 0, (code, out, err)
        for transport in ("shm", "tcp", "inproc"):
            assert f"2 ranks over {transport}" in out, out
        assert out.count("all right") == 3, out
        with open(name) as file:
            found = [json.loads(line) for line in file]
        check_rows(found, ["shm", "tcp", "inproc"], [4], 2)
        with open(table) as file:
            cells = list(csv.DictReader(file))
        assert len(cells) == len(found)
        assert [c["algorithm"] for c in cells] == [r["algorithm"] for r in found]
elif what == "bad-input":
    for args, words in ((("--algorithms", "rign"), ("rign", "ring")),
                        (("--transport", "udp"), ("udp", "inproc, shm, ucx, tcp")),
                        (("--dtype", "float31"), ("float32",)),
                        (("--dtype", "binned_float64"), ("binned_float64", "accumulators")),
                        (("--op", "plus"), ("sum",)),
                        (("--memory", "stack"), ("stack", "heap", "symmetric", "cuda")),
                        (("--op", "band"), ("band", "float32")),
                        (("--sizes", "4:x"), ("x", "4:64M")),
                        (("-n", "0"), ("1",)),
                        (("-n", "many"), ("1",)),
                        (("--workload", "vgg"), ("resnet50",)),
                        (("--density", "1.5"), ("1.5", "at most 1")),
                        (("--density", "thin"), ("thin",)),
                        (("--codec", "zip"), ("zip", "bf16, fp8")),
                        (("--codec", "fp8", "--dtype", "float64"), ("float32",)),
                        (("--density", "0.1", "--op", "max"), ("sum",)),
                        (("--no-such-option",), ("no-such-option",)),
                        (("--json", "/no/such/folder/x"), ("/no/such/folder/x",))):
        code, out, err = run(*args)
        assert code == 2, (args, code, out, err)
        assert out == "" and err.count("\n") == 1, (args, out, err)
        assert all(word in err for word in words), (args, err)
elif what == "compressed":
    for transport in ("shm", "tcp", "inproc"):
        found = rows("-n", "3", "--sizes", "40,400K", "--algorithms", "auto", "--batches", "2", "--density",
                     "0.01,1", "--codec", "bf16,fp8", "--transport", transport)
        assert all(r["wrong"] == 0 and r["median_us"] > 0 for r in found), found
        share = {}
        for r in found:
            if r["algorithm"] == "auto":
                assert "sent_bytes" not in r, r
            elif r["bytes"] > 40:
                share[r["algorithm"]] = r["sent_bytes"] / (r["bytes"] * 4 / 3)
        assert share.keys() == {"sparse 0.01", "sparse 1", "codec bf16", "codec fp8"}, share
        assert 0.02 < share["sparse 0.01"] < 0.06 and 1 < share["sparse 1"] < 1.04, share
        assert abs(share["codec bf16"] - 0.5) < 1e-6 and 0.25 < share["codec fp8"] < 0.26, share
        fp8 = [r["relative_error"] for r in found if r["algorithm"] == "codec fp8"]
        assert all(0 < error < 1 / 16 for error in fp8), fp8
    code, out, err = run("-n", "2", "--sizes", "4K", "--algorithms", "auto", "--codec", "fp8", "--batches", "2")
    assert code == 0 and "fp8: sent" in out and "25.8 %" in out, (code, out, err)
elif what == "workload":
    found = rows("-n", "2", "--workload", "resnet50", "--algorithms", "auto", "--batches", "1")
    whole = [r for r in found if r["bucket"] == "all"]
    buckets = [r for r in found if r["bucket"] != "all"]
    assert len(whole) == 1 and whole[0]["count"] == 25557032, whole
    assert sum(r["count"] for r in buckets) == 25557032
    assert [r["bucket"] for r in buckets] == list(range(len(buckets)))
    assert all(r["wrong"] == 0 and r["workload"] == "resnet50" for r in found)
else:
    sys.exit(f"unknown check {what}")
