#!/usr/bin/env python3
"""What torch 2 builds on its collectives: FSDP2, tensor parallel by DTensor, pipelining, distributed checkpoints; and the
ways to name a backend. Each gives what one process gives.

    parallel_test.py FORM
"""

import contextlib
import datetime
import importlib
import inspect
import operator
import os
import re
import sys
import tempfile
from unittest import mock

import ranks
import torch
import torch.distributed as dist
from torch import nn

RELEASE = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
WIDTH = 18  # into 2 and into 3 equal parts


def model():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH))


def batch(rank):
    return torch.randn(6, WIDTH, generator=torch.Generator().manual_seed(rank))


def trained(size, steps=3):
    """Alone, with what all ranks have."""
    alone = model()
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        sum(alone(batch(rank)).square().mean() / size for rank in range(size)).backward()
        optimizer.step()
    return alone


def case_fsdp(rank, size):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed.device_mesh import init_device_mesh
    mesh = init_device_mesh("cpu", (size,))
    sharded = model()
    for layer in (sharded[0], sharded[2]):
        fully_shard(layer, mesh=mesh, mp_policy=MixedPrecisionPolicy())
    fully_shard(sharded, mesh=mesh)
    optimizer = torch.optim.SGD(sharded.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        sharded(batch(rank)).square().mean().backward()
        optimizer.step()
    for ours, wanted in zip(sharded.parameters(), trained(size).parameters()):
        torch.testing.assert_close(ours.full_tensor(), wanted)

    import torch.distributed.checkpoint as checkpoint
    folder = os.environ["CHECKPOINT"]
    checkpoint.save(sharded.state_dict(), checkpoint_id=folder)
    checkpoint.async_save(sharded.state_dict(), checkpoint_id=folder).result()
    wanted = [parameter.full_tensor().clone() for parameter in sharded.parameters()]
    with torch.no_grad():
        for parameter in sharded.parameters():
            parameter.zero_()
    state = sharded.state_dict()
    checkpoint.load(state, checkpoint_id=folder)
    sharded.load_state_dict(state)
    for ours, saved in zip(sharded.parameters(), wanted):
        assert torch.equal(ours.full_tensor(), saved)


def case_tensor_parallel(rank, size):
    from torch.distributed.device_mesh import init_device_mesh
    try:
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    except ImportError:  # before 2.5
        from torch.distributed._tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cpu", (size,))
    parallel = parallelize_module(model(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    ours, wanted = parallel(batch(0)), model()(batch(0))
    torch.testing.assert_close(ours, wanted)
    ours.sum().backward()
    rows = distribute_tensor(torch.arange(4.0 * size * size).view(2 * size, 2 * size), mesh, [Shard(0)])
    columns = rows.redistribute(mesh, [Shard(1)])  # all to all
    assert torch.equal(columns.to_local(), rows.full_tensor()[:, 2 * rank:2 * rank + 2])
    assert torch.equal(columns.redistribute(mesh, [Replicate()]).to_local(), rows.full_tensor())
    assert (rows.sum() + 0).full_tensor().item() == rows.full_tensor().sum().item()


def case_pipeline(rank, size):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    layers = [nn.Linear(WIDTH, WIDTH) for _ in range(size)]
    for at, layer in enumerate(layers):
        nn.init.constant_(layer.weight, 0.01 * (at + 1))
        nn.init.zeros_(layer.bias)
    wanted = inspect.signature(PipelineStage).parameters.get("input_args")  # which torch 2.4 must be told
    parts_of = {"input_args": batch(0).chunk(3)[0]} if wanted is not None and wanted.default is inspect.Parameter.empty else {}
    stage = PipelineStage(layers[rank], rank, size, torch.device("cpu"), **parts_of)
    schedule = Schedule1F1B(stage, n_microbatches=3, loss_fn=lambda out, target: (out - target).square().mean())
    inputs, target, losses = batch(0), batch(1), []
    if rank == 0:
        schedule.step(inputs)
    elif rank == size - 1:
        schedule.step(target=target, losses=losses)
    else:
        schedule.step()
    alone = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(size)])
    for ours, wanted in zip(layers, alone):
        wanted.load_state_dict(ours.state_dict())
    loss = sum((alone(part) - goal).square().mean() for part, goal in zip(inputs.chunk(3), target.chunk(3))) / 3
    loss.backward()
    # Torch before 2.7 leaves it to the program to divide by the number of parts.
    parts = 1 if "scale_grads" in inspect.signature(Schedule1F1B).parameters else 3
    torch.testing.assert_close(layers[rank].weight.grad / parts, alone[rank].weight.grad)
    if rank == size - 1:
        torch.testing.assert_close(torch.stack(losses).mean(), loss.detach())


def case_hybrid(rank, size):
    """FSDP2 within pairs of ranks, gradients averaged between the pairs, with a divisor of the program's."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("replicate", "shard"))
    sharded = model()
    for layer in sharded:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh).set_gradient_divide_factor(2.0 * size)
    fully_shard(sharded, mesh=mesh)
    sharded(batch(rank)).square().mean().backward()
    alone = model()
    sum(alone(batch(r)).square().mean() for r in range(size)).backward()
    for ours, wanted in zip(sharded.parameters(), alone.parameters()):
        torch.testing.assert_close(ours.grad.full_tensor(), wanted.grad / (2 * size))


def checked(group=None):
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=group)
    assert torch.equal(tensor, torch.full((3,), float(dist.get_world_size(group)))), tensor


@contextlib.contextmanager
def accelerator():
    """The processor as one, for a split_group() that asks for it: that of torch before 2.15."""
    group = dist.distributed_c10d._get_default_group()
    if RELEASE >= (2, 15) or torch.accelerator.is_available():
        yield
        return
    with mock.patch.object(torch.accelerator, "is_available", lambda: True), \
            mock.patch.object(torch.accelerator, "current_accelerator", lambda *_: torch.device("cpu")):
        group.bound_device_id = torch.device("cpu", 0)
        yield
        group.bound_device_id = None


def case_split(rank, size):
    """Groups of some ranks of a group, by what split_group() calls, and by itself."""
    parent = dist.distributed_c10d._get_default_group()
    for name in ("first", "second"):
        part = parent.split_group([0, 2], group_name=name)
        assert (part is None) == (rank == 1), part
        if part is not None:
            assert (part.size(), part.rank(), part.group_name) == (2, rank // 2, name)
            tensor = torch.full((3,), float(rank))
            part.allreduce([tensor]).wait()
            assert tensor.tolist() == [2.0] * 3, tensor
    del part
    with accelerator():
        pairs = dist.split_group(split_ranks=[[0, 2], [1]], group_desc="pairs")
        assert dist.get_world_size(pairs) == (1 if rank == 1 else 2) and pairs.group_desc == "pairs"
        checked(pairs)
        some = dist.split_group(split_ranks=[[0, 1]], timeout=datetime.timedelta(seconds=1))
        if rank == 2:
            assert some in (None, dist.GroupMember.NON_GROUP_MEMBER)
        else:
            checked(some)
            alone = dist.split_group(some, split_ranks=[[0], [1]])
            checked(alone)
    # What new_group() asks of ranks outside, where a device is bound.
    parent._get_backend(torch.device("cpu")).perform_nocolor_split(torch.device("cpu"))
    checked()


def case_devices(rank, size, store):
    """A backend for each kind of device, and with torch's checks around every call."""
    dist.init_process_group("cpu:tutti,cuda:tutti", init_method=f"file://{store}", rank=rank, world_size=size)
    checked()
    checked(dist.new_group(list(range(size))))
    dist.destroy_process_group()


case_devices.no_group = True


def case_default(rank, size, store):
    """Where tutti is what torch takes for tensors of the processor."""
    from torch.distributed.device_mesh import init_device_mesh
    kept = dict(dist.Backend.default_device_backend_map)
    dist.Backend.default_device_backend_map["cpu"] = "tutti"
    dist.init_process_group(init_method=f"file://{store}", rank=rank, world_size=size)
    mesh = init_device_mesh("cpu", (size,))
    assert "tutti" in dist.get_backend_config(mesh.get_group()), dist.get_backend_config(mesh.get_group())
    checked(mesh.get_group())
    dist.destroy_process_group()
    dist.Backend.default_device_backend_map.update(kept)


case_default.no_group = True


# What earlier releases do not have.
NEEDS = {
    "fsdp": ("torch.cpu", "Stream.record_event"),  # without which fully_shard() does not run on the processor
    "hybrid": ("torch.distributed.fsdp", "FSDPModule.set_gradient_divide_factor"),
    "tensor_parallel": ("torch.distributed.device_mesh", "init_device_mesh"),
    "pipeline": ("torch.distributed.pipelining", "Schedule1F1B"),
    "split": ("torch.distributed", "ProcessGroup.split_group"),
    "default": ("torch.distributed.device_mesh", "init_device_mesh"),
}


def is_offered(case):
    module, name = NEEDS.get(case, ("torch", "Tensor"))
    try:
        operator.attrgetter(name)(importlib.import_module(module))
        return True
    except (ImportError, AttributeError):
        assert RELEASE < (2, 9), f"{module}.{name} is gone"
        print(f"{case} was not run: this torch has no {module}.{name}")
        return False


def run(cases, nranks, env=None):
    offered = [case for case in cases.split("+") if is_offered(case)]
    if offered:
        ranks.run(__file__, "+".join(offered), sys.argv[1], nranks, env=env)


if __name__ == "__main__":
    if ranks.is_rank():
        ranks.main(globals())
    else:
        with tempfile.TemporaryDirectory() as folder:
            for count in (2, 3):
                run("fsdp+tensor_parallel+pipeline", count, env={"CHECKPOINT": os.path.join(folder, str(count))})
        run("hybrid", 4)
        run("split", 3)
        run("devices+default", 2)
        run("devices", 2, env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})
