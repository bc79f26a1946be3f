"""Communicators, requests, memory that ranks share."""

import ctypes
import os
import pickle
import weakref
from ctypes import byref, c_int, c_size_t, c_void_p
from types import TracebackType
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple, Type, Union

from . import _abi
from ._buffers import Blocks, Buffer, blocks_of, buffer_of, size_array
from ._errors import Error, Status, check, error, invalid, raise_last
from ._library import load
from ._types import AnyDtype, AnyOp, Dtype, Level, Op, PremulSum, UserOp, numpy_dtype, size_of, view


class _InPlace:
    """As the input of a call: it is in the buffer of the result."""

    def __repr__(self) -> str:
        return "tutti.IN_PLACE"


IN_PLACE = _InPlace()
NO_PEER = _abi.TUTTI_NO_PEER  #: as a rank of Sendrecv: leave that half out
_SUM = Op.SUM
_lib = load()


class Config:
    """Settings of calls, to be passed to any number of them: `timeout` in seconds, the `level` that
    is promised of a reduction's bits, an `algorithm` by name (`tutti list` prints them; one that
    cannot run is UnsupportedError), `unfused`: its schedule step by step. All ranks must pass the
    same but for the timeout."""

    def __init__(self, timeout: Optional[float] = None, level: Level = Level.DEFAULT,
                 algorithm: Optional[str] = None, unfused: bool = False) -> None:
        self._struct = _abi.tutti_call_config(
            ctypes.sizeof(_abi.tutti_call_config), _milliseconds(timeout),
            algorithm.encode() if algorithm is not None else None,
            _abi.TUTTI_CALL_UNFUSED if unfused else 0, level)
        self._pointer = ctypes.pointer(self._struct)


def _milliseconds(seconds: Optional[float]) -> int:
    if seconds is None:
        return 0
    if not seconds > 0:
        raise invalid(f"a timeout of {seconds} seconds; it is above 0")
    return max(1, int(min(seconds * 1000, 2**62)))


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


# A call: the name of its functions, the arguments before the communicator, what to keep alive, and the
# operator if it is the program's.
_Call = Tuple[str, Tuple[Any, ...], Any, Any]

# Requests in flight are kept here with their buffers: the library writes to these until a call has
# ended, also where the program has dropped its request.
_in_flight: "Set[Request]" = set()
_FORKED = "a child made by fork() must not use its parent's communicators; use the start method spawn, or make " \
          "a communicator in the child"


class Request:
    """A call that has begun. Its buffers belong to the library until wait() has returned or test()
    has said True; they stay alive until then, also where the request is dropped."""

    def __init__(self, comm: "Comm", handle: c_void_p, keep: Any, op: Any, finish: Any = None) -> None:
        self._comm, self._handle, self._keep, self._op = comm, handle, keep, op
        _in_flight.add(self)

    def _ended(self, status: int) -> None:
        _in_flight.discard(self)
        self._keep = None
        if status:
            self._comm._raise(status, self._op)

    def wait(self) -> None:
        """Returns when the call has ended; raises how it failed."""
        if self in _in_flight:
            self._comm._check_process()
            self._ended(_lib.tutti_wait(byref(self._handle)))

    def test(self) -> bool:
        """Advances calls; whether this one has ended."""
        if self not in _in_flight:
            return True
        self._comm._check_process()
        ended = c_int()
        status = _lib.tutti_test(byref(self._handle), byref(ended))
        if ended.value or status:
            self._ended(status)
            return True
        return False

    Wait, Test = wait, test


class Prequest(Request):
    """A call that is begun by start(), as often as the program likes, always with the same
    buffers. free() it, or use it as a context manager."""

    def __init__(self, comm: "Comm", handle: c_void_p, keep: Any, op: Any) -> None:
        self._comm, self._handle, self._buffers, self._op = comm, handle, keep, op
        self._keep = None
        comm._prepared.add(self)

    def start(self) -> None:
        """Begins the call."""
        self._comm._check_process()
        status = _lib.tutti_start(self._handle)
        if status:
            self._comm._raise(status, None)
        _in_flight.add(self)

    def free(self) -> None:
        """The call must have ended."""
        if self._handle:
            self._comm._check_process()
            status = _lib.tutti_request_free(byref(self._handle))
            if status:
                self._comm._raise(status, None)
        self._comm._prepared.discard(self)
        self._buffers = None

    def __enter__(self) -> "Prequest":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], problem: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if kind is None or self not in _in_flight:
            self.free()

    Start, Free = start, free


def waitall(requests: Sequence[Request]) -> None:
    """Waits for all of them, also when one fails; then raises how the first that did failed."""
    first: Optional[Exception] = None
    for request in requests:
        try:
            request.wait()
        except Exception as problem:
            first = first or problem
    if first is not None:
        raise first


