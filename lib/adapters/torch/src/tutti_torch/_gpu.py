"""Collectives on tensors in memory of a GPU, in the order of a stream.

As with NCCL: a call is issued to a stream of the group's own, behind what is on the caller's current stream, and wait() puts
what the caller's current stream does next behind the call; the host waits for neither. A call without a form for streams
(blocks of different lengths, pre-multiplied sums) waits for that stream and goes through pinned memory of the host.
"""

import threading
import time

import torch
from torch import cuda
from tutti import _abi

from . import _queue
from ._places import Input, Output

# How long the host sleeps between looks at a stream that is to end.
_NAP_S = 0.001
# Of the streams on which messages are copied, so that they are none of those that calls and, mostly, programs have: what
# waits for a message must not wait for these.
_OWN_POOL = -1


class OnStream:
    """Calls on the stream of a group's GpuCalls."""

    def __init__(self, calls, config):
        self._calls, self._config = calls, config
        self.comm = calls.comm

    def _used(self, tensors):
        """Else the allocator could give their memory to others, once nobody has them, before the stream has used it."""
        for tensor in tensors:
            tensor.record_stream(self._calls.stream)
        return tensors

    def output(self, tensors):
        return Output(self._used(tensors))

    def input(self, tensors, output=None):
        return Input(self._used(tensors), output)

    def call(self, name, what, *arguments):
        library, stream = self._calls.library, self._calls.stream
        status = _abi.TUTTI_UNSUPPORTED
        if hasattr(library, name + "_on"):
            status = getattr(library, name + "_on")(*arguments, self.comm, self._config, stream.cuda_stream)
        if status == _abi.TUTTI_UNSUPPORTED:  # on all ranks
            stream.synchronize()
            status = getattr(library, name + "_with")(*arguments, self.comm, self._config)
        self._calls.raise_if(status, what)


class StreamWork(_queue.TuttiWork):
    """A call that was issued to a stream."""

    def __init__(self, calls, event, outputs, source):
        super().__init__(None, outputs, source)
        self._calls, self._event = calls, event

    def wait(self, timeout=None):
        """For the caller's stream, not for the host; `timeout` is not looked at: the call has the group's."""
        cuda.current_stream(self._calls.device).wait_event(self._event)
        self._calls.check()
        return True

    def is_completed(self):
        return self.exception() is not None or self._event.query()

    def is_success(self):
        return self.exception() is None and self._event.query()

    def exception(self):
        try:
            self._calls.check()
        except RuntimeError as failure:
            return failure
        return None

    def result(self):
        return self._outputs

    def get_future(self):
        """Has ended from the start; what is done with its value is on streams behind the call."""
        with self._future_lock:
            if self._future is None:
                self._future = _queue.future_on([self._calls.device])
                with cuda.stream(self._calls.stream):
                    self._future.set_result(self._outputs)
            return self._future


class GpuCalls:
    """The calls of a group on its GPU: a communicator, which it takes, and the stream that they are on. Issued in the same
    order on all ranks."""

    def __init__(self, library, failures, comm, device):
        self.library = library
        self.comm, self.device = comm, device
        self.stream = cuda.Stream(device)
        self._failures = failures
        self._lock = threading.RLock()  # a communicator is used by one thread at a time; works ask it from any
        self._freeing = threading.Lock()  # held to abort it, from any thread
        self._left = None  # once the communicator has gone: what had become of the calls

    def issue(self, run, config, outputs, source):
        with self._lock:
            self.stream.wait_stream(cuda.current_stream(self.device))
            with cuda.stream(self.stream):
                run(OnStream(self, config))
                event = cuda.Event()
                event.record(self.stream)
        return StreamWork(self, event, outputs, source)

    def reached(self):
        """An event behind what was issued so far, and behind what is on the caller's stream."""
        with self._lock:
            self.stream.wait_stream(cuda.current_stream(self.device))
            event = cuda.Event()
            event.record(self.stream)
        return event

    def raise_if(self, status, what):
        """With the lock."""
        self._failures.check(status, what, self.comm)

    def check(self):
        """What became of the calls that the GPU has reached."""
        with self._lock:
            if self.comm is not None:
                self.raise_if(self.library.tutti_comm_device_status(self.comm), "a call on the GPU")
            elif self._left is not None:
                raise self._left

    def abort(self, why):
        with self._freeing:
            if self.comm is not None:
                self.library.tutti_comm_abort(self.comm, why)

    def close(self, patience_s):
        deadline = time.monotonic() + patience_s
        while not self.stream.query() and time.monotonic() < deadline:
            time.sleep(_NAP_S)
        if not self.stream.query():
            self.abort(b"the process group was shut down")
        with self._lock:
            try:
                self.check()
            except RuntimeError as failure:
                self._left = failure
            with self._freeing:
                comm, self.comm = self.comm, None
        self.library.tutti_comm_free(comm)


def received_in_host_memory(tensor):
    """Where a message for a tensor of a GPU is received, and what begins to copy it there once it has come: that returns
    what tells whether it has."""
    buffer = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=cuda.is_available())
    asked = cuda.Event()
    asked.record(cuda.current_stream(tensor.device))

    def begin_copy():
        stream = cuda.Stream(tensor.device, priority=_OWN_POOL)
        stream.wait_event(asked)
        with cuda.stream(stream), torch.inference_mode():
            tensor.copy_(buffer, non_blocking=True)
            copied = cuda.Event()
            copied.record(stream)
        return lambda kept=buffer: copied.query()

    return Output([buffer]), begin_copy
