"""Data-parallel training of a small network in NumPy.

    tutti run -n 4 python train.py [STEPS]

Every rank has all parameters and its share of each step's samples. Backward computes gradients from the last layer to the
first; each is summed over the ranks while the next ones are computed."""
import hashlib
import operator
import sys

import numpy as np
import tutti

SIZES = (2, 64, 64, 3)  # of a point, of what lies between layers, and the number of arms
BATCH, RATE = 96, 0.3


def spirals(count, random):
    """Points of a spiral with three arms, and which arm each is of."""
    arm, along = random.integers(3, size=count), random.random(count)
    angle = 4 * along + 2 * np.pi / 3 * arm + 0.1 * random.standard_normal(count)
    return np.stack([along * np.cos(angle), along * np.sin(angle)], 1), arm


def forward(layers, x):
    """What comes into each layer, and what comes out of the last one."""
    inputs = []
    for weights, bias in layers:
        inputs.append(x if not inputs else np.maximum(x, 0))
        x = inputs[-1] @ weights + bias
    return inputs, x


def loss_and_gradient(out, arm):
    """The sum of the cross entropies, and its gradient at what comes out."""
    likely = np.exp(out - out.max(1, keepdims=True))
    likely /= likely.sum(1, keepdims=True)
    rows = np.arange(len(arm))
    loss = -np.log(likely[rows, arm]).sum()
    likely[rows, arm] -= 1
    return loss, likely


def train(comm, steps):
    random = np.random.default_rng(1)  # of the same numbers on all ranks
    layers = [(random.standard_normal((n, m)) * (2 / n) ** 0.5, np.zeros(m)) for n, m in zip(SIZES, SIZES[1:])]
    own = slice(BATCH * comm.rank // comm.size, BATCH * (comm.rank + 1) // comm.size)
    for step in range(1, steps + 1):
        x, arm = spirals(BATCH, random)
        inputs, out = forward(layers, x[own])
        loss, back = loss_and_gradient(out, arm[own])
        sums = []  # a parameter, its gradient, and the request that sums that
        for (weights, bias), x in zip(reversed(layers), reversed(inputs)):
            for parameter, gradient in ((weights, x.T @ back), (bias, back.sum(0))):
                gradient = np.ascontiguousarray(gradient)
                sums.append((parameter, gradient, comm.Iallreduce(tutti.IN_PLACE, gradient)))
            back = back @ weights.T * (x > 0)
        for parameter, gradient, request in sums:
            request.wait()
            parameter -= RATE / BATCH * gradient
        loss = comm.allreduce(loss, operator.add) / BATCH
        if comm.rank == 0 and (step % 100 == 0 or step in (1, steps)):
            print(f"step {step}  loss {loss:.6f}", flush=True)
    digest = hashlib.sha256(b"".join(part.tobytes() for layer in layers for part in layer)).hexdigest()
    assert set(comm.allgather(digest)) == {digest}, "the ranks' parameters differ"


if __name__ == "__main__":
    with tutti.init() as comm:
        train(comm, int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
