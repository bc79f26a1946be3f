"""Statuses of the library as exceptions."""

from enum import IntEnum
from typing import Dict, NoReturn, Optional, Type

from . import _abi
from ._library import load


class Status(IntEnum):
    """tutti_status."""

    OK = _abi.TUTTI_OK
    IN_PROGRESS = _abi.TUTTI_IN_PROGRESS
    INVALID = _abi.TUTTI_INVALID
    UNSUPPORTED = _abi.TUTTI_UNSUPPORTED
    NO_MEMORY = _abi.TUTTI_NO_MEMORY
    TIMEOUT = _abi.TUTTI_TIMEOUT
    PEER_FAILED = _abi.TUTTI_PEER_FAILED
    ABORTED = _abi.TUTTI_ABORTED
    MISMATCH = _abi.TUTTI_MISMATCH
    CORRUPT = _abi.TUTTI_CORRUPT
    AUTH = _abi.TUTTI_AUTH
    SYSTEM = _abi.TUTTI_SYSTEM
    INTERNAL = _abi.TUTTI_INTERNAL


class Error(Exception):
    """A call has failed. After InvalidError and UnsupportedError the communicator is as it was;
    after any other error of a collective or a message it is over on all ranks, and can only be
    freed."""

    status: Status
    rank: int  #: the rank that raises this, -1 where there is no communicator yet
    peer: int  #: the rank that the error is about, -1 if none in particular
    call: int  #: the number of the call on the communicator, from 1; 0 if none
    text: str  #: one sentence

    def __init__(self, status: Status, text: str, rank: int = -1, peer: int = -1, call: int = 0) -> None:
        super().__init__(status, text, rank, peer, call)
        self.status, self.text, self.rank, self.peer, self.call = status, text, rank, peer, call

    def __str__(self) -> str:
        where = [f"rank {self.rank}"] if self.rank >= 0 else []
        where += [f"call {self.call}"] if self.call > 0 else []
        return f"{self.status.name}{' (' + ', '.join(where) + ')' if where else ''}: {self.text}"


class InvalidError(Error, ValueError):
    """An argument is wrong; nothing was sent, the communicator is unharmed."""


class CapacityError(InvalidError):
    """The result of Comm.Allreduce_sparse() does not fit on some rank; `capacity` entries would be
    enough."""

    capacity: int

    def __init__(self, status: Status, text: str, rank: int = -1, peer: int = -1, call: int = 0,
                 capacity: int = 0) -> None:
        super().__init__(status, text, rank, peer, call)
        self.args += (capacity,)
        self.capacity = capacity

    @classmethod
    def of(cls, problem: Error, capacity: int) -> "CapacityError":
        """The same with the capacity that it takes."""
        return cls(problem.status, problem.text, problem.rank, problem.peer, problem.call, capacity)


class UnsupportedError(Error):
    """Right, but not possible here; the communicator is unharmed."""


class NoMemoryError(Error, MemoryError):
    """Memory ran out, on this rank or on `peer`."""


class DeadlineError(Error, TimeoutError):
    """The deadline passed; the text names who was waited for."""


class PeerFailedError(Error, ConnectionError):
    """A rank, `peer`, died."""


class AbortedError(Error):
    """Somebody called abort(), or an operator of the program's raised an exception."""


class MismatchError(Error):
    """Ranks made different calls; the text names both."""


_CLASSES: Dict[Status, Type[Error]] = {
    Status.INVALID: InvalidError, Status.UNSUPPORTED: UnsupportedError, Status.NO_MEMORY: NoMemoryError,
    Status.TIMEOUT: DeadlineError, Status.PEER_FAILED: PeerFailedError, Status.ABORTED: AbortedError,
    Status.MISMATCH: MismatchError,
}


def error(status: int, text: str, rank: int = -1, peer: int = -1, call: int = 0) -> Error:
    """The exception of a status."""
    return _CLASSES.get(Status(status), Error)(Status(status), text, rank, peer, call)


def invalid(text: str, rank: int = -1) -> Error:
    return error(Status.INVALID, text, rank)


def raise_last(status: int, cause: Optional[BaseException] = None) -> NoReturn:
    """For functions without a communicator."""
    raise error(status, load().tutti_last_error().decode()) from cause


def check(status: int) -> None:
    """Raises what a function without a communicator returned, unless it is OK."""
    if status:
        raise_last(status)
