"""The process group in Python, over the C ABI: for every torch, without a compiler.

It does what csrc/backend.cc does, which is chosen where it was built, and has the same tests.
"""

import collections
import ctypes
import functools
import os
import sys
import threading

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from tutti import _abi, _library

from . import _ending
from . import _gpu as gpu
from ._adoption import Adoption
from ._places import Input, OnHost, Output, bytes_of
from ._queue import Call, CallQueue, Failures, JoinedWork, Message, Messages
from ._setup import RELEASE, communicators, let_record

# How long a group that is shut down waits for its collectives before it aborts them.
_PATIENCE_S = 5

_TYPES = {
    torch.int8: _abi.TUTTI_INT8,
    torch.int16: _abi.TUTTI_INT16,
    torch.int32: _abi.TUTTI_INT32,
    torch.int64: _abi.TUTTI_INT64,
    torch.uint8: _abi.TUTTI_UINT8,
    torch.float16: _abi.TUTTI_FLOAT16,
    torch.bfloat16: _abi.TUTTI_BFLOAT16,
    torch.float32: _abi.TUTTI_FLOAT32,
    torch.float64: _abi.TUTTI_FLOAT64,
    torch.complex64: _abi.TUTTI_COMPLEX64,
    torch.complex128: _abi.TUTTI_COMPLEX128,
    torch.bool: _abi.TUTTI_BOOL,
}
# Types that only later versions have.
for _name, _type in (("uint16", _abi.TUTTI_UINT16), ("uint32", _abi.TUTTI_UINT32), ("uint64", _abi.TUTTI_UINT64),
                     ("float8_e4m3fn", _abi.TUTTI_FLOAT8_E4M3), ("float8_e5m2", _abi.TUTTI_FLOAT8_E5M2)):
    if hasattr(torch, _name):
        _TYPES[getattr(torch, _name)] = _type

_OPS = {
    "SUM": _abi.TUTTI_SUM,
    "AVG": _abi.TUTTI_AVG,
    "PRODUCT": _abi.TUTTI_PROD,
    "MIN": _abi.TUTTI_MIN,
    "MAX": _abi.TUTTI_MAX,
    "BAND": _abi.TUTTI_BAND,
    "BOR": _abi.TUTTI_BOR,
    "BXOR": _abi.TUTTI_BXOR,
}


def _number(reduce):
    """Of an operator, which tells it in less time than its name."""
    return int(getattr(reduce, "op", reduce))


_NAMES = {_number(getattr(dist.ReduceOp, name)): name for name in (*_OPS, "PREMUL_SUM") if hasattr(dist.ReduceOp, name)}

# Where the C++ side holds no reference to the Python object of a work, it must outlive what C++ does with it: the bindings
# before 2.7 lose the methods of one that has gone, and a wait then has no end. How many of the last works are kept, and how
# many of these with their outputs, if nothing of Python has the work.
_KEPT_WORKS = 4096 if RELEASE < (2, 7) else 0
_KEPT_OUTPUTS = 16
_KEPT_ALONE = 3  # references: of the list of those that are kept, and of who asks

_SHUT_DOWN = b"the process group was shut down"


def _require(condition, text):
    if not condition:
        raise ValueError("tutti: " + text)


def _check_tensors(tensors, what):
    for tensor in tensors:
        if not tensor.is_cpu and not tensor.is_cuda:
            raise ValueError(f"tutti: {what} on a tensor in memory of {tensor.device}: only tensors of the processor and of "
                             "NVIDIA's GPUs are served")
        if tensor.layout != torch.strided:
            raise ValueError(f"tutti: {what} takes dense tensors only; sparse ones may be summed by all_reduce")


def _device_of(*lists):
    """The GPU on which the tensors lie; None: the processor."""
    tensors = [tensor for tensors in lists for tensor in tensors]
    if all(tensor.is_cpu for tensor in tensors):
        return None
    devices = {str(tensor.device) for tensor in tensors}
    _require(len(devices) == 1, f"a call takes tensors of one device, not of {' and '.join(sorted(devices))}")
    return tensors[0].device


