"""From an object of the program's to the address, number and type of its elements."""

import ctypes
import math
import re
import sys
from ctypes import c_char, c_char_p, c_int, c_int32, c_int64, c_ssize_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, cast

from ._errors import invalid
from ._types import CUDA_TYPESTRS, Dtype, UserDtype, pair_formats, size_of


class Buffer(NamedTuple):
    """A vector. What keeps its memory alive, and in its place, is in `keep`."""

    address: int
    length: int  #: in elements
    dtype: int
    keep: Any


_KINDS: Dict[str, Tuple[Dtype, ...]] = {
    "signed": (Dtype.INT8, Dtype.INT16, Dtype.INT32, Dtype.INT64),
    "unsigned": (Dtype.UINT8, Dtype.UINT16, Dtype.UINT32, Dtype.UINT64),
}
_BY_FORMAT: Dict[str, Dtype] = {
    "e": Dtype.FLOAT16, "f": Dtype.FLOAT32, "d": Dtype.FLOAT64, "Zf": Dtype.COMPLEX64,
    "Zd": Dtype.COMPLEX128, "F": Dtype.COMPLEX64, "D": Dtype.COMPLEX128, "?": Dtype.BOOL, "c": Dtype.UINT8,
}
for _letters, _kind in (("bhilqn", "signed"), ("BHILQN", "unsigned")):
    for _letter in _letters:
        _bytes = memoryview(bytearray(16)).cast(_letter).itemsize  # type: ignore[call-overload]
        _BY_FORMAT[_letter] = _KINDS[_kind][_bytes.bit_length() - 1]
_NATIVE = "<" if sys.byteorder == "little" else ">"


def _dtype_of_format(text: str, itemsize: int) -> Dtype:
    found = _BY_FORMAT.get(text.lstrip("@=" + _NATIVE))
    if found is not None and size_of(found) == itemsize:
        return found
    standard = text.lstrip("=" + _NATIVE)  # "<l" is 4 bytes, whatever a long is here
    if standard in ("l", "L") and itemsize == 4:
        return Dtype.INT32 if standard == "l" else Dtype.UINT32
    pair = re.fullmatch(r"T\{[@=" + _NATIVE + r"]?(\w):\w+:[@=" + _NATIVE + r"]?(\w):\w+:\}", text)
    if pair is not None:
        for dtype, letters in pair_formats():
            if letters == pair.group(1) + pair.group(2) and size_of(dtype) == itemsize:
                return dtype
    raise invalid(f"a buffer of the format {text!r} has no type of tutti; [buffer, dtype] says which it is")


# ------------------------------------------------------------------ the buffer protocol


class _PyBuffer(ctypes.Structure):
    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t), ("itemsize", c_ssize_t),
                ("readonly", c_int), ("ndim", c_int), ("format", c_char_p), ("shape", c_void_p),
                ("strides", c_void_p), ("suboffsets", c_void_p), ("internal", c_void_p)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_PyBuffer)]
_release_buffer.restype = None
_char_of = c_char.from_buffer
_address_of = ctypes.addressof


def _read_only_address(view: memoryview) -> int:
    """ctypes gives addresses of what can be written only. The view keeps the memory."""
    got = _PyBuffer()
    _get_buffer(view, ctypes.byref(got), 0)  # PyBUF_SIMPLE
    address = got.buf or 0
    _release_buffer(ctypes.byref(got))
    return int(address)


def _from_view(view: memoryview, writable: bool, dtype: Optional[int]) -> Buffer:
    if not view.c_contiguous:
        raise invalid("the buffer is not contiguous in C order (numpy.ascontiguousarray makes a copy that is)")
    if writable and view.readonly:
        raise invalid("the buffer is read-only, and the call writes to it")
    if dtype is None:
        dtype = _dtype_of_format(view.format, view.itemsize)
    if view.nbytes == 0:
        return Buffer(0, 0, dtype, view)
    if view.readonly:
        return Buffer(_read_only_address(view), _count(view.nbytes, dtype), dtype, view)
    keep = _char_of(view)
    return Buffer(_address_of(keep), _count(view.nbytes, dtype), dtype, keep)


def _count(nbytes: int, dtype: int) -> int:
    size = size_of(dtype)
    if nbytes % size:
        raise invalid(f"{nbytes} bytes are no whole number of elements of {size} bytes")
    return nbytes // size


# ------------------------------------------------------------------ DLPack


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", ctypes.POINTER(c_int64)),
                ("strides", ctypes.POINTER(c_int64)), ("byte_offset", c_uint64)]


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("manager", c_void_p), ("deleter", c_void_p),
                ("flags", c_uint64), ("tensor", _DLTensor)]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = [ctypes.py_object, c_char_p]
_capsule_pointer.restype = c_void_p
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.argtypes = [ctypes.py_object, c_char_p]

