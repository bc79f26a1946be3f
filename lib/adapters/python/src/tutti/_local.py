"""Arithmetic of this process, without a communicator."""

from ctypes import c_void_p
from typing import Any, Sequence

from ._buffers import buffer_of
from ._errors import invalid, raise_last
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