def _only(tensors, what):
    if len(tensors) != 1:
        raise ValueError(f"tutti: {what} takes one tensor or list of tensors, not {len(tensors)}")
    return tensors[0]


def _check_types(tensors, what):
    for tensor in tensors:
        _require(tensor.dtype == tensors[0].dtype,
                 f"{what} takes tensors of one type, not of {tensors[0].dtype} and {tensor.dtype}")


@functools.lru_cache(maxsize=64)
def _config_of(timeout, limit_ms):
    """The settings of calls with a timeout, by reference; `limit_ms` holds where there is none. Calls only read them."""
    if timeout is not None and timeout.total_seconds() > 0:
        limit_ms = max(1, int(timeout.total_seconds() * 1000))
    return ctypes.byref(_abi.tutti_call_config(ctypes.sizeof(_abi.tutti_call_config), limit_ms))


@functools.lru_cache(maxsize=None)
def _is_defined(op, dtype):
    return bool(_library.load().tutti_op_supports(op, dtype))


_FIELDS = {"root": "rootRank", "op": "reduceOp"}


def _with_short_forms(options, *names):
    """For a method of tensors and options: takes them also in c10d's short forms, in which there may be no options, or
    in their place what `names` says, and a tensor in place of a list of one."""

    def decorate(method):
        lists = method.__code__.co_argcount - 2  # but for self and opts

        @functools.wraps(method)
        def called(self, *arguments, **named):
            if len(arguments) == lists + 1 and hasattr(arguments[lists], "timeout"):  # options
                return method(self, *arguments)
            tensors = arguments[:lists]
            if any(isinstance(one, torch.Tensor) for one in tensors):
                tensors = [[one] for one in tensors]
            named.update(zip(names, arguments[lists:]))
            opts = named.pop("opts", None) or options()
            for name, value in named.items():
                setattr(opts, _FIELDS[name], value)
            return method(self, *tensors, opts)

        return called

    return decorate


def _lengths(values):
    return (ctypes.c_size_t * len(values))(*values)


class _State:
    """What a group has until it is closed, which may be after the program has dropped it."""

    def __init__(self, library, failures, collectives, messages, limit_ms):
        self.process = os.getpid()
        self._library = library
        self.comm, self._messages_comm = collectives, messages
        self.gpu = None  # GpuCalls, once there are calls on a GPU
        self.kept = collections.deque(maxlen=_KEPT_WORKS)
        self.adoption = Adoption(library, failures, collectives)
        self.queue = CallQueue()
        self.messages = Messages(library, failures, messages, limit_ms)
        self._freeing = threading.Lock()  # held to use a communicator beside the calls
        self._freed = False

    def abort(self, why):
        """From any thread, also while another one closes it."""
        with self._freeing:
            if self._freed:
                return
            self._library.tutti_comm_abort(self.comm, why)
            self._library.tutti_comm_abort(self._messages_comm, why)
            if self.gpu is not None:
                self.gpu.abort(why)

    def runs_here(self):
        """Whether this thread is in something that the queue or the messages run."""
        return self.queue.runs_here() or self.messages.runs_here()

    def close(self):
        """Waits for collectives that are in flight, and ends what else is."""
        if not self.queue.drain(_PATIENCE_S):
            self._library.tutti_comm_abort(self.comm, _SHUT_DOWN)
            if self.gpu is not None:  # a barrier may wait for it
                self.gpu.abort(_SHUT_DOWN)
        # What was sent and not received, or the other way round, has no end.
        if not self.messages.idle():
            self._library.tutti_comm_abort(self._messages_comm, _SHUT_DOWN)
        self.queue.stop()
        self.messages.stop()
        if self.gpu is not None:
            self.gpu.close(_PATIENCE_S)
        with self._freeing:
            self._freed = True
            self._library.tutti_comm_free(self._messages_comm)
            self._library.tutti_comm_free(self.comm)
        self.kept.clear()
        self.adoption = None  # tensors are freed when their memory is private again


