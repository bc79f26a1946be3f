#!/usr/bin/env python3
"""Times of all_reduce and of a step of DDP beside gloo's, in one run, interleaved; 2 ranks.

    figures.py FORM
"""

import statistics
import sys
import time

import ranks
import torch
import torch.distributed as dist


def compare(run, groups, rounds, calls):
    times = {name: [] for name in groups}
    for _ in range(rounds):
        for name, group in groups.items():
            dist.barrier(group=group)
            begun = time.perf_counter()
            for _ in range(calls):
                run(group)
            times[name].append((time.perf_counter() - begun) / calls * 1e6)
    return times


def case_figures(rank, size):
    groups = {"tutti": None, "gloo": dist.new_group(backend="gloo")}

    def tell(what, times):
        if rank == 0:
            middle = {name: statistics.median(some) for name, some in times.items()}
            print(f"{what}: " + ", ".join(f"{name} {middle[name]:.1f} us ({min(some):.1f} to {max(some):.1f})"
                                          for name, some in times.items()) +
                  f"; gloo / tutti {middle['gloo'] / middle['tutti']:.2f}")

    for count, calls in ((1, 200), (16 << 10, 50), (16 << 20, 1)):
        tensor = torch.zeros(count)
        compare(lambda group: dist.all_reduce(tensor, group=group), groups, 1, calls)
        tell(f"all_reduce of {4 * count} B",
             compare(lambda group: dist.all_reduce(tensor, group=group), groups, 9, calls))

    models = {name: torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)]), process_group=group)
        for name, group in groups.items()}
    inputs = torch.randn(8, 512)
    by_group = {id(group): models[name] for name, group in groups.items()}
    step = lambda group: by_group[id(group)](inputs).sum().backward()
    compare(step, groups, 1, 2)
    tell("step of DDP of 8 MiB", compare(step, groups, 9, 3))


if __name__ == "__main__":
    if ranks.is_rank():
        ranks.main(globals())
    else:
        print(*ranks.run(__file__, "figures", sys.argv[1], 2, limit=100), sep="", end="")
