"""Memory that ranks share."""

import ctypes
import os
import weakref
from ctypes import byref, c_void_p
from typing import Any, Callable, List, Optional, Sequence, Set, Union

from ._buffers import buffer_of
from ._calls import Calls
from ._errors import invalid
from ._library import load
from ._types import AnyDtype, Dtype, size_of, view

_lib = load()


class Lifetime:
    """Frees a communicator when neither it nor a view of its memory is there any more. What it
    adopted stays alive until then."""

    def __init__(self, handle: int) -> None:
        self.handle, self.process = handle, os.getpid()
        self.keep: List[Any] = []

    def __del__(self, getpid: Callable[[], int] = os.getpid, free: Any = _lib.tutti_comm_free) -> None:
        if self.handle and getpid() == self.process:
            free(self.handle)


class Memory:
    """Memory that ranks of a host share (Comm.mem_alloc): vectors in it are reduced several times
    faster. `array()` gives views; it can be freed once these are gone, and is at the end of the
    communicator, then also as soon as these are."""

    def __init__(self, comm: "SharedMemory", address: int, nbytes: int) -> None:
        self._comm, self._address, self.nbytes = comm, address, nbytes
        self._block: "Optional[weakref.ref[Any]]" = None

    def array(self, dtype: AnyDtype = Dtype.UINT8, shape: Union[int, Sequence[int], None] = None) -> Any:
        """A NumPy array over the memory; a memoryview where NumPy is not installed (then `shape` is a
        number). Without `shape`: all of it."""
        if not self._address:
            raise invalid("the memory has been freed")
        lengths = [shape] if isinstance(shape, int) else list(shape) if shape is not None else None
        count = self.nbytes // size_of(dtype)
        if lengths is not None:
            count = 1
            for length in lengths:
                count *= length
            if min(lengths, default=0) < 0 or count * size_of(dtype) > self.nbytes:
                raise invalid(f"an array of {count} elements in memory of {self.nbytes} bytes")
        block = self._block() if self._block is not None else None
        if block is None:
            block = block_type(self.nbytes).from_address(self._address)
            block.comm = self._comm._lifetime  # the communicator's end waits for the views
            self._block = weakref.ref(block)
        made = view(self._address, count, dtype, block)
        if lengths is None or not hasattr(made, "reshape"):
            return made[:count]
        return made.reshape(lengths)

    @property
    def in_use(self) -> bool:
        """Whether there are views of it."""
        return self._block is not None and self._block() is not None

    def free(self) -> None:
        """To be called by all ranks. BufferError while there are views."""
        if not self._address:
            return
        if self.in_use:
            raise BufferError("arrays of this memory are in use")
        self._comm._local(_lib.tutti_mem_free(self._comm._handle, self._address))
        self._address = 0

    def __enter__(self) -> "Memory":
        return self

    def __exit__(self, *_: Any) -> None:
        if not self.in_use:
            self.free()


def block_type(nbytes: int) -> Any:
    # A class of its own, so that it has attributes and weak references.
    return type("SharedBlock", (ctypes.c_ubyte * nbytes,), {})


class Adopted:
    """Memory of the program's that has become such memory (Comm.adopt, Comm.register,
    Comm.register_device)."""

    def __init__(self, comm: "SharedMemory", address: int, keep: Any, undo: Any = _lib.tutti_mem_release) -> None:
        self._comm, self._address, self._keep, self._undo = comm, address, keep, undo
        comm._adopted.add(self)

    def release(self) -> None:
        """The memory is the program's alone again. To be called by all ranks, before it is freed or
        resized."""
        if self._address:
            self._comm._local(self._undo(self._comm._handle, self._address))
            self._comm._adopted.discard(self)
            self._address, self._keep = 0, None

    def __enter__(self) -> "Adopted":
        return self

    def __exit__(self, *_: Any) -> None:
        self.release()


class SharedMemory(Calls):
    """The calls that make such memory."""

    def __init__(self, handle: c_void_p, device: bool) -> None:
        super().__init__(handle, device)
        self._lifetime: Optional[Lifetime] = Lifetime(handle.value or 0)
        self._adopted: Set[Adopted] = set()

    def mem_alloc(self, nbytes: int) -> Memory:
        """Collective: zeroed memory in which vectors are reduced without staging."""
        out = c_void_p()
        self._check_process()
        self._local(_lib.tutti_mem_alloc(self._handle, nbytes, byref(out)))
        return Memory(self, out.value or 0, nbytes)

    def empty(self, shape: Union[int, Sequence[int]], dtype: AnyDtype = Dtype.FLOAT64) -> Any:
        """Collective: an array in such memory, which lives until it and the communicator are gone."""
        lengths = [shape] if isinstance(shape, int) else list(shape)
        count = 1
        for length in lengths:
            count *= length
        return self.mem_alloc(max(1, count * size_of(dtype))).array(dtype, lengths)

    def adopt(self, buffer: Any) -> Adopted:
        """Collective: the memory of `buffer`, where it lies and with what is in it, becomes such
        memory until release() or the end of the communicator. It is kept alive until then."""
        vector = buffer_of(buffer, True)
        self._check_process()
        self._local(_lib.tutti_mem_adopt(self._handle, vector.address, vector.length * size_of(vector.dtype)))
        return Adopted(self, vector.address, vector.keep)

    def register(self, buffer: Any, fd: int, offset: int = 0) -> Adopted:
        """Collective: `buffer`, a shared mapping (mmap.mmap, for one) whose first byte is the one at
        `offset` of the file `fd`, becomes such memory until release() or the end of the
        communicator."""
        vector = buffer_of(buffer, True)
        self._check_process()
        self._local(_lib.tutti_mem_register(self._handle, vector.address, vector.length * size_of(vector.dtype), fd,
                                            offset))
        return Adopted(self, vector.address, vector.keep, _lib.tutti_mem_deregister)
