"""Trains a small network on as many ranks as torchrun starts: DistributedDataParallel over tutti."""

import torch
import torch.distributed as dist

import tutti_torch

dist.init_process_group("tutti")
torch.manual_seed(dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(10, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    inputs = torch.randn(64, 10)
    loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.all_reduce(loss.detach(), op=dist.ReduceOp.AVG)
if dist.get_rank() == 0:
    print(f"{dist.get_world_size()} ranks over tutti ({tutti_torch.implementation()}): loss {loss.item():.4f}")
dist.destroy_process_group()
