"""Settings of calls and of communicators."""

import ctypes
import os
from typing import Any, Optional

from . import _abi
from ._errors import invalid
from ._types import Level


class Config:
    """Settings of calls, to be passed to any number of them: `timeout` in seconds, the `level` that
    is promised of a reduction's bits, an `algorithm` by name (`tutti list` prints them; one that
    cannot run is UnsupportedError), `unfused`: its schedule step by step, `symmetric`: the vectors
    of all ranks lie in memory of mem_alloc_device() or register_device(). All ranks must pass the
    same but for the timeout."""

    def __init__(self, timeout: Optional[float] = None, level: Level = Level.DEFAULT,
                 algorithm: Optional[str] = None, unfused: bool = False, symmetric: bool = False) -> None:
        self._struct = _abi.tutti_call_config(
            ctypes.sizeof(_abi.tutti_call_config), milliseconds(timeout),
            algorithm.encode() if algorithm is not None else None,
            (_abi.TUTTI_CALL_UNFUSED if unfused else 0) | (_abi.TUTTI_CALL_SYMMETRIC if symmetric else 0), level)
        self._pointer = ctypes.pointer(self._struct)


def milliseconds(seconds: Optional[float]) -> int:
    if seconds is None:
        return 0
    if not seconds > 0:
        raise invalid(f"a timeout of {seconds} seconds; it is above 0")
    return max(1, int(min(seconds * 1000, 2**62)))


def comm_config(transports: Optional[str] = None, timeout: Optional[float] = None, setup: Optional[float] = None,
                 interface: Optional[str] = None, progress_thread: bool = False, level: Level = Level.DEFAULT,
                 device: Optional[str] = None, tuning: Optional[str] = None) -> Any:
    def text(value: Optional[str]) -> Optional[bytes]:
        return value.encode() if value is not None else None

    return _abi.tutti_comm_config(ctypes.sizeof(_abi.tutti_comm_config), text(transports), milliseconds(timeout),
                                  milliseconds(setup), text(interface), int(progress_thread), level, text(device),
                                  text(tuning))


def names_device(device: Optional[str] = None, **settings: Any) -> bool:
    """Whether a communicator made with these settings has a GPU."""
    return (os.environ.get("TUTTI_DEVICE") if device is None else device) not in (None, "", "none")
