"""Allreduces of vectors that are mostly zero, or need not arrive exactly."""

import ctypes
from ctypes import byref, c_void_p
from typing import Any, Optional, Tuple, Union

from . import _abi
from ._buffers import Buffer, buffer_of
from ._calls import IN_PLACE, Calls
from ._codecs import Codec, CodecLoss
from ._config import Config
from ._errors import CapacityError, Status, check, invalid
from ._library import load
from ._memory import block_type
from ._types import Dtype, Op, view

_lib = load()


class _Handle:
    """A tutti_topk, freed when neither it nor a view of its residual is there any more."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __del__(self, free: Any = _lib.tutti_topk_free) -> None:
        if self.value:
            free(self.value)


class TopK:
    """The memory of Comm.Allreduce_topk(): for vectors of `length` elements of float32 or float64 of which
    the `k` largest are sent. One for each vector that is summed again and again; one call with it at a
    time."""

    def __init__(self, length: int, k: int, dtype: Dtype = Dtype.FLOAT32) -> None:
        out = c_void_p()
        check(_lib.tutti_topk_create(length, k, dtype, byref(out)))
        self._handle: Optional[_Handle] = _Handle(out.value or 0)
        self.length, self.k, self.dtype = length, k, dtype

    @property
    def residual(self) -> Any:
        """What has not been sent yet, `length` elements, to be read or written (checkpoints): a NumPy array,
        or a memoryview where NumPy is not installed. It shows what it is after later calls once it is asked
        for again."""
        out = c_void_p()
        handle = self._open()
        check(_lib.tutti_topk_residual(handle.value, byref(out)))
        block = block_type(self.length * (8 if self.dtype == Dtype.FLOAT64 else 4)).from_address(out.value or 0)
        block.handle = handle
        return view(out.value or 0, self.length, self.dtype, block)

    def _open(self) -> _Handle:
        if self._handle is None:
            raise invalid("the TopK has been freed")
        return self._handle

    def free(self) -> None:
        """Its memory lives on while there are views of the residual."""
        self._handle = None

    def __enter__(self) -> "TopK":
        return self

    def __exit__(self, *_: Any) -> None:
        self.free()


class CompressedCalls(Calls):
    """These calls take memory of the host only. A `config` may not name an algorithm: there is one."""

    def _entries(self, pair: Tuple[Any, Any], writable: bool) -> Tuple[Buffer, Buffer]:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise invalid("entries are a pair: their indices, and as many values", self._rank)
        indices, values = (buffer_of(part, writable, self._device) for part in pair)
        if indices.dtype != Dtype.UINT32:
            raise invalid(f"the indices are of {Dtype(indices.dtype)!r}; they are of {Dtype.UINT32!r}", self._rank)
        if indices.length != values.length:
            raise invalid(f"there are {indices.length} indices for {values.length} values", self._rank)
        return indices, values

    def Allreduce_sparse(self, send: Tuple[Any, Any], recv: Tuple[Any, Any], length: int, op: Op = Op.SUM,
                         config: Optional[Config] = None) -> int:
        """Vectors of `length` elements of which every rank gives some: `send` is (indices, values), the
        indices of uint32, ascending and each there once. `recv` gets each index that some rank gives, with
        the values of those ranks combined in rank order; how many there are is returned. CapacityError, on
        all ranks, where `recv` of one of them is too short for that."""
        indices, values = self._entries(send, False)
        out_indices, out_values = self._entries(recv, True)
        if values.dtype != out_values.dtype:
            raise invalid(f"the input is of {values.dtype!r}, the output of {out_values.dtype!r}", self._rank)
        given = _abi.tutti_sparse_in(ctypes.cast(indices.address, ctypes.POINTER(ctypes.c_uint32)), values.address,
                                     values.length)
        out = _abi.tutti_sparse_out(ctypes.cast(out_indices.address, ctypes.POINTER(ctypes.c_uint32)),
                                    out_values.address, out_values.length, 0)
        self._check_process()
        status = _lib.tutti_allreduce_sparse_with(byref(given), byref(out), length, values.dtype, op, self._handle,
                                                  config._pointer if config is not None else None)
        if status == Status.INVALID and out.entries:
            raise CapacityError.of(self._failure(status), int(out.entries))
        self._local(status)
        return int(out.entries)

    def Allreduce_topk(self, send: Any, recv: Any, topk: TopK, op: Op = Op.SUM,
                       config: Optional[Config] = None) -> None:
        """`send` is added to the residual of `topk`; the k entries of that which are largest in magnitude
        are sent, and leave it. `recv` is the sum, or the average (AVG), of what the ranks sent, and zero where
        none did. After an error the residual is what it was before."""
        out = buffer_of(recv, True, self._device)
        given = out if send is IN_PLACE else buffer_of(send, False, self._device)
        for vector, what in ((given, "input"), (out, "output")):
            if vector.length != topk.length or vector.dtype != topk.dtype:
                raise invalid(f"the {what} has {vector.length} elements of {vector.dtype!r}, and the TopK is for "
                              f"{topk.length} of {topk.dtype!r}", self._rank)
        address = _abi.TUTTI_IN_PLACE if send is IN_PLACE else given.address
        self._compound(_lib.tutti_topk_allreduce_with, (address, out.address, op, topk._open().value), config, None)

    def Allreduce_coded(self, send: Any, recv: Any, codec: Union[str, Codec], op: Op = Op.SUM,
                        config: Optional[Config] = None, measure: bool = False) -> Optional[CodecLoss]:
        """Allreduce() of float32, encoded on the way by `codec`: "bf16", "fp8", a Codec or a UserCodec. On all
        ranks the same bits; an element is encoded twice. `measure`: what that has changed is returned, for
        one more decoding."""
        chosen = Codec(codec) if isinstance(codec, str) else codec
        address, out, count, keep = self._pair(send, recv)
        if out.dtype != Dtype.FLOAT32:
            raise invalid(f"vectors of {out.dtype!r} are not encoded, those of {Dtype.FLOAT32!r} are", self._rank)
        loss = _abi.tutti_codec_error(ctypes.sizeof(_abi.tutti_codec_error))
        self._compound(_lib.tutti_allreduce_coded_with, (address, out.address, count, op, chosen._pointer), config,
                       chosen, byref(loss) if measure else None)
        return CodecLoss(*[getattr(loss, name) for name in CodecLoss._fields]) if measure else None