_DL_CPU = (1, 3)  # kDLCPU, kDLCUDAHost
_DL_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged
_DL_READ_ONLY, _DL_COPIED = 1, 2
_DL_TYPES: Dict[Tuple[int, int], Dtype] = {
    (0, 8): Dtype.INT8, (0, 16): Dtype.INT16, (0, 32): Dtype.INT32, (0, 64): Dtype.INT64,
    (1, 8): Dtype.UINT8, (1, 16): Dtype.UINT16, (1, 32): Dtype.UINT32, (1, 64): Dtype.UINT64,
    (2, 16): Dtype.FLOAT16, (2, 32): Dtype.FLOAT32, (2, 64): Dtype.FLOAT64, (4, 16): Dtype.BFLOAT16,
    (5, 64): Dtype.COMPLEX64, (5, 128): Dtype.COMPLEX128, (6, 8): Dtype.BOOL,
    (10, 8): Dtype.FLOAT8_E4M3, (12, 8): Dtype.FLOAT8_E5M2,
}


def _check_device(device_type: int, device: bool) -> None:
    if device_type not in _DL_CPU and not (device and device_type in _DL_CUDA):
        why = ", and the communicator was made without a device" if device_type in _DL_CUDA else ""
        raise invalid(f"the tensor is not in memory of the host (DLPack device type {device_type}){why}")


