"""Types of elements, operators, levels."""

import ctypes
import sys
from enum import IntEnum
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from . import _abi
from ._checked import Raised, checked
from ._errors import check, invalid
from ._library import load


class Dtype(IntEnum):
    """tutti_dtype: the type of an element."""

    INT8 = _abi.TUTTI_INT8
    INT16 = _abi.TUTTI_INT16
    INT32 = _abi.TUTTI_INT32
    INT64 = _abi.TUTTI_INT64
    UINT8 = _abi.TUTTI_UINT8
    UINT16 = _abi.TUTTI_UINT16
    UINT32 = _abi.TUTTI_UINT32
    UINT64 = _abi.TUTTI_UINT64
    FLOAT16 = _abi.TUTTI_FLOAT16
    BFLOAT16 = _abi.TUTTI_BFLOAT16
    FLOAT32 = _abi.TUTTI_FLOAT32
    FLOAT64 = _abi.TUTTI_FLOAT64
    COMPLEX64 = _abi.TUTTI_COMPLEX64
    COMPLEX128 = _abi.TUTTI_COMPLEX128
    FLOAT8_E4M3 = _abi.TUTTI_FLOAT8_E4M3
    FLOAT8_E5M2 = _abi.TUTTI_FLOAT8_E5M2
    BOOL = _abi.TUTTI_BOOL
    FLOAT32_INT32 = _abi.TUTTI_FLOAT32_INT32
    FLOAT64_INT64 = _abi.TUTTI_FLOAT64_INT64
    INT32_INT32 = _abi.TUTTI_INT32_INT32
    INT64_INT64 = _abi.TUTTI_INT64_INT64
    BINNED_FLOAT32 = _abi.TUTTI_BINNED_FLOAT32
    BINNED_FLOAT64 = _abi.TUTTI_BINNED_FLOAT64


class UserDtype(int):
    """A type of the program's own, of `size` bytes, that the library only moves. The built-in
    operators are not defined on it."""

    size: int

    def __new__(cls, size: int, name: str) -> "UserDtype":
        number = ctypes.c_int()
        check(load().tutti_dtype_create(size, name.encode(), ctypes.byref(number)))
        made = super().__new__(cls, number.value)
        made.size = size
        return made

    def free(self) -> None:
        """No call with it may be in flight."""
        check(load().tutti_dtype_free(self))


AnyDtype = Union[Dtype, UserDtype]


class Level(IntEnum):
    """What is promised of the bits of a reduction."""

    DEFAULT = _abi.TUTTI_LEVEL_DEFAULT
    FAST = _abi.TUTTI_LEVEL_FAST
    LAYOUT = _abi.TUTTI_LEVEL_LAYOUT
    CANONICAL = _abi.TUTTI_LEVEL_CANONICAL
    EXACT = _abi.TUTTI_LEVEL_EXACT


class Op(IntEnum):
    """tutti_op: the operators that are built in."""

    SUM = _abi.TUTTI_SUM
    PROD = _abi.TUTTI_PROD
    MIN = _abi.TUTTI_MIN
    MAX = _abi.TUTTI_MAX
    AVG = _abi.TUTTI_AVG
    LAND = _abi.TUTTI_LAND
    LOR = _abi.TUTTI_LOR
    LXOR = _abi.TUTTI_LXOR
    BAND = _abi.TUTTI_BAND
    BOR = _abi.TUTTI_BOR
    BXOR = _abi.TUTTI_BXOR
    MINLOC = _abi.TUTTI_MINLOC
    MAXLOC = _abi.TUTTI_MAXLOC


_SIZES: Dict[int, int] = {}
# The format of the struct module, for views.
_FORMATS: Dict[int, str] = {
    Dtype.INT8: "b", Dtype.INT16: "h", Dtype.INT32: "i", Dtype.INT64: "q", Dtype.UINT8: "B",
    Dtype.UINT16: "H", Dtype.UINT32: "I", Dtype.UINT64: "Q", Dtype.FLOAT32: "f", Dtype.FLOAT64: "d",
    Dtype.BOOL: "?",
}
_NUMPY: Dict[int, Any] = {
    Dtype.INT8: "i1", Dtype.INT16: "i2", Dtype.INT32: "i4", Dtype.INT64: "i8", Dtype.UINT8: "u1",
    Dtype.UINT16: "u2", Dtype.UINT32: "u4", Dtype.UINT64: "u8", Dtype.FLOAT16: "f2", Dtype.FLOAT32: "f4",
    Dtype.FLOAT64: "f8", Dtype.COMPLEX64: "c8", Dtype.COMPLEX128: "c16", Dtype.BOOL: "?",
    Dtype.FLOAT32_INT32: [("value", "f4"), ("index", "i4")],
    Dtype.FLOAT64_INT64: [("value", "f8"), ("index", "i8")],
    Dtype.INT32_INT32: [("value", "i4"), ("index", "i4")],
    Dtype.INT64_INT64: [("value", "i8"), ("index", "i8")],
}
_ML_DTYPES = {Dtype.BFLOAT16: "bfloat16", Dtype.FLOAT8_E4M3: "float8_e4m3fn", Dtype.FLOAT8_E5M2: "float8_e5m2"}


