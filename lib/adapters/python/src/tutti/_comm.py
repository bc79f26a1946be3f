"""Communicators: how they are made, what they are, how they end."""

import ctypes
import os
import weakref
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from types import TracebackType
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, Type

from . import _abi
from ._buffers import buffer_of
from ._compressed import CompressedCalls
from ._config import Config, comm_config, names_device
from ._device import DeviceCalls
from ._errors import Error, check, invalid
from ._library import load
from ._objects import Objects
from ._requests import in_flight
from ._types import AnyDtype, AnyOp, Op, PremulSum, size_of, view

_lib = load()
_FORKED = "a child made by fork() must not use its parent's communicators; use the start method spawn, or make " \
           "a communicator in the child"


class Counters(NamedTuple):
    """How much a communicator has done since it was made (tutti_comm_counters)."""

    calls: int
    direct_calls: int
    messages_sent: int
    bytes_sent: int
    messages_received: int
    bytes_received: int


class Explanation(NamedTuple):
    """What an allreduce would run, and why (tutti_explanation). Times in microseconds."""

    algorithm: str
    path: str
    transport: str
    reason: str
    predicted_us: float
    runner_up: str
    runner_up_us: float
    tuning: str
    measured_us: float = 0
    runner_up_measured_us: float = 0
    way: str = ""
    runner_up_way: str = ""


class UniqueId(bytes):
    """What ranks that have no launcher pass among themselves to find each other: 128 bytes. Treat it
    as a password: who holds it can join. create() makes one in the process that becomes rank 0."""

    @classmethod
    def create(cls, interface: Optional[str] = None) -> "UniqueId":
        """`interface`: network interface or address to listen on; None: loopback, for one host."""
        made = _abi.tutti_unique_id()
        check(_lib.tutti_unique_id_create(interface.encode() if interface is not None else None, byref(made)))
        return cls(bytes(made.bytes))


AllgatherFunction = Callable[[bytes], Sequence[bytes]]


