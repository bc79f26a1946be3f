"""Finds libtutti.so and loads it, with the prototypes of tutti.h.

The first of these is taken: the file that the environment variable TUTTI_LIBRARY names, the library
in this package (that of the wheel), the system's, as the dynamic loader finds it.
"""

import ctypes
import os
import pathlib
import threading
from typing import List, Optional

from . import _abi

SONAME = "libtutti.so.0"

_lock = threading.Lock()
_loaded: Optional[ctypes.CDLL] = None


def candidates() -> List[str]:
    """The places where the library is looked for, in order; the last is a name for the loader."""
    named = os.environ.get("TUTTI_LIBRARY")
    if named:
        return [named]  # asked for by name: nothing else is taken in its place
    inside = pathlib.Path(__file__).resolve().parent / SONAME
    return [str(inside), SONAME] if inside.exists() else [SONAME]


def _declare(library: ctypes.CDLL, place: str) -> None:
    for name, (result, parameters) in _abi.PROTOTYPES.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"{place} has no {name}(): it is not a libtutti.so of version "
                              f"{_abi.TUTTI_VERSION_MAJOR}.{_abi.TUTTI_VERSION_MINOR}") from None
        function.restype = result
        function.argtypes = parameters


def _load_openssl() -> None:
    """Where the process has functions of OpenSSL's names for all to see, as TensorFlow's BoringSSL, an OpenSSL that is loaded
    now would call these within itself. One that is loaded already is as it is."""
    if hasattr(ctypes.CDLL(None), "EVP_CipherInit_ex"):
        try:
            ctypes.CDLL("libcrypto.so.3", os.RTLD_NOW | os.RTLD_LOCAL | getattr(os, "RTLD_DEEPBIND", 0))
        except OSError:
            pass  # loading the library, which needs it, says so


def load() -> ctypes.CDLL:
    """The library, loaded once a process. ImportError, in one sentence, where there is none."""
    global _loaded
    with _lock:
        if _loaded is None:
            failures = []
            _load_openssl()
            for place in candidates():
                try:
                    library = ctypes.CDLL(place)
                except OSError as error:
                    failures.append(str(error))
                    continue
                _declare(library, place)
                _loaded = library
                break
            else:
                raise ImportError("the library of tutti cannot be loaded: " + "; ".join(failures) +
                                  " (TUTTI_LIBRARY may name the file)")
        return _loaded


def library_path() -> str:
    """The file that load() has taken, or the name it gave to the dynamic loader."""
    return str(load()._name)