def waitany(requests: Sequence[Request]) -> Optional[int]:
    """Waits until one of them has ended: its place in the list. None: none is in flight."""
    places = [i for i, request in enumerate(requests) if request in _in_flight]
    if not places:
        return None
    for place in places:
        requests[place]._comm._check_process()
    handles = (c_void_p * len(places))(*[requests[i]._handle.value for i in places])
    index = c_size_t()
    status = _lib.tutti_waitany(len(places), handles, byref(index))
    if index.value >= len(places):
        raise_last(status or Status.INTERNAL)
    ended = requests[places[index.value]]
    ended._handle.value = handles[index.value]
    ended._ended(status)
    return places[index.value]


class Memory:
    """Memory that ranks of a host share (Comm.mem_alloc): vectors in it are reduced several times
    faster. `array()` gives views; it can be freed once these are gone, and is at the end of the
    communicator, then also as soon as these are."""

    def __init__(self, comm: "Comm", address: int, nbytes: int) -> None:
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
            block = _block_type(self.nbytes).from_address(self._address)
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


def _block_type(nbytes: int) -> Any:
    # A class of its own, so that it has attributes and weak references.
    return type("SharedBlock", (ctypes.c_ubyte * nbytes,), {})


class Adopted:
    """Memory of the program's that has become such memory (Comm.adopt)."""

    def __init__(self, comm: "Comm", address: int, keep: Any) -> None:
        self._comm, self._address, self._keep = comm, address, keep

    def release(self) -> None:
        """The memory is private again. To be called by all ranks, before it is freed or resized."""
        if self._address:
            self._comm._local(_lib.tutti_mem_release(self._comm._handle, self._address))
            self._comm._adopted.discard(self)
            self._address, self._keep = 0, None

    def __enter__(self) -> "Adopted":
        return self

    def __exit__(self, *_: Any) -> None:
        self.release()


class _Lifetime:
    """Frees a communicator when neither it nor a view of its memory is there any more. What it
    adopted stays alive until then."""

    def __init__(self, handle: int) -> None:
        self.handle, self.process, self.keep = handle, os.getpid(), []  # type: int, int, List[Any]

    def __del__(self, getpid: Callable[[], int] = os.getpid, free: Any = _lib.tutti_comm_free) -> None:
        if self.handle and getpid() == self.process:
            free(self.handle)


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

_functions: Dict[str, Tuple[Any, Any]] = {}


