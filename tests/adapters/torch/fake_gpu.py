"""GPUs for tests of calls on them, where torch knows of none and the driver is tests/support/fake_cuda.

What is used of torch.cuda, over that driver; and tensors in memory of it that say they are on a GPU. torch itself computes on
the processor: what it does with such tensors waits for the current stream first, so that it is in the stream's order, and
out of it where the current stream is a wrong one.
"""

import contextlib
import ctypes
import sys
import threading
import time

import torch

_driver = ctypes.CDLL("libcuda.so.1")
_local = threading.local()
_contexts = {}
_NON_BLOCKING = 1
_WAIT_VALUE_32, _WAIT_GEQ = 1, 0  # CU_STREAM_MEM_OP_WAIT_VALUE_32, CU_STREAM_WAIT_VALUE_GEQ


class _Wait(ctypes.Structure):  # CUstreamBatchMemOpParams
    _fields_ = [("operation", ctypes.c_uint32), ("address", ctypes.c_uint64), ("value", ctypes.c_uint64), ("flags", ctypes.c_uint32),
                ("alias", ctypes.c_uint64), ("rest", ctypes.c_uint64)]


def call(name, *arguments):
    status = getattr(_driver, name)(*arguments)
    assert status == 0, f"{name}: error {status}"


def use(index):
    """Makes a GPU current in this thread."""
    if index not in _contexts:
        call("cuInit", 0)
        context = ctypes.c_void_p()
        call("cuDevicePrimaryCtxRetain", ctypes.byref(context), index)
        _contexts[index] = context
    call("cuCtxSetCurrent", _contexts[index])


def _index(device):
    return torch.device(device).index if device is not None else 0


class Event:
    def __init__(self):
        use(0)
        self.handle = ctypes.c_void_p()
        call("cuEventCreate", ctypes.byref(self.handle), 0)

    def record(self, stream):
        use(0)
        call("cuEventRecord", self.handle, stream.handle)

    def query(self):
        use(0)
        return _driver.cuEventQuery(self.handle) == 0

    def synchronize(self):
        while not self.query():
            time.sleep(0.001)


def is_available():
    return False


class Stream:
    def __init__(self, device=None, priority=0):
        assert _index(device) == 0
        use(0)
        self.handle = ctypes.c_void_p()
        call("cuStreamCreate", ctypes.byref(self.handle), _NON_BLOCKING)

    @property
    def cuda_stream(self):
        return self.handle.value

    def wait_event(self, event):
        use(0)
        call("cuStreamWaitEvent", self.handle, event.handle, 0)

    def wait_stream(self, other):
        event = Event()
        event.record(other)
        self.wait_event(event)

    def synchronize(self):
        use(0)
        call("cuStreamSynchronize", self.handle)

    def query(self):
        use(0)
        return _driver.cuStreamQuery(self.handle) == 0


def current_stream(device=None):
    assert _index(device) == 0
    if not hasattr(_local, "stream"):
        _local.stream = Stream()
    return _local.stream


@contextlib.contextmanager
def stream(one):
    before, _local.stream = current_stream(), one
    try:
        yield
    finally:
        _local.stream = before


def _plain(value):
    if isinstance(value, OnGpu):
        return value.as_subclass(torch.Tensor)
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(one) for one in value)
    return value


class OnGpu(torch.Tensor):
    is_cuda, is_cpu, device = True, False, torch.device("cuda", 0)
    streams = {}  # by address

    def record_stream(self, one):
        OnGpu.streams.setdefault(self.data_ptr(), set()).add(one)

    def new_empty(self, *shape):
        return empty(shape, self.dtype)

    def copy_(self, source, non_blocking=False):
        if non_blocking and self.is_contiguous():  # from the host
            copy(current_stream(), self, source)
        else:
            current_stream().synchronize()
            _plain(self).copy_(_plain(source))
        return self

    def cpu(self):
        current_stream().synchronize()
        return _plain(self).clone()

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function.__name__ == "cat":
            current_stream().synchronize()
            return to_gpu(torch.cat(_plain(args[0])))
        return super().__torch_function__(function, types, args, kwargs)


def empty(shape, dtype):
    count = 1
    for length in shape:
        count *= length
    size = max(1, count * torch.empty((), dtype=dtype).element_size())
    use(0)
    address = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))  # for as long as the process
    memory = (ctypes.c_char * size).from_address(address.value)
    return torch.frombuffer(memory, dtype=torch.uint8)[:size if count else 0].view(dtype).view(shape).as_subclass(OnGpu)


def to_gpu(tensor):
    place = empty(tensor.shape, tensor.dtype)
    _plain(place).copy_(tensor)
    return place


# The same in real_gpu.py.


def hold(one):
    """What is issued to the stream from here on begins once what this returns was called."""
    flag = to_gpu(torch.zeros(1, dtype=torch.int32))
    use(0)
    wait = _Wait(_WAIT_VALUE_32, flag.data_ptr(), 1, _WAIT_GEQ)
    call("cuStreamBatchMemOp_v2", one.handle, 1, ctypes.byref(wait), 0)
    return lambda: _plain(flag).fill_(1)


def copy(one, to, source):
    """In the stream's order."""
    use(0)
    call("cuMemcpyAsync", ctypes.c_void_p(to.data_ptr()), ctypes.c_void_p(source.data_ptr()),
         ctypes.c_size_t(source.numel() * source.element_size()), one.handle)


def streams_of(tensor):
    """Those that record_stream() has told."""
    return OnGpu.streams.get(tensor.data_ptr(), set())


def elsewhere(tensor):
    """On another GPU."""
    return tensor.as_subclass(Elsewhere)


class Elsewhere(OnGpu):
    device = torch.device("cuda", 1)


def serve(gpu_calls):
    """Has the package use what is here in place of torch.cuda."""
    gpu_calls.cuda = sys.modules[__name__]
    gpu_calls._queue.future_on = lambda devices: torch.futures.Future()  # this torch knows of no device
    torch.cuda.get_device_capability = lambda device=None: (8, 0)  # torch 2 asks
