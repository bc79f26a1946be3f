"""How any call is made, and how it fails."""

from ctypes import byref, c_int, c_void_p
from typing import Any, Dict, Optional, Set, Tuple

from . import _abi
from ._buffers import Buffer, buffer_of
from ._codecs import Codec
from ._config import Config
from ._errors import Error, error, invalid
from ._library import load
from ._requests import Prequest, Request
from ._types import UserOp

_lib = load()


class _InPlace:
    """As the input of a call: it is in the buffer of the result."""

    def __repr__(self) -> str:
        return "tutti.IN_PLACE"


IN_PLACE = _InPlace()

# A call: the name of its functions, the arguments before the communicator, what to keep alive, and the
# operator or codec if it is the program's.
Call = Tuple[str, Tuple[Any, ...], Any, Any]

_functions: Dict[str, Tuple[Any, Any]] = {}


class Calls:
    """A communicator's handle, and what is common to all calls on it."""

    def __init__(self, handle: c_void_p, device: bool) -> None:
        self._handle = handle.value
        self._device = device  # whether buffers may lie on a GPU
        self._why_not = ""
        self._prepared: Set[Prequest] = set()
        rank, size = c_int(), c_int()
        _lib.tutti_comm_rank(handle, byref(rank))
        _lib.tutti_comm_size(handle, byref(size))
        self._rank, self._size = rank.value, size.value

    def _check_process(self) -> None:
        if self._handle is None:
            raise invalid(self._why_not, self._rank)

    def _failure(self, status: int) -> Error:
        got = _abi.tutti_error()
        if self._handle is not None and _lib.tutti_comm_last_error(self._handle, byref(got)) == 0 \
                and got.status == status:
            return error(status, (got.text or b"").decode(), self._rank, got.rank, got.call)
        return error(status, _lib.tutti_last_error().decode(), self._rank)

    def _raise(self, status: int, op: Any) -> None:
        cause = op.take_raised() if isinstance(op, (UserOp, Codec)) else None
        raise self._failure(status) from cause

    def _local(self, status: int) -> None:
        if status:
            self._raise(status, None)

    def _run(self, call: Call, config: Optional[Config]) -> None:
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

    def _begin(self, call: Call, config: Optional[Config], form: str = "tutti_i{}") -> c_void_p:
        name, arguments, keep, op = call
        self._check_process()
        out = c_void_p()
        self._local(getattr(_lib, form.format(name))(*arguments, self._handle,
                                                     config._pointer if config is not None else None, byref(out)))
        return out

    def _i(self, call: Call, config: Optional[Config]) -> Request:
        return Request(self, self._begin(call, config), call[2], call[3])

    def _p(self, call: Call, config: Optional[Config]) -> Prequest:
        return Prequest(self, self._begin(call, config, "tutti_{}_init"), (call[2], config), call[3])

    def _on(self, call: Call, stream: Any, config: Optional[Config]) -> None:
        name, arguments, keep, op = call
        self._check_process()
        self._local(getattr(_lib, f"tutti_{name}_on")(
            *arguments, self._handle, config._pointer if config is not None else None, _stream_address(stream)))

    def _compound(self, function: Any, arguments: Tuple[Any, ...], config: Optional[Config], op: Any,
                  *behind: Any) -> None:
        """A call that has one form, with a config."""
        self._check_process()
        status = function(*arguments, self._handle, config._pointer if config is not None else None, *behind)
        if status:
            self._raise(status, op)

    def _pair(self, send: Any, recv: Any, sends: int = 1, receives: int = 1) -> Tuple[Any, Buffer, int, Any]:
        """Addresses of an input and an output of as many blocks, and the length of one block."""
        out = buffer_of(recv, True, self._device)
        if send is IN_PLACE:
            count, rest = divmod(out.length, max(sends, receives))
            if rest:
                raise invalid(f"the buffer has {out.length} elements, which are no {max(sends, receives)} blocks",
                              self._rank)
            return _abi.TUTTI_IN_PLACE, out, count, (out,)
        given = buffer_of(send, False, self._device)
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


def _stream_address(stream: Any) -> Optional[int]:
    """A cudaStream_t as a number, or an object of PyTorch, CuPy or another package that has one."""
    if stream is None or isinstance(stream, int):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        found = stream.__cuda_stream__
        return int((found() if callable(found) else found)[1])
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    raise invalid(f"{type(stream).__name__} is no CUDA stream: it has none of __cuda_stream__, cuda_stream and ptr")