class Comm:
    """A communicator: ranks that make calls together. One thread at a time; other threads run
    meanwhile. Ctrl-C takes effect when a call has returned, by its deadline at the latest.

    Buffers are objects with the buffer protocol (NumPy arrays, array.array, bytearray, memoryview),
    tensors with DLPack on the CPU, or [object, dtype], [object, count, dtype]. Of both buffers of a
    call the types must be the same. All calls take a `config`."""

    def __init__(self, handle: c_void_p) -> None:
        self._lifetime: Optional[_Lifetime] = _Lifetime(handle.value or 0)
        self._handle = handle.value
        self._why_not = ""
        self._prepared: Set[Prequest] = set()
        self._adopted: Set[Adopted] = set()
        rank, size = c_int(), c_int()
        _lib.tutti_comm_rank(handle, byref(rank))
        _lib.tutti_comm_size(handle, byref(size))
        self._rank, self._size = rank.value, size.value
        _all.add(self)

    # -------------------------------------------------------------- making and ending

    @classmethod
    def from_env(cls, **settings: Any) -> "Comm":
        """The processes that a launcher started: `tutti run`, or what sets RANK, WORLD_SIZE,
        MASTER_ADDR and MASTER_PORT, with TUTTI_KEY_FILE. Without one: a communicator of one rank.

        `settings`, here and below: `transports` ("shm,tcp"), `timeout` of each call and `setup` of
        making the communicator, in seconds, `interface`, `progress_thread` (True: nonblocking calls
        move on while nobody waits), `level`, `device`, `tuning`; as in tutti_comm_config."""
        out = c_void_p()
        check(_lib.tutti_comm_create_from_env(byref(_comm_config(**settings)), byref(out)))
        return cls(out)

    @classmethod
    def from_id(cls, id: bytes, rank: int, size: int, **settings: Any) -> "Comm":
        """`size` callers with the same id; rank 0 is the process that made it."""
        if len(id) != 128:
            raise invalid(f"an id of {len(id)} bytes; one has 128")
        made = _abi.tutti_unique_id((ctypes.c_ubyte * 128)(*id))
        out = c_void_p()
        check(_lib.tutti_comm_create_from_id(byref(made), rank, size, byref(_comm_config(**settings)), byref(out)))
        return cls(out)

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
                                                       byref(_comm_config(**settings)), byref(out))
        if raised:
            raise raised[0]
        check(status)
        return cls(out)

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

    def _derived(self, name: str, *arguments: Any) -> "Optional[Comm]":
        out = c_void_p()
        self._check_process()
        self._local(getattr(_lib, "tutti_comm_" + name)(self._handle, *arguments, byref(out)))
        return Comm(out) if out.value else None

    def free(self) -> None:
        """Local. Calls in flight must have ended (else InvalidError). Memory of mem_alloc() lives on
        while there are views of it."""
        if self._handle is None:
            return
        for request in [r for r in _in_flight if r._comm is self]:  # that the program has dropped
            try:
                request.test()
            except Error:
                pass  # nobody has asked how it ended
        if any(request._comm is self for request in _in_flight):
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
            for request in [r for r in _in_flight if r._comm is self]:
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

    def explain(self, count: int, dtype: AnyDtype, op: AnyOp = _SUM, config: Optional[Config] = None) -> Explanation:
        """What an allreduce of these arguments would run. Local."""
        got = _abi.tutti_explanation(ctypes.sizeof(_abi.tutti_explanation))
        self._check_process()
        self._local(_lib.tutti_allreduce_explain(count, dtype, op, self._handle,
                                                 config._pointer if config is not None else None, byref(got)))
        return Explanation(got.algorithm.decode(), got.path.decode(), got.transport.decode(), got.reason.decode(),
                           got.predicted_us, got.runner_up.decode(), got.runner_up_us, got.tuning.decode())

    # -------------------------------------------------------------- calls and their failures

    def _check_process(self) -> None:
        if self._handle is None:
            raise invalid(self._why_not, self._rank)

    def _raise(self, status: int, op: Any) -> None:
        got = _abi.tutti_error()
        cause = op.take_raised() if isinstance(op, UserOp) else None
        if self._handle is not None and _lib.tutti_comm_last_error(self._handle, byref(got)) == 0 \
                and got.status == status:
            raise error(status, (got.text or b"").decode(), self._rank, got.rank, got.call) from cause
        raise error(status, _lib.tutti_last_error().decode(), self._rank) from cause

    def _local(self, status: int) -> None:
        if status:
            self._raise(status, None)

    def _run(self, call: _Call, config: Optional[Config]) -> None:
        name, arguments, keep, op = call
        functions = _functions.get(name)
        if functions is None:
            functions = _functions[name] = (getattr(_lib, "tutti_" + name), getattr(_lib, f"tutti_{name}_with"))
        if self._handle is None:
            raise invalid(self._why_not, self._rank)
        if config is None:
            status = functions[0](*arguments, self._handle)
        else:
            status = functions[1](*arguments, self._handle, config._pointer)
        if status:
            self._raise(status, op)

    def _begin(self, call: _Call, config: Optional[Config], form: str = "tutti_i{}") -> c_void_p:
        name, arguments, keep, op = call
        self._check_process()
        out = c_void_p()
        self._local(getattr(_lib, form.format(name))(*arguments, self._handle,
                                                     config._pointer if config is not None else None, byref(out)))
        return out

    def _i(self, call: _Call, config: Optional[Config]) -> Request:
        return Request(self, self._begin(call, config), call[2], call[3])

    def _p(self, call: _Call, config: Optional[Config]) -> Prequest:
        return Prequest(self, self._begin(call, config, "tutti_{}_init"), (call[2], config), call[3])

    def _pair(self, send: Any, recv: Any, sends: int = 1, receives: int = 1) -> Tuple[Any, Buffer, int, Any]:
        """Addresses of an input and an output of as many blocks, and the length of one block."""
        out = buffer_of(recv, True)
        if send is IN_PLACE:
            count, rest = divmod(out.length, max(sends, receives))
            if rest:
                raise invalid(f"the buffer has {out.length} elements, which are no {max(sends, receives)} blocks", self._rank)
            return _abi.TUTTI_IN_PLACE, out, count, (out,)
        given = buffer_of(send, False)
        if given.dtype != out.dtype:
            raise invalid(f"the input is of {given.dtype!r}, the output of {out.dtype!r}", self._rank)
        count, rest = divmod(given.length, sends)
        if rest:
            raise invalid(f"the input has {given.length} elements, which are no {sends} blocks", self._rank)
        if out.length != count * receives:
            raise invalid(f"the input has {given.length} elements, for which the output has {count * receives}, "
                          f"not {out.length}", self._rank)
        return given.address, out, count, (given, out)

    def _is_root(self, root: int) -> bool:
        return self._rank == root

    # -------------------------------------------------------------- allreduce, reduce, broadcast

    def _allreduce(self, name: str, send: Any, recv: Any, op: AnyOp) -> _Call:
        if send is IN_PLACE:
            out = buffer_of(recv, True)
            return name, (_abi.TUTTI_IN_PLACE, out[0], out[1], out[2], op), (out, op), op
        given, out = buffer_of(send, False), buffer_of(recv, True)
        if given[2] != out[2] or given[1] != out[1]:
            self._pair(send, recv)  # which says it
        return name, (given[0], out[0], out[1], out[2], op), (given, out, op), op

    def Allreduce(self, send: Any, recv: Any, op: AnyOp = _SUM, config: Optional[Config] = None) -> None:
        """recv[i] = send[i] of rank 0 op send[i] of rank 1 op ..., on all ranks the same bits."""
        self._run(self._allreduce("allreduce", send, recv, op), config)

    def Iallreduce(self, send: Any, recv: Any, op: AnyOp = _SUM, config: Optional[Config] = None) -> Request:
        """Begins Allreduce()."""
        return self._i(self._allreduce("allreduce", send, recv, op), config)

    def Allreduce_init(self, send: Any, recv: Any, op: AnyOp = _SUM, config: Optional[Config] = None) -> Prequest:
        """Prepares Allreduce(), to be started again and again."""
        return self._p(self._allreduce("allreduce", send, recv, op), config)

    def _reduce(self, send: Any, recv: Any, op: AnyOp, root: int) -> _Call:
        if self._is_root(root):
            address, out, count, keep = self._pair(send, recv)
            return "reduce", (address, out.address, count, out.dtype, op, root), (keep, op), op
        given = buffer_of(send, False)
        return "reduce", (given.address, None, given.length, given.dtype, op, root), (given, op), op

    def Reduce(self, send: Any, recv: Any, op: AnyOp = _SUM, root: int = 0, config: Optional[Config] = None) -> None:
        """As Allreduce(), with the result on `root` only; elsewhere `recv` is ignored."""
        self._run(self._reduce(send, recv, op, root), config)

    def Ireduce(self, send: Any, recv: Any, op: AnyOp = _SUM, root: int = 0,
                config: Optional[Config] = None) -> Request:
        """Begins Reduce()."""
        return self._i(self._reduce(send, recv, op, root), config)

    def Reduce_init(self, send: Any, recv: Any, op: AnyOp = _SUM, root: int = 0,
                    config: Optional[Config] = None) -> Prequest:
        """Prepares Reduce()."""
        return self._p(self._reduce(send, recv, op, root), config)

    def _bcast(self, buffer: Any, root: int) -> _Call:
        vector = buffer_of(buffer, not self._is_root(root))
        return "broadcast", (vector.address, vector.length, vector.dtype, root), vector, None

    def Bcast(self, buffer: Any, root: int = 0, config: Optional[Config] = None) -> None:
        """The buffer of `root` is copied to all ranks."""
        self._run(self._bcast(buffer, root), config)

    def Ibcast(self, buffer: Any, root: int = 0, config: Optional[Config] = None) -> Request:
        """Begins Bcast()."""
        return self._i(self._bcast(buffer, root), config)

    def Bcast_init(self, buffer: Any, root: int = 0, config: Optional[Config] = None) -> Prequest:
        """Prepares Bcast()."""
        return self._p(self._bcast(buffer, root), config)

    # -------------------------------------------------------------- allgather, gather, scatter

    def _allgather(self, send: Any, recv: Any) -> _Call:
        address, out, count, keep = self._pair(send, recv, receives=self._size)
        return "allgather", (address, out.address, count, out.dtype), keep, None

    def Allgather(self, send: Any, recv: Any, config: Optional[Config] = None) -> None:
        """`recv` has as many blocks as there are ranks: rank r's `send` is the r-th. In place: the own
        one is there already."""
        self._run(self._allgather(send, recv), config)

    def Iallgather(self, send: Any, recv: Any, config: Optional[Config] = None) -> Request:
        """Begins Allgather()."""
        return self._i(self._allgather(send, recv), config)

    def Allgather_init(self, send: Any, recv: Any, config: Optional[Config] = None) -> Prequest:
        """Prepares Allgather()."""
        return self._p(self._allgather(send, recv), config)

    def _matched(self, send: Any, blocks: Blocks) -> Buffer:
        given = buffer_of(send, False)
        if given.dtype != blocks.buffer.dtype:
            raise invalid(f"the input is of {given.dtype!r}, the output of {blocks.buffer.dtype!r}", self._rank)
        return given

    def _allgatherv(self, send: Any, recv: Any, counts: Any, displs: Any) -> _Call:
        out = blocks_of(recv, True, self._size, counts, displs)
        tail = (out.buffer.address, out.counts, out.displs, out.buffer.dtype)
        if send is IN_PLACE:
            return "allgatherv", (_abi.TUTTI_IN_PLACE, 0) + tail, out, None
        given = self._matched(send, out)
        return "allgatherv", (given.address, given.length) + tail, (given, out), None

    def Allgatherv(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None,
                   displs: Optional[Sequence[int]] = None, config: Optional[Config] = None) -> None:
        """The same with blocks of counts[r] elements at displs[r]; without `displs` one after the
        other. `recv` may also be mpi4py's [buffer, counts, displs]."""
        self._run(self._allgatherv(send, recv, counts, displs), config)

    def Iallgatherv(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None,
                    displs: Optional[Sequence[int]] = None, config: Optional[Config] = None) -> Request:
        """Begins Allgatherv()."""
        return self._i(self._allgatherv(send, recv, counts, displs), config)

    def _gather(self, send: Any, recv: Any, root: int) -> _Call:
        if self._is_root(root):
            address, out, count, keep = self._pair(send, recv, receives=self._size)
            return "gather", (address, out.address, count, out.dtype, root), keep, None
        given = buffer_of(send, False)
        return "gather", (given.address, None, given.length, given.dtype, root), given, None

    def Gather(self, send: Any, recv: Any, root: int = 0, config: Optional[Config] = None) -> None:
        """As Allgather(), with the result on `root` only; elsewhere `recv` is ignored."""
        self._run(self._gather(send, recv, root), config)

    def Igather(self, send: Any, recv: Any, root: int = 0, config: Optional[Config] = None) -> Request:
        """Begins Gather()."""
        return self._i(self._gather(send, recv, root), config)

    def _gatherv(self, send: Any, recv: Any, counts: Any, displs: Any, root: int) -> _Call:
        if not self._is_root(root):
            given = buffer_of(send, False)
            return "gatherv", (given.address, given.length, None, None, None, given.dtype, root), given, None
        out = blocks_of(recv, True, self._size, counts, displs)
        tail = (out.buffer.address, out.counts, out.displs, out.buffer.dtype, root)
        if send is IN_PLACE:
            return "gatherv", (_abi.TUTTI_IN_PLACE, 0) + tail, out, None
        given = self._matched(send, out)
        return "gatherv", (given.address, given.length) + tail, (given, out), None

    def Gatherv(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None,
                displs: Optional[Sequence[int]] = None, root: int = 0, config: Optional[Config] = None) -> None:
        """Gather() with blocks of their own lengths, which matter at the root only."""
        self._run(self._gatherv(send, recv, counts, displs, root), config)

    def Igatherv(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None,
                 displs: Optional[Sequence[int]] = None, root: int = 0, config: Optional[Config] = None) -> Request:
        """Begins Gatherv()."""
        return self._i(self._gatherv(send, recv, counts, displs, root), config)

    def _scatter(self, send: Any, recv: Any, root: int) -> _Call:
        if not self._is_root(root):
            out = buffer_of(recv, True)
            return "scatter", (None, out.address, out.length, out.dtype, root), out, None
        if recv is not IN_PLACE:
            address, out, count, keep = self._pair(send, recv, sends=self._size)
            return "scatter", (address, out.address, count, out.dtype, root), keep, None
        given = buffer_of(send, False)
        if given.length % self._size:
            raise invalid(f"the input has {given.length} elements, which are no {self._size} blocks", self._rank)
        return ("scatter", (given.address, _abi.TUTTI_IN_PLACE, given.length // self._size, given.dtype, root),
                given, None)

    def Scatter(self, send: Any, recv: Any, root: int = 0, config: Optional[Config] = None) -> None:
        """Rank r gets the r-th block of `send` of `root`, which is ignored elsewhere. IN_PLACE as
        `recv`, at the root only: its block stays where it is."""
        self._run(self._scatter(send, recv, root), config)

    def Iscatter(self, send: Any, recv: Any, root: int = 0, config: Optional[Config] = None) -> Request:
        """Begins Scatter()."""
        return self._i(self._scatter(send, recv, root), config)

    def _scatterv(self, send: Any, recv: Any, counts: Any, displs: Any, root: int) -> _Call:
        if not self._is_root(root):
            out = buffer_of(recv, True)
            return "scatterv", (None, None, None, out.address, out.length, out.dtype, root), out, None
        given = blocks_of(send, False, self._size, counts, displs)
        head = (given.buffer.address, given.counts, given.displs)
        if recv is IN_PLACE:
            return "scatterv", head + (_abi.TUTTI_IN_PLACE, 0, given.buffer.dtype, root), given, None
        out = buffer_of(recv, True)
        if given.buffer.dtype != out.dtype:
            raise invalid(f"the input is of {given.buffer.dtype!r}, the output of {out.dtype!r}", self._rank)
        return "scatterv", head + (out.address, out.length, out.dtype, root), (given, out), None

    def Scatterv(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None,
                 displs: Optional[Sequence[int]] = None, root: int = 0, config: Optional[Config] = None) -> None:
        """Scatter() with blocks of their own lengths, which matter at the root only."""
        self._run(self._scatterv(send, recv, counts, displs, root), config)

    def Iscatterv(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None,
                  displs: Optional[Sequence[int]] = None, root: int = 0, config: Optional[Config] = None) -> Request:
        """Begins Scatterv()."""
        return self._i(self._scatterv(send, recv, counts, displs, root), config)

    # -------------------------------------------------------------- reduce_scatter, alltoall, scans

    def _reduce_scatter_block(self, send: Any, recv: Any, op: AnyOp) -> _Call:
        address, out, count, keep = self._pair(send, recv, sends=self._size)
        return "reduce_scatter_block", (address, out.address, count, out.dtype, op), (keep, op), op

    def Reduce_scatter_block(self, send: Any, recv: Any, op: AnyOp = _SUM, config: Optional[Config] = None) -> None:
        """Every rank has a block for each; rank r gets the reduction of the r-th ones. In place: the
        blocks are in `recv`, which then begins with the result."""
        self._run(self._reduce_scatter_block(send, recv, op), config)

    def Ireduce_scatter_block(self, send: Any, recv: Any, op: AnyOp = _SUM,
                              config: Optional[Config] = None) -> Request:
        """Begins Reduce_scatter_block()."""
        return self._i(self._reduce_scatter_block(send, recv, op), config)

    def _reduce_scatter(self, send: Any, recv: Any, counts: Optional[Sequence[int]], op: AnyOp) -> _Call:
        out = buffer_of(recv, True)
        given = out if send is IN_PLACE else buffer_of(send, False)
        if counts is None:  # mpi4py's: as long as each rank's output; here they are equal
            return self._reduce_scatter_block(send, recv, op)
        lengths = size_array(counts, self._size, "counts")
        if given.dtype != out.dtype:
            raise invalid(f"the input is of {given.dtype!r}, the output of {out.dtype!r}", self._rank)
        if given.length != sum(counts) or out.length < counts[self._rank]:
            raise invalid(f"the input has {given.length} elements and the output {out.length}, for blocks of "
                          f"{list(counts)}", self._rank)
        address = _abi.TUTTI_IN_PLACE if send is IN_PLACE else given.address
        return "reduce_scatter", (address, out.address, lengths, out.dtype, op), (given, out, lengths, op), op

    def Reduce_scatter(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None, op: AnyOp = _SUM,
                       config: Optional[Config] = None) -> None:
        """The same with blocks of counts[r] elements; without `counts` they are equal."""
        self._run(self._reduce_scatter(send, recv, counts, op), config)

    def Ireduce_scatter(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None, op: AnyOp = _SUM,
                        config: Optional[Config] = None) -> Request:
        """Begins Reduce_scatter()."""
        return self._i(self._reduce_scatter(send, recv, counts, op), config)

    def _alltoall(self, send: Any, recv: Any) -> _Call:
        address, out, count, keep = self._pair(send, recv, self._size, self._size)
        return "alltoall", (address, out.address, count, out.dtype), keep, None

    def Alltoall(self, send: Any, recv: Any, config: Optional[Config] = None) -> None:
        """Block r of `send` goes to rank r; that from rank r comes to place r of `recv`."""
        self._run(self._alltoall(send, recv), config)

    def Ialltoall(self, send: Any, recv: Any, config: Optional[Config] = None) -> Request:
        """Begins Alltoall()."""
        return self._i(self._alltoall(send, recv), config)

    def _alltoallv(self, send: Any, recv: Any) -> _Call:
        out = blocks_of(recv, True, self._size, None, None)
        tail = (out.buffer.address, out.counts, out.displs, out.buffer.dtype)
        if send is IN_PLACE:
            return "alltoallv", (_abi.TUTTI_IN_PLACE, None, None) + tail, out, None
        given = blocks_of(send, False, self._size, None, None)
        if given.buffer.dtype != out.buffer.dtype:
            raise invalid(f"the input is of {given.buffer.dtype!r}, the output of {out.buffer.dtype!r}", self._rank)
        return "alltoallv", (given.buffer.address, given.counts, given.displs) + tail, (given, out), None

    def Alltoallv(self, send: Any, recv: Any, config: Optional[Config] = None) -> None:
        """The same with blocks of their own lengths: both are [buffer, counts] or [buffer, counts,
        displs]."""
        self._run(self._alltoallv(send, recv), config)

    def Ialltoallv(self, send: Any, recv: Any, config: Optional[Config] = None) -> Request:
        """Begins Alltoallv()."""
        return self._i(self._alltoallv(send, recv), config)

    def Scan(self, send: Any, recv: Any, op: AnyOp = _SUM, config: Optional[Config] = None) -> None:
        """Rank r gets the reduction of ranks 0 to r."""
        self._run(self._allreduce("scan", send, recv, op), config)

    def Iscan(self, send: Any, recv: Any, op: AnyOp = _SUM, config: Optional[Config] = None) -> Request:
        """Begins Scan()."""
        return self._i(self._allreduce("scan", send, recv, op), config)

    def Exscan(self, send: Any, recv: Any, op: AnyOp = _SUM, config: Optional[Config] = None) -> None:
        """Rank r gets the reduction of ranks 0 to r-1; `recv` of rank 0 is left as it is."""
        self._run(self._allreduce("exscan", send, recv, op), config)

    def Iexscan(self, send: Any, recv: Any, op: AnyOp = _SUM, config: Optional[Config] = None) -> Request:
        """Begins Exscan()."""
        return self._i(self._allreduce("exscan", send, recv, op), config)

    def Barrier(self, config: Optional[Config] = None) -> None:
        """Returns after every rank has entered."""
        self._run(("barrier", (), None, None), config)

    def Ibarrier(self, config: Optional[Config] = None) -> Request:
        """Begins Barrier()."""
        return self._i(("barrier", (), None, None), config)

    # -------------------------------------------------------------- messages

    def _message(self, name: str, buffer: Any, writable: bool, peer: int, tag: int) -> _Call:
        vector = buffer_of(buffer, writable)
        return name, (vector.address, vector.length, vector.dtype, peer, tag), vector, None

    def Send(self, buffer: Any, dest: int, tag: int = 0, config: Optional[Config] = None) -> None:
        """A message. Type, length and tag must agree on both sides; in order per pair of ranks."""
        self._run(self._message("send", buffer, False, dest, tag), config)

    def Recv(self, buffer: Any, source: int, tag: int = 0, config: Optional[Config] = None) -> None:
        """Receives it."""
        self._run(self._message("recv", buffer, True, source, tag), config)

    def Isend(self, buffer: Any, dest: int, tag: int = 0, config: Optional[Config] = None) -> Request:
        """Begins Send()."""
        return self._i(self._message("send", buffer, False, dest, tag), config)

    def Irecv(self, buffer: Any, source: int, tag: int = 0, config: Optional[Config] = None) -> Request:
        """Begins Recv()."""
        return self._i(self._message("recv", buffer, True, source, tag), config)

    def Sendrecv(self, send: Any, dest: int, recv: Any, source: int, sendtag: int = 0, recvtag: int = 0,
                 config: Optional[Config] = None) -> None:
        """Sends and receives at once. NO_PEER as either rank leaves that half out (then its buffer
        may be None)."""
        given = buffer_of(send, False) if dest != NO_PEER else None
        out = buffer_of(recv, True) if source != NO_PEER else None
        if given is not None and out is not None and given.dtype != out.dtype:
            raise invalid(f"what is sent is of {given.dtype!r}, what is received of {out.dtype!r}", self._rank)
        known = given or out or Buffer(0, 0, Dtype.UINT8, None)
        given, out = given or known._replace(address=0, length=0), out or known._replace(address=0, length=0)
        self._run(("sendrecv", (given.address, given.length, dest, sendtag, out.address, out.length, source, recvtag,
                                known.dtype), (given, out), None), config)

    # -------------------------------------------------------------- memory that ranks share

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
        made = Adopted(self, vector.address, vector.keep)
        self._adopted.add(made)
        return made

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

    # -------------------------------------------------------------- objects

    # Pickled, behind their lengths; _BAD as a length: it cannot be pickled, which all ranks are told.
    # Unpickling runs what it is told to: between ranks that trust each other only.

    def _allgather_sizes(self, mine: int) -> List[int]:
        sizes = (ctypes.c_uint64 * self._size)()
        self.Allgather((ctypes.c_uint64 * 1)(mine), sizes)
        return list(sizes)

    def _refuse(self, sizes: Sequence[int], problem: Optional[Exception]) -> None:
        if problem is not None:
            raise problem
        for rank, size in enumerate(sizes):
            if size == _BAD:
                raise error(Status.INVALID, f"rank {rank} has given an object that cannot be pickled", self._rank, rank)

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """`obj` of `root` on all ranks, by pickle: only among ranks that trust each other."""
        data, problem = _pickled(obj) if self._is_root(root) else (b"", None)
        size = (ctypes.c_uint64 * 1)(len(data) if problem is None else _BAD)
        self.Bcast(size, root)
        self._refuse([0] * root + [size[0]], problem)
        buffer = bytearray(data) if self._is_root(root) else bytearray(size[0])
        self.Bcast(buffer, root)
        return obj if self._is_root(root) else pickle.loads(buffer)

    def allgather(self, obj: Any) -> List[Any]:
        """The objects of all ranks, in rank order, by pickle."""
        data, problem = _pickled(obj)
        sizes = self._allgather_sizes(len(data) if problem is None else _BAD)
        self._refuse(sizes, problem)
        buffer = bytearray(sum(sizes))
        self.Allgatherv(data, buffer, sizes)
        return _unpickled(buffer, sizes)

    def gather(self, obj: Any, root: int = 0) -> Optional[List[Any]]:
        """The objects of all ranks on `root`, elsewhere None, by pickle."""
        data, problem = _pickled(obj)
        sizes = self._allgather_sizes(len(data) if problem is None else _BAD)
        self._refuse(sizes, problem)
        if not self._is_root(root):
            self.Gatherv(data, None, root=root)
            return None
        buffer = bytearray(sum(sizes))
        self.Gatherv(data, buffer, sizes, root=root)
        return _unpickled(buffer, sizes)

    def scatter(self, objs: Optional[Sequence[Any]], root: int = 0) -> Any:
        """Rank r gets objs[r] of `root`, by pickle."""
        sizes = (ctypes.c_uint64 * self._size)()
        parts: List[bytes] = []
        problem: Optional[Exception] = None
        if self._is_root(root):
            try:
                if objs is None or len(objs) != self._size:
                    raise invalid(f"scatter takes one object for each of the {self._size} ranks", self._rank)
                parts = [pickle.dumps(obj, -1) for obj in objs]
            except Exception as failed:
                problem = failed
            sizes[:] = [len(part) for part in parts] if problem is None else [_BAD] * self._size
        self.Bcast(sizes, root)
        self._refuse([0] * root + [sizes[0]], problem)
        mine = bytearray(sizes[self._rank])
        self.Scatterv(b"".join(parts), mine, list(sizes), root=root)
        return pickle.loads(mine)

    def allreduce(self, obj: Any, op: Callable[[Any, Any], Any]) -> Any:
        """op(... op(obj of rank 0, obj of rank 1) ..., obj of the last rank) on all ranks, by pickle.
        `op` is a function of two objects, operator.add for one."""
        first, *others = self.allgather(obj)
        for other in others:
            first = op(first, other)
        return first

    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        """An object as a message, by pickle."""
        data, problem = _pickled(obj)
        self.Send((ctypes.c_uint64 * 1)(len(data) if problem is None else _BAD), dest, tag)
        if problem is not None:
            raise problem
        self.Send(data, dest, tag)

    def recv(self, source: int, tag: int = 0) -> Any:
        """Receives it."""
        size = (ctypes.c_uint64 * 1)()
        self.Recv(size, source, tag)
        self._refuse([0] * source + [size[0]], None)
        data = bytearray(size[0])
        self.Recv(data, source, tag)
        return pickle.loads(data)


_BAD = 2**64 - 1


def _pickled(obj: Any) -> Tuple[bytes, Optional[Exception]]:
    try:
        return pickle.dumps(obj, -1), None
    except Exception as problem:
        return b"", problem


def _unpickled(buffer: bytearray, sizes: Sequence[int]) -> List[Any]:
    objects, at = [], 0
    for size in sizes:
        objects.append(pickle.loads(memoryview(buffer)[at:at + size]))
        at += size
    return objects


def _comm_config(transports: Optional[str] = None, timeout: Optional[float] = None, setup: Optional[float] = None,
                 interface: Optional[str] = None, progress_thread: bool = False, level: Level = Level.DEFAULT,
                 device: Optional[str] = None, tuning: Optional[str] = None) -> Any:
    def text(value: Optional[str]) -> Optional[bytes]:
        return value.encode() if value is not None else None

    return _abi.tutti_comm_config(ctypes.sizeof(_abi.tutti_comm_config), text(transports), _milliseconds(timeout),
                                  _milliseconds(setup), text(interface), int(progress_thread), level, text(device),
                                  text(tuning))


_all: "weakref.WeakSet[Comm]" = weakref.WeakSet()


def _after_fork() -> None:
    _in_flight.clear()
    for comm in list(_all):
        comm._handle, comm._why_not = None, _FORKED


os.register_at_fork(after_in_child=_after_fork)


def reduce_local(operands: Sequence[Any], out: Any, op: AnyOp = _SUM, level: Level = Level.DEFAULT) -> None:
    """out[i] = operands[0][i] op operands[1][i] op ..., in this process, with the bits of a reduction
    over as many ranks."""
    result = buffer_of(out, True)
    given = [buffer_of(operand, False) for operand in operands]
    for vector in given:
        if vector.length != result.length or vector.dtype != result.dtype:
            raise invalid(f"an operand has {vector.length} elements of {vector.dtype!r}, the output {result.length} of "
                          f"{result.dtype!r}")
    status = _lib.tutti_reduce_local((c_void_p * len(given))(*[vector.address for vector in given]), len(given),
                                     result.address, result.length, result.dtype, op, level)
    if status:
        raise_last(status, op.take_raised() if isinstance(op, UserOp) else None)
