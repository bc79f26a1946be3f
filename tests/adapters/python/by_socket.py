"""A worker that forms a communicator through an all-gather of its own: by_socket.py PATH RANK SIZE.

Rank 0 serves a Unix socket; the others send it their part, and get all."""

import array
import multiprocessing.connection
import sys
import time

import tutti

path, rank, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if rank == 0:
    with multiprocessing.connection.Listener(path, "AF_UNIX") as listener:
        lines = [listener.accept() for _ in range(size - 1)]
else:
    while True:
        try:
            lines = [multiprocessing.connection.Client(path, "AF_UNIX")]
            break
        except OSError:
            time.sleep(0.01)


def allgather(mine):
    """The bytes of all, in the order of their ranks."""
    if rank > 0:
        lines[0].send((rank, mine))
        return lines[0].recv()
    parts = dict(line.recv() for line in lines)
    everyones = [mine] + [parts[other] for other in range(1, size)]
    for line in lines:
        line.send(everyones)
    return everyones


with tutti.Comm.from_allgather(allgather, rank, size) as comm:
    total = array.array("d", [0])
    comm.Allreduce(array.array("d", [rank + 1]), total)
    print("sum", total[0], "over", comm.transport)
