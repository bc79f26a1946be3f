"""A rank of streams_test.py: streams_ranks.py CASE. Vectors on a GPU, by CUDA's driver. Ends with the line "done"."""

import ctypes
import os
import sys

import numpy as np

import tutti
from tutti import Dtype, Op

cuda = ctypes.CDLL("libcuda.so.1")


def driver(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    assert status == 0, (name, status)


def open_device(number):
    context, device = ctypes.c_void_p(), ctypes.c_int()
    driver("cuInit", 0)
    driver("cuDeviceGet", ctypes.byref(device), number)
    driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    driver("cuCtxSetCurrent", context)


rank = int(os.environ["TUTTI_RANK"])
open_device(rank)
comm = tutti.init(timeout=20, device=f"cuda:{rank}") if sys.argv[1] != "without" else tutti.init(timeout=20)
assert comm.rank == rank
size = comm.size
handle = ctypes.c_void_p()
driver("cuStreamCreate", ctypes.byref(handle), 1)
stream = handle.value


class OnGpu:
    """A vector on the GPU with the CUDA array interface, made of NumPy's."""

    def __init__(self, array):
        self.shape, self.kind = array.shape, array.dtype
        self.address = ctypes.c_uint64()
        driver("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(max(1, array.nbytes)))
        self.set(array)

    @property
    def __cuda_array_interface__(self):
        return {"version": 3, "shape": self.shape, "typestr": self.kind.str, "data": (self.address.value, False)}

    def copy(self, to, source, nbytes):
        driver("cuMemcpyAsync", ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(nbytes), handle)
        driver("cuStreamSynchronize", handle)

    def set(self, array):
        array = np.ascontiguousarray(array, self.kind)
        self.copy(self.address.value, array.ctypes.data, array.nbytes)

    def get(self):
        array = np.zeros(self.shape, self.kind)
        self.copy(array.ctypes.data, self.address.value, array.nbytes)
        return array


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Tensor:
    """The same of float32 by DLPack, as PyTorch has it."""

    def __init__(self, vector):
        assert vector.kind == np.float32
        self.vector, self.shape = vector, (ctypes.c_int64 * 1)(vector.shape[0])
        self.tensor = _Tensor(vector.address.value, 2, rank, 1, 2, 32, 1, self.shape)
        self.asked = []

    def __dlpack_device__(self):
        return (2, rank)

    def __dlpack__(self, stream=None, max_version=None):
        self.asked.append(stream)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.tensor), b"dltensor", None)


class Torchs:  # a stream as PyTorch has it
    cuda_stream = stream


class Protocol:
    def __cuda_stream__(self):
        return (0, stream)


def equal(got, wanted, what=""):
    wanted = np.asarray(wanted, got.dtype)
    assert got.shape == wanted.shape and got.tobytes() == wanted.tobytes(), (what, got, wanted)


def refused(kind, call, words):
    try:
        call()
    except kind as problem:
        assert words in str(problem), str(problem)
        return problem
    raise AssertionError(f"no {kind.__name__}: {words}")


def collectives():
    """Every _on form against NumPy."""
    for number, count in enumerate((1, 100, 30000)):
        on = (stream, Torchs(), Protocol())[number]
        everyone = [np.arange(count * size, dtype="f4") % 97 + 10 * r for r in range(size)]
        mine, total = OnGpu(everyone[rank]), sum(everyone)
        root = count % size
        whole, all_blocks, block = (OnGpu(np.full(n, -1, "f4")) for n in (count * size, count * size * size, count))

        def check(out, wanted, what):
            driver("cuStreamSynchronize", handle)
            comm.device_status()
            equal(out.get(), wanted, (what, count))
            out.set(np.full(out.shape, -1, "f4"))
            comm.Barrier()

        untouched = np.full(count * size, -1, "f4")
        comm.Allreduce_on(mine, whole, stream=on)
        check(whole, total, "allreduce")
        comm.Allreduce_on(mine, whole, Op.MAX, on, tutti.Config(timeout=10))
        check(whole, np.maximum.reduce(everyone), "allreduce max")
        comm.Reduce_on(mine, whole if rank == root else None, root=root, stream=on)
        check(whole, total if rank == root else untouched, "reduce")
        whole.set(everyone[rank])
        comm.Bcast_on(whole, root, on)
        check(whole, everyone[root], "broadcast")
        comm.Allgather_on(mine, all_blocks, on)
        check(all_blocks, np.concatenate(everyone), "allgather")
        comm.Gather_on(mine, all_blocks if rank == root else None, root, on)
        check(all_blocks, np.concatenate(everyone) if rank == root else np.full(count * size * size, -1), "gather")
        comm.Scatter_on(mine if rank == root else None, block, root, on)
        check(block, everyone[root][rank * count:(rank + 1) * count], "scatter")
        comm.Reduce_scatter_block_on(mine, block, stream=on)
        check(block, total[rank * count:(rank + 1) * count], "reduce_scatter_block")
        comm.Alltoall_on(mine, whole, on)
        check(whole, np.concatenate([e[rank * count:(rank + 1) * count] for e in everyone]), "alltoall")
        comm.Scan_on(mine, whole, stream=on)
        check(whole, sum(everyone[:rank + 1]), "scan")
        comm.Exscan_on(mine, whole, stream=on)
        check(whole, sum(everyone[:rank]) if rank else untouched, "exscan")
        comm.Barrier_on(on)
        whole.set(everyone[rank])
        comm.Allreduce_on(tutti.IN_PLACE, whole, stream=on)
        check(whole, total, "in place")


