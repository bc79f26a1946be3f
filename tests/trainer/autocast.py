"""torch.autocast beside tutti-train --precision bf16: from a checkpoint of float32 parameters it takes the same steps on the
same samples by code of its own. U is bfloat16's unit roundoff. How far roundings take a gradient depends on the model: from
some U here to 60 U where convolutions learn noise. So it is compared with the one in float64, from which ours may be twice as
far as autocast's, and U: that has the residual stream in float32, we in bfloat16, as Megatron. Losses are within U in the first
step, and each step before has moved the parameters apart, too.

autocast.py TUTTI_TRAIN [long]     status 77: this Python has no PyTorch
"""
import math
import tempfile

import oracle
import torch
from oracle import FIRST, LAST, WARMUP, read_checkpoint, train

U, RATE = 2.0 ** -8, 0.05


def wide(batch, kind):
    return tuple(x.to(kind) if x.is_floating_point() else x for x in batch) if isinstance(batch, tuple) else batch


def gradient(p, loss_of, batch, terms, kind, halves):
    torch.set_default_dtype(kind)
    p = {key: tensor.detach().to(kind).requires_grad_() for key, tensor in p.items()}
    with torch.autocast("cpu", torch.bfloat16, enabled=halves):
        loss = loss_of(p, wide(batch, kind)).to(kind) / (oracle.BATCH * terms)
    return float(loss.detach()), dict(zip(p, torch.autograd.grad(loss, list(p.values()))))


def off(one, exact):
    """The length of what one gradient differs from another one, relative."""
    length = math.sqrt(sum(float((g * g).sum()) for g in exact.values()))
    return math.sqrt(sum(float(((one[key].double() - g) ** 2).sum()) for key, g in exact.items())) / length


def compare(name, options, data, loss_of):
    with tempfile.TemporaryDirectory() as folder:
        words = ["--model", name, *options, "--data", data.option, "--optimizer", "sgd", "--momentum", "0", "--checkpoint", folder,
                 "--lr", str(RATE)]
        rows, states = [], []
        for steps in (FIRST, FIRST + 1, LAST):
            rows += train(*words, "--steps", str(steps), *(["--resume"] if states else []), types=("--precision", "bf16"))
            states.append(read_checkpoint(folder, steps)["parameters"])
    rate = RATE * (FIRST + 1) / (WARMUP + 1)
    p, after, _ = states
    ours = {key: (p[key] - after[key]).double() / rate for key in p}
    batch = data.batch(FIRST)
    exact_loss, exact = gradient(p, loss_of, batch, data.terms, torch.float64, False)
    _, theirs = gradient(p, loss_of, batch, data.terms, torch.float32, True)
    here, there = off(ours, exact), off(theirs, exact)
    losses = []
    for step in range(FIRST, LAST):
        loss, g = gradient(p, loss_of, data.batch(step), data.terms, torch.float32, True)
        losses.append(abs(rows[step]["loss"] - loss) / loss)
        scale = RATE * min(1, (step + 1) / (WARMUP + 1))
        p = {key: tensor.detach() - scale * g[key] for key, tensor in p.items()}
    print(f"{name}: the gradient is {here / U:.2f} U off, autocast's {there / U:.2f} U; losses {max(losses) / U:.3f} U apart", flush=True)
    assert U / 16 < here <= 2 * there + U, (name, here, there)
    assert all(apart <= (1 + later) * U for later, apart in enumerate(losses)), (name, losses)
    assert abs(rows[FIRST]["loss"] - exact_loss) <= U * exact_loss, (name, rows[FIRST], exact_loss)


with tempfile.TemporaryDirectory() as top:
    models = oracle.models(top)[:-1]  # the convex problem has no products, of which autocast rounds nothing
    for model in models if oracle.LONG else models[::2]:
        compare(*model)
