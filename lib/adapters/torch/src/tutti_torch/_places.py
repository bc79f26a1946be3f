"""Where a call runs, and flat places for its tensors, in the memory in which they lie."""

import torch


def bytes_of(tensor):
    return tensor.numel() * tensor.element_size()


def storage_of(tensor):
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()._storage


def _adjacent(tensors):
    """Whether they lie one after the other, so that they are flat as they are. On a GPU in one allocation, else a copy of
    all of them is refused."""
    at = tensors[0].data_ptr()
    for tensor in tensors:
        if not tensor.is_contiguous() or (tensor.numel() > 0 and tensor.data_ptr() != at):
            return False
        if tensor.is_cuda and len(tensors) > 1 and storage_of(tensor).data_ptr() != storage_of(tensors[0]).data_ptr():
            return False
        at += bytes_of(tensor)
    return True


class Output:
    """A flat place for an output. Where tensors are not contiguous, or do not lie one after the other, a
    buffer, which store() copies from. (In inference mode, as inference tensors are written to in it only.)"""

    def __init__(self, tensors):
        self._tensors = tensors
        self._buffer = None
        if len(tensors) == 1 and tensors[0].is_contiguous():
            self.bytes, self.address = bytes_of(tensors[0]), tensors[0].data_ptr()
            return
        self.bytes = sum(bytes_of(tensor) for tensor in tensors)
        if not tensors:
            self.address = None
        elif _adjacent(tensors):
            self.address = tensors[0].data_ptr()
        else:
            self._buffer = tensors[0].new_empty(sum(tensor.numel() for tensor in tensors))
            self.address = self._buffer.data_ptr()

    def _each(self):
        at = 0
        for tensor in self._tensors:
            yield tensor, self._buffer[at:at + tensor.numel()].view(tensor.shape)
            at += tensor.numel()

    def load(self):
        if self._buffer is not None:
            with torch.inference_mode():
                for tensor, part in self._each():
                    part.copy_(tensor)

    def store(self):
        if self._buffer is not None:
            with torch.inference_mode():
                for tensor, part in self._each():
                    tensor.copy_(part)


class Input:
    """The same for inputs, which are only read. Apart from `output`, which is written meanwhile."""

    def __init__(self, tensors, output=None):
        self._flat = None
        self.address = None
        if not tensors:
            return
        if _adjacent(tensors):
            address = tensors[0].data_ptr()
            size = sum(bytes_of(tensor) for tensor in tensors)
            if output is None or output.address is None or address + size <= output.address or \
                    output.address + output.bytes <= address:
                self._flat = tensors
                self.address = address
                return
        with torch.inference_mode():
            flat = [tensor.detach().reshape(-1) for tensor in tensors]
            # Torch 2.1 concatenates no float8.
            self._flat = torch.cat([part.view(torch.uint8) for part in flat] if flat[0].element_size() == 1 else flat)
        self.address = self._flat.data_ptr()


class OnHost:
    """Calls of the host, each of which has ended when it returns."""

    def __init__(self, library, failures, comm, config):
        self._library, self._failures = library, failures
        self.comm, self.config = comm, config

    output = staticmethod(Output)
    input = staticmethod(Input)

    def call(self, name, what, *arguments):
        self._failures.check(getattr(self._library, name + "_with")(*arguments, self.comm, self.config), what, self.comm)
