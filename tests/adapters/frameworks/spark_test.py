#!/usr/bin/env python3
"""Spark: logistic regression on the partitions of an RDD. The tasks of a barrier stage sum their gradients through tutti."""

import os
import pathlib
import signal
import tempfile
import time

import numpy as np
import py4j.protocol
import tutti
from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession


def communicator():
    """Of all tasks of a barrier stage, by Spark's own all-gather, which takes text."""
    task = BarrierTaskContext.get()
    return tutti.Comm.from_allgather(lambda mine: [bytes.fromhex(other) for other in task.allGather(mine.hex())],
                                     task.partitionId(), len(task.getTaskInfos()))


def fit(partition):
    """A task: gradient descent on its rows, with all others."""
    rows = np.array(list(partition))
    x, y = rows[:, :-1], rows[:, -1]
    with communicator() as comm:
        yield comm.rank, os.getpid(), *descend(comm, x, y)


def descend(comm, x, y, steps=40, rate=1.0):
    """The weights after some steps, and the mean loss before each."""
    weights, losses = np.zeros(x.shape[1]), []
    for _ in range(steps):
        likely = 1 / (1 + np.exp(-(x @ weights)))
        loss = -np.log(np.where(y > 0, likely, 1 - likely)).sum()
        sums = np.concatenate([x.T @ (likely - y), [loss, len(y)]])
        comm.Allreduce(tutti.IN_PLACE, sums)
        weights -= rate * sums[:-2] / sums[-1]
        losses.append(sums[-2] / sums[-1])
    return weights, losses


def main(spark):
    random = np.random.default_rng(1)
    x = random.standard_normal((900, 8))
    y = (x @ np.arange(8) + random.standard_normal(900) > 0).astype(float)
    data = spark.sparkContext.parallelize(np.column_stack([x, y]).tolist(), 3)
    results = sorted(data.barrier().mapPartitions(fit).collect())
    losses = results[0][3]
    print(f"{len(results)} tasks: loss {losses[0]:.4f}, after {len(losses)} steps {losses[-1]:.4f}")

    check(results, x, y)
    check_a_killed_task(data)


# ------------------------------------------------------------------ of the test alone

def check(results, x, y):
    assert [rank for rank, *_ in results] == [0, 1, 2] and len({pid for _, pid, *_ in results}) == 3, results
    for _, _, weights, _ in results[1:]:
        assert weights.tobytes() == results[0][2].tobytes(), "the tasks' weights differ"
    with tutti.init() as alone:
        weights, losses = descend(alone, x, y)
    np.testing.assert_allclose(results[0][2], weights, rtol=1e-9)
    np.testing.assert_allclose(results[0][3], losses, rtol=1e-9)
    assert losses[-1] < 0.5 * losses[0], losses


def check_a_killed_task(data):
    """The other tasks are told which rank it was, at once, and the job fails."""
    def die_or_wait(partition):
        with communicator() as comm:
            comm.Barrier()
            if comm.rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                comm.Allreduce(np.ones(1000), np.empty(1000))
            except tutti.PeerFailedError as problem:
                pathlib.Path(folder, f"told-{comm.rank}").write_text(str(problem.peer))
                raise
        yield len(list(partition))

    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        try:
            data.barrier().mapPartitions(die_or_wait).collect()
        except py4j.protocol.Py4JJavaError as problem:
            text = str(problem)
            assert "rank 1 died" in text or "Python worker exited unexpectedly" in text, text
        else:
            raise AssertionError("nothing was raised")
        assert time.monotonic() - begun < 60, time.monotonic() - begun
        # Spark has reported the first task that failed; the others have to end, too.
        while (told := [file.read_text() for file in pathlib.Path(folder).iterdir()]) != ["1", "1"]:
            assert time.monotonic() - begun < 80, told
            time.sleep(0.1)


if __name__ == "__main__":
    session = SparkSession.builder.master("local[3]").config("spark.ui.enabled", "false").config("spark.driver.bindAddress", "127.0.0.1")
    spark = session.config("spark.stage.maxConsecutiveAttempts", "1").getOrCreate()
    try:
        main(spark)
    finally:
        spark.stop()
