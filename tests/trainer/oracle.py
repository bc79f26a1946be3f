"""PyTorch as the judge of tutti-train: for every model and optimizer it loads a checkpoint (weights and the optimizer's
state), takes the next steps on the same samples by code of its own, in float64, and has the same loss and length of the
gradient in each and the same parameters in the end. And the reverse: tutti-train begins with weights that PyTorch made.

oracle.py TUTTI_TRAIN [long]       status 77: this Python has no PyTorch
"""
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit(77)

TRAIN = os.path.abspath(sys.argv[1])
LONG = sys.argv[2:] == ["long"]
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("TUTTI_") and k not in ("RANK", "WORLD_SIZE")}
SEED, BATCH, FIRST, LAST = 5, 6, 2, 6  # the oracle takes over after step FIRST
RATE, WARMUP, DECAY, MOMENTUM = 0.01, 3, 0.1, 0.9
CLOSE = 1e-11  # relative: sums in another order, many times
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)

# ---------------------------------------------------------------- which samples: trainer/common/random.h

BITS = (1 << 64) - 1


def mixed(*numbers):
    def one(x):
        x = (x + 0x9E3779B97F4A7C15) & BITS
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & BITS
        x = (x ^ x >> 27) * 0x94D049BB133111EB & BITS
        return x ^ x >> 31

    value = one(numbers[0])
    for i, number in enumerate(numbers[1:]):
        value = one((one(value) if i > 0 else value) ^ number)
    return value


