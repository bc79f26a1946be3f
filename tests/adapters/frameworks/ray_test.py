#!/usr/bin/env python3
"""Ray: actors that average the gradients of a small network through tutti."""

import os
import time

import numpy as np
import ray
import tutti


@ray.remote(num_cpus=1)
class Trainer:
    """One rank: a network of one hidden layer, and its share of the samples, from Ray's object store."""

    def make_id(self):
        """In rank 0's process, at an address where Ray's other nodes reach it. The id goes through Ray, whose cluster is as
        trusted as that: who can read it could join."""
        return tutti.UniqueId.create(ray.util.get_node_ip_address())

    def join(self, id, rank, size, x, y):
        self.comm = tutti.Comm.from_id(id, rank, size)
        self.x, self.y = x[rank::size], y[rank::size]
        self.weights = initial_weights()
        return os.getpid()

    def train(self, steps, rate=0.5):
        losses = []
        for _ in range(steps):
            loss, gradient = loss_and_gradient(self.weights, self.x, self.y)
            self.comm.Allreduce(tutti.IN_PLACE, gradient, op=tutti.AVG)
            self.weights -= rate * gradient
            losses.append(self.comm.allreduce(loss, lambda a, b: a + b) / self.comm.size)
        return self.weights, losses

    def sum_of(self, array):
        """Of an array that lies in the object store, where nobody may write."""
        total = np.empty_like(array)
        self.comm.Allreduce(array, total)
        return total


INPUTS, HIDDEN = 6, 16


def initial_weights():
    return np.random.default_rng(7).standard_normal(INPUTS * HIDDEN + HIDDEN) * 0.5


def loss_and_gradient(weights, x, y):
    """The mean squared error of tanh(x A) b, and its gradient."""
    a, b = weights[:INPUTS * HIDDEN].reshape(INPUTS, HIDDEN), weights[INPUTS * HIDDEN:]
    hidden = np.tanh(x @ a)
    error = hidden @ b - y
    back = np.outer(error, b) * (1 - hidden ** 2)
    gradient = np.concatenate([(x.T @ back).ravel(), hidden.T @ error])
    return error @ error / len(y), 2 * gradient / len(y)


def main(size=3):
    random = np.random.default_rng(1)
    x = random.standard_normal((1200, INPUTS))
    y = np.sin(x[:, 0]) + 0.3 * x[:, 1]
    shared_x, shared_y = ray.put(x), ray.put(y)

    trainers = [Trainer.remote() for _ in range(size)]
    id = ray.get(trainers[0].make_id.remote())
    pids = ray.get([trainer.join.remote(id, rank, size, shared_x, shared_y) for rank, trainer in enumerate(trainers)])
    results = ray.get([trainer.train.remote(60) for trainer in trainers])
    print(f"{size} actors: loss {results[0][1][0]:.4f}, after {len(results[0][1])} steps {results[0][1][-1]:.4f}")

    check(results, pids, x, y)
    check_the_object_store(trainers)
    check_a_killed_actor(trainers)


# ------------------------------------------------------------------ of the test alone

def check(results, pids, x, y):
    assert len(set(pids)) == len(pids) == 3 and os.getpid() not in pids, pids
    for weights, _ in results[1:]:
        assert weights.tobytes() == results[0][0].tobytes(), "the actors' weights differ"
    alone, losses = initial_weights(), []
    for _ in range(60):
        loss, gradient = loss_and_gradient(alone, x, y)
        alone -= 0.5 * gradient
        losses.append(loss)
    np.testing.assert_allclose(results[0][0], alone, rtol=0, atol=1e-9)
    np.testing.assert_allclose(results[0][1], losses, rtol=1e-9)
    assert losses[-1] < 0.2 * losses[0], losses


def check_the_object_store(trainers):
    array = ray.put(np.arange(300000.0))
    for total in ray.get([trainer.sum_of.remote(array) for trainer in trainers]):
        assert np.array_equal(total, 3 * np.arange(300000.0))


def check_a_killed_actor(trainers):
    """The others are told which rank it was, at once."""
    array = ray.put(np.ones(1000))
    calls = [trainer.sum_of.remote(array) for trainer in trainers[:2]]
    time.sleep(0.5)
    begun = time.monotonic()
    ray.kill(trainers[2])
    for call in calls:
        try:
            ray.get(call, timeout=20)
        except tutti.PeerFailedError as problem:
            assert problem.peer == 2 and "rank 2" in str(problem), problem
        else:
            raise AssertionError("nothing was raised")
    assert time.monotonic() - begun < 20, time.monotonic() - begun


if __name__ == "__main__":
    ray.init(num_cpus=3, include_dashboard=False)
    try:
        main()
    finally:
        ray.shutdown()