def _from_dlpack(thing: Any, writable: bool, device: bool, dtype: Optional[int]) -> Buffer:
    wanted: Dict[str, Any] = {}
    if hasattr(thing, "__dlpack_device__"):  # asked first: a tensor of a GPU may have to wait for its producer
        device_type = thing.__dlpack_device__()[0]
        _check_device(device_type, device)
        if device_type in _DL_CUDA:
            wanted["stream"] = -1  # the order of streams is the program's affair
    try:
        capsule = thing.__dlpack__(max_version=(1, 1), **wanted)
    except TypeError:  # from before versions
        capsule = thing.__dlpack__(**wanted)
    flags = 0
    if _capsule_is(capsule, b"dltensor_versioned"):
        managed = _DLManagedTensorVersioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise invalid(f"a tensor of DLPack {managed.major}, which is not known; 1 is")
        tensor, flags = managed.tensor, managed.flags
    else:
        tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    _check_device(tensor.device_type, device)
    if writable and flags & (_DL_READ_ONLY | _DL_COPIED):
        raise invalid("the tensor is read-only, and the call writes to it")
    count = _contiguous(tensor.shape[:tensor.ndim], tensor.strides[:tensor.ndim] if tensor.strides else None, 1)
    if dtype is None:
        dtype = _DL_TYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
        if dtype is None:
            raise invalid(f"a tensor of DLPack type {tensor.code} with {tensor.bits} bits has no type of tutti")
    elements = _count(count * ((tensor.bits * tensor.lanes + 7) // 8), dtype)
    return Buffer((tensor.data or 0) + tensor.byte_offset, elements, dtype, (thing, capsule))


def _contiguous(shape: Sequence[int], strides: Optional[Sequence[int]], expected: int) -> int:
    """How many elements there are; InvalidError unless they lie one behind the other."""
    count = math.prod(shape)
    if strides is not None and count:
        for length, stride in zip(reversed(shape), reversed(strides)):
            if length != 1 and stride != expected:
                raise invalid("the tensor is not contiguous in C order")
            expected *= length
    return count


# ------------------------------------------------------------------ arrays of GPUs


def _from_cuda_array(thing: Any, writable: bool, device: bool, dtype: Optional[int]) -> Buffer:
    """CuPy's and Numba's arrays: the CUDA array interface."""
    _check_device(_DL_CUDA[0], device)
    about = thing.__cuda_array_interface__
    address, read_only = about["data"]
    if writable and read_only:
        raise invalid("the array is read-only, and the call writes to it")
    if about.get("mask") is not None:
        raise invalid("the array has a mask")
    letter, itemsize = about["typestr"][1], int(about["typestr"][2:])
    count = _contiguous(about["shape"], about.get("strides"), itemsize)
    if dtype is None:
        found = _CUDA_TYPES.get(letter + str(itemsize)) if about["typestr"][0] in "|" + _NATIVE else None
        if found is None:
            raise invalid(f"an array of the type {about['typestr']!r} has no type of tutti; [array, dtype] says "
                          "which it is")
        dtype = found
    return Buffer(address or 0, _count(count * itemsize, dtype), dtype, thing)


_CUDA_TYPES: Dict[str, Dtype] = {text[1:]: dtype for dtype, text in CUDA_TYPESTRS.items()}


# ------------------------------------------------------------------ any object

# NumPy's own dtypes are singletons: id -> (the dtype, which keeps the id, ours).
_numpy_dtypes: Dict[int, Tuple[Any, Dtype]] = {}
_ndarray: Any = None  # numpy.ndarray once an array was seen
_ML_NAMES = {"bfloat16": (Dtype.BFLOAT16, "u2"), "float8_e4m3fn": (Dtype.FLOAT8_E4M3, "u1"),
             "float8_e5m2": (Dtype.FLOAT8_E5M2, "u1")}


def _learn_numpy(array: Any, found: int) -> None:
    global _ndarray
    _ndarray = type(array)
    if isinstance(found, Dtype) and array.dtype is sys.modules["numpy"].dtype(array.dtype.str):
        _numpy_dtypes[id(array.dtype)] = (array.dtype, found)


def buffer_of(thing: Any, writable: bool, device: bool = False, dtype: Optional[int] = None) -> Buffer:
    """The vector that an object is: anything with the buffer protocol or with DLPack, or a list
    [object, dtype] or [object, count, dtype]. `device`: also what is on a GPU, by DLPack or the CUDA
    array interface."""
    if type(thing) is _ndarray and dtype is None:
        known = _numpy_dtypes.get(id(thing.dtype))
        if known is not None:
            try:
                keep = _char_of(thing)
                return Buffer(_address_of(keep), thing.size, known[1], keep)
            except (TypeError, ValueError, BufferError):
                pass  # read-only, empty or not contiguous: below
    if isinstance(thing, (list, tuple)):
        return _from_spec(thing, writable, device)
    try:
        view = memoryview(thing)
    except TypeError as problem:
        if hasattr(thing, "__dlpack__"):
            return _from_dlpack(thing, writable, device, dtype)
        if hasattr(thing, "__cuda_array_interface__"):
            return _from_cuda_array(thing, writable, device, dtype)
        raise invalid(f"{type(thing).__name__} has neither the buffer protocol nor DLPack") from problem
    except (ValueError, BufferError) as problem:  # NumPy has no format for what ml_dtypes adds
        name = getattr(getattr(thing, "dtype", None), "name", None)
        if name not in _ML_NAMES:
            raise invalid(f"{type(thing).__name__} cannot be read: {problem}") from problem
        found, bits = _ML_NAMES[name]
        return buffer_of(thing.view(bits), writable, device, found if dtype is None else dtype)
    result = _from_view(view, writable, dtype)
    if dtype is None and type(thing).__module__ == "numpy" and type(thing).__name__ == "ndarray":
        _learn_numpy(thing, result.dtype)
    return result


def _from_spec(spec: Sequence[Any], writable: bool, device: bool) -> Buffer:
    dtype = spec[-1] if len(spec) > 1 and isinstance(spec[-1], (Dtype, UserDtype)) else None
    rest = list(spec[:-1] if dtype is not None else spec)
    if len(rest) not in (1, 2) or (len(rest) == 2 and not isinstance(rest[1], int)):
        raise invalid("a buffer is an object with the buffer protocol, [object, dtype] or [object, count, dtype]")
    whole = buffer_of(rest[0], writable, device, dtype)
    if len(rest) == 1:
        return whole
    if not 0 <= rest[1] <= whole.length:
        raise invalid(f"{rest[1]} elements of a buffer that has {whole.length}")
    return whole._replace(length=rest[1])


class Blocks(NamedTuple):
    """A buffer of blocks: their lengths, and places or None."""

    buffer: Buffer
    counts: Any  # a ctypes array of size_t
    displs: Any  # or None


def size_array(values: Sequence[int], n: int, what: str) -> Any:
    if len(values) != n:
        raise invalid(f"{len(values)} {what} for {n} ranks")
    for value in values:
        if value < 0:
            raise invalid(f"one of the {what} is {value}")
    return (ctypes.c_size_t * n)(*[int(value) for value in values])


def blocks_of(thing: Any, writable: bool, n: int, counts: Optional[Sequence[int]],
              displs: Optional[Sequence[int]], device: bool = False) -> Blocks:
    """A buffer and the blocks in it. Also mpi4py's [buffer, counts], [buffer, counts, displs],
    [buffer, (counts, displs)], each with a dtype behind."""
    if isinstance(thing, (list, tuple)) and counts is None:
        items: List[Any] = list(thing)
        dtype = items.pop() if isinstance(items[-1], (Dtype, UserDtype)) else None
        if len(items) == 2 and isinstance(items[1], tuple) and len(items[1]) == 2 and not isinstance(items[1][0], int):
            items[1:] = list(items[1])
        if len(items) not in (2, 3):
            raise invalid("blocks are [buffer, counts], [buffer, counts, displs] or [buffer, (counts, displs)]")
        counts, displs = items[1], items[2] if len(items) == 3 else None
        thing = [items[0], dtype] if dtype is not None else items[0]
    if counts is None:
        raise invalid("the lengths of the blocks are missing (counts)")
    buffer = buffer_of(thing, writable, device)
    lengths = size_array(counts, n, "counts")
    places = size_array(displs, n, "displacements") if displs is not None else None
    at = 0
    for rank in range(n):
        start = cast(int, places[rank]) if places is not None else at
        at = start + lengths[rank]
        if at > buffer.length and lengths[rank]:
            raise invalid(f"the block of rank {rank} ends at element {at} of a buffer of {buffer.length}")
    return Blocks(buffer, lengths, places)
