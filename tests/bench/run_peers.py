"""Runs tutti-bench peers with the MPI libraries found here and checks what it says.

Arguments: tutti-bench, the folder of `tutti`. Skipped (77) where there is no peer.
"""
import json
import os
import re
import shutil
import subprocess
import sys

bench, folder = sys.argv[1:3]
expected = {"tutti", "tutti symmetric", "tutti adopted"}
if shutil.which("mpicxx.openmpi") and shutil.which("mpirun.openmpi"):
    expected.add("Open MPI")
if shutil.which("mpicxx.mpich") and shutil.which("mpiexec.mpich"):
    expected.add("MPICH")
oneccl = os.environ.get("CCL_ROOT") or os.path.join(os.path.dirname(folder), "peers", "oneccl")
if os.path.exists(f"{oneccl}/include/oneapi/ccl.hpp"):
    expected.add("oneCCL")
if len(expected) == 3:
    print("neither Open MPI nor MPICH nor oneCCL is here")
    sys.exit(77)

env = {k: v for k, v in os.environ.items()
       if not k.startswith("TUTTI_") and k not in ("RANK", "WORLD_SIZE")}
env["COLUMNS"] = "400"
env["PATH"] = folder + os.pathsep + env["PATH"]


def run(*args, **environment):
    done = subprocess.run([bench, "peers", *args], env={**env, **environment}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=160)
    return done.returncode, done.stdout, done.stderr


def families(rows):
    return {re.sub(r" \d.*", "", r["implementation"]) for r in rows}


sizes = {4, 65536}
code, out, err = run("allreduce", "-n", "2", "--sizes", "4,64K", "--seconds", "0.1", "--json", "-")
assert code == 0, (code, out, err)
rows = [json.loads(line) for line in out.splitlines()]
assert expected <= families(rows), out
for name in {r["implementation"] for r in rows}:
    assert {r["bytes"] for r in rows if r["implementation"] == name} == sizes, name
for r in rows:
    assert r["wrong"] == 0 and r["ranks"] == 2, r
    assert 0 < r["min_us"] <= r["median_us"] <= r["p95_us"] <= r["p99_us"], r
    assert r["version"] and r["settings"] and not r["forced"] and r["data"] == "live", r
    assert r["ratio_to_tutti"] > 0, r

code, out, err = run("allreduce", "-n", "2", "--sizes", "4", "--seconds", "0.1", "--data", "still", CCL_ROOT="/nowhere")
assert code == 0 and ", still data" in out, (code, out, err)
assert "best peer / tutti" in out and all(name.split()[0] in out for name in expected), out
assert "CCL_ROOT names /nowhere, where no oneCCL is." in out, out
# Each rank of tutti has a core of its own, though other ranks of tutti that sleep have it, too.
bound = re.findall(r"^  tutti.*ranks on CPUs (.*)$", out, re.M)
assert len(bound) == 3, out
if len(os.sched_getaffinity(0)) >= 2:
    for cpus in bound:
        one, other = cpus.split(" | ")
        assert one.isdigit() and other.isdigit() and one != other, out

# One buffer and a root; blocks, of which 4100 bytes are no whole number.
for name, bytes_of, op in (("broadcast", 4100, "none"), ("reduce_scatter", 4096, "sum")):
    code, out, err = run("--collective", name, "-n", "2", "--sizes", "4100", "--seconds", "0.1", "--json", "-")
    assert code == 0, (name, code, out, err)
    rows = [json.loads(line) for line in out.splitlines()]
    assert expected <= families(rows) and "Gloo" not in families(rows), out
    for r in rows:
        assert r["collective"] == name and r["wrong"] == 0 and r["bytes"] == bytes_of and r["op"] == op, r

for args, word in ((("allfold",), "allreduce"), (("barrier",), "barrier"),
                   (("broadcast", "--algorithm", "rign"), "binomial"), (("sendrecv", "-n", "1"), "2"), (("allreduce", "--algorithm", "rign"), "ring"),
                   (("allreduce", "-n", "0"), "1"), (("allreduce", "--sizes", "3"), "4")):
    code, out, err = run(*args)
    assert code == 2 and err.count("\n") == 1 and word in err and not out, (args, code, out, err)
