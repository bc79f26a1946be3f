"""How vectors travel in Comm.Allreduce_coded()."""

import ctypes
from ctypes import byref
from typing import Any, Callable, Dict, NamedTuple, Optional

from . import _abi
from ._checked import FAILED, Raised, checked
from ._errors import check, invalid
from ._library import load
from ._types import Dtype, view

_lib = load()

_BytesFunction = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_size_t)
_EncodeFunction = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
_FIELDS: Dict[str, Any] = {field[0]: field[1] for field in _abi.tutti_codec._fields_}


class _Context(ctypes.Structure):  # of callbacks.cc
    _fields_ = [("encoded_bytes", _BytesFunction), ("encode", _EncodeFunction), ("decode", _EncodeFunction)]


class CodecLoss(NamedTuple):
    """What encoding changed on this rank: of its vector, and of the part of the result that it owns."""

    max_error: float  #: the greatest |decoded - given|
    rms_error: float  #: root of the mean of its squares
    rms_value: float  #: the same of what was given, to compare with
    not_finite: int  #: elements left out: infinite or NaN, before or after


class Codec:
    """How vectors of float32 travel: Codec("bf16") and Codec("fp8") are built in."""

    def __init__(self, name: str) -> None:
        found = ctypes.POINTER(_abi.tutti_codec)()
        check(_lib.tutti_codec_from_name(name.encode(), byref(found)))
        self._pointer: Any = found
        self.name = name

    @property
    def block(self) -> int:
        """Elements that are encoded together."""
        return int(self._pointer.contents.block)

    def encoded_bytes(self, count: int) -> int:
        """Bytes of `count` encoded elements."""
        codec = self._pointer.contents
        return int(codec.encoded_bytes(count, codec.context))

    def take_raised(self) -> Optional[BaseException]:
        """The exception that ended the last call, once."""
        return None


class UserCodec(Codec):
    """A codec of the program's own. `encoded_bytes(count)` are the bytes of `count` encoded elements,
    known from the count alone; `encode(values, encoded)` writes them, `decode(encoded, values)` is the
    inverse. `values` are float32 and `encoded` bytes, as NumPy arrays, or memoryviews where NumPy is not
    installed; both are valid until the function returns. A vector is cut at multiples of `block`
    elements only.

    All ranks have the same name, block and functions, which must not call tutti. An exception that one
    raises ends the communicator: the call fails with AbortedError, whose __cause__ it is on the rank that
    raised it."""

    def __init__(self, name: str, encoded_bytes: Callable[[int], int], encode: Callable[[Any, Any], Any],
                 decode: Callable[[Any, Any], Any], block: int = 1) -> None:
        self.name = name
        self._raised = Raised()

        def bytes_of(count: int) -> int:
            return int(self._raised.caught(lambda: _length(encoded_bytes(count)), FAILED))

        def call_encode(values: int, count: int, encoded: int) -> int:
            def run() -> None:
                encode(view(values, count, Dtype.FLOAT32), view(encoded, _length(encoded_bytes(count)), Dtype.UINT8))

            return int(self._raised.caught(run, 1))

        def call_decode(encoded: int, count: int, values: int) -> int:
            def run() -> None:
                decode(view(encoded, _length(encoded_bytes(count)), Dtype.UINT8), view(values, count, Dtype.FLOAT32))

            return int(self._raised.caught(run, 1))

        self._context = _Context(_BytesFunction(bytes_of), _EncodeFunction(call_encode), _EncodeFunction(call_decode))
        self._struct = _abi.tutti_codec(
            ctypes.sizeof(_abi.tutti_codec), name.encode(), block,
            checked("tutti_python_encoded_bytes", _FIELDS["encoded_bytes"]),
            checked("tutti_python_encode", _FIELDS["encode"]), checked("tutti_python_decode", _FIELDS["decode"]),
            ctypes.addressof(self._context))
        self._pointer = ctypes.pointer(self._struct)

    def encoded_bytes(self, count: int) -> int:
        """Bytes of `count` encoded elements."""
        found = self._context.encoded_bytes(count)
        problem = self.take_raised()
        if problem is not None:
            raise problem
        return int(found)

    def take_raised(self) -> Optional[BaseException]:
        """The exception that ended the last call, once."""
        return self._raised.take()


def _length(nbytes: int) -> int:
    if nbytes < 0:
        raise invalid(f"the codec encodes to {nbytes} bytes")
    return nbytes