def permuted(index, size, key):
    half = 1
    while half < 31 and 1 << 2 * half < size:
        half += 1
    mask = (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for turn in range(4):
            left, right = right, left ^ mixed(key, turn, right) & mask
        index = left << half | right
        if index < size:
            return index


def samples_of(step, size):
    numbers = range(step * BATCH, (step + 1) * BATCH)
    return [permuted(number % size, size, mixed(SEED, number // size)) for number in numbers]


# ---------------------------------------------------------------- data


class Text:
    def __init__(self, folder, context):
        words = random.Random(1)
        text = " ".join(words.choice(("all", "ranks", "give", "a", "vector", "and", "get", "the", "sum")) for _ in range(600))
        self.bytes, self.terms, self.context = text.encode(), context, context
        with open(folder + "/text.txt", "wb") as file:
            file.write(self.bytes)
        self.option = f"text:{folder}/text.txt"
        windows = (len(self.bytes) - 1) // context
        self.training = windows - max(windows // 10, 1)

    def batch(self, step):
        starts = [index * self.context for index in samples_of(step, self.training)]
        return torch.tensor([list(self.bytes[at:at + self.context + 1]) for at in starts])


class Pictures:
    terms = 1

    def __init__(self, folder, count=40, side=12):
        noise = random.Random(2)
        self.pixels = bytes(noise.randrange(256) for _ in range(count * side * side))
        self.labels = bytes(i % 10 for i in range(count))
        self.side, self.training = side, count - max(count // 10, 1)
        with open(folder + "/train-images-idx3-ubyte", "wb") as file:
            file.write(struct.pack(">IIII", 0x803, count, side, side) + self.pixels)
        with open(folder + "/train-labels-idx1-ubyte", "wb") as file:
            file.write(struct.pack(">II", 0x801, count) + self.labels)
        self.option = "idx:" + folder

    def batch(self, step):
        area = self.side * self.side
        chosen = samples_of(step, self.training)
        raw = np.stack([np.frombuffer(self.pixels, np.uint8, area, index * area) for index in chosen])
        pixels = raw.astype(np.float32) / np.float32(255)
        return (torch.tensor(pixels).double().view(BATCH, 1, self.side, self.side),
                torch.tensor([self.labels[index] for index in chosen]))


class Numbers:
    terms, option, training = 1, "noise", 1 << 20

    def batch(self, step):
        return samples_of(step, self.training)


# ---------------------------------------------------------------- models: the sum of the losses of a batch


def linear(p, name, x):
    return F.linear(x, p[name + ".weight"], p.get(name + ".bias"))


def norm(p, name, x):
    return F.layer_norm(x, x.shape[-1:], p[name + ".weight"], p[name + ".bias"])


def convolution(p, name, x, stride=1):
    weight = p[name + ".convolution.weight"]
    out = weight.shape[0]
    y = F.conv2d(x, weight, None, stride, weight.shape[-1] // 2)
    y = y.to(weight.dtype)  # PyTorch 1.13's normalisation wants the weights' type, also under autocast
    return F.group_norm(y, 32 if out % 32 == 0 else 4, p[name + ".norm.weight"], p[name + ".norm.bias"])


def lstm(p, name, x, state=None):
    """Hochreiter and Schmidhuber's cell, step by step; gates in PyTorch's order."""
    w_in, w_own = p[name + ".weight_ih_l0"], p[name + ".weight_hh_l0"]
    bias = p[name + ".bias_ih_l0"] + p[name + ".bias_hh_l0"]
    hidden, cell = state or (torch.zeros(len(x), x.shape[-1]), torch.zeros(len(x), x.shape[-1]))
    out = []
    for t in range(x.shape[1]):
        takes, forgets, new, gives = (x[:, t] @ w_in.t() + hidden @ w_own.t() + bias).chunk(4, 1)
        cell = torch.sigmoid(forgets) * cell + torch.sigmoid(takes) * torch.tanh(new)
        hidden = torch.sigmoid(gives) * torch.tanh(cell)
        out.append(hidden)
    return torch.stack(out, 1), (hidden, cell)


def cross_entropy(logits, targets):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), reduction="sum")


def gpt(p, tokens, heads=2, layers=2):
    inputs = tokens[:, :-1]
    x = p["embedding.words.weight"][inputs] + p["embedding.places.weight"][:inputs.shape[1]]
    samples, length, width = x.shape
    later = torch.full((length, length), -math.inf).triu(1)
    for i in range(layers):
        block = f"block{i}."
        qkv = linear(p, block + "qkv", norm(p, block + "norm1", x))
        q, k, v = qkv.view(samples, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        attended = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(width // heads) + later, -1) @ v
        x = x + linear(p, block + "out", attended.transpose(1, 2).reshape(samples, length, width))
        x = x + linear(p, block + "down", F.gelu(linear(p, block + "up", norm(p, block + "norm2", x))))
    return cross_entropy(norm(p, "head.norm", x) @ p["embedding.words.weight"].t(), tokens[:, 1:])


def rnn(p, tokens, layers=2):
    x = p["embedding.words.weight"][tokens[:, :-1]]
    for i in range(layers):
        x, _ = lstm(p, f"recurrent{i}.lstm", x)
    return cross_entropy(linear(p, "head.out", x), tokens[:, 1:])


def seq2seq(p, tokens):
    length = tokens.shape[1] - 1
    read = length // 2
    _, memory = lstm(p, "encoder.lstm", p["encoder.words.weight"][tokens[:, :read]])
    written, _ = lstm(p, "decoder.lstm", p["decoder.words.weight"][tokens[:, read:-1]], memory)
    return cross_entropy(linear(p, "decoder.out", written), tokens[:, read + 1:]) * (length / (length - read))


def mlp(p, batch):
    x, labels = batch
    x = x.flatten(1)
    for i in range(2):
        x = torch.relu(linear(p, f"layer{i}.linear", x))
    return cross_entropy(linear(p, "out.linear", x), labels)


def cnn(p, batch, layers=3):
    x, labels = batch
    stem = x = torch.relu(convolution(p, "stem.convolution", x))
    for i in range(layers):
        stage, stride = f"stage{i}-0.", 2 if i > 0 else 1
        y = convolution(p, stage + "c", torch.relu(convolution(p, stage + "b", x, stride)))
        straight = convolution(p, stage + "skip", x, stride) if stage + "skip.convolution.weight" in p else x
        x = torch.relu(y + straight)
    return cross_entropy(linear(p, "classifier.out", torch.cat([x.mean((2, 3)), stem.mean((2, 3))], 1)), labels)


def inception(p, batch, layers=3):
    x, labels = batch
    x = torch.relu(convolution(p, "stem.convolution", x))
    for i in range(layers):
        if i > 0:
            x = F.max_pool2d(x, 3, 2, 1)
        branches = []
        for b in range(4):
            y = F.max_pool2d(x, 3, 1, 1) if b == 3 else x
            step = 0
            while f"block{i}.branch{b}.step{step}.convolution.weight" in p:
                y = torch.relu(convolution(p, f"block{i}.branch{b}.step{step}", y))
                step += 1
            branches.append(y)
        x = torch.cat(branches, 1)
    return cross_entropy(linear(p, "classifier.out", x.mean((2, 3))), labels)


def quadratic(p, numbers):
    w = p["bowl.weights"]
    place = torch.arange(len(w))
    curvature, centres = 1 - 0.5 * (place % 2), torch.sin(place.float())
    total = 0
    for number in numbers:
        torch.manual_seed(mixed(number, 7))
        off = w - centres - 0.1 * torch.randn(w.shape, dtype=torch.float32)
        total = total + (curvature * off * off).sum() * 0.5
    return total


# ---------------------------------------------------------------- optimizers: trainer/README.md has their formulas


def step_of(kind, momentum, p, gradients, state, step):
    """One step; `state` has the vectors by the names that checkpoints give them."""
    rate = RATE * ((step + 1) / (WARMUP + 1) if step < WARMUP else 1)
    with torch.no_grad():
        for name, g in gradients.items():
            w = p[name]
            if kind == "sgd":
                if momentum:
                    state["momentum"][name] = g = momentum * state["momentum"][name] + g
                p[name] = (w - rate * g).requires_grad_()
                continue
            m = state["mean"][name] = 0.9 * state["mean"][name] + 0.1 * g
            v = state["square"][name] = 0.95 * state["square"][name] + 0.05 * g * g
            u = m / (1 - 0.9 ** (step + 1)) / ((v / (1 - 0.95 ** (step + 1))).sqrt() + 1e-8) + DECAY * w
            if kind == "lamb":
                weights, update = float(w.norm()), float(u.norm())
                u = u * (min(weights / update, 10) if weights > 0 and update > 0 else 1)
            p[name] = (w - rate * u).requires_grad_()


# ---------------------------------------------------------------- checkpoints


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        body = file.read()
    types = {"F64": np.float64, "F32": np.float32}
    tensors = {}
    for name, about in header.items():
        if name != "__metadata__":
            begin, end = about["data_offsets"]
            values = np.frombuffer(body[begin:end], types[about["dtype"]]).reshape(about["shape"])
            tensors[name] = torch.tensor(values.copy())
    return tensors


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.detach().numpy().tobytes()
        header[name] = {"dtype": "F64", "shape": list(tensor.shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def read_checkpoint(folder, step):
    """Vectors by name, each a tensor by parameter."""
    vectors = {}
    for name, tensor in read_safetensors(f"{folder}/step-{step:09}/rank-0-of-1.safetensors").items():
        vector, parameter = name.split("/", 1)
        vectors.setdefault(vector, {})[parameter] = tensor
    return vectors


def train(*options, types=("--dtype", "float64")):
    ran = subprocess.run([TRAIN, *types, "--seed", str(SEED), "--batch", str(BATCH), "--lr", str(RATE),
                          "--warmup", str(WARMUP), "--sample", "0", "--json", "-", *options], capture_output=True, text=True,
                         env=ENVIRONMENT, timeout=300)
    assert ran.returncode == 0, (options, ran.stderr)
    return [json.loads(line) for line in ran.stdout.splitlines() if "summary" not in line]


def close(what, here, there):
    assert abs(here - there) <= CLOSE * max(1, abs(there)), f"{what}: {here!r}, PyTorch has {there!r}"


def compare(name, options, data, loss_of, kind, momentum, clip):
    with tempfile.TemporaryDirectory() as folder:
        words = ["--model", name, *options, "--data", data.option, "--optimizer", kind, "--checkpoint", folder]
        if kind == "sgd":
            words += ["--momentum", str(momentum)]
        else:
            words += ["--weight-decay", str(DECAY)]
        if clip:
            words += ["--clip", str(clip)]
        train(*words, "--steps", str(FIRST))
        began = read_checkpoint(folder, FIRST)
        p = {key: tensor.requires_grad_() for key, tensor in began.pop("parameters").items()}
        rows = train(*words, "--steps", str(LAST), "--resume")
        ended = read_checkpoint(folder, LAST)
        for step in range(FIRST, LAST):
            loss = loss_of(p, data.batch(step)) / (BATCH * data.terms)
            gradients = dict(zip(p, torch.autograd.grad(loss, list(p.values()))))
            length = math.sqrt(sum(float((g * g).sum()) for g in gradients.values()))
            row = rows[step - FIRST]
            close(f"{name}, {kind}: loss of step {step + 1}", row["loss"], float(loss.detach()))
            if clip:
                close(f"{name}, {kind}: gradient of step {step + 1}", row["gradient_norm"], length)
                if length > clip:
                    gradients = {key: g * (clip / length) for key, g in gradients.items()}
            step_of(kind, momentum, p, gradients, began, step)
        for vector, here in ended.items():
            there = p if vector == "parameters" else began[vector]
            assert here.keys() == there.keys()
            for key in here:
                farthest = float((here[key] - there[key]).abs().max())
                assert farthest <= CLOSE * max(1, float(there[key].abs().max())), (name, kind, vector, key, farthest)
        # The reverse: weights from PyTorch, shifted so that they are nobody else's.
        weights = {key: tensor.detach() * 1.25 for key, tensor in p.items()}
        write_safetensors(folder + "/weights.safetensors", weights)
        words[words.index("--checkpoint") + 1] = folder + "/other"
        row = train(*words, "--steps", "1", "--init", folder + "/weights.safetensors")[0]
        close(f"{name} with PyTorch's weights", row["loss"], float(loss_of(weights, data.batch(0))) / (BATCH * data.terms))


def models(folder):
    """Name, options, data and the sum of the losses of a batch."""
    text, pictures = Text(folder, 16), Pictures(folder)
    small = ["--layers", "2", "--width", "16", "--context", "16"]
    return [("gpt", [*small, "--heads", "2"], text, gpt),
            ("rnn", small, text, rnn),
            ("seq2seq", ["--width", "16", "--context", "16"], text, seq2seq),
            ("mlp", ["--layers", "2", "--width", "24"], pictures, mlp),
            ("cnn", ["--layers", "3", "--width", "8"], pictures, cnn),
            ("cnn:inception", ["--layers", "3", "--width", "8"], pictures, inception),
            # torch.randn rounds 16 numbers and more otherwise from release to release.
            ("quadratic:15", [], Numbers(), quadratic)]


def main():
    with tempfile.TemporaryDirectory() as folder:
        ways = [("adamw", 0, 0.5), ("sgd", 0, None), ("sgd", MOMENTUM, None), ("lamb", 0, None)]
        cases = [(model, way) for i, model in enumerate(models(folder)) for j, way in enumerate(ways) if LONG or i % len(ways) == j]
        for (name, options, data, loss_of), (kind, momentum, clip) in cases:
            compare(name, options, data, loss_of, kind, momentum, clip)
            print(f"{name}, {kind}{' with momentum' if momentum else ''}: as PyTorch {torch.__version__} has it", flush=True)


if __name__ == "__main__":
    main()
