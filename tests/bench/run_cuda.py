"""tutti-bench with vectors on GPUs, on the driver that LD_LIBRARY_PATH has.

    run_cuda.py TUTTI_BENCH TOOLS_FOLDER threads|processes|bad-input|no-gpu
"""

import json
import os
import subprocess
import sys

bench, tools, what = sys.argv[1:4]
env = {k: v for k, v in os.environ.items() if not k.startswith("TUTTI_") and k not in ("RANK", "WORLD_SIZE")}
env["PATH"] = tools + os.pathsep + env["PATH"]
env["FAKE_CUDA_DEVICES"] = "2"
env["FAKE_CUDA_MEMORY"] = str(200 << 20)  # the rate of copies is measured with what fits
few = ("--batches", "2", "--iterations", "2")


def run(collective, *args):
    done = subprocess.run([bench, collective, *args], env=env, capture_output=True, text=True, timeout=110)
    return done.returncode, done.stdout, done.stderr


def rows(collective, *args):
    code, out, err = run(collective, *args, "--json", "-")
    assert code == 0, (args, code, out, err)
    found = [json.loads(line) for line in out.splitlines()]
    for r in found:
        assert r["transport"] == "cuda" and r["wrong"] in (0, None), r
        assert r["median_us"] is None or r["enqueue_us"] > 0 and r["empty_us"] > 0 and r["of_empty"] > 0, r
        assert r["copy_GBs"] > 0 and r["limit_us"] > 0, r
    return found


def check_runs(way):
    fixed = ("--memory", "cuda", "--ranks-as", way, "--algorithms", "auto", *few)
    for r in rows("allreduce", "-n", "2", "--sizes", "4,40K,1M", "--ranks-per-gpu", "2", *fixed):
        assert (r["ranks_as"], r["gpus"], r["graph"], r["memory"]) == (way, 1, False, "cuda"), r
        assert r["median_us"] > 0 and r["hand_over_us"] > 0 and r["wrong"] == 0, r
        # Both ranks read and write the vector.
        assert abs(r["limit_us"] - 4 * r["bytes"] / r["copy_GBs"] / 1e3) <= 1e-3 * r["limit_us"] + 1e-3, r
    found = rows("allreduce", "-n", "3", "--sizes", "4000", "--dtype", "bfloat16", "--op", "max", "--in-place", "--graph", *fixed)
    assert len(found) == 1 and found[0]["graph"] and found[0]["gpus"] == 2 and found[0]["in_place"], found
    for r in rows("allgather", "-n", "2", "--sizes", "64K", *fixed):
        assert abs(r["limit_us"] - (64 << 10) * 1.5 / r["copy_GBs"] / 1e3) <= 1e-3 * r["limit_us"] + 1e-3, r
    found = rows("allreduce", "-n", "2", "--memory", "cuda-symmetric", "--ranks-as", way, "--sizes", "64K", "--algorithms", "ring,auto", *few)
    assert {r["algorithm"] for r in found if r["median_us"]} == {"ring", "auto"}, found
    code, out, err = run("broadcast", "-n", "2", "--sizes", "4K", *fixed)
    assert code == 0 and "all right" in out and f"{way} on 2 GPUs" in out and "enqueue  empty  times\n" in out, (code, out, err)


if what in ("threads", "processes"):
    check_runs(what)
elif what == "bad-input":
    for collective, args, words in (
            ("allreduce", ("--memory", "vram"), ("vram", "heap", "cuda-symmetric")),
            ("allreduce", ("--graph",), ("--graph", "--memory cuda")),
            ("allreduce", ("--ranks-as", "threads"), ("--ranks-as", "--memory cuda")),
            ("allreduce", ("--memory", "cuda", "--ranks-as", "fibres"), ("fibres", "processes, threads")),
            ("allreduce", ("--memory", "cuda", "-n", "5", "--ranks-per-gpu", "2"), ("5 ranks", "3 GPUs", "2")),
            ("allreduce", ("--memory", "cuda", "--transport", "tcp"), ("--transport",)),
            ("allreduce", ("--memory", "cuda", "--nonblocking"), ("--nonblocking",)),
            ("allreduce", ("--memory", "cuda", "--workload", "gpt2"), ("--workload",)),
            ("sendrecv", ("--memory", "cuda"), ("sendrecv", "stream"))):
        code, out, err = run(collective, *args)
        assert code == 2, (args, code, out, err)
        assert out == "" and err.count("\n") == 1, (args, out, err)
        assert all(word in err for word in words), (args, err)
elif what == "no-gpu":
    code, out, err = run("allreduce", "--memory", "cuda")
    assert code == 2 and out == "" and err.count("\n") == 1, (code, out, err)
    assert "--memory cuda: " in err, err
else:
    sys.exit(f"unknown check {what}")
