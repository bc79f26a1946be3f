"""Calls on objects, by pickle: behind their lengths, _BAD as a length if one cannot be pickled, which all
ranks are told. Unpickling runs what it is told to: between ranks that trust each other only."""

import ctypes
import pickle
from typing import Any, Callable, List, Optional, Sequence, Tuple

from ._collectives import Collectives
from ._errors import Status, error, invalid
from ._messages import Messages


class Objects(Collectives, Messages):
    """Calls on objects have the names of those on buffers, in lower case."""

    def _allgather_sizes(self, mine: int) -> List[int]:
        sizes = (ctypes.c_uint64 * self._size)()
        self.Allgather((ctypes.c_uint64 * 1)(mine), sizes)
        return list(sizes)

    def _refuse(self, sizes: Sequence[int], problem: Optional[Exception]) -> None:
        if problem is not None:
            raise problem
        for rank, size in enumerate(sizes):
            if size == _BAD:
                raise error(Status.INVALID, f"rank {rank} has given an object that cannot be pickled", self._rank, rank)

    def _check_no_group(self) -> None:
        if self._recorded is not None:
            raise invalid("an object travels in two messages, the second of which needs the first: not in a group",
                          self._rank)

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """`obj` of `root` on all ranks, by pickle: only among ranks that trust each other."""
        data, problem = _pickled(obj) if self._is_root(root) else (b"", None)
        size = (ctypes.c_uint64 * 1)(len(data) if problem is None else _BAD)
        self.Bcast(size, root)
        self._refuse([0] * root + [size[0]], problem)
        buffer = bytearray(data) if self._is_root(root) else bytearray(size[0])
        self.Bcast(buffer, root)
        return obj if self._is_root(root) else pickle.loads(buffer)

    def allgather(self, obj: Any) -> List[Any]:
        """The objects of all ranks, in rank order, by pickle."""
        data, problem = _pickled(obj)
        sizes = self._allgather_sizes(len(data) if problem is None else _BAD)
        self._refuse(sizes, problem)
        buffer = bytearray(sum(sizes))
        self.Allgatherv(data, buffer, sizes)
        return _unpickled(buffer, sizes)

    def gather(self, obj: Any, root: int = 0) -> Optional[List[Any]]:
        """The objects of all ranks on `root`, elsewhere None, by pickle."""
        data, problem = _pickled(obj)
        sizes = self._allgather_sizes(len(data) if problem is None else _BAD)
        self._refuse(sizes, problem)
        if not self._is_root(root):
            self.Gatherv(data, None, root=root)
            return None
        buffer = bytearray(sum(sizes))
        self.Gatherv(data, buffer, sizes, root=root)
        return _unpickled(buffer, sizes)

    def scatter(self, objs: Optional[Sequence[Any]], root: int = 0) -> Any:
        """Rank r gets objs[r] of `root`, by pickle."""
        sizes = (ctypes.c_uint64 * self._size)()
        parts: List[bytes] = []
        problem: Optional[Exception] = None
        if self._is_root(root):
            try:
                if objs is None or len(objs) != self._size:
                    raise invalid(f"scatter takes one object for each of the {self._size} ranks", self._rank)
                parts = [pickle.dumps(obj, -1) for obj in objs]
            except Exception as failed:
                problem = failed
            sizes[:] = [len(part) for part in parts] if problem is None else [_BAD] * self._size
        self.Bcast(sizes, root)
        self._refuse([0] * root + [sizes[0]], problem)
        mine = bytearray(sizes[self._rank])
        self.Scatterv(b"".join(parts), mine, list(sizes), root=root)
        return pickle.loads(mine)

    def allreduce(self, obj: Any, op: Callable[[Any, Any], Any]) -> Any:
        """op(... op(obj of rank 0, obj of rank 1) ..., obj of the last rank) on all ranks, by pickle.
        `op` is a function of two objects, operator.add for one."""
        first, *others = self.allgather(obj)
        for other in others:
            first = op(first, other)
        return first

    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        """An object as a message, by pickle."""
        self._check_no_group()
        data, problem = _pickled(obj)
        self.Send((ctypes.c_uint64 * 1)(len(data) if problem is None else _BAD), dest, tag)
        if problem is not None:
            raise problem
        self.Send(data, dest, tag)

    def recv(self, source: int, tag: int = 0) -> Any:
        """Receives it."""
        self._check_no_group()
        size = (ctypes.c_uint64 * 1)()
        self.Recv(size, source, tag)
        self._refuse([0] * source + [size[0]], None)
        data = bytearray(size[0])
        self.Recv(data, source, tag)
        return pickle.loads(data)


_BAD = 2**64 - 1


def _pickled(obj: Any) -> Tuple[bytes, Optional[Exception]]:
    try:
        return pickle.dumps(obj, -1), None
    except Exception as problem:
        return b"", problem


def _unpickled(buffer: bytearray, sizes: Sequence[int]) -> List[Any]:
    objects, at = [], 0
    for size in sizes:
        objects.append(pickle.loads(memoryview(buffer)[at:at + size]))
        at += size
    return objects
