#!/usr/bin/env python3
"""JAX on the CPU: data-parallel training, with gradients averaged between two jitted functions, or inside of one.

    tutti run -n 2 python jax_test.py
"""

import jax
import jax.numpy as jnp
import numpy as np
import tutti
from jax.experimental import io_callback
from jax.flatten_util import ravel_pytree

SIZES, STEPS, RATE = (8, 32, 32, 1), 40, 0.1


def initial_parameters():
    keys = jax.random.split(jax.random.key(0), len(SIZES))
    return [(jax.random.normal(key, (n, m)) / n ** 0.5, jnp.zeros(m)) for key, n, m in zip(keys, SIZES, SIZES[1:])]


def samples(rank, size, count=480):
    """This rank's share of them, as large as the others': then the average of the ranks' means is the mean."""
    x = jax.random.normal(jax.random.key(1), (count, SIZES[0]))
    y = jnp.sin(x[:, :1]) + 0.5 * x[:, 1:2]
    return x[rank::size], y[rank::size]


def loss_of(parameters, x, y):
    for weights, bias in parameters[:-1]:
        x = jnp.tanh(x @ weights + bias)
    weights, bias = parameters[-1]
    return jnp.mean((x @ weights + bias - y) ** 2)


def stepped(parameters, gradients):
    return jax.tree.map(lambda parameter, gradient: parameter - RATE * gradient, parameters, gradients)


def train_between(comm, x, y):
    """Gradients leave one jitted function and come into another. A jax.Array on the CPU is read where it lies; it cannot be
    written, so the average goes into a NumPy array."""
    flat, unravel = ravel_pytree(initial_parameters())

    @jax.jit
    def forward_backward(parameters):
        loss, gradients = jax.value_and_grad(loss_of)(parameters, x, y)
        return jnp.append(ravel_pytree(gradients)[0], loss)

    update = jax.jit(lambda parameters, average: stepped(parameters, unravel(average[:-1])))
    parameters, average, losses = initial_parameters(), np.empty(flat.size + 1, flat.dtype), []
    for _ in range(STEPS):
        comm.Allreduce(forward_backward(parameters).block_until_ready(), average, op=tutti.AVG)
        parameters = update(parameters, jnp.array(average))  # array() copies, asarray() might not
        losses.append(float(average[-1]))
    return parameters, losses


def train_inside(comm, x, y):
    """The whole step is one jitted function: an ordered callback is called once in each, in the program's order."""
    def average(vector):
        vector = np.asarray(vector)
        out = np.empty_like(vector)
        comm.Allreduce(vector, out, op=tutti.AVG)
        return out

    @jax.jit
    def step(parameters):
        loss, gradients = jax.value_and_grad(loss_of)(parameters, x, y)
        flat, unravel = ravel_pytree((gradients, loss))
        gradients, loss = unravel(io_callback(average, jax.ShapeDtypeStruct(flat.shape, flat.dtype), flat, ordered=True))
        return stepped(parameters, gradients), loss

    parameters, losses = initial_parameters(), []
    for _ in range(STEPS):
        parameters, loss = step(parameters)
        losses.append(loss)
    return parameters, [float(loss) for loss in losses]


def main():
    with tutti.init() as comm:
        x, y = samples(comm.rank, comm.size)
        results = [train(comm, x, y) for train in (train_between, train_inside)]
        if comm.rank == 0:
            losses = results[0][1]
            print(f"{comm.size} ranks: loss {losses[0]:.4f}, after {len(losses)} steps {losses[-1]:.4f}")
        check(comm, results)


# ------------------------------------------------------------------ of the test alone

def check(comm, results):
    """Against one process with all samples, which needs no tutti."""
    assert comm.size > 1
    x, y = samples(0, 1)
    one_step = jax.jit(lambda parameters: jax.value_and_grad(loss_of)(parameters, x, y))
    parameters, losses = initial_parameters(), []
    for _ in range(STEPS):
        loss, gradients = one_step(parameters)
        parameters = stepped(parameters, gradients)
        losses.append(float(loss))
    assert losses[-1] < 0.5 * losses[0], losses
    alone = np.asarray(ravel_pytree(parameters)[0])
    for got, got_losses in results:
        flat = np.asarray(ravel_pytree(got)[0])
        np.testing.assert_allclose(flat, alone, rtol=0, atol=1e-6)
        np.testing.assert_allclose(got_losses, losses, rtol=0, atol=1e-6)
        assert len(set(comm.allgather(flat.tobytes()))) == 1, "the ranks' parameters differ"
    check_arrays(comm)


def check_arrays(comm):
    """All types of JAX that tutti has, by DLPack or as NumPy has them; one that is given to write into is refused."""
    for dtype in (jnp.float32, jnp.bfloat16, jnp.float16, jnp.int32, jnp.uint8):
        mine = (jnp.arange(1000) % 16 + comm.rank).astype(dtype)
        total = np.empty(mine.shape, mine.dtype)
        comm.Allreduce(mine, total)
        wanted = sum(np.arange(1000) % 16 + rank for rank in range(comm.size))
        assert np.array_equal(total.astype(np.int64), wanted), (dtype, total)
    try:
        comm.Allreduce(jnp.ones(10), jnp.zeros(10))
    except tutti.InvalidError as problem:
        assert "read-only" in problem.text, problem
    else:
        raise AssertionError("a jax.Array was written to")


if __name__ == "__main__":
    main()
