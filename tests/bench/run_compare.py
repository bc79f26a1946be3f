"""Compares the built library with itself, as bench/compare does, and checks what tutti-compare says.

Arguments: tutti-compare, the library, then one of same, bad-input.
"""
import json
import os
import subprocess
import sys
import tempfile

compare, library, what = sys.argv[1:4]
env = {k: v for k, v in os.environ.items() if not k.startswith("TUTTI_")}


def run(*args, base=library):
    done = subprocess.run([compare, base, library, *args], env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def rows(*args):
    code, out, err = run(*args, "--json", "-")
    assert code == 0, (code, out, err)
    return [json.loads(line) for line in out.splitlines()]


SHORT = ["--turns", "8", "--starts", "2"]

if what == "same":
    every = "allreduce,broadcast,reduce,allgather,alltoall,reduce_scatter,barrier"
    for options in ([], ["--memory", "symmetric"], ["--data", "live"]):
        found = rows("-n", "2", "--collective", every, "--sizes", "4,1K", *SHORT, *options)
        # Blocks are of one element at least; a cell may be there once for each state of the machine.
        cells = {(r["collective"], r["bytes"]) for r in found}
        assert cells == {(c, b) for c in every.split(",") if c != "barrier"
                         for b in ((4, 1024) if c in ("allreduce", "broadcast", "reduce") else (8, 1024))
                         } | {("barrier", 0)}, cells
        for r in found:
            assert r["ratio_p25"] <= r["ratio"] <= r["ratio_p75"], r
            assert 0 < r["base_us"] and 0 < r["new_us"] and 0.2 < r["ratio"] < 5, r
            assert 1 <= r["starts"] <= 2 and 5 <= r["turns"] <= 16, r

    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "rows.json")
        # Nothing is 99 % faster than itself.
        code, out, err = run("-n", "3", "--sizes", "8:32", *SHORT, "--json", file, "--limit", "-99")
        assert code == 1 and err == "", (code, out, err)
        assert "new/base" in out and "geometric mean of 3" in out and "32 B" in out, out
        assert {json.loads(line)["bytes"] for line in open(file)} == {8, 16, 32}
    code, out, err = run("--sizes", "8", *SHORT, "--limit", "400")
    assert code == 0 and err == "", (code, out, err)
else:
    for args in (["--collective", "gather"], ["--sizes", "8:x"], ["--sizes", "6"], ["-n", "0"],
                 ["--memory", "cuda"], ["--data", "dead"], ["--turns", "1"], ["--seconds", "0"]):
        code, out, err = run(*args)
        assert code == 2 and out == "" and err.count("\n") == 1, (args, code, out, err)
    code, out, err = run(base="/nowhere.so")
    assert code == 2 and "/nowhere.so" in err, (code, out, err)
    code, out, err = run(base=__file__)
    assert code == 1 and "cannot load the library" in err, (code, out, err)
