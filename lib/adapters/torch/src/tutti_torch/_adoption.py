"""Memory of tensors that come back in call after call is shared by the ranks where it lies. As csrc/adoption.h, which
says how ranks agree on it."""

import collections
import ctypes

import torch
from tutti import _abi

from ._places import bytes_of, storage_of

# As in csrc/adoption.cc.
_LEAST_BYTES = 64 << 10
_FIRST_CALLS = 64
_CALL_PERIOD = 61
_MOST_SHARED = 63
_MOST_SEEN = 128
_MOST_LENGTHS = 1024


def _use_count(storage):
    """How many tensors and others have it. Torch before 2.1 does not tell: there the count lies behind the object's
    table of methods."""
    if hasattr(torch._C, "_storage_Use_Count"):
        return torch._C._storage_Use_Count(storage._cdata)
    return ctypes.c_size_t.from_address(storage._cdata + ctypes.sizeof(ctypes.c_void_p)).value


def _count_of_one():
    """That of a storage that only its Python object has. None: this torch counts in another way."""
    tensor = torch.empty(1)
    storage = storage_of(tensor)
    both = _use_count(storage)
    other = tensor[:]
    three = _use_count(storage)
    del tensor, other
    one = _use_count(storage)
    return one if (both, three) == (one + 1, one + 2) else None


_ONE = _count_of_one()


class Adoption:
    """Of one communicator, which stays the caller's. To be called by one thread at a time."""

    def __init__(self, library, failures, comm):
        self._library, self._failures, self._comm = library, failures, comm
        transport = ctypes.c_char_p()
        self._one_host = library.tutti_comm_transport(comm, ctypes.byref(transport)) == _abi.TUTTI_OK and \
            transport.value == b"shm"
        self._calls = collections.Counter()  # of each length, on all ranks alike
        self._seen = collections.OrderedDict()  # (address, bytes) of the last tensors: whether it may be shared
        self._shared = []  # (storage, address), on all ranks in the same order

    def _asks_in_call(self, length):
        if len(self._calls) == _MOST_LENGTHS and length not in self._calls:
            return False
        self._calls[length] += 1
        call = self._calls[length]
        return call > 1 and (call <= _FIRST_CALLS or call % _CALL_PERIOD == 0)

    def _comes_back(self, place):
        """Whether an earlier call had it, and it can be shared as far as is known."""
        if place in self._seen:
            return self._seen[place]
        if len(self._seen) == _MOST_SEEN:
            self._seen.popitem(last=False)
        self._seen[place] = True
        return False

    def before_allreduce(self, tensor, config):
        """Of a tensor, by all ranks for the same calls: in some of them they agree whether its memory has come back on
        all of them, which is then shared, and which memory is of no tensor any more, which is given back. Until then it
        is kept."""
        length = bytes_of(tensor)
        if not self._one_host or length < _LEAST_BYTES:
            return
        again = tensor.is_contiguous() and self._comes_back((tensor.data_ptr(), length))
        if not self._asks_in_call(length):
            return
        # A bit of the tensor, and one of each that is shared. They are set where a rank agrees.
        agreed = ctypes.c_uint64(0)
        storage = storage_of(tensor)
        if again and _ONE is not None and not tensor.is_pinned() and len(self._shared) < _MOST_SHARED and \
                all(one._cdata != storage._cdata for one, _ in self._shared):
            agreed.value |= 1
        for i, (one, _) in enumerate(self._shared):
            if _use_count(one) == _ONE:
                agreed.value |= 2 << i
        self._check(self._library.tutti_allreduce_with(
            _abi.TUTTI_IN_PLACE, ctypes.byref(agreed), 1, _abi.TUTTI_UINT64, _abi.TUTTI_BAND, self._comm, config),
            "agreement on shared memory")
        for i in reversed(range(len(self._shared))):
            if agreed.value >> (i + 1) & 1:
                self._check(self._library.tutti_mem_release(self._comm, self._shared[i][1]),
                            "memory of a tensor that is gone")
                del self._shared[i]
        if agreed.value & 1:
            self._share(tensor, storage, length)

    def _share(self, tensor, storage, length):
        address = tensor.data_ptr()
        status = self._library.tutti_mem_adopt(self._comm, address, length)
        if status == _abi.TUTTI_OK:
            self._shared.append((storage, address))
            return
        # That of one rank cannot be shared, as all have been told: calls of it go as before.
        if status not in (_abi.TUTTI_INVALID, _abi.TUTTI_UNSUPPORTED):
            self._check(status, "memory of a tensor")
        self._seen[address, length] = False

    def _check(self, status, what):
        self._failures.check(status, what, self._comm)
