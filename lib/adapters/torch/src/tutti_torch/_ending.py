"""Where a group is closed that the program has dropped.

Closing waits for the group's threads. Mostly the thread that dropped it does that. It must not where one of those threads may
wait for it: in a collection of garbage, which may come while this thread has a lock of a group; and in something that a group
runs, as a callback, because two groups may be dropped in callbacks of each other."""

import atexit
import gc
import os
import queue
import threading


class _Here(threading.local):
    """How deep this thread is in collections, and in what groups run."""

    collections = 0
    served = 0


_here = _Here()
_closings = None  # a queue whose put() may interrupt a put() or a get() of the same thread
_closer = None  # the thread that takes them
_process = 0  # whose both are
_preparing = threading.Lock()


def _notice(phase, _info):
    _here.collections += 1 if phase == "start" else -1


class Serving:
    """While this thread runs what a group has to run."""

    def __enter__(self):
        _here.served += 1

    def __exit__(self, *_error):
        _here.served -= 1


def _serve(closings):
    going_on = []
    while (closing := closings.get()) is not None:
        try:
            # Each in a thread of its own: one may wait for a callback that another has to let go on.
            thread = threading.Thread(target=closing, name="tutti_torch closing", daemon=True)
            thread.start()
            going_on = [one for one in going_on if one.is_alive()] + [thread]
        except RuntimeError:  # there is none to be had, or the program ends
            closing()
    for thread in going_on:
        thread.join()


def _finish():
    if _process == os.getpid():
        _closings.put(None)
        _closer.join()


def prepare():
    """Before there is a group to close."""
    global _closings, _closer, _process
    with _preparing:
        if _process == os.getpid():
            return
        if _process == 0:
            gc.callbacks.append(_notice)
            atexit.register(_finish)
        _closings = queue.SimpleQueue()
        _closer = threading.Thread(target=_serve, args=(_closings,), name="tutti_torch closer", daemon=True)
        _closer.start()
        _process = os.getpid()


def close(closing):
    """Calls closing(), here or in another thread."""
    if _here.collections or _here.served:
        _closings.put(closing)
    else:
        closing()
