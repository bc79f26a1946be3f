"""Calls that have begun, and calls that are prepared."""

from ctypes import byref, c_int, c_size_t, c_void_p
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, Sequence, Set, Type

from ._errors import Status, raise_last
from ._library import load

if TYPE_CHECKING:
    from ._calls import Calls

_lib = load()

# Requests in flight are kept here with their buffers: the library writes to these until a call has
# ended, also where the program has dropped its request.
in_flight: "Set[Request]" = set()


class Request:
    """A call that has begun. Its buffers belong to the library until wait() has returned or test()
    has said True; they stay alive until then, also where the request is dropped."""

    def __init__(self, comm: "Calls", handle: c_void_p, keep: Any, op: Any) -> None:
        self._comm, self._handle, self._keep, self._op = comm, handle, keep, op
        in_flight.add(self)

    def _ended(self, status: int) -> None:
        in_flight.discard(self)
        self._keep = None
        if status:
            self._comm._raise(status, self._op)

    def wait(self) -> None:
        """Returns when the call has ended; raises how it failed."""
        if self in in_flight:
            self._comm._check_process()
            self._ended(_lib.tutti_wait(byref(self._handle)))

    def test(self) -> bool:
        """Advances calls; whether this one has ended."""
        if self not in in_flight:
            return True
        self._comm._check_process()
        ended = c_int()
        status = _lib.tutti_test(byref(self._handle), byref(ended))
        if ended.value or status:
            self._ended(status)
            return True
        return False

    Wait, Test = wait, test


class AnyRequest(Request):
    """A message of any rank that is being received."""

    def __init__(self, comm: "Calls", handle: c_void_p, keep: Any, sender: c_int) -> None:
        super().__init__(comm, handle, keep, None)
        self._sender = sender
        #: The rank that has sent it; None until it has ended well.
        self.source: Optional[int] = None

    def _ended(self, status: int) -> None:
        if not status:
            self.source = self._sender.value
        super()._ended(status)


class Prequest(Request):
    """A call that is begun by start(), as often as the program likes, always with the same
    buffers. free() it, or use it as a context manager."""

    def __init__(self, comm: "Calls", handle: c_void_p, keep: Any, op: Any) -> None:
        self._comm, self._handle, self._buffers, self._op = comm, handle, keep, op
        self._keep = None
        comm._prepared.add(self)

    def start(self) -> None:
        """Begins the call."""
        self._comm._check_process()
        status = _lib.tutti_start(self._handle)
        if status:
            self._comm._raise(status, None)
        in_flight.add(self)

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
        if kind is None or self not in in_flight:
            self.free()

    Start, Free = start, free


def startall(requests: Sequence[Prequest]) -> None:
    """Starts all of them; stops at the first that cannot be started, and raises why."""
    for request in requests:
        request.start()


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
    places = [i for i, request in enumerate(requests) if request in in_flight]
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
