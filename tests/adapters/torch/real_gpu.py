"""A GPU that is there, for the tests that else run on fake_gpu.py."""

import torch
from torch.cuda import current_stream

_HELD_S = 0.5


def empty(shape, dtype):
    return torch.empty(shape, dtype=dtype, device="cuda:0")


def to_gpu(tensor):
    return tensor.to("cuda:0")


def hold(one):
    """What is issued to the stream from here on begins after half a second."""
    kilohertz = getattr(torch.cuda.get_device_properties(0), "clock_rate", 1_800_000)
    with torch.cuda.stream(one):
        torch.cuda._sleep(int(_HELD_S * 1000 * kilohertz))
    return lambda: None


def copy(one, to, source):
    with torch.cuda.stream(one):
        to.copy_(source)


def streams_of(tensor):
    """PyTorch does not tell."""
    return None


def elsewhere(tensor):
    return tensor.to("cuda:1") if torch.cuda.device_count() > 1 else None


def serve(gpu_calls):
    torch.cuda.init()
