"""Ranks of a test as processes: started by whoever imports this, which reports the first that failed.

    ranks.run(__file__, "case", form, nranks)     starts `python FILE rank CASE FORM RANK NRANKS STORE`
    if ranks.is_rank(): ranks.main(globals())     in those: makes the group and calls case_CASE(rank, nranks)

CASE may be several, joined by +: one after another, each with a group of its own, in the same processes.
"""

import datetime
import os
import subprocess
import sys
import tempfile
import time


def run(file, case, form, nranks, limit=60, env=None, expect=None):
    """Runs a case. `expect`: the exit codes by rank, where not all are 0. Returns what the ranks printed."""
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        # One thread a rank, as many ranks share few processors.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1", **(env or {})}
        processes = [subprocess.Popen([sys.executable, file, "rank", case, form, str(rank), str(nranks), store],
                                      env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                     for rank in range(nranks)]
        deadline = time.monotonic() + limit
        outputs = []
        try:
            for process in processes:
                outputs.append(process.communicate(timeout=max(1, deadline - time.monotonic()))[0])
        except subprocess.TimeoutExpired:
            for process in processes:
                process.kill()
            raise AssertionError(f"{case} ({form}) of {nranks} ranks has not ended after {limit} s:\n" +
                                 "\n".join(process.communicate()[0] for process in processes)) from None
        codes = [process.returncode for process in processes]
        if codes != (expect or [0] * nranks):
            raise AssertionError(f"{case} ({form}): exit codes {codes}\n" + "\n".join(outputs))
        return outputs


def is_rank():
    return len(sys.argv) > 1 and sys.argv[1] == "rank"


def main(cases):
    case, form, rank, nranks, store = sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6]
    import torch.distributed as dist
    torch_threads()
    if form != "gloo":
        import tutti_torch
        tutti_torch.use(form)
        assert tutti_torch.implementation() == form
    for name in case.split("+"):
        function = cases["case_" + name]
        print(f"{name} of rank {rank}", flush=True)
        if getattr(function, "no_group", False):
            function(rank, nranks, store + name)
            continue
        dist.init_process_group("gloo" if form == "gloo" else "tutti", init_method=f"file://{store}{name}", rank=rank,
                                world_size=nranks, timeout=datetime.timedelta(seconds=30))
        function(rank, nranks)
        dist.destroy_process_group()


def torch_threads():
    import torch
    torch.set_num_threads(1)
