"""tutti: collective communication among processes.

    import numpy, tutti

    comm = tutti.init()                      # under `tutti run -n 4 python program.py`, for one
    mine, total = numpy.ones(1000), numpy.empty(1000)
    comm.Allreduce(mine, total, op=tutti.SUM)

Calls have the names and the order of arguments that mpi4py gives them: with a capital letter on
buffers (NumPy arrays or anything with the buffer protocol or DLPack), in lower case on objects, by
pickle. NumPy is not needed."""

from typing import Any

from ._calls import IN_PLACE
from ._comm import Comm, Counters, Explanation, UniqueId
from ._config import Config
from ._errors import (
    AbortedError,
    DeadlineError,
    Error,
    InvalidError,
    MismatchError,
    NoMemoryError,
    PeerFailedError,
    Status,
    UnsupportedError,
)
from ._library import library_path, load
from ._local import reduce_local
from ._memory import Adopted, Memory
from ._messages import NO_PEER
from ._requests import Prequest, Request, waitall, waitany
from ._types import Dtype, Level, Op, PremulSum, UserDtype, UserOp, numpy_dtype, supports

SUM, PROD, MIN, MAX, AVG = Op.SUM, Op.PROD, Op.MIN, Op.MAX, Op.AVG
LAND, LOR, LXOR, BAND, BOR, BXOR = Op.LAND, Op.LOR, Op.LXOR, Op.BAND, Op.BOR, Op.BXOR
MINLOC, MAXLOC = Op.MINLOC, Op.MAXLOC

__version__: str = load().tutti_version().decode()


def init(**settings: Any) -> Comm:
    """The communicator of all processes that a launcher started: Comm.from_env()."""
    return Comm.from_env(**settings)


__all__ = [
    "AVG", "BAND", "BOR", "BXOR", "IN_PLACE", "LAND", "LOR", "LXOR", "MAX", "MAXLOC", "MIN", "MINLOC", "NO_PEER",
    "PROD", "SUM", "AbortedError", "Adopted", "Comm", "Config", "Counters", "DeadlineError", "Dtype", "Error",
    "Explanation", "InvalidError", "Level", "Memory", "MismatchError", "NoMemoryError", "Op", "PeerFailedError",
    "PremulSum", "Prequest", "Request", "Status", "UniqueId", "UnsupportedError", "UserDtype", "UserOp", "init",
    "library_path", "numpy_dtype", "reduce_local", "supports", "waitall", "waitany",
]
