#!/usr/bin/env python3
"""Dask: least squares on a distributed array. Every worker keeps the chunks that Dask has put there; tutti sums gradients."""

import operator
import os
import signal
import time
from urllib.parse import urlparse

import dask
import dask.array as da
import numpy as np
import tutti
from distributed import Client, LocalCluster, get_worker, wait


def make_id():
    """In the process that becomes rank 0, where the others reach it by the address that Dask uses. The id goes through
    Dask's scheduler: who can read that could join, so give the cluster TLS where the network is not trusted."""
    return tutti.UniqueId.create(urlparse(get_worker().address).hostname)


def on_workers(client, function, parts):
    """function(comm, part) on all workers at once, of the part that `parts` has for each: futures of what they return."""
    def run(id, rank, part):
        with tutti.Comm.from_id(id, rank, len(parts)) as comm:
            return function(comm, part)

    id = client.submit(make_id, workers=[next(iter(parts))], pure=False).result()
    return [client.submit(run, id, rank, part, workers=[worker], pure=False) for rank, (worker, part) in enumerate(parts.items())]


def chunks_by_worker(client, features, targets):
    """The arrays' chunks of the same rows together, as futures, by the worker that has computed them."""
    rows = zip(features.to_delayed().ravel(), targets.to_delayed().ravel())
    chunks = client.compute([dask.delayed(tuple)(pair) for pair in rows])
    wait(chunks)
    holders, parts = client.who_has(chunks), {}
    for chunk in chunks:
        parts.setdefault(holders[chunk.key][0], []).append(chunk)
    return parts


def fit(comm, chunks, steps=30, rate=0.5):
    """The weights after some steps of gradient descent, and the mean squared error of each."""
    rows = comm.allreduce(sum(len(y) for _, y in chunks), operator.add)
    weights, errors = np.zeros(chunks[0][0].shape[1]), []
    for _ in range(steps):
        sums = np.zeros(len(weights) + 1)  # the gradient, and behind it the squared error
        for x, y in chunks:
            error = x @ weights - y
            sums[:-1] += x.T @ error
            sums[-1] += error @ error
        comm.Allreduce(tutti.IN_PLACE, sums)
        weights -= rate * sums[:-1] / rows
        errors.append(sums[-1] / rows)
    return weights, errors


def main():
    with LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        features = da.random.default_rng(1).standard_normal((6000, 20), chunks=(500, 20))
        targets = features @ np.arange(20.0) + 0.1 * da.random.default_rng(2).standard_normal(6000, chunks=500)
        features, targets = client.persist([features, targets])
        parts = chunks_by_worker(client, features, targets)
        results = client.gather(on_workers(client, fit, parts))
        print(f"{len(parts)} workers: error {results[0][1][0]:.4f}, after {len(results[0][1])} steps {results[0][1][-1]:.4f}")
        check(results, features.compute(), targets.compute(), parts)
        check_a_killed_worker(client)


# ------------------------------------------------------------------ of the test alone

def check(results, x, y, parts):
    assert len(parts) == len(results) == 3, parts
    for weights, _ in results[1:]:
        assert weights.tobytes() == results[0][0].tobytes(), "the workers' weights differ"
    with tutti.init() as alone:
        weights, errors = fit(alone, [(x, y)])
    np.testing.assert_allclose(results[0][0], weights, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(results[0][1], errors, rtol=1e-9)
    assert 0.005 < errors[-1] < 0.02 and np.abs(weights - np.arange(20)).max() < 0.02, (errors[-1], weights)


def die_or_wait(comm, dies):
    comm.Barrier()
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.Allreduce(np.ones(1000), np.empty(1000))


def check_a_killed_worker(client):
    """The others are told which rank it was, at once, and so is who gathers."""
    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    futures = on_workers(client, die_or_wait, {worker: i == 1 for i, worker in enumerate(workers)})
    begun = time.monotonic()
    try:
        client.gather(futures)
    except tutti.PeerFailedError as problem:
        assert problem.peer == 1 and "rank 1" in problem.text, problem
    else:
        raise AssertionError("nothing was raised")
    assert time.monotonic() - begun < 20, time.monotonic() - begun
    wait([futures[0], futures[2]], timeout=20)
    assert [type(future.exception()) for future in (futures[0], futures[2])] == [tutti.PeerFailedError] * 2
    client.cancel(futures)  # Dask would wait for a worker of that address


if __name__ == "__main__":
    main()
