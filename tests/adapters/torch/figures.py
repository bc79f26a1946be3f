#!/usr/bin/env python3
"""Times of all_reduce and of a step of DDP beside gloo's, in one run, interleaved; 2 ranks.

    figures.py FORM
"""

import copy
import statistics
import sys
import time

import ddp_test
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

    def layers():
        return torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)]), lambda: torch.randn(8, 512), 512

    for name, make in (("eight layers", layers), ("a ResNet-like network", lambda: ddp_test.resnet(64, 32)),
                       ("a GPT-like network", lambda: ddp_test.gpt(2048, 64, 256, sparse=False))):
        plain, batch, classes = make()
        models = {id(group): torch.nn.parallel.DistributedDataParallel(copy.deepcopy(plain), process_group=group,
                                                                       find_unused_parameters=hasattr(plain, "unused"))
                  for group in groups.values()}
        optimizers = {one: torch.optim.SGD(model.parameters(), lr=0.01) for one, model in models.items()}

        def step(group):
            inputs = batch()
            optimizers[id(group)].zero_grad()
            torch.nn.functional.cross_entropy(models[id(group)](inputs), torch.randint(0, classes, inputs.shape[:1])).backward()
            optimizers[id(group)].step()

        compare(step, groups, 1, 3)
        mebibytes = sum(4 * one.numel() for one in plain.parameters()) / (1 << 20)
        tell(f"step of {name}, {mebibytes:.1f} MiB of gradients", compare(step, groups, 9, 5))


if __name__ == "__main__":
    if ranks.is_rank():
        ranks.main(globals())
    else:
        print(*ranks.run(__file__, "figures", sys.argv[1], 2, limit=100), sep="", end="")
