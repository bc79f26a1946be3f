"""The communicators of a process group, made through its store.

Addresses and keys travel through the store, which is as trusted as the rendezvous of torch itself. A rank that
fails says so there, so that the others do not wait for it.
"""

import ctypes
import re
import time
from typing import Tuple

import torch
import torch.distributed as dist
from tutti import _abi, _library

RELEASE = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])

# What torch itself allows for a rendezvous through a store.
LONGEST_SETUP_MS = 300_000
_SHORTEST_LOOK_S = 0.001
_LONGEST_LOOK_S = 0.02


def library_path() -> str:
    return _library.library_path()


def error_text(library) -> str:
    text = library.tutti_last_error()
    return text.decode(errors="replace") if text else ""


class StoreExchange:
    """An all-gather over a store: rank 0 collects what the ranks have put and puts it together."""

    def __init__(self, store, prefix, rank, size, limit_ms):
        self._prefix = prefix
        self._store, self._rank, self._size = store, rank, size
        self._deadline = time.monotonic() + limit_ms / 1000
        self._limit_ms = limit_ms
        self._round = 0
        self.error = None

    def fail(self, text):
        """Tells the others that this rank has failed."""
        try:
            self._store.set(f"{self._prefix}/error", f"rank {self._rank}: {text}")
            self._store.add(f"{self._prefix}/failed", 1)
        except Exception:  # pylint: disable=broad-except
            pass  # the store has gone: the others see that, too

    def _wait_for(self, counter, wanted):
        look = _SHORTEST_LOOK_S
        while True:
            there = self._store.add(counter, 0)
            if there >= wanted:
                return
            if self._store.add(f"{self._prefix}/failed", 0) > 0:
                raise RuntimeError(bytes(self._store.get(f"{self._prefix}/error")).decode(errors="replace"))
            if time.monotonic() > self._deadline:
                raise RuntimeError(f"tutti: Timed out as {there} of {wanted} ranks were ready after {self._limit_ms} ms")
            time.sleep(look)
            look = min(2 * look, _LONGEST_LOOK_S)

    def all_gather(self, mine: bytes) -> bytes:
        prefix = f"{self._prefix}/{self._round}/"
        self._round += 1
        self._store.set(f"{prefix}{self._rank}", mine.hex())
        self._store.add(prefix + "ready", 1)
        if self._rank == 0:
            self._wait_for(prefix + "ready", self._size)
            parts = [bytes(self._store.get(f"{prefix}{rank}")).decode() for rank in range(self._size)]
            self._store.set(prefix + "all", "".join(parts))
            self._store.add(prefix + "done", 1)
        else:
            self._wait_for(prefix + "done", 1)
        everything = bytes.fromhex(bytes(self._store.get(prefix + "all")).decode())
        if len(everything) != self._size * len(mine):
            raise RuntimeError("ranks gave different lengths: are they of one version of tutti?")
        return everything


def all_say(mine: bool, comm: int) -> bool:
    """Whether all ranks of a communicator say so. Collective."""
    from ._queue import Failures
    library = _library.load()
    said, all_said = ctypes.c_uint8(mine), ctypes.c_uint8()
    status = library.tutti_allreduce(ctypes.byref(said), ctypes.byref(all_said), 1, _abi.TUTTI_UINT8, _abi.TUTTI_MIN, comm)
    Failures(library).check(status, "the making of a process group", comm)
    return bool(all_said.value)


def let_record(recorded) -> None:
    """Of the group that is made next. torch's flight recorder, from 2.15 on, watches groups of all backends but of those that
    are named here; of tutti's it takes compiled ones only."""
    without = getattr(dist.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", set())
    (without.discard if recorded else without.add)("tutti")


def communicators(store, rank: int, size: int, limit_ms: int, count: int, device: str) -> Tuple[int, ...]:
    """`count` communicators of the same ranks, as addresses; `device` as in tutti_comm_config.

    Collective. RuntimeError on all ranks when one fails, or when some have not come after `limit_ms`.
    """
    library = _library.load()
    setup_ms = min(limit_ms, LONGEST_SETUP_MS)
    # Ranks may have GPUs of different numbers. A group that is made again may find the keys of the one before.
    kind = "host" if device == "none" else "gpu"
    made = store.add(f"tutti/{kind}/{rank}", 1)
    exchange = StoreExchange(store, f"tutti/{kind}/{made}", rank, size, setup_ms)

    def all_gather(mine, everything, count, _context):
        try:
            gathered = exchange.all_gather(ctypes.string_at(mine, count))
            ctypes.memmove(everything, gathered, len(gathered))
            return 0
        except Exception as error:  # pylint: disable=broad-except
            exchange.error = str(error)
            return 1

    config = _abi.tutti_comm_config(size=ctypes.sizeof(_abi.tutti_comm_config), timeout_ms=limit_ms,
                                    setup_ms=setup_ms, device=device.encode())
    callback = _abi.tutti_allgather_fn(all_gather)
    comms = []
    for _ in range(count):
        comm = ctypes.c_void_p()
        if library.tutti_comm_create_from_allgather(callback, None, rank, size, ctypes.byref(config),
                                                    ctypes.byref(comm)) != _abi.TUTTI_OK:
            text = exchange.error or error_text(library)
            exchange.fail(text)
            for other in comms:
                library.tutti_comm_free(other)
            raise RuntimeError(f"tutti: the process group cannot be made: {text}")
        comms.append(comm)
    return tuple(comm.value for comm in comms)