class TuttiProcessGroup(dist.ProcessGroup):
    """A process group over two communicators of the same ranks, which it takes: one for collectives, one for
    messages. Collectives are issued by one thread at a time, in the same order on all ranks, and return at
    once."""

    def __init__(self, store, collectives, messages, rank, size, limit_ms):
        super().__init__(rank, size)
        let_record(False)
        self._store = store  # for the communicator of calls on a GPU, which the first of them makes
        _ending.prepare()
        self._library = _library.load()
        self._failures = Failures(self._library)
        self._rank, self._size = rank, size
        self._limit_ms = limit_ms
        self._group_name = self._group_desc = ""
        self._sequence = 0
        self._coalesced = self._coalescer = None  # works, and the thread that collects its own
        self._with_outputs, self._sweep_at = [], 2 * _KEPT_OUTPUTS
        self._state = _State(self._library, self._failures, collectives, messages, limit_ms)
        self._open = True

    # What torch asks for.

    def rank(self):
        return self._rank

    def size(self):
        return self._size

    def name(self):
        return "tutti"

    def getBackendName(self):  # pylint: disable=invalid-name
        return "tutti"

    _get_backend_name = name

    # Groups of C++ have a backend for each kind of device.

    def _get_backend(self, device):
        return self

    @property
    def _device_types(self):
        return [torch.device(kind) for kind in ("cpu", "cuda") if kind == "cpu" or torch.cuda.is_available()]

    # By which the C++ side of 2.x finds the group.

    def setGroupName(self, name):  # pylint: disable=invalid-name
        self._group_name = name

    def getGroupName(self):  # pylint: disable=invalid-name
        return self._group_name

    def setGroupDesc(self, text):  # pylint: disable=invalid-name
        self._group_desc = text

    def getGroupDesc(self):  # pylint: disable=invalid-name
        return self._group_desc

    # Of torch's own class they ask, before 2.5, the group of a device, of which this one has none.
    group_name, _set_group_name = property(getGroupName), setGroupName
    group_desc, _set_group_desc = property(getGroupDesc), setGroupDesc

    def _set_sequence_number_for_group(self):
        pass

    def _get_sequence_number_for_group(self):
        return self._sequence

    def set_timeout(self, timeout):
        self._limit_ms = self._state.messages.limit_ms = max(1, int(timeout.total_seconds() * 1000))

    @property
    def supports_splitting(self):
        return hasattr(dist.ProcessGroup, "split_group")

    options = None  # of a new group: as those of this one

    def split_group(self, ranks, timeout=None, opts=None, group_name=None, group_desc=None, device_types=None):
        """The group of these ranks, in this order. None on a rank that is not among them."""
        ranks = list(ranks)
        if self._rank not in ranks:
            return None
        name = group_name or f"{self._group_name}:split:{ranks}"
        limit_ms = max(1, int(timeout.total_seconds() * 1000)) if timeout is not None else self._limit_ms
        store, rank, size = dist.PrefixStore(name + "/", self._store), ranks.index(self._rank), len(ranks)
        group = TuttiProcessGroup(store, *communicators(store, rank, size, limit_ms, 2, "none"), rank, size, limit_ms)
        group.setGroupName(name)
        group.setGroupDesc(group_desc or f"{self._group_desc}:split")
        return group

    def get_group_store(self):
        return self._store

    # Which NCCL wants of ranks outside of a new group, and of all beforehand.

    def perform_nocolor_split(self, device):
        pass

    def eager_connect_single_device(self, device=None):
        pass

    def abort(self):
        """From any thread: all calls end with an error, here and on the other ranks."""
        self._state.abort(b"the process group was aborted")

    def _take_no_calls(self):
        """From now on; the state is to be closed."""
        self._open = False
        self._store = None  # the next group may be made through another one at the same address

    def shutdown(self):
        if not self._open:
            return
        _require(not self._state.runs_here(), "a process group cannot be destroyed in a callback of its own")
        self._take_no_calls()
        self._state.close()

    _shutdown = shutdown

    def __del__(self):
        # At the end of the process there is no library left to speak to.
        if not getattr(self, "_open", False) or torch is None or sys.is_finalizing():
            return
        if self._state.process == os.getpid():  # a forked child has none of its threads
            self._take_no_calls()
            _ending.close(self._state.close)

    def _start_coalescing(self, device=None):
        self._coalesced, self._coalescer = [], threading.get_ident()

    def _end_coalescing(self, device=None, _works=None):  # these torch 2.0 gives
        works, self._coalesced, self._coalescer = self._coalesced, None, None
        return self._issued(JoinedWork(works))

    # How calls are issued.

    def _issued(self, work):
        if _KEPT_WORKS:
            self._keep(work)
        if self._coalescer == threading.get_ident() and not self._state.queue.in_callback():
            self._coalesced.append(work)
        return work

    def _keep(self, work):
        self._state.kept.append(work)
        self._with_outputs.append(work)
        if len(self._with_outputs) >= self._sweep_at:
            self._forget_outputs()

    def _forget_outputs(self):
        count = len(self._with_outputs) - _KEPT_OUTPUTS  # other threads may append meanwhile
        older = self._with_outputs[:count]
        del self._with_outputs[:count]
        still = []
        while older:
            old = older.pop()
            if old.is_completed() and sys.getrefcount(old) <= _KEPT_ALONE:
                old.forget_outputs()
            else:
                still.append(old)
        self._with_outputs[:0] = reversed(still)
        self._sweep_at = 2 * max(_KEPT_OUTPUTS, len(self._with_outputs))

    def _issue(self, opts, outputs, inputs, run):
        """run(on) when its turn comes, `on` being where: OnHost or gpu.OnStream."""
        _require(self._open, "the process group was shut down")
        device = _device_of(outputs, inputs)
        config = _config_of(getattr(opts, "timeout", None), self._limit_ms)
        self._sequence += 1
        if device is not None:
            return self._issued(self._gpu_calls(device).issue(run, config, outputs, self._rank))
        queue = self._state.queue
        call = Call(queue, lambda: run(OnHost(self._library, self._failures, self._state.comm, config)), outputs, self._rank)
        queue.push(call)
        return self._issued(call)

    def _gpu_calls(self, device):
        """Collective, the first time: all ranks make a communicator, each with its GPU."""
        state = self._state
        if state.gpu is None:
            comm, = communicators(self._store, self._rank, self._size, self._limit_ms, 1, f"cuda:{device.index}")
            state.gpu = gpu.GpuCalls(self._library, self._failures, comm, device)
        _require(state.gpu.device == device,
                 f"the group's calls are on {state.gpu.device}, but the tensors lie in memory of {device}")
        return state.gpu

    def _root(self, root, what):
        _require(0 <= root < self._size, f"{what}: there is no rank {root} among {self._size}")
        return root

    def _with_op(self, on, reduce, tensor, run):
        """run(operator, type); pre-multiplied sums are made for the one call."""
        dtype = _TYPES.get(tensor.dtype)
        if dtype is None:
            raise ValueError(f"tutti: no reduction of {tensor.dtype} tensors")
        name = _NAMES[_number(reduce)]
        if name == "PREMUL_SUM":
            state = reduce.__getstate__()
            _require(state is not None and len(state) == 2 and state[1] is not None,
                     "this torch does not tell Python the factor of PREMUL_SUM: the compiled backend knows it")
            factor = torch.as_tensor(state[1]).reshape(-1)
            _require(factor.numel() == 1, "the factor of PREMUL_SUM is one number")
            factor = factor.to("cpu", tensor.dtype).contiguous()
            made = ctypes.c_int()
            self._failures.check(self._library.tutti_op_create_premul_sum(on.comm, factor.data_ptr(), dtype,
                                                                          ctypes.byref(made)), "premul_sum")
            try:
                run(made.value, dtype)
            finally:
                self._library.tutti_op_free(made.value)
            return
        op = _OPS[name]
        if not _is_defined(op, dtype):
            raise ValueError(f"tutti: {name} is not defined on {tensor.dtype} tensors")
        run(op, dtype)

    # Collectives.

    @_with_short_forms(c10d.BroadcastOptions, "root")
    def broadcast(self, tensors, opts):
        tensor = _only(tensors, "broadcast")
        _check_tensors(tensors, "broadcast")
        root = self._root(opts.rootRank, "broadcast")

        def run(on):
            buffer = on.output([tensor])
            if root == self._rank:
                buffer.load()
            on.call("tutti_broadcast", "broadcast", buffer.address, buffer.bytes, _abi.TUTTI_UINT8, root)
            if root != self._rank:
                buffer.store()

        return self._issue(opts, list(tensors), (), run)

    def _reduce_all(self, tensor, reduce, on):
        def run(op, dtype):
            if tensor.is_cpu:
                self._state.adoption.before_allreduce(tensor, on.config)
            buffer = on.output([tensor])
            buffer.load()
            on.call("tutti_allreduce", "all_reduce", _abi.TUTTI_IN_PLACE, buffer.address, tensor.numel(), dtype, op)
            buffer.store()

        self._with_op(on, reduce, tensor, run)

    @_with_short_forms(c10d.AllreduceOptions, "op")
    def allreduce(self, tensors, opts):
        tensor = _only(tensors, "all_reduce")
        reduce = opts.reduceOp
        if tensor.layout == torch.sparse_coo:
            _require(tensor.device.type == "cpu", "only tensors of the processor are served")
            _require(_NAMES[_number(reduce)] == "SUM", "sparse tensors can only be summed")
            return self._issue(opts, list(tensors), (), lambda on: self._reduce_sparse(tensor, on))
        _check_tensors(tensors, "all_reduce")
        return self._issue(opts, list(tensors), (), lambda on: self._reduce_all(tensor, reduce, on))

    @_with_short_forms(c10d.AllreduceOptions)
    def allreduce_sparse(self, tensors, opts):
        return self.allreduce(tensors, opts)

    @_with_short_forms(c10d.AllreduceCoalescedOptions)
    def allreduce_coalesced(self, tensors, opts):
        tensors = list(tensors)
        _check_tensors(tensors, "all_reduce_coalesced")
        reduce = opts.reduceOp

        def run(on):
            for tensor in tensors:
                self._reduce_all(tensor, reduce, on)

        return self._issue(opts, tensors, (), run)

    def _reduce_sparse(self, tensor, on):
        """The sum of the ranks' sparse tensors, in rank order: so it has the same bits on all ranks."""
        with torch.inference_mode():
            mine = tensor.detach().coalesce()
            indices, values = mine.indices().contiguous(), mine.values().contiguous()
            shape = [values.shape[0], mine.sparse_dim(), tensor.dim()]
            told = torch.tensor(shape + [hash(tuple(tensor.shape)) & 0x7FFFFFFF])
            everybody = torch.empty((self._size, 4), dtype=torch.int64)
            on.call("tutti_allgather", "sparse all_reduce", told.data_ptr(), everybody.data_ptr(), 4,
                    _abi.TUTTI_INT64)
            for rank, theirs in enumerate(everybody.tolist()):
                _require(theirs[1:] == told.tolist()[1:],
                         f"sparse all_reduce: rank {rank} has a tensor of another shape")
            entries = everybody[:, 0].tolist()
            width = values.element_size()
            for length in values.shape[1:]:
                width *= length
            all_indices = torch.empty(sum(entries) * shape[1], dtype=torch.int64)
            all_values = torch.empty((sum(entries),) + tuple(values.shape[1:]), dtype=values.dtype)
            on.call("tutti_allgatherv", "sparse all_reduce", indices.data_ptr(), indices.numel(),
                    all_indices.data_ptr(), _lengths([count * shape[1] for count in entries]), None,
                       _abi.TUTTI_INT64)
            on.call("tutti_allgatherv", "sparse all_reduce", values.data_ptr(), bytes_of(values),
                    all_values.data_ptr(), _lengths([count * width for count in entries]), None,
                       _abi.TUTTI_UINT8)
            total, at = None, 0
            for count in entries:
                part = torch.sparse_coo_tensor(
                    all_indices[at * shape[1]:(at + count) * shape[1]].view(shape[1], count),
                    all_values[at:at + count], tensor.shape)
                total = part if total is None else total + part
                at += count
            tensor.copy_(total.coalesce())

    @_with_short_forms(c10d.ReduceOptions, "root", "op")
    def reduce(self, tensors, opts):
        tensor = _only(tensors, "reduce")
        _check_tensors(tensors, "reduce")
        root, reduce = self._root(opts.rootRank, "reduce"), opts.reduceOp

        def run(on):
            buffer = on.output([tensor])
            buffer.load()
            mine = root == self._rank
            self._with_op(on, reduce, tensor, lambda op, dtype: on.call(
                "tutti_reduce", "reduce", _abi.TUTTI_IN_PLACE if mine else buffer.address,
                buffer.address if mine else None, tensor.numel(), dtype, op, root))
            if mine:
                buffer.store()

        return self._issue(opts, list(tensors), (), run)

    def _gather_all(self, places, tensor, on):
        output = on.output(places)
        given = on.input([tensor], output)
        counts = [bytes_of(place) for place in places]
        if len(places) == 1 or len(set(counts)) == 1:
            on.call("tutti_allgather", "all_gather", given.address, output.address, bytes_of(tensor),
                    _abi.TUTTI_UINT8)
        else:
            on.call("tutti_allgatherv", "all_gather", given.address, bytes_of(tensor), output.address,
                    _lengths(counts), None, _abi.TUTTI_UINT8)
        output.store()

    def _check_places(self, places, tensor, what):
        _check_tensors(places, what)
        _require(len(places) == self._size, f"{what} takes a tensor for each of {self._size} ranks, not {len(places)}")
        _check_types([tensor] + places, what)

    @_with_short_forms(c10d.AllgatherOptions)
    def allgather(self, outputs, inputs, opts):
        tensor, places = _only(inputs, "all_gather"), list(_only(outputs, "all_gather"))
        _check_tensors(inputs, "all_gather")
        self._check_places(places, tensor, "all_gather")
        _require(places[self._rank].numel() == tensor.numel(),
                 "all_gather: the place of the own tensor has another length than it")
        return self._issue(opts, places, inputs, lambda on: self._gather_all(places, tensor, on))

    def _check_multiple(self, longer, shorter, what):
        _check_tensors([longer, shorter], what)
        _check_types([longer, shorter], what)
        _require(longer.numel() == shorter.numel() * self._size,
                 f"{what}: one tensor must be {self._size} times as long as the other")

    def _allgather_base(self, output, tensor, opts=None):
        self._check_multiple(output, tensor, "all_gather_into_tensor")
        return self._issue(opts, [output], [tensor], lambda on: self._gather_all([output], tensor, on))

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        outputs, inputs = list(outputs), list(inputs)
        _require(len(outputs) == len(inputs), "all_gather_into_tensor_coalesced takes as many outputs as inputs")
        for output, tensor in zip(outputs, inputs):
            self._check_multiple(output, tensor, "all_gather_into_tensor_coalesced")

        def run(on):
            for output, tensor in zip(outputs, inputs):
                self._gather_all([output], tensor, on)

        return self._issue(opts, outputs, inputs, run)

    def allgather_coalesced(self, outputs, inputs, opts=None):
        lists, inputs = [list(places) for places in outputs], list(inputs)
        _check_tensors(inputs, "all_gather_coalesced")
        _require(all(len(places) == len(inputs) for places in lists),
                 "all_gather_coalesced takes as many outputs from each rank as there are inputs")
        by_input = [[places[i] for places in lists] for i in range(len(inputs))]
        for places, tensor in zip(by_input, inputs):
            self._check_places(places, tensor, "all_gather_coalesced")
            _require(all(place.numel() == tensor.numel() for place in places),
                     "all_gather_coalesced: outputs must be as long as inputs")

        def run(on):
            for places, tensor in zip(by_input, inputs):
                self._gather_all(places, tensor, on)

        return self._issue(opts, [place for places in lists for place in places], inputs, run)

    @_with_short_forms(c10d.GatherOptions, "root")
    def gather(self, outputs, inputs, opts):
        tensor, root = _only(inputs, "gather"), self._root(opts.rootRank, "gather")
        _check_tensors(inputs, "gather")
        places = []
        if root == self._rank:
            places = list(_only(outputs, "gather"))
            self._check_places(places, tensor, "gather")
            _require(all(place.numel() == tensor.numel() for place in places),
                     "gather: outputs must be as long as the input")
        else:
            _require(not outputs or not outputs[0], f"gather takes outputs on rank {root} only")
        return self._gather(places, tensor, root, opts)

    def gather_single(self, output, tensor, opts=None):
        opts = opts or c10d.GatherOptions()
        root = self._root(opts.rootRank, "gather_single")
        if root == self._rank:
            self._check_multiple(output, tensor, "gather_single")
        else:
            _check_tensors([tensor], "gather_single")
        return self._gather([output] if root == self._rank else [], tensor, root, opts)

    gather_into_tensor = gather_single

    def _gather(self, places, tensor, root, opts):
        def run(on):
            output = on.output(places)
            given = on.input([tensor], output)
            on.call("tutti_gather", "gather", given.address, output.address, bytes_of(tensor),
                    _abi.TUTTI_UINT8, root)
            output.store()

        return self._issue(opts, places, [tensor], run)

    @_with_short_forms(c10d.ScatterOptions, "root")
    def scatter(self, outputs, inputs, opts):
        tensor, root = _only(outputs, "scatter"), self._root(opts.rootRank, "scatter")
        _check_tensors(outputs, "scatter")
        parts = []
        if root == self._rank:
            parts = list(_only(inputs, "scatter"))
            self._check_places(parts, tensor, "scatter")
            _require(all(part.numel() == tensor.numel() for part in parts),
                     "scatter: inputs must be as long as the output")
        else:
            _require(not inputs or not inputs[0], f"scatter takes inputs on rank {root} only")

        def run(on):
            output = on.output([tensor])
            given = on.input(parts, output)
            on.call("tutti_scatter", "scatter", given.address, output.address, bytes_of(tensor),
                    _abi.TUTTI_UINT8, root)
            output.store()

        return self._issue(opts, [tensor], parts, run)

    def _scatter_reduced(self, tensor, parts, reduce, on):
        output = on.output([tensor])
        given = on.input(parts, output)
        counts = [part.numel() for part in parts]
        if len(parts) == 1 or len(set(counts)) == 1:
            self._with_op(on, reduce, tensor, lambda op, dtype: on.call(
                "tutti_reduce_scatter_block", "reduce_scatter", given.address, output.address, tensor.numel(),
                dtype, op))
        else:
            self._with_op(on, reduce, tensor, lambda op, dtype: on.call(
                "tutti_reduce_scatter", "reduce_scatter", given.address, output.address, _lengths(counts),
                dtype, op))
        output.store()

    @_with_short_forms(c10d.ReduceScatterOptions, "op")
    def reduce_scatter(self, outputs, inputs, opts):
        tensor, parts, reduce = _only(outputs, "reduce_scatter"), list(_only(inputs, "reduce_scatter")), opts.reduceOp
        _check_tensors(outputs, "reduce_scatter")
        self._check_places(parts, tensor, "reduce_scatter")
        _require(parts[self._rank].numel() == tensor.numel(),
                 "reduce_scatter: the output has another length than the own input")
        return self._issue(opts, [tensor], parts, lambda on: self._scatter_reduced(tensor, parts, reduce, on))

    def _reduce_scatter_base(self, output, tensor, opts=None):
        self._check_multiple(tensor, output, "reduce_scatter_tensor")
        reduce = (opts or c10d.ReduceScatterOptions()).reduceOp
        return self._issue(opts, [output], [tensor], lambda on: self._scatter_reduced(output, [tensor], reduce, on))

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None):
        outputs, inputs, reduce = list(outputs), list(inputs), (opts or c10d.ReduceScatterOptions()).reduceOp
        _require(len(outputs) == len(inputs), "reduce_scatter_tensor_coalesced takes as many outputs as inputs")
        for output, tensor in zip(outputs, inputs):
            self._check_multiple(tensor, output, "reduce_scatter_tensor_coalesced")

        def run(on):
            for output, tensor in zip(outputs, inputs):
                self._scatter_reduced(output, [tensor], reduce, on)

        return self._issue(opts, outputs, inputs, run)

    def _blocks(self, tensor, splits, which):
        """The lengths in bytes of blocks along the first dimension; without splits, equal ones."""
        if not splits:
            _require(tensor.dim() > 0 and tensor.shape[0] % self._size == 0,
                     f"all_to_all: the {which} cannot be cut into {self._size} equal blocks along its first dimension")
            return [bytes_of(tensor) // self._size] * self._size
        _require(len(splits) == self._size, f"all_to_all: {len(splits)} split sizes of the {which} for {self._size} ranks")
        _require(min(splits) >= 0, f"all_to_all: a negative split size of the {which}")
        rows = sum(splits)
        _require(tensor.dim() > 0 and rows == tensor.shape[0],
                 f"all_to_all: the split sizes of the {which} do not add up to its first dimension")
        row = bytes_of(tensor) // rows if rows else 0
        return [split * row for split in splits]

    def _exchange(self, places, given, received, sent, on):
        output = on.output(places)
        flat = on.input(given, output)
        # The form with lengths always: a rank may give splits where another does not.
        on.call("tutti_alltoallv", "all_to_all", flat.address, _lengths(sent), None, output.address,
                _lengths(received), None, _abi.TUTTI_UINT8)
        output.store()

    def alltoall_base(self, output, tensor, output_splits, input_splits, opts=None):
        _check_tensors([output, tensor], "all_to_all")
        _check_types([output, tensor], "all_to_all")
        received = self._blocks(output, output_splits, "output")
        sent = self._blocks(tensor, input_splits, "input")
        return self._issue(opts, [output], [tensor],
                           lambda on: self._exchange([output], [tensor], received, sent, on))

    def alltoall(self, outputs, inputs, opts=None):
        outputs, inputs = list(outputs), list(inputs)
        _check_tensors(outputs + inputs, "all_to_all")
        _check_types(outputs + inputs, "all_to_all")
        _require(len(outputs) == self._size and len(inputs) == self._size,
                 f"all_to_all takes a tensor for each of {self._size} ranks")
        received, sent = [bytes_of(one) for one in outputs], [bytes_of(one) for one in inputs]
        return self._issue(opts, outputs, inputs,
                           lambda on: self._exchange(outputs, inputs, received, sent, on))

    # Names of later versions.
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base

    def barrier(self, opts=None):
        # Behind the calls on the GPU that were issued before it, and not behind later ones.
        calls = self._state.gpu
        reached = calls.reached() if calls is not None else None

        def run(on):
            if reached is not None:
                reached.synchronize()
                calls.check()
            on.call("tutti_barrier", "barrier")

        return self._issue(opts, [], (), run)

    # Messages.

    def _message(self, send, tensors, peer, tag):
        what = "send" if send else "recv"
        _require(self._open, "the process group was shut down")
        tensor = _only(tensors, what)
        _check_tensors(tensors, what)
        if peer is not None:
            peer = self._root(peer, what)
        if send:
            place = Input([tensor if tensor.is_cpu else tensor.detach().cpu()])
            finish = lambda place=place: None  # keeps the buffer until the message has ended
        elif tensor.is_cpu:
            place = Output([tensor])
            finish = place.store
        else:
            place, finish = gpu.received_in_host_memory(tensor)
        messages = self._state.messages
        message = Message(messages, finish, [tensor], self._rank if send else -1 if peer is None else peer)
        messages.begin(message, send, place.address, bytes_of(tensor), peer, tag)
        return self._issued(message)

    def send(self, tensors, peer, tag=0):
        return self._message(True, tensors, peer, tag)

    def recv(self, tensors, peer, tag=0):
        return self._message(False, tensors, peer, tag)

    def recv_anysource(self, tensors, tag=0):
        # Of two ranks one may send, and an empty tensor may be received from it.
        return self._message(False, tensors, 1 - self._rank if self._size == 2 else None, tag)
