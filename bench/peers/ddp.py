"""tutti-train's tiny GPT under PyTorch's DistributedDataParallel over Gloo, for bench/neighbours.

    ddp.py RANKS STEPS    starts its ranks itself and prints the milliseconds of each step of rank 0, one a line

The same layers, sizes, batch, data and optimizer as `tutti-train --dp RANKS`, one thread a rank, nothing bound.
"""

import math
import os
import socket
import sys
import time

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY, BATCH = 4, 128, 4, 128, 256, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def attention(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        later = torch.full((length, length), -math.inf).triu(1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS) + later
        mixed = torch.softmax(scores, -1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))

    def forward(self, x):
        y = x + self.attention(self.norm1(x))
        return y + self.down(nn.functional.gelu(self.up(self.norm2(y))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0, 0.02)

    def forward(self, text):
        x = self.words(text) + self.places(torch.arange(text.size(1)))
        return self.norm(self.blocks(x)) @ self.words.weight.t()


def rank_main(rank, ranks, steps, port):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    torch.manual_seed(1)
    with open(__file__, "rb") as file:
        data = torch.tensor(list(file.read()), dtype=torch.long)
    model = DistributedDataParallel(Gpt())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(rank)
    for _ in range(steps):
        start = time.monotonic()
        at = torch.randint(len(data) - CONTEXT - 1, (BATCH,))
        text = torch.stack([data[i : i + CONTEXT + 1] for i in at])
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        loss.item()
        if rank == 0:
            print(1e3 * (time.monotonic() - start), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    ranks, steps = int(sys.argv[1]), int(sys.argv[2])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(rank_main, (ranks, steps, port), nprocs=ranks)
