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
from ._codecs import Codec, CodecLoss, UserCodec
from ._comm import Comm, Counters, Explanation, UniqueId
from ._compressed import TopK
from ._config import Config
from ._device import DeviceArray, DeviceMemory, MemoryKind, Place, place_of
from ._errors import (
    AbortedError,
    CapacityError,
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
from ._local import Algorithm, algorithms, binned_deposit, binned_deposit_all, binned_finish, reduce_local
from ._memory import Adopted, Memory
from ._messages import NO_PEER
from ._requests import AnyRequest, Prequest, Request, startall, waitall, waitany
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
    "PROD", "SUM", "AbortedError", "Adopted", "Algorithm", "AnyRequest", "CapacityError", "Codec", "CodecLoss", "Comm", "Config",
    "Counters", "DeadlineError", "DeviceArray", "DeviceMemory", "Dtype", "Error", "Explanation", "InvalidError",
    "Level", "Memory", "MemoryKind", "MismatchError", "NoMemoryError", "Op", "PeerFailedError", "Place",
    "PremulSum", "Prequest", "Request", "Status", "TopK", "UniqueId", "UnsupportedError", "UserCodec", "UserDtype",
    "UserOp", "algorithms", "binned_deposit", "binned_deposit_all", "binned_finish", "init", "library_path",
    "numpy_dtype", "place_of", "reduce_local", "startall", "supports", "waitall", "waitany",
]
