"""Runs tutti-bench allreduce as users do and checks what it says.

Arguments: tutti-bench, the folder of `tutti`, then one of shm, tcp, inproc, all, bad-input, workload.
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


def run(*args):
    done = subprocess.run([bench, "allreduce", *args], env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=100)
    return done.returncode, done.stdout, done.stderr


def rows(*args):
    code, out, err = run(*args, "--json", "-")
    assert code == 0, (code, out, err)
    return [json.loads(line) for line in out.splitlines()]


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
    check_rows(rows("-n", "2", "--sizes", "4,64K", "--batches", "3", "--transport", what,
                    "--memory", "symmetric"), [what], [4, 65536], 2)
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
                        (("--transport", "udp"), ("udp", "shm, tcp, inproc")),
                        (("--dtype", "float31"), ("float32",)),
                        (("--dtype", "binned_float64"), ("binned_float64", "accumulators")),
                        (("--op", "plus"), ("sum",)),
                        (("--memory", "stack"), ("stack", "heap, symmetric")),
                        (("--op", "band"), ("band", "float32")),
                        (("--sizes", "4:x"), ("x", "4:64M")),
                        (("-n", "0"), ("1",)),
                        (("-n", "many"), ("1",)),
                        (("--workload", "vgg"), ("resnet50",)),
                        (("--no-such-option",), ("no-such-option",)),
                        (("--json", "/no/such/folder/x"), ("/no/such/folder/x",))):
        code, out, err = run(*args)
        assert code == 2, (args, code, out, err)
        assert out == "" and err.count("\n") == 1, (args, out, err)
        assert all(word in err for word in words), (args, err)
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
