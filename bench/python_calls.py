#!/usr/bin/env python3
"""What an allreduce costs from Python: tutti in C, tutti from Python, and mpi4py, in turns in the same processes.

    mpiexec -n 2 python bench/python_calls.py [--rounds N]

with the packages tutti, numpy, mpi4py and an MPI installed, and a C compiler. Times are microseconds a call, on rank 0: the median of
the rounds, and their least and greatest in brackets."""

import argparse
import ctypes
import os
import platform
import statistics
import subprocess
import tempfile
import time

import numpy
from mpi4py import MPI

import tutti

LOOP = """
#include <stddef.h>
int tutti_allreduce(const void*, void*, size_t, int, int, void*);
int loop(const void* send, void* recv, size_t count, void* comm, int calls) {
  int status = 0;
  for (int i = 0; i < calls && status == 0; ++i) status = tutti_allreduce(send, recv, count, 10, 0, comm);
  return status;
}
"""


def compiled_loop():
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/loop.c", "w") as file:
            file.write(LOOP)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", folder + "/loop.c", "-o", folder + "/loop.so",
                        tutti.library_path(), "-Wl,-rpath," + os.path.dirname(tutti.library_path())], check=True)
        loop = ctypes.CDLL(folder + "/loop.so").loop
    loop.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int]
    return loop


def processor():
    with open("/proc/cpuinfo") as file:
        return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    world = MPI.COMM_WORLD
    comm = tutti.Comm.from_allgather(world.allgather, world.rank, world.size)
    loop = compiled_loop()
    for nbytes, calls in ((8, 2000), (2**20, 40)):
        count = nbytes // 4
        given = numpy.ones(count, "f4")
        results = [numpy.zeros(count, "f4") for _ in range(4)]
        config_free = comm.Allreduce_init(given, results[3])

        def in_c():
            assert loop(given.ctypes.data, results[0].ctypes.data, count, comm._handle, calls) == 0

        def in_python():
            for _ in range(calls):
                comm.Allreduce(given, results[1])

        def by_mpi4py():
            for _ in range(calls):
                world.Allreduce(given, results[2])

        def prepared():
            for _ in range(calls):
                config_free.start()
                config_free.wait()

        ways = {"tutti in C": in_c, "tutti from Python": in_python, "tutti from Python, persistent": prepared,
                "mpi4py": by_mpi4py}
        times = {name: [] for name in ways}
        for number in range(rounds + 1):
            for name, way in ways.items():
                comm.Barrier()
                start = time.perf_counter()
                way()
                if number > 0:  # the first one warms up
                    times[name].append((time.perf_counter() - start) / calls * 1e6)
        for result in results:
            assert (result == world.size).all()
        config_free.free()
        if world.rank == 0:
            print(f"{nbytes} B, {world.size} ranks, {processor()}, Python {platform.python_version()}, "
                  f"{MPI.Get_library_version().splitlines()[0].strip()}")
            for name, values in times.items():
                print(f"  {name:30} {statistics.median(values):9.2f}  ({min(values):.2f} to {max(values):.2f})")
    comm.free()


main()
