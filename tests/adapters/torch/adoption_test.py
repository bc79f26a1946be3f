#!/usr/bin/env python3
"""Memory of tensors that come back is shared by the ranks: when, with which results, and until when.

    adoption_test.py FORM
"""

import ctypes
import os
import sys

import ranks
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


# Calls after which all ranks have agreed that a tensor is gone: they ask in every 61st of a length. With torch 1 the form
# in Python keeps the tensors of 256 works.
ENOUGH_CALLS = 70 if "compiled" in sys.argv or not torch.__version__.startswith("1.") else 330


def is_shared(tensor):
    """Whether its middle lies in a shared mapping."""
    middle = tensor.data_ptr() + tensor.numel() * tensor.element_size() // 2
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            span, how = line.split()[:2]
            first, end = (int(part, 16) for part in span.split("-"))
            if first <= middle < end:
                return how[3] == "s"
    raise AssertionError("it is not mapped")


def adopted_bytes():
    """What this process has mapped of adopted memory, its own and the other ranks'."""
    total = 0
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            if "memfd:tutti-adopted" in line:
                first, end = (int(part, 16) for part in line.split()[0].split("-"))
                total += end - first
    return total


def reduce_and_check(tensor, rank, size, step):
    tensor.fill_(rank + step)
    dist.all_reduce(tensor)
    wanted = float(sum(range(size)) + size * step)
    assert torch.equal(tensor, torch.full_like(tensor, wanted)), (step, tensor[:3], wanted)


def case_tensors(rank, size):
    big, other, small = torch.empty(1 << 18), torch.empty(1 << 18), torch.empty(1 << 10)
    for step in range(6):
        for tensor in (big, other, small):
            reduce_and_check(tensor, rank, size, step)
        # Now one that is new each time, also of another length on the way.
        reduce_and_check(torch.empty(1 << 18), rank, size, step)
        reduce_and_check(torch.empty((1 << 17) + 3), rank, size, step)
    assert is_shared(big) and is_shared(other) and not is_shared(small)
    # A child has what it had, and its own copy of it.
    before = big.clone()
    child = os.fork()
    if child == 0:
        same = torch.equal(big, before)
        big.zero_()
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert torch.equal(big, before)
    # Slices, and a transposed one, of what is shared.
    part = big[1000:200_000]
    reduce_and_check(part, rank, size, 3)
    turned = big.view(512, 512).t()
    turned.fill_(rank)
    dist.all_reduce(turned)
    assert torch.equal(turned, torch.full_like(turned, float(sum(range(size)))))
    # A tensor that is gone on one rank only stays for the others; one that is gone on all is given back.
    del before, part, turned
    if rank == 0:
        del big
    for step in range(ENOUGH_CALLS):
        reduce_and_check(other, rank, size, step)
    if rank != 0:
        assert is_shared(big)
        del big
    held = adopted_bytes()
    for step in range(ENOUGH_CALLS):
        reduce_and_check(other, rank, size, step)
    assert held - adopted_bytes() > size * (1 << 20) * 0.9, (held, adopted_bytes())
    assert is_shared(other)
    for step in range(3):
        reduce_and_check(torch.empty(1 << 18), rank, size, step)


def case_unlike(rank, size):
    """On one rank it comes back, on the other it does not: nothing is shared, everything is right."""
    kept = torch.empty(1 << 18)
    keep = []
    for step in range(10):
        tensor = kept if rank == 0 else torch.empty(1 << 18)
        keep.append(tensor)
        reduce_and_check(tensor, rank, size, step)
    assert not is_shared(kept)
    # What cannot be shared goes as before.
    locked = torch.empty(1 << 18)
    span = ctypes.c_void_p(locked.data_ptr()), ctypes.c_size_t(1 << 20)
    if rank == 1:
        assert ctypes.CDLL(None).mlock(*span) == 0
    for step in range(10):
        reduce_and_check(locked, rank, size, step)
    assert not is_shared(locked)
    if rank == 1:  # others get this memory after it
        ctypes.CDLL(None).munlock(*span)


def case_model(rank, size):
    """Buckets of a model, and of a second one after it."""
    for _ in range(2):
        torch.manual_seed(5)
        plain = torch.nn.Sequential(*[torch.nn.Linear(300, 300) for _ in range(6)])
        alone = torch.nn.Sequential(*[torch.nn.Linear(300, 300) for _ in range(6)])
        alone.load_state_dict(plain.state_dict())
        model = DistributedDataParallel(plain, bucket_cap_mb=0.8, gradient_as_bucket_view=True)
        optimizer, other = (torch.optim.SGD(one.parameters(), lr=0.01) for one in (plain, alone))
        for step in range(8):
            parts = [torch.randn(4, 300, generator=torch.Generator().manual_seed(10 * step + r)) for r in range(size)]
            optimizer.zero_grad(set_to_none=False)
            model(parts[rank]).square().mean().backward()
            optimizer.step()
            other.zero_grad()
            (sum(alone(part).square().mean() for part in parts) / size).backward()
            other.step()
            for ours, wanted in zip(plain.parameters(), alone.parameters()):
                assert torch.allclose(ours, wanted, atol=1e-6), step
        shared = sum(is_shared(parameter.grad) for parameter in plain.parameters() if parameter.grad.numel() > 1000)
        assert shared >= 5, shared
        del model, optimizer


if __name__ == "__main__":
    if ranks.is_rank():
        ranks.main(globals())
    else:
        for nranks in (2, 3):
            ranks.run(__file__, "tensors+unlike+model", sys.argv[1], nranks)