def memory():
    """Blocking calls on the GPU's memory, tensors by DLPack, memory that ranks share, where things lie."""
    mine, out = OnGpu(np.full(1000, rank + 1, "f4")), OnGpu(np.zeros(1000, "f4"))
    comm.Allreduce(mine, out)
    equal(out.get(), np.full(1000, size * (size + 1) / 2))
    given = Tensor(mine)
    comm.Allreduce(given, Tensor(out), Op.MAX)
    equal(out.get(), np.full(1000, size))
    assert given.asked == [-1], given.asked  # no synchronisation with a stream of its own
    comm.Sendrecv(mine, (rank + 1) % size, out, (rank - 1) % size)
    equal(out.get(), np.full(1000, (rank - 1) % size + 1))
    with comm.dup() as other:
        other.Bcast(mine, 1)
    equal(mine.get(), np.full(1000, 2))
    shared = comm.mem_alloc_device(4 * 2000)
    array = shared.array(Dtype.FLOAT32, (2, 1000))
    assert array.__cuda_array_interface__["typestr"] == "<f4" and array.shape == (2, 1000)
    view = OnGpu(np.zeros(0, "f4"))
    view.address, view.shape = ctypes.c_uint64(shared.address), (2000,)
    view.set(np.arange(2000) + rank)
    comm.Allreduce_on(tutti.IN_PLACE, array, stream=stream, config=tutti.Config(symmetric=True))
    driver("cuStreamSynchronize", handle)
    comm.device_status()
    equal(view.get(), size * np.arange(2000) + sum(range(size)))
    refused(tutti.InvalidError, lambda: comm.Allreduce_on(mine, out, config=tutti.Config(symmetric=True)), "")
    with comm.register_device(out), comm.register_device(mine):
        mine.set(np.full(1000, rank + 1))
        comm.Allreduce_on(mine, out, stream=stream, config=tutti.Config(symmetric=True))
        driver("cuStreamSynchronize", handle)
    equal(out.get(), np.full(1000, size * (size + 1) / 2))
    assert tutti.place_of(array) == (tutti.MemoryKind.DEVICE, rank), tutti.place_of(array)
    assert tutti.place_of(bytearray(8)) == (tutti.MemoryKind.HOST, -1)
    comm.Barrier()
    shared.free()
    refused(tutti.InvalidError, lambda: comm.Allreduce_on(tutti.IN_PLACE, array), "freed")


def bad_input():
    """What is wrong is said, and the communicator stays usable."""
    mine, out, host = OnGpu(np.ones(8, "f4")), OnGpu(np.zeros(8, "f4")), np.ones(8, "f4")
    refused(tutti.InvalidError, lambda: comm.Allreduce_on(host, out, stream=stream), "")
    refused(tutti.InvalidError, lambda: comm.Allreduce_on(mine, out, stream="main"), "no CUDA stream")
    refused(tutti.InvalidError, lambda: comm.Allreduce_on(mine, OnGpu(np.zeros(9, "f4"))), "8 elements")
    refused(tutti.InvalidError, lambda: comm.Iallreduce(mine, out), "memory of the host")
    refused(tutti.InvalidError, lambda: comm.Allreduce_init(mine, out), "memory of the host")
    refused(tutti.InvalidError, lambda: comm.Allreduce_coded(mine, out, "bf16"), "memory of the host")
    refused(tutti.UnsupportedError, lambda: comm.Allreduce_on(mine, out, comm.premul_sum(2, Dtype.FLOAT32)), "")
    out.kind = np.dtype(">f4")
    refused(tutti.InvalidError, lambda: comm.Allreduce(mine, out), "'>f4'")
    comm.Allreduce(mine, host)
    equal(host, np.full(8, size))


def late():
    """A rank that does not come: the stream goes on, and the status says why."""
    mine, out = OnGpu(np.ones(8, "f4")), OnGpu(np.zeros(8, "f4"))
    if rank == 0:
        comm.Allreduce_on(mine, out, stream=stream, config=tutti.Config(timeout=0.5))
        driver("cuStreamSynchronize", handle)
        problem = refused(tutti.DeadlineError, comm.device_status, "")
        assert (problem.status, problem.rank, problem.peer) == (tutti.Status.TIMEOUT, 0, 1), problem
        refused(tutti.DeadlineError, lambda: comm.Allreduce_on(mine, out, stream=stream), "")
    else:
        refused(tutti.DeadlineError, comm.Barrier, "")


def without():
    """A communicator without a device."""
    mine, out = OnGpu(np.ones(8, "f4")), OnGpu(np.zeros(8, "f4"))
    refused(tutti.InvalidError, lambda: comm.Allreduce(mine, out), "made without a device")
    refused(tutti.InvalidError, lambda: comm.Allreduce(Tensor(mine), Tensor(out)), "made without a device")
    refused(tutti.UnsupportedError, lambda: comm.Allreduce_on(np.ones(8), np.ones(8)), "made without a device")
    refused(tutti.UnsupportedError, lambda: comm.mem_alloc_device(8), "made without a device")
    comm.device_status()
    comm.Barrier()


globals()[sys.argv[1]]()
comm.free()
print("done")