def size_of(dtype: int) -> int:
    """Bytes of an element; InvalidError for an unknown type."""
    if isinstance(dtype, UserDtype):
        return dtype.size
    size = _SIZES.get(dtype)
    if size is None:
        size = int(load().tutti_dtype_size(dtype))
        if size == 0:
            raise invalid(f"{dtype!r} is no type of tutti")
        _SIZES[dtype] = size
    return size


def numpy_dtype(dtype: int) -> Any:
    """NumPy's dtype of a type; bfloat16 and float8 are those of ml_dtypes. InvalidError where
    there is none."""
    import numpy

    if dtype in _ML_DTYPES:
        try:
            import ml_dtypes
        except ImportError:
            raise invalid(f"NumPy has {_ML_DTYPES[Dtype(dtype)]} by the package ml_dtypes, which is not "
                          "installed") from None
        return numpy.dtype(getattr(ml_dtypes, _ML_DTYPES[Dtype(dtype)]))
    if dtype not in _NUMPY:
        raise invalid(f"NumPy has no type for {dtype!r}")
    return numpy.dtype(_NUMPY[dtype])


def view(address: int, count: int, dtype: int, owner: Optional[Any] = None) -> Any:
    """`count` elements at `address`: a NumPy array where NumPy is installed and has the type, else a
    memoryview, of bytes where the struct module does not have it."""
    size = size_of(dtype)
    block: Any = (ctypes.c_ubyte * (count * size)).from_address(address) if owner is None else owner
    if "numpy" in sys.modules or _has_numpy():
        import numpy

        if dtype in _NUMPY or (dtype in _ML_DTYPES and _has_ml_dtypes()):
            return numpy.frombuffer(block, dtype=numpy_dtype(dtype), count=count)
    raw = memoryview(block).cast("B")
    return raw.cast(_FORMATS[dtype]) if dtype in _FORMATS else raw  # type: ignore[call-overload]


# Of the CUDA array interface; types that it lacks are bytes there.
CUDA_TYPESTRS: Dict[Dtype, str] = {
    Dtype(dtype): ("|" if text[-1:] in ("1", "?") else "<" if sys.byteorder == "little" else ">") + text.replace("?", "b1")
    for dtype, text in _NUMPY.items() if isinstance(text, str)
}


def cuda_typestr(dtype: AnyDtype) -> str:
    """How the CUDA array interface writes a type. InvalidError where it cannot."""
    for known, text in CUDA_TYPESTRS.items():
        if known == dtype:
            return text
    raise invalid(f"the CUDA array interface has no type for {dtype!r}")


def _has(package: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(package) is not None


_found: Dict[str, bool] = {}


def _has_numpy() -> bool:
    return _found.setdefault("numpy", _has("numpy"))


def _has_ml_dtypes() -> bool:
    return _found.setdefault("ml_dtypes", _has("ml_dtypes"))


# Of callbacks.cc.
_OpFunction = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                               ctypes.c_int, ctypes.c_void_p)


class _OpContext(ctypes.Structure):
    _fields_ = [("function", _OpFunction)]


class UserOp(int):
    """An operator of the program's own: `function(lower, higher, out)` writes the combination of the
    vectors `lower` and `higher`, of equal length, to `out`, which may be one of them. A ufunc of
    NumPy is such a function. The vectors are NumPy arrays, or memoryviews where NumPy is not
    installed, and valid until the function returns.

    It must be associative and the same on all ranks; unless `commute`, operands meet in rank order.
    It is called with parts of vectors, must not call tutti, and an exception that it raises ends the
    communicator: the call fails with AbortedError, whose __cause__ it is on the rank that raised it,
    and on ranks that had their result already the next call does."""

    _raised: Raised
    _keep: Any

    def __new__(cls, function: Callable[[Any, Any, Any], Any], commute: bool = False) -> "UserOp":
        raised = Raised()

        def call(lower: int, higher: int, out: int, count: int, dtype: int, context: Any) -> int:
            def run() -> None:
                function(view(lower, count, dtype), view(higher, count, dtype), view(out, count, dtype))

            return int(raised.caught(run, 1))

        callback = _OpFunction(call)
        context = _OpContext(callback)
        number = ctypes.c_int()
        check(load().tutti_op_create(checked("tutti_python_op", _abi.tutti_op_fn), ctypes.addressof(context), commute,
                                     ctypes.byref(number)))
        made = super().__new__(cls, number.value)
        made._raised, made._keep = raised, (callback, context)
        return made

    def take_raised(self) -> Optional[BaseException]:
        """The exception that ended the last call, once."""
        return self._raised.take()

    def free(self) -> None:
        """No call with it may be in flight."""
        check(load().tutti_op_free(self))


class PremulSum(int):
    """The sum over ranks of scalar * input; made by Comm.premul_sum()."""

    def free(self) -> None:
        """No call with it may be in flight."""
        check(load().tutti_op_free(self))


AnyOp = Union[Op, UserOp, PremulSum]


def supports(op: Op, dtype: Dtype) -> bool:
    """Whether the operator is defined on the type."""
    return bool(load().tutti_op_supports(op, dtype))


def pair_formats() -> List[Tuple[Dtype, str]]:
    """How the buffer protocol writes the types of a value and an index."""
    return [(Dtype.FLOAT32_INT32, "fi"), (Dtype.FLOAT64_INT64, "dl"), (Dtype.FLOAT64_INT64, "dq"),
            (Dtype.INT32_INT32, "ii"), (Dtype.INT64_INT64, "ll"), (Dtype.INT64_INT64, "qq")]
