"""Kills workers of tutti-train --elastic and checks that the others make the same steps, bit for bit.

    run_elastic.py TUTTI_TRAIN TUTTI short|long|server|refused
    run_elastic.py TUTTI_TRAIN TUTTI deaths RUNS [FIRST_SEED]    a line for each run; how long the pauses were

Run i of `deaths` follows from the seed FIRST_SEED + i: how many workers there are, over which transport, who is killed
and when."""
import concurrent.futures
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

train, tutti, what = sys.argv[1:4]
env = {k: v for k, v in os.environ.items() if not k.startswith("TUTTI_") and k not in ("RANK", "WORLD_SIZE")}
env["OMP_NUM_THREADS"] = env["OPENBLAS_NUM_THREADS"] = "1"
top = tempfile.TemporaryDirectory()
words = random.Random(1)
with open(top.name + "/text", "w") as text:
    text.write(" ".join(words.choice(("all", "ranks", "give", "a", "vector", "and", "get", "the", "sum")) for _ in range(30000)))
small = ["--data", "text:" + top.name + "/text", "--model", "gpt", "--layers", "2", "--width", "32", "--heads", "2", "--context", "16",
         "--batch", "16", "--sample", "0", "--hash"]
buckets = ["--first-bucket", "0.01", "--bucket", "0.04", "--shards", "8"]
by_server = ["--sync", "server"]
canonical = ["--level", "canonical", "--dropout", "0.1"]
made = 0
begun = []


