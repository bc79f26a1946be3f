"""What needs no communicator: arithmetic of this process, and the list of algorithms."""

import ctypes
from ctypes import byref, c_void_p
from typing import Any, List, NamedTuple, Sequence

from . import _abi
from ._buffers import buffer_of
from ._errors import check, invalid, raise_last
from ._library import load
from ._types import AnyOp, Level, Op, UserOp

_lib = load()


def reduce_local(operands: Sequence[Any], out: Any, op: AnyOp = Op.SUM, level: Level = Level.DEFAULT) -> None:
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


def binned_deposit(accumulators: Any, values: Any) -> None:
    """Adds values[i], floating-point numbers, to accumulators[i]: [buffer, Dtype.BINNED_FLOAT32] or
    [buffer, Dtype.BINNED_FLOAT64], of which zeroed memory is an empty sum. Their bits depend on the values
    that were added and on nothing else, whatever the order, the ranks and the grouping."""
    sums, given = buffer_of(accumulators, True), buffer_of(values, False)
    if sums.length != given.length:
        raise invalid(f"{given.length} values for {sums.length} accumulators")
    check(_lib.tutti_binned_deposit(sums.address, sums.dtype, given.address, given.length, given.dtype))


def binned_deposit_all(accumulator: Any, values: Any) -> None:
    """Adds all values to one accumulator."""
    total, given = buffer_of(accumulator, True), buffer_of(values, False)
    if total.length != 1:
        raise invalid(f"one accumulator is wanted, and {total.length} are given")
    check(_lib.tutti_binned_deposit_all(total.address, total.dtype, given.address, given.length, given.dtype))


def binned_finish(accumulators: Any, out: Any) -> None:
    """out[i] is the sum in accumulators[i], rounded once."""
    sums, result = buffer_of(accumulators, False), buffer_of(out, True)
    if sums.length != result.length:
        raise invalid(f"{result.length} results for {sums.length} accumulators")
    check(_lib.tutti_binned_finish(sums.address, sums.dtype, result.address, result.length, result.dtype))


class Algorithm(NamedTuple):
    """An algorithm that a Config can name."""

    name: str
    collective: str  #: "allreduce", "broadcast", "reduce_scatter" ...
    about: str  #: one sentence


def algorithms() -> List[Algorithm]:
    """All of them."""
    found: List[Algorithm] = []
    about = _abi.tutti_algorithm_info(ctypes.sizeof(_abi.tutti_algorithm_info))
    while _lib.tutti_algorithm_get(len(found), byref(about)) == 0:
        found.append(Algorithm(about.name.decode(), about.collective.decode(), about.about.decode()))
    return found