class Comm(Objects, CompressedCalls, DeviceCalls):
    """A communicator: ranks that make calls together. One thread at a time; other threads run
    meanwhile. Ctrl-C takes effect when a call has returned, by its deadline at the latest.

    Buffers are objects with the buffer protocol (NumPy arrays, array.array, bytearray, memoryview),
    tensors with DLPack, or [object, dtype], [object, count, dtype]. Of both buffers of a call the types
    must be the same. All calls take a `config`. Where the communicator has a `device`, buffers of
    blocking collectives and messages may lie on it, by DLPack or the CUDA array interface."""

    def __init__(self, handle: c_void_p, device: bool = False) -> None:
        super().__init__(handle, device)
        _all.add(self)

    # -------------------------------------------------------------- making and ending

    @classmethod
    def from_env(cls, **settings: Any) -> "Comm":
        """The processes that a launcher started: `tutti run`, or what sets RANK, WORLD_SIZE,
        MASTER_ADDR and MASTER_PORT, with TUTTI_KEY_FILE. Without one: a communicator of one rank,
        but for processes of mpirun or srun, which are refused: they would all be alone.

        `settings`, here and below: `transports` ("shm,tcp"), `timeout` of each call and `setup` of
        making the communicator, in seconds, `interface`, `progress_thread` (True: nonblocking calls
        move on while nobody waits), `level`, `device`, `tuning`; as in tutti_comm_config."""
        out = c_void_p()
        check(_lib.tutti_comm_create_from_env(byref(comm_config(**settings)), byref(out)))
        return cls(out, names_device(**settings))

    @classmethod
    def from_id(cls, id: bytes, rank: int, size: int, **settings: Any) -> "Comm":
        """`size` callers with the same id; rank 0 is the process that made it."""
        if len(id) != 128:
            raise invalid(f"an id of {len(id)} bytes; one has 128")
        made = _abi.tutti_unique_id((ctypes.c_ubyte * 128)(*id))
        out = c_void_p()
        check(_lib.tutti_comm_create_from_id(byref(made), rank, size, byref(comm_config(**settings)), byref(out)))
        return cls(out, names_device(**settings))

    @classmethod
    def from_allgather(cls, allgather: AllgatherFunction, rank: int, size: int, **settings: Any) -> "Comm":
        """By the program's own all-gather: `allgather(mine)` returns the bytes that each of the `size`
        callers passed, in rank order. An exception of it is raised here. Whoever can listen to it can
        join."""
        raised: List[BaseException] = []

        def call(mine: int, everyones: int, nbytes: int, context: Any) -> int:
            try:
                got = [bytes(part) for part in allgather(ctypes.string_at(mine, nbytes))]
                if [len(part) for part in got] != [nbytes] * size:
                    raise ValueError(f"the all-gather returned blocks of {[len(part) for part in got]} bytes; "
                                     f"{size} of {nbytes} are wanted")
                ctypes.memmove(everyones, b"".join(got), nbytes * size)
                return 0
            except BaseException as problem:  # nothing passes through the library
                raised.append(problem)
                return 1

        out = c_void_p()
        status = _lib.tutti_comm_create_from_allgather(_abi.tutti_allgather_fn(call), None, rank, size,
                                                       byref(comm_config(**settings)), byref(out))
        if raised:
            raise raised[0]
        check(status)
        return cls(out, names_device(**settings))

    def split(self, color: int, key: int = 0) -> "Optional[Comm]":
        """Collective: ranks of equal color, ordered by (key, rank). color < 0: None."""
        return self._derived("split", color, key)

    def split_host(self, key: int = 0) -> "Comm":
        """Collective: the ranks of each host."""
        made = self._derived("split_host", key)
        assert made is not None
        return made

    def dup(self) -> "Comm":
        """Collective: the same ranks, an independent communicator."""
        made = self._derived("dup")
        assert made is not None
        return made

    def create_group(self, ranks: Sequence[int]) -> "Comm":
        """Collective over the ranks listed, in the order of their new ranks."""
        made = self._derived("create_group", (c_int * len(ranks))(*ranks), len(ranks))
        assert made is not None
        return made

    def failed_ranks(self) -> "List[int]":
        """The ranks that this one knows to have died or to be lost. Local."""
        ranks, n = (c_int * self.size)(), c_size_t()
        self._check_process()
        self._local(_lib.tutti_comm_failed_ranks(self._handle, ranks, self.size, byref(n)))
        return list(ranks[:n.value])

    def agree(self, value: int, timeout: float = 0) -> "Tuple[int, bool]":
        """Collective, also on a communicator that is over: the AND of what the ranks that came passed,
        and whether all came."""
        agreed = c_uint64(value)
        self._check_process()
        status = _lib.tutti_comm_agree(self._handle, byref(agreed), int(timeout * 1000))
        if status != _abi.TUTTI_PEER_FAILED:
            self._local(status)
        return agreed.value, status == 0

    def shrink(self, timeout: float = 0) -> "Comm":
        """Collective over the ranks that are left: their new communicator (tutti_comm_shrink())."""
        made = self._derived("shrink", int(timeout * 1000))
        assert made is not None
        return made

    def grow(self, id: "Optional[bytes]", joining: int = 1) -> "Comm":
        """Collective, with `joining` processes that call from_id() with the ranks after this communicator's.
        `id`: rank 0's UniqueId, for this once; None on the others (tutti_comm_grow())."""
        made = self._derived("grow", byref(_abi.tutti_unique_id((ctypes.c_ubyte * 128)(*(id or bytes(128))))), joining)
        assert made is not None
        return made

    def _derived(self, name: str, *arguments: Any) -> "Optional[Comm]":
        out = c_void_p()
        self._check_process()
        self._local(getattr(_lib, "tutti_comm_" + name)(self._handle, *arguments, byref(out)))
        return Comm(out, self._device) if out.value else None

    def free(self) -> None:
        """Local. Calls in flight must have ended (else InvalidError). Memory of mem_alloc() lives on
        while there are views of it."""
        if self._handle is None:
            return
        for request in [r for r in in_flight if r._comm is self]:  # that the program has dropped
            try:
                request.test()
            except Error:
                pass  # nobody has asked how it ended
        if any(request._comm is self for request in in_flight):
            raise invalid("there are calls in flight on the communicator", self._rank)
        for prepared in list(self._prepared):
            prepared.free()
        lifetime = self._lifetime
        assert lifetime is not None
        lifetime.keep.extend(adopted._keep for adopted in self._adopted)
        for adopted in self._adopted:
            adopted._address = 0
        self._adopted.clear()
        self._handle, self._lifetime, self._why_not = None, None, "the communicator has been freed"
        del lifetime  # which frees it, unless a view of its memory is there

    def __enter__(self) -> "Comm":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], problem: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        # On the way out with an exception peers that wait for this rank must not wait for its deadline.
        if kind is not None and self._handle is not None:
            self.abort(f"{kind.__name__}: {problem}")
            for request in [r for r in in_flight if r._comm is self]:
                try:
                    request.wait()
                except Exception:
                    pass  # it is how all of them end
        self.free()

    def abort(self, reason: str = "") -> None:
        """Ends every call on the communicator on every rank with AbortedError, now and from now on.
        Any thread."""
        self._check_process()
        _lib.tutti_comm_abort(self._handle, reason.encode(errors="replace") or None)

    # -------------------------------------------------------------- what it is

    @property
    def rank(self) -> int:
        """The number of this rank."""
        return self._rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self._size

    def Get_rank(self) -> int:
        """As `rank`."""
        return self._rank

    def Get_size(self) -> int:
        """As `size`."""
        return self._size

    @property
    def transport(self) -> str:
        """"inproc", "shm", "tcp" or a mixture."""
        name = ctypes.c_char_p()
        self._check_process()
        self._local(_lib.tutti_comm_transport(self._handle, byref(name)))
        return (name.value or b"").decode()

    @property
    def counters(self) -> Counters:
        """How much it has done."""
        got = _abi.tutti_comm_counters(ctypes.sizeof(_abi.tutti_comm_counters))
        self._check_process()
        self._local(_lib.tutti_comm_get_counters(self._handle, byref(got)))
        return Counters(*[getattr(got, name) for name in Counters._fields])

    def explain(self, count: int, dtype: AnyDtype, op: AnyOp = Op.SUM, config: Optional[Config] = None) -> Explanation:
        """What an allreduce of these arguments would run. Local."""
        got = _abi.tutti_explanation(ctypes.sizeof(_abi.tutti_explanation))
        self._check_process()
        self._local(_lib.tutti_allreduce_explain(count, dtype, op, self._handle,
                                                 config._pointer if config is not None else None, byref(got)))
        values: List[Any] = [getattr(got, name) for name in Explanation._fields]
        texts: List[Any] = [value.decode() if isinstance(value, bytes) else value for value in values]
        return Explanation(*texts)

    def premul_sum(self, scalar: Any, dtype: AnyDtype) -> PremulSum:
        """The operator sum over ranks of scalar * input, for calls on this communicator with this
        type. `scalar` is a number, or a buffer of one element."""
        if isinstance(scalar, (int, float, complex)):
            block = (ctypes.c_ubyte * size_of(dtype))()
            one = view(ctypes.addressof(block), 1, dtype, block)
            if len(one) != 1 or isinstance(one, memoryview) and one.itemsize != size_of(dtype):
                raise invalid(f"a scalar of {dtype!r} must be a buffer of one element here", self._rank)
            one[0] = scalar
            scalar = one
        vector = buffer_of(scalar, False)
        if vector.length != 1 or vector.dtype != dtype:
            raise invalid(f"the scalar must be one element of {dtype!r}", self._rank)
        out = c_int()
        self._check_process()
        self._local(_lib.tutti_op_create_premul_sum(self._handle, vector.address, dtype, byref(out)))
        return PremulSum(out.value)


_all: "weakref.WeakSet[Comm]" = weakref.WeakSet()


def _after_fork() -> None:
    in_flight.clear()
    for comm in list(_all):
        comm._handle, comm._why_not = None, _FORKED


os.register_at_fork(after_in_child=_after_fork)
