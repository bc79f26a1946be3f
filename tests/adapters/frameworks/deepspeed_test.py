#!/usr/bin/env python3
"""DeepSpeed on the CPU: ZeRO over a process group of tutti.

    DS_ACCELERATOR=cpu torchrun --nproc_per_node 2 deepspeed_test.py
"""

import deepspeed
import torch
import torch.distributed as dist
import tutti_torch  # noqa: F401

BATCH, EPOCHS = 16, 4


def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))


def samples(rank, size):
    """This rank's part of each batch."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(256, 8, generator=generator)
    y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2]
    return list(zip(x[rank::size].split(BATCH // size), y[rank::size].split(BATCH // size)))


def train(stage, rank, size):
    """With optimizer states (stage 1), gradients (2) and parameters (3) shared out: the losses, and the parameters at the end."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    config = {"train_batch_size": BATCH, "gradient_clipping": 1.0, "zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True}
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    losses = []
    for _ in range(EPOCHS):
        for x, y in samples(rank, size):
            loss = torch.nn.functional.mse_loss(engine(x), y)
            engine.backward(loss)
            engine.step()
            loss = loss.detach()
            dist.all_reduce(loss, op=dist.ReduceOp.AVG)
            losses.append(loss.item())
    with deepspeed.zero.GatheredParameters(list(engine.module.parameters()), enabled=stage == 3):
        parameters = [parameter.detach().clone() for parameter in engine.module.parameters()]
    engine.destroy()
    return losses, parameters


def main():
    deepspeed.init_distributed(dist_backend="tutti")
    rank, size = dist.get_rank(), dist.get_world_size()
    for stage in (1, 2, 3):
        losses, parameters = train(stage, rank, size)
        if rank == 0:
            print(f"{size} ranks, ZeRO {stage}: loss {losses[0]:.4f}, after {len(losses)} steps {losses[-1]:.4f}")
        check(losses, parameters)
    dist.destroy_process_group()


# ------------------------------------------------------------------ of the test alone

def check(losses, parameters):
    """Against one process, without DeepSpeed."""
    assert dist.get_backend() == "tutti" and dist.get_world_size() == 2
    alone = network()
    optimizer, wanted = torch.optim.AdamW(alone.parameters(), lr=0.01), []
    for _ in range(EPOCHS):
        for x, y in samples(0, 1):
            loss = torch.nn.functional.mse_loss(alone(x), y)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(alone.parameters(), 1.0)
            optimizer.step()
            wanted.append(loss.item())
    assert wanted[-1] < 0.5 * wanted[0], wanted
    torch.testing.assert_close(losses, wanted, rtol=0, atol=1e-5)
    for got, one in zip(parameters, alone.parameters()):
        torch.testing.assert_close(got, one.detach(), rtol=0, atol=1e-5)


if __name__ == "__main__":
    main()
