"""Data-parallel training in NumPy: the steps of tutti-train, by hand.

    tutti run -n 2 python train.py

A network of fully connected layers learns drawn digits. Every rank has all parameters and its share of each step's samples.
Backward computes gradients from the last layer to the first; each is summed over the ranks while the next ones are computed.
From the same weights it has the losses of tutti-train, but for roundings, which grow:

    tutti-train --model mlp --data digits --steps 60 --checkpoint weights
    tutti-train --model mlp --data digits --init weights --optimizer sgd --momentum 0 --warmup 0 --lr 0.1 --batch 96 --steps 20 --dp 2 --json -
    tutti run -n 2 python train.py --init weights/step-000000060/rank-0-of-1.safetensors --steps 20 --every 1"""
import argparse
import hashlib
import json
import operator

import numpy as np
import tutti

SIZES = (400, 128, 128, 10)  # of a picture, of what lies between layers, and the number of digits
SAMPLES = 60000              # of an epoch
GLYPHS = np.array([bytes.fromhex(rows) for rows in (
    "0e11131519110e", "040c040404040e", "0e11010204081f", "1f02040201110e", "02060a121f0202",
    "1f101e0101110e", "0608101e11110e", "1f010204080808", "0e11110e11110e", "0e11110f01020c")]).view(np.uint8).reshape(10, 7)


def mixed(*numbers):
    """Random numbers as a function of others, as trainer/common/random.h has them."""
    def one(x):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return x ^ x >> np.uint64(31)

    first, *others = (np.atleast_1d(number).astype(np.uint64) for number in numbers)
    value = one(first)
    for i, number in enumerate(others):
        value = one((one(value) if i > 0 else value) ^ number)
    return value


def fraction(random):
    return (random >> np.uint64(11)) * 2.0 ** -53


def order(numbers, seed):
    """Which sample each number of the run is: every epoch has an order of its own."""
    keys, places = mixed(seed, numbers // SAMPLES), (numbers % SAMPLES).astype(np.uint64)
    low, bits = np.uint64(255), np.uint64(8)
    walks = np.ones(len(numbers), bool)
    while walks.any():  # a permutation of 2^16 numbers, again while it leads beyond the samples
        left, right = places[walks] >> bits, places[walks] & low
        for turn in range(4):
            left, right = right, left ^ mixed(keys[walks], turn, right) & low
        places[walks] = left << bits | right
        walks = places >= SAMPLES
    return places


def digits(samples, seed):
    """The digits in a 5 x 7 font, twice as large, somewhere in 20 x 20 pixels, with noise; and which they are."""
    key = mixed(seed, samples)[:, None]
    digit, down, right = ((mixed(key, i) % np.uint64(n)).astype(np.int64) for i, n in enumerate((10, 7, 11)))
    ink = 0.5 + 0.5 * fraction(mixed(key, 3)).astype(np.float32)
    place = np.arange(400)
    noise = fraction(mixed(key, 4 + place)).astype(np.float32)
    row, column = (place // 20 - down) // 2, (place % 20 - right) // 2
    inside = (row >= 0) & (row < 7) & (column >= 0) & (column < 5)
    drawn = inside & (GLYPHS[digit, row % 7] >> (4 - column % 5) & 1)
    return np.minimum(1, np.float32(0.4) * noise + drawn * ink), digit[:, 0]


def weights_of(path):
    """The layers of a checkpoint of one rank, or of a file of weights alone."""
    def tensor(name, *shape):
        about = header.get("parameters/" + name) or header[name]
        part = slice(*about["data_offsets"])
        return np.frombuffer(body[part], {"F32": np.float32, "F64": np.float64}[about["dtype"]]).reshape(shape).copy()

    names = [f"layer{i}.linear" for i in range(len(SIZES) - 2)] + ["out.linear"]
    try:
        with open(path, "rb") as file:
            content = file.read()
        end = 8 + int.from_bytes(content[:8], "little")
        header, body = json.loads(content[8:end]), content[end:]
        return [(tensor(name + ".weight", m, n), tensor(name + ".bias", m)) for name, n, m in zip(names, SIZES, SIZES[1:])]
    except (OSError, ValueError, KeyError) as failed:
        raise SystemExit(f"--init {path}: no weights of such a network: {failed}")


def drawn_weights(seed):
    random = np.random.default_rng(seed)  # of the same numbers on all ranks
    return [(random.standard_normal((m, n)) * (2 / n) ** 0.5, np.zeros(m)) for n, m in zip(SIZES, SIZES[1:])]


def forward(layers, x):
    """What comes into each layer, and what comes out of the last one."""
    inputs = []
    for weights, bias in layers:
        inputs.append(x if not inputs else np.maximum(x, 0))
        x = inputs[-1] @ weights.T + bias
    return inputs, x


def loss_and_gradient(out, digit):
    """The sum of the cross entropies, and its gradient at what comes out."""
    out = out - out.max(1, keepdims=True)
    likely = np.exp(out)
    total = likely.sum(1, keepdims=True)
    likely /= total
    rows = np.arange(len(digit))
    loss = (np.log(total[:, 0]) - out[rows, digit]).sum()
    likely[rows, digit] -= 1
    return float(loss), likely


def train(comm, o):
    layers = weights_of(o.init) if o.init else drawn_weights(o.seed)
    own = np.arange(o.batch * comm.rank // comm.size, o.batch * (comm.rank + 1) // comm.size)
    for step in range(o.steps):
        pixels, digit = digits(order(step * o.batch + own, o.seed), o.seed)
        inputs, out = forward(layers, pixels.astype(layers[0][0].dtype))
        loss, back = loss_and_gradient(out, digit)
        back /= o.batch
        sums = []  # a parameter, its gradient, and the request that sums that
        for (weights, bias), x in zip(reversed(layers), reversed(inputs)):
            for parameter, gradient in ((weights, back.T @ x), (bias, back.sum(0))):
                gradient = np.ascontiguousarray(gradient)
                sums.append((parameter, gradient, comm.Iallreduce(tutti.IN_PLACE, gradient)))
            back = back @ weights * (x > 0)
        for parameter, gradient, request in sums:
            request.wait()
            parameter -= o.lr * gradient
        loss = comm.allreduce(loss, operator.add) / o.batch
        if comm.rank == 0 and ((step + 1) % o.every == 0 or step in (0, o.steps - 1)):
            print(f"step {step + 1}  loss {loss:.9g}", flush=True)
    digest = hashlib.sha256(b"".join(part.tobytes() for layer in layers for part in layer)).hexdigest()
    assert set(comm.allgather(digest)) == {digest}, "the ranks' parameters differ"


def positive(text):
    if int(text) < 1:
        raise ValueError
    return int(text)


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--init", metavar="FILE", help="begin with the weights in this .safetensors file, of a checkpoint of tutti-train for one")
    parser.add_argument("--steps", type=positive, default=300)
    parser.add_argument("--batch", type=positive, default=96, help="samples of a step over all ranks")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1, help="of the samples, their order and, without --init, the weights")
    parser.add_argument("--every", type=positive, default=50, help="steps between two lines")
    return parser.parse_args()


if __name__ == "__main__":
    o = options()
    with tutti.init() as comm:
        train(comm, o)
