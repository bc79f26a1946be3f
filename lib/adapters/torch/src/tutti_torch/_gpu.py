"""Collectives on tensors in memory of a GPU, in the order of a stream.

As with NCCL: a call is issued to a stream of the group's own, behind what is on the caller's current stream, and wait() puts
what the caller's current stream does next behind the call; the host waits for neither. A call without a form for streams
(blocks of different lengths, pre-multiplied sums) waits for that stream and goes through pinned memory of the host.
"""

import time

import torch
from torch import cuda
from tutti import _abi

from ._places import Input, Output
from ._queue import TuttiWork

# How long the host sleeps between looks at a stream that is to end.
_NAP_S = 0.001


def _future(device):
    return torch.futures.Future(devices=[device])


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
        self._calls.failures.check(status, what, self.comm)


class StreamWork(TuttiWork):
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
                self._future = _future(self._calls.device)
                with cuda.stream(self._calls.stream):
                    self._future.set_result(self._outputs)
            return self._future


class GpuCalls:
    """The calls of a group on its GPU: a communicator, which it takes, and the stream that they are on. One thread at a
    time issues them, in the same order on all ranks."""

    def __init__(self, library, failures, comm, device):
        self.library, self.failures = library, failures
        self.comm, self.device = comm, device
        self.stream = cuda.Stream(device)

    def issue(self, run, config, outputs, source):
        self.stream.wait_stream(cuda.current_stream(self.device))
        with cuda.stream(self.stream):
            run(OnStream(self, config))
            event = cuda.Event()
            event.record(self.stream)
        return StreamWork(self, event, outputs, source)

    def check(self):
        """What became of the calls that the GPU has reached."""
        self.failures.check(self.library.tutti_comm_device_status(self.comm), "a call on the GPU", self.comm)

    def synchronize(self):
        self.stream.synchronize()
        self.check()

    def close(self, patience_s):
        deadline = time.monotonic() + patience_s
        while not self.stream.query() and time.monotonic() < deadline:
            time.sleep(_NAP_S)
        if not self.stream.query():
            self.library.tutti_comm_abort(self.comm, b"the process group was shut down")
        self.library.tutti_comm_free(self.comm)


def received_in_host_memory(tensor):
    """Where a message for a tensor of a GPU is received, and what copies it there once it has come."""
    buffer = torch.empty(tensor.shape, dtype=tensor.dtype)
    asked = cuda.Event()
    asked.record(cuda.current_stream(tensor.device))

    def finish():
        stream = cuda.Stream(tensor.device)
        stream.wait_event(asked)
        with cuda.stream(stream), torch.inference_mode():
            tensor.copy_(buffer)
        stream.synchronize()

    return Output([buffer]), finish