def begin(path, dp, *more, by_launcher=False):
    """The process of a run whose figures go to the file."""
    if by_launcher:
        command = [tutti, "run", "-n", str(dp), "--keep-going", train]
    else:
        command = [train]
    command += [*([] if "--model" in more else small), *([] if "server" in more else buckets), "--dp", str(dp), "--json", path, *map(str, more)]
    begun.append(subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    return begun[-1]


def figures(path):
    """The objects of the file so far: of steps by number, of changes, and the summary."""
    steps, changes, summary = {}, [], None
    try:  # whether it can be written is tried first, and nothing of that left
        with open(path) as file:
            lines = file.readlines()
    except FileNotFoundError:
        lines = []
    for line in lines:
        if not line.endswith("\n"):
            break
        found = json.loads(line)
        if "step" in found:
            # Who shows figures in the place of a dead rank repeats the last step.
            assert found["step"] not in steps or steps[found["step"]]["parameters"] == found["parameters"], found
            steps[found["step"]] = found
        elif found.get("summary"):
            summary = found
        else:
            changes.append(found)
    return steps, changes, summary


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def ranks_of(pid):
    """The ranks' processes, in the order in which they were started."""
    below = children(pid)
    return [pid] if not below else sorted(rank for child in below for rank in ranks_of(child))


def wait_until(condition, process, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, (process.returncode, process.stderr.read())
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.001)


def ends_well(process, who):
    try:
        out, err = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError((who, "hangs"))
    assert process.returncode == 0, (who, process.returncode, err)
    return err


def undisturbed(dp, *more):
    path = f"{top.name}/undisturbed-{dp}-{abs(hash(more))}"
    ends_well(begin(path, dp, *more), "undisturbed")
    return figures(path)[0]


def check_same(steps, expected, who, tolerance=0):
    assert sorted(steps) == sorted(expected), (who, sorted(steps))
    for number, step in expected.items():
        found = steps[number]
        if tolerance == 0:
            assert found["parameters"] == step["parameters"], (who, number)
        assert abs(found["loss"] - step["loss"]) <= max(tolerance, 1e-12) * step["loss"], (who, number, found, step)


def new_path():
    global made
    made += 1
    return f"{top.name}/run-{made}"


def killed_at(places, expected, steps, dp=4, more=canonical, lost=(1,), tolerance=0):
    """A run in which ranks die where --die-at says."""
    path = new_path()
    ends_well(begin(path, dp, "--elastic", "--steps", steps, *places, *more), places)
    found, changes, summary = figures(path)
    check_same(found, expected, places, tolerance)
    assert sorted(rank for change in changes for rank in change["lost"]) == list(lost), (places, changes)
    assert summary["changes"] == changes or 0 in lost, (summary, changes)
    return changes


def killed_by_hand(seed, expected, steps, kills=None, transports=("shm", "tcp"), by_launcher=False, tolerance=0, more=canonical):
    """Random ranks are killed at random moments. Returns a text, where it ran, and how long each pause was, from the SIGKILL on."""
    dice = random.Random(seed)
    dp = dice.choice((2, 4, 8)) if kills is None else 4
    kills = dice.randint(1, min(dp - 1, 3)) if kills is None else kills
    transport = dice.choice(transports)
    path = new_path()
    process = begin(path, dp, "--elastic", "--steps", steps, "--transport", transport, *more, by_launcher=by_launcher)
    wait_until(lambda: figures(path)[0], process)
    ranks = ranks_of(process.pid)
    assert len(ranks) == dp + ("server" in more), ranks
    alive, when, seen = list(range(dp)), [], 1
    for turn in range(kills):
        seen = dice.randint(seen, (steps - 10) * (turn + 1) // kills)
        wait_until(lambda: seen in figures(path)[0], process)
        time.sleep(dice.random() * 0.03)
        dies = 0 if dice.random() < 0.3 and 0 in alive else dice.choice(alive)
        alive.remove(dies)
        os.kill(ranks[dies], signal.SIGKILL)
        when.append((dies, time.monotonic()))
    who = f"seed {seed}: {dp} workers over {transport}, killed {', '.join(str(rank) for rank, _ in when)}"
    ends_well(process, who)
    found, changes, summary = figures(path)
    check_same(found, expected, who, tolerance)
    assert summary["ranks"] == len(alive), (who, summary["ranks"])
    # A rank 0 that dies right after it has written of a loss is not contradicted: both may be there.
    gone = sorted({rank for change in changes for rank in change["lost"]})
    assert gone == sorted(rank for rank, _ in when), (who, changes)
    pauses = [1e3 * (min(c["clock_s"] for c in changes if rank in c["lost"] and c["clock_s"] > killed) - killed)
              for rank, killed in when]
    return who, (transport, dp), pauses


def let_in(expected, steps):
    """One is lost, a replacement comes, then rank 0 is lost."""
    path, place = new_path(), top.name + "/meet"
    meet = ["--elastic", "--meet", place, "--steps", steps, *canonical]
    process = begin(path, 4, *meet, "--die-at", "backward:1:2")
    wait_until(lambda: os.path.exists(place + "/run.json") and figures(path)[0], process)
    wait_until(lambda: figures(path)[1], process)
    ranks = ranks_of(process.pid)  # 0, 1 and 3
    os.kill(ranks[1], signal.SIGSTOP)  # the run waits while the newcomer loads LibTorch
    newcomer = begin("/dev/null", 4, *meet, "--join")
    wait_until(lambda: any(name.startswith("newcomer-") for name in os.listdir(place)), process)
    os.kill(ranks[1], signal.SIGCONT)
    wait_until(lambda: any("came" in change for change in figures(path)[1]), process)
    came = max(figures(path)[0])
    wait_until(lambda: max(figures(path)[0]) > came, process)
    os.kill(ranks[0], signal.SIGKILL)
    ends_well(process, "the run that lets one in")
    ends_well(newcomer, "who is let in")
    found, changes, summary = figures(path)
    check_same(found, expected, "let in")
    assert came < steps - 3, came
    assert [(c.get("lost"), c.get("came"), c["workers"]) for c in changes] == [([2], None, 3), (None, [4], 4), ([0], None, 3)], changes
    assert summary["ranks"] == 3
    assert os.listdir(place) == [], os.listdir(place)


def check_scales():
    """A server and those that are left have one loss scale, also where the server alone has made a step, which overflowed."""
    convex = ("--model", "quadratic:64", "--precision", "fp16", "--loss-scale", "dynamic:4194304", "--optimizer", "sgd", "--momentum", "0",
              "--batch", "8", "--lr", "0.5", "--warmup", "0", "--hash")
    for dp, *places in ((4, "--die-at", "decided:3:1"), (2, "--die-at", "decided:3:0", "--lose-at", "decided:3:1"), (2, "--die-at", "decide:3:0")):
        path, folder = new_path(), new_path()
        ends_well(begin(path, dp, "--elastic", *by_server, *convex, "--steps", 12, "--checkpoint", folder, *places), places)
        found, changes, summary = figures(path)
        assert sorted(found) == list(range(1, 13)) and len(changes) == 1, (places, found, changes)
        scale = 2.0 ** 22
        for number, step in sorted(found.items()):
            assert step["loss_scale"] == scale, (places, number, found)
            scale /= 2 if step["overflow"] else 1
        skipped = sum(step["overflow"] for step in found.values())
        assert found[4]["overflow"] and not found[12]["overflow"] and summary["skipped_steps"] == skipped, (places, found, summary)
        with open(folder + "/step-000000012/checkpoint.json") as file:
            kept = [about["loss-scale"] for about in json.load(file)["contents"]["files"]]
        assert len(kept) == dp and {int(text.split(":")[-1]) for text in kept} == {skipped}, (places, kept)


def check_refused():
    for more, words in ((("--tp", "2"), "--elastic needs --tp 1"), (("--pp", "2"), "--elastic needs --tp 1 and --pp 1"),
                        (("--zero", "1"), "--elastic needs --zero 0"), (("--topk", "0.1"), "no --topk"),
                        (("--sync", "local-sgd"), "--elastic needs --sync allreduce"), (("--sync", "gossip"), "--elastic needs --sync allreduce"),
                        (("--sync", "ssp"), "--elastic needs --sync allreduce"),
                        (("--sync", "server", "--servers", "2"), "--elastic needs --servers 1"), (("--sync", "server", "--dropout", "0.1"), "--elastic needs --dropout 0"),
                        (("--sync", "server", "--log", top.name + "/log"), "no --log"), (("--sync", "server", "--meet", top.name + "/place"), "--meet needs --sync allreduce"),
                        (("--straggler", "jitter"), "no --straggler"),
                        (("--join",), "--join needs --meet"), (("--dp", "1"), "--elastic needs --dp of 2 or more, or --meet"),
                        (("--meet", "/dev/null"), "--meet /dev/null"),
                        (("--meet", top.name + "/nobody", "--join"), "no run with --meet")):
        args = ["--data", "text:" + top.name + "/text", "--dp", "2", "--elastic", "--steps", "1", *more]
        done = subprocess.run([train, *args], env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1, (args, done)
    done = subprocess.run([train, "--dp", "2", "--meet", top.name], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "--meet needs --elastic" in done.stderr, done


def check_short():
    steps = 60
    expected = undisturbed(2, "--steps", steps, *canonical)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        newcomer = pool.submit(let_in, expected, steps)
        # Rank 1 dies when the step is decided, which rank 2 has not heard: it makes the update all the same.
        killed_at(("--die-at", "decided:5:1", "--lose-at", "decided:5:2"), expected, steps)
        # Nobody has decided it: the step is made again.
        killed_at(("--die-at", "decide:5:0"), expected, steps, lost=(0,))
        check_scales()
        killed_by_hand(1, expected, steps, kills=2)
        newcomer.result()


def check_long():
    expected = undisturbed(2, "--steps", "24", *canonical)
    for place in ("forward", "backward", "allreduce", "decide", "decided", "update"):
        for rank in (0, 1):
            killed_at(("--die-at", f"{place}:5:{rank}"), expected, 24, lost=(rank,))
    for place in ("save-begin", "save-header", "save-half", "save-written", "save-about", "save-named", "save-renamed", "save-pruned"):
        folder = new_path()
        step = 11 if place == "save-pruned" else 7
        killed_at(("--die-at", f"{place}:{step}:0"), expected, 24, lost=(0,), more=(*canonical, "--checkpoint", folder, "--checkpoint-every", "4"))
        assert sorted(os.listdir(folder)) == ["step-000000020", "step-000000024"], (place, os.listdir(folder))
    for optimizer in (("--optimizer", "lamb"), ("--precision", "bf16", "--loss-scale", "dynamic", "--clip", "0.5"), ("--dtype", "float64", "--no-overlap")):
        other = undisturbed(2, "--steps", "24", *canonical, *optimizer)
        killed_at(("--die-at", "backward:5:0"), other, 24, lost=(0,), more=(*canonical, *optimizer))
        killed_at(("--die-at", "decided:5:1", "--lose-at", "decided:5:2"), other, 24, more=(*canonical, *optimizer))
    # By default the same to rounding.
    plain = undisturbed(4, "--steps", "24")
    killed_by_hand(3, plain, 24, kills=2, more=(), tolerance=1e-3)
    killed_by_hand(4, plain, 24, kills=2, more=("--wire", "bf16"), tolerance=3e-2)
    killed_by_hand(5, expected, 24, kills=3, by_launcher=True)
    let_in(undisturbed(2, "--steps", "60", *canonical), 60)
    check_server()


def check_server():
    """With a server workers may die, the server may not."""
    expected = undisturbed(4, "--steps", "24", *by_server)
    for place in ("forward", "allreduce", "decide", "decided"):
        for rank in (0, 1):
            killed_at(("--die-at", f"{place}:5:{rank}"), expected, 24, lost=(rank,), more=by_server, tolerance=1e-3)
    for place in ("save-begin", "save-written", "save-renamed"):
        folder = new_path()
        rank = 1 if place == "save-written" else 0
        killed_at(("--die-at", f"{place}:7:{rank}"), expected, 24, lost=(rank,), tolerance=1e-3,
                  more=(*by_server, "--checkpoint", folder, "--checkpoint-every", "4"))
    for seed in range(10, 14):
        killed_by_hand(seed, expected, 24, kills=2, more=by_server, tolerance=1e-3)
    process = begin(new_path(), 2, "--elastic", "--steps", 24, *by_server, "--die-at", "server:7:2", "--checkpoint", new_path(), "--checkpoint-every", "4")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "rank 2, the parameter server, was lost" in err and "--resume goes on from step 8 in" in err, err


def spread(pauses):
    pauses = sorted(pauses)
    return f"{pauses[len(pauses) // 2]:.0f} | {pauses[min(len(pauses) - 1, len(pauses) * 99 // 100)]:.0f} | {pauses[-1]:.0f} |"


def check_deaths(runs, first=1000):
    expected = undisturbed(2, "--steps", "40", *canonical)
    found = {}
    for seed in range(first, first + runs):
        who, where, pauses = killed_by_hand(seed, expected, 40)
        found.setdefault(where, []).append(pauses)
        print(f"{seed - first + 1}/{runs}  {who}: same bits; {', '.join(f'{pause:.0f} ms' for pause in pauses)}", flush=True)
    print("| transport | workers | runs | same bits | deaths | p50 ms | p99 ms | max ms |\n|---|---|---|---|---|---|---|---|")
    for (transport, dp), of in sorted(found.items()):
        pauses = [pause for one in of for pause in one]
        print(f"| {transport} | {dp} | {len(of)} | {len(of)} | {len(pauses)} | {spread(pauses)}")
    pauses = [pause for of in found.values() for one in of for pause in one]
    print(f"| all | | {runs} | {runs} | {len(pauses)} | {spread(pauses)}")


if __name__ == "__main__":
    try:
        globals()["check_" + what](*map(int, sys.argv[4:]))
    finally:
        for process in begun:  # of a test that has failed; ranks end with their launcher
            process.kill()
