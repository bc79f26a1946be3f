"""Functions in Python that the library calls: callbacks.cc tells it by an exception of C++ that one has raised."""

import ctypes
import pathlib
from typing import Any, Callable, List, Optional

from ._errors import Status, error

FAILED = 2 ** (8 * ctypes.sizeof(ctypes.c_size_t)) - 1  #: what `encoded_bytes` returns where it has raised

_loaded: List[ctypes.CDLL] = []


def checked(name: str, kind: Any) -> Any:
    """The function of callbacks.cc with that name, which throws where the one in Python fails."""
    if not _loaded:
        place = str(pathlib.Path(__file__).resolve().parent / "_callbacks.so")
        try:
            _loaded.append(ctypes.CDLL(place))
        except OSError as problem:
            raise error(Status.UNSUPPORTED, f"functions in Python need {place} of the wheel: {problem}") from None
    return ctypes.cast(getattr(_loaded[0], name), kind)


class Raised:
    """The exceptions that a function has raised while the library called it."""

    def __init__(self) -> None:
        self._problems: List[BaseException] = []

    def caught(self, function: Callable[[], Any], failed: int) -> Any:
        """What it returns, 0 for None; `failed` where it raises: nothing passes through the library."""
        try:
            return function() or 0
        except BaseException as problem:
            self._problems.append(problem)
            return failed

    def take(self) -> Optional[BaseException]:
        """The exception that ended the last call, once."""
        problem = self._problems[0] if self._problems else None
        self._problems.clear()
        return problem
