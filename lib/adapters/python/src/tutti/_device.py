"""Calls on memory of the communicator's GPU."""

from ctypes import byref, c_int, c_void_p
from enum import IntEnum
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple, Union

from . import _abi
from ._buffers import buffer_of
from ._collectives import Collectives
from ._config import Config
from ._errors import check, invalid
from ._library import load
from ._memory import Adopted, SharedMemory
from ._types import AnyDtype, Dtype, Op, cuda_typestr, size_of

_lib = load()


class MemoryKind(IntEnum):
    """Where memory is."""

    HOST = _abi.TUTTI_MEMORY_HOST
    PINNED = _abi.TUTTI_MEMORY_PINNED
    MANAGED = _abi.TUTTI_MEMORY_MANAGED
    DEVICE = _abi.TUTTI_MEMORY_DEVICE


class Place(NamedTuple):
    """Where a buffer lies."""

    kind: MemoryKind
    device: int  #: the GPU's number, -1 for memory of the host


def place_of(buffer: Any) -> Place:
    """Where it lies: in memory of the host, also where there is no driver, or of a GPU."""
    kind, device = c_int(), c_int()
    check(_lib.tutti_memory_classify(buffer_of(buffer, False, True).address, byref(kind), byref(device)))
    return Place(MemoryKind(kind.value), device.value)


class DeviceArray:
    """Elements in memory of a GPU, as the CUDA array interface has them: cupy.asarray(), torch.as_tensor()
    and numba.cuda.as_cuda_array() take it without a copy, and so do calls."""

    def __init__(self, memory: "DeviceMemory", dtype: AnyDtype, shape: Tuple[int, ...]) -> None:
        self._memory = memory
        self.dtype, self.shape = dtype, shape

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        return {"version": 3, "shape": self.shape, "typestr": cuda_typestr(self.dtype),
                "data": (self._memory.address, False), "strides": None}


class DeviceMemory:
    """Memory of the communicator's GPU that ranks share (Comm.mem_alloc_device)."""

    def __init__(self, comm: "DeviceCalls", address: int, nbytes: int) -> None:
        self._comm, self._address, self.nbytes = comm, address, nbytes

    @property
    def address(self) -> int:
        """Where it lies."""
        if not self._address or self._comm._handle is None:
            raise invalid("the memory has been freed")
        return self._address

    def array(self, dtype: AnyDtype = Dtype.UINT8, shape: Union[int, Sequence[int], None] = None) -> DeviceArray:
        """It as elements; without `shape`: all of it. Not to be used once the memory has been freed."""
        address, size = self.address, size_of(dtype)
        lengths = (self.nbytes // size,) if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
        count = 1
        for length in lengths:
            count *= length
        if min(lengths, default=0) < 0 or count * size > self.nbytes:
            raise invalid(f"an array of {count} elements in memory of {self.nbytes} bytes at {address:#x}")
        return DeviceArray(self, dtype, lengths)

    def free(self) -> None:
        """To be called by all ranks, once no call with it is in flight. The end of the communicator does
        the same."""
        if self._address and self._comm._handle is not None:
            self._comm._local(_lib.tutti_mem_free(self._comm._handle, self._address))
        self._address = 0

    def __enter__(self) -> "DeviceMemory":
        return self

    def __exit__(self, *_: Any) -> None:
        self.free()


class DeviceCalls(Collectives, SharedMemory):
    """The _on forms enqueue a call on a CUDA stream, and return. `stream` is a cudaStream_t as a number, an
    object of PyTorch, CuPy or another package that has one, or None, the null stream. The buffers are on the
    communicator's GPU, and in use until the stream has passed the call: as with a kernel's, that is the
    program's affair. device_status() tells what became of calls that the stream has reached."""

    def mem_alloc_device(self, nbytes: int) -> DeviceMemory:
        """Collective: memory of the GPU in which vectors are reduced without staging. Its content is
        unspecified."""
        out = c_void_p()
        self._check_process()
        self._local(_lib.tutti_mem_alloc_device(self._handle, nbytes, byref(out)))
        return DeviceMemory(self, out.value or 0, nbytes)

    def register_device(self, buffer: Any) -> Adopted:
        """Collective: the memory of `buffer`, on the GPU, becomes such memory until release(), which
        comes before it is freed, or the end of the communicator."""
        vector = buffer_of(buffer, True, self._device)
        self._check_process()
        self._local(_lib.tutti_mem_register_device(self._handle, vector.address, vector.length * size_of(vector.dtype)))
        return Adopted(self, vector.address, vector.keep, _lib.tutti_mem_deregister)

    def device_status(self) -> None:
        """Raises the first failure of a call on a stream; without one what has ended is right. Never
        blocks."""
        self._check_process()
        self._local(_lib.tutti_comm_device_status(self._handle))

    def Allreduce_on(self, send: Any, recv: Any, op: Op = Op.SUM, stream: Any = None,
                     config: Optional[Config] = None) -> None:
        """Allreduce() on a stream."""
        self._on(self._allreduce("allreduce", send, recv, op), stream, config)

    def Reduce_on(self, send: Any, recv: Any, op: Op = Op.SUM, root: int = 0, stream: Any = None,
                  config: Optional[Config] = None) -> None:
        """Reduce() on a stream."""
        self._on(self._reduce(send, recv, op, root), stream, config)

    def Bcast_on(self, buffer: Any, root: int = 0, stream: Any = None, config: Optional[Config] = None) -> None:
        """Bcast() on a stream."""
        self._on(self._bcast(buffer, root), stream, config)

    def Allgather_on(self, send: Any, recv: Any, stream: Any = None, config: Optional[Config] = None) -> None:
        """Allgather() on a stream."""
        self._on(self._allgather(send, recv), stream, config)

    def Gather_on(self, send: Any, recv: Any, root: int = 0, stream: Any = None,
                  config: Optional[Config] = None) -> None:
        """Gather() on a stream."""
        self._on(self._gather(send, recv, root), stream, config)

    def Scatter_on(self, send: Any, recv: Any, root: int = 0, stream: Any = None,
                   config: Optional[Config] = None) -> None:
        """Scatter() on a stream."""
        self._on(self._scatter(send, recv, root), stream, config)

    def Reduce_scatter_block_on(self, send: Any, recv: Any, op: Op = Op.SUM, stream: Any = None,
                                config: Optional[Config] = None) -> None:
        """Reduce_scatter_block() on a stream."""
        self._on(self._reduce_scatter_block(send, recv, op), stream, config)

    def Alltoall_on(self, send: Any, recv: Any, stream: Any = None, config: Optional[Config] = None) -> None:
        """Alltoall() on a stream."""
        self._on(self._alltoall(send, recv), stream, config)

    def Scan_on(self, send: Any, recv: Any, op: Op = Op.SUM, stream: Any = None,
                config: Optional[Config] = None) -> None:
        """Scan() on a stream."""
        self._on(self._allreduce("scan", send, recv, op), stream, config)

    def Exscan_on(self, send: Any, recv: Any, op: Op = Op.SUM, stream: Any = None,
                  config: Optional[Config] = None) -> None:
        """Exscan() on a stream."""
        self._on(self._allreduce("exscan", send, recv, op), stream, config)

    def Barrier_on(self, stream: Any = None, config: Optional[Config] = None) -> None:
        """What comes after it on any rank's stream begins when all ranks' streams have reached it."""
        self._on(("barrier", (), None, None), stream, config)
