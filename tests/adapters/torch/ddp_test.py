#!/usr/bin/env python3
"""DistributedDataParallel of a network like ResNet and one like GPT: the parameters after some steps equal
gloo's to 1e-6, and those of all ranks to the bit.

    ddp_test.py FORM
"""

import os
import sys
import tempfile

import ranks
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 3


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
                                  nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels))

    def forward(self, images):
        return torch.relu(images + self.body(images))


def resnet(channels=8, side=16):
    model = nn.Sequential(nn.Conv2d(3, channels, 3), Residual(channels), Residual(channels), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                          nn.Linear(channels, 10))
    return model.to(memory_format=torch.channels_last), lambda: torch.randn(4, 3, side, side), 10


class Gpt(nn.Module):
    def __init__(self, words, context, width, sparse):
        super().__init__()
        self.tokens = nn.Embedding(words, width, sparse=sparse)
        self.places = nn.Parameter(torch.zeros(context, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, words)
        self.unused = nn.Linear(3, 3)

    def forward(self, tokens):
        context = tokens.shape[1]
        mask = torch.full((context, context), float("-inf")).triu(1)
        return self.head(self.layers(self.tokens(tokens) + self.places, mask=mask)[:, -1])


def gpt(words=50, context=12, width=32, sparse=True):
    return Gpt(words, context, width, sparse), lambda: torch.randint(0, words, (4, context)), words


def case_power(rank, size):
    """A hook of torch's that issues calls in callbacks of others and waits for them there, for several buckets."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(*(nn.Linear(32, 32) for _ in range(6))), bucket_cap_mb=0.005)
    state = powerSGD_hook.PowerSGDState(dist.group.WORLD, matrix_approximation_rank=2, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(100 + rank)
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.randn(4, 32)).square().mean().backward()
        optimizer.step()
    for parameter in model.parameters():
        everybody = [torch.empty_like(parameter) for _ in range(size)]
        dist.all_gather(everybody, parameter.detach())
        assert all(torch.equal(parameter, other) for other in everybody), "ranks differ"


def case_train(rank, size):
    results = {}
    for name, make in (("resnet", resnet), ("gpt", gpt)):
        torch.manual_seed(rank)  # DDP broadcasts rank 0's
        plain, batch, classes = make()
        # Small buckets, so that there are several of them; sparse gradients, and parameters that are not used.
        model = DistributedDataParallel(plain, bucket_cap_mb=0.02, find_unused_parameters=name == "gpt")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        torch.manual_seed(100 + rank)
        for step in range(STEPS):
            optimizer.zero_grad()
            if step == 1:
                with model.no_sync():
                    nn.functional.cross_entropy(model(batch()), torch.randint(0, classes, (4,))).backward()
            nn.functional.cross_entropy(model(batch()), torch.randint(0, classes, (4,))).backward()
            optimizer.step()
        results[name] = {key: value.clone() for key, value in plain.state_dict().items()}
        for key, value in results[name].items():
            if "running" in key or "num_batches" in key:
                continue  # each rank's own until the next forward
            everybody = [torch.empty_like(value) for _ in range(size)]
            dist.all_gather(everybody, value)
            assert all(torch.equal(value, other) for other in everybody), f"{name}: {key} differs between ranks"
    torch.save(results, os.path.join(os.environ["RESULTS"], str(rank)))


if __name__ == "__main__":
    if ranks.is_rank():
        ranks.main(globals())
    else:
        ranks.run(__file__, "power", sys.argv[1], 2)
        with tempfile.TemporaryDirectory() as folder:
            for form in ("gloo", sys.argv[1]):
                os.mkdir(os.path.join(folder, form))
                ranks.run(__file__, "train", form, 2, env={"RESULTS": os.path.join(folder, form)})
            for rank in "01":
                wanted, given = (torch.load(os.path.join(folder, form, rank)) for form in ("gloo", sys.argv[1]))
                for model, parameters in wanted.items():
                    for key, value in parameters.items():
                        other = given[model][key]
                        assert torch.allclose(value, other, rtol=0, atol=1e-6), (model, key, (value - other).abs().max())
