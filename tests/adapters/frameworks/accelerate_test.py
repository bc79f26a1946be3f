#!/usr/bin/env python3
"""Accelerate on the CPU: it takes the process group that it finds, which is tutti's.

    torchrun --nproc_per_node 2 accelerate_test.py
"""

import torch
import torch.distributed as dist
import tutti_torch  # noqa: F401
from accelerate import Accelerator
from accelerate.utils import set_seed

BATCH, EPOCHS = 16, 4


def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).double()


def samples():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(256, 8, generator=generator, dtype=torch.double)
    return torch.utils.data.TensorDataset(x, torch.sin(x[:, :1]) + 0.5 * x[:, 1:2])


def train(accelerator, loader, model, optimizer):
    """The mean loss of each epoch over all ranks, and the model without its wrapper."""
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    means = []
    for _ in range(EPOCHS):
        losses = []
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(accelerator.gather_for_metrics(loss.detach().reshape(1)).mean().item())
        means.append(sum(losses) / len(losses))
    return means, accelerator.unwrap_model(model)


def main():
    dist.init_process_group("tutti")
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    set_seed(5)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(samples(), batch_size=BATCH // accelerator.num_processes)
    losses, model = train(accelerator, loader, model, optimizer)
    accelerator.print(f"{accelerator.num_processes} processes: loss {losses[0]:.4f}, after {EPOCHS} epochs {losses[-1]:.4f}")
    check(accelerator, losses, model)
    dist.destroy_process_group()


# ------------------------------------------------------------------ of the test alone

def check(accelerator, losses, model):
    """Against one process, without Accelerate."""
    assert dist.get_backend() == "tutti" and accelerator.num_processes == dist.get_world_size() == 2
    alone = network()
    optimizer = torch.optim.AdamW(alone.parameters(), lr=0.01)
    wanted = []
    for _ in range(EPOCHS):
        steps = []
        for i, (x, y) in enumerate(torch.utils.data.DataLoader(samples(), batch_size=BATCH)):
            loss = torch.nn.functional.mse_loss(alone(x), y)
            (loss / 2).backward()
            steps.append(loss.item())
            if i % 2 == 1:
                torch.nn.utils.clip_grad_norm_(alone.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        wanted.append(sum(steps) / len(steps))
    assert wanted[-1] < 0.5 * wanted[0], wanted
    torch.testing.assert_close(losses, wanted, rtol=0, atol=1e-6)
    for got, one in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(got, one, rtol=0, atol=1e-6)
    check_objects(accelerator)


def check_objects(accelerator):
    """What Accelerate's helpers send: objects, tensors of different lengths, what only the main process has."""
    from accelerate.utils import broadcast, broadcast_object_list, gather_object, pad_across_processes, reduce
    rank = accelerator.process_index
    assert gather_object([{"rank": rank}]) == [{"rank": 0}, {"rank": 1}]
    assert broadcast_object_list([f"of {rank}"]) == ["of 0"]
    padded = pad_across_processes(torch.ones(3 + rank), dim=0)
    assert accelerator.gather(padded).tolist() == [1, 1, 1, 0, 1, 1, 1, 1]
    assert broadcast(torch.full((3,), float(rank))).tolist() == [0, 0, 0]
    assert reduce(torch.tensor([rank + 1.0]), "sum").item() == 3
    with accelerator.main_process_first():
        pass
    accelerator.wait_for_everyone()


if __name__ == "__main__":
    main()
