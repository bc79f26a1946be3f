#!/usr/bin/env python3
"""What ends in an error: ranks that die, do not come, are too late, or pass what makes no sense.

    faults_test.py FORM
"""

import datetime
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import ranks
import torch
import torch.distributed as dist
import tutti_torch

SOON = 10  # seconds, on a machine that others use too; far below the 30 that a group waits by itself


def fails(call, *words):
    begun = time.monotonic()
    try:
        call()
    except Exception as error:
        text = str(error)
        assert all(word in text for word in words), (words, text)
        return time.monotonic() - begun
    raise AssertionError(f"nothing was raised where {words} was expected")


class Sign:
    """What one rank does when another has come so far."""

    def __init__(self, name):
        self.store, self.name = dist.distributed_c10d._get_default_store(), name

    def give(self):
        self.store.set(self.name, "given")

    def await_it(self):
        self.store.wait([self.name])


def limited():
    """A group with a timeout of a second."""
    dist.barrier()
    group = dist.new_group(timeout=datetime.timedelta(seconds=1))
    dist.barrier()
    return group


def case_killed(rank, size):
    """In the middle of a step of DDP: an exception that names the rank, soon."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(50, 50) for _ in range(4)]))
    model(torch.randn(3, 50)).sum().backward()
    dist.barrier()
    if rank == 1:
        class Dies(torch.autograd.Function):
            @staticmethod
            def forward(context, tensor):
                return tensor.clone()

            @staticmethod
            def backward(context, gradient):
                os.kill(os.getpid(), signal.SIGKILL)
        # Before the gradients of the lower layers are there, so that no bucket is ever complete.
        model.module[3].register_forward_pre_hook(lambda _module, given: (Dies.apply(given[0]),))
        model(torch.randn(3, 50)).sum().backward()
    died = time.monotonic()
    fails(lambda: model(torch.randn(3, 50)).sum().backward(), "rank 1")
    took = time.monotonic() - died
    print(f"rank {rank} was told after {took:.2f} s")
    assert took < SOON, took
    fails(lambda: dist.all_reduce(torch.ones(1)), "rank 1")


def case_late(rank, size):
    """The group's timeout ends what nobody answers, on all ranks."""
    group, told = limited(), Sign("told")
    if rank == 0:
        took = fails(lambda: dist.barrier(group=group), "Timed out")
        assert 0.9 <= took < SOON, took
        told.give()
    else:
        told.await_it()
        # Rank 0 had entered that barrier; but it does not come to the next call any more.
        fails(lambda: [dist.barrier(group=group), dist.all_reduce(torch.ones(1), group=group)], "tutti")


def case_interrupted(rank, size):
    """Ctrl-C, or the exception of another signal's handler, in a wait: the group goes on."""
    signal.signal(signal.SIGUSR1, lambda *_: sys.exit("told to"))
    for number, raised in ((signal.SIGINT, KeyboardInterrupt), (signal.SIGUSR1, SystemExit)):
        interrupted = Sign(f"interrupted by {raised.__name__}")
        if rank == 1:
            interrupted.await_it()
        else:
            def interrupt():
                time.sleep(0.2)
                os.kill(os.getpid(), number)
                interrupted.give()
            threading.Thread(target=interrupt).start()
        try:
            dist.all_reduce(torch.ones(1))
            time.sleep(0.1)  # a signal is told when Python goes on
            assert rank == 1
        except raised:
            assert rank == 0
        for _ in range(3):
            tensor = torch.ones(3)
            dist.all_reduce(tensor)
            assert torch.equal(tensor, torch.full((3,), float(size))), tensor


def case_ended_by_hand(rank, size):
    """Who ends the future of a work himself: the group goes on."""
    future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
    try:
        future.set_result([torch.zeros(3)])
    except RuntimeError:
        pass  # it had ended already
    for _ in range(3):
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        assert torch.equal(tensor, torch.full((3,), float(size))), tensor


def threads():
    return len(os.listdir("/proc/self/task"))


def case_dropped(rank, size):
    """The last reference to a group goes in a callback of one of its futures: what was issued behind that still runs, and the
    group ends."""
    before = threads()
    for kind in ("collective", "message"):
        for waits in (False, True):
            name = f"dropped {kind} {waits}"
            attached, dropped, took = Sign(name), threading.Event(), []
            held = [group_of(name, rank, size)]
            tensor, later = torch.full((3,), float(rank)), torch.ones(3)

            def drop(_future):
                begun = time.monotonic()
                held.clear()
                took.append(time.monotonic() - begun)
                dropped.set()

            def begin():
                if kind == "collective":
                    return held[0].allreduce([tensor], dist.AllreduceOptions())
                return held[0].recv([tensor], 1, 0) if rank == 0 else held[0].send([tensor], 0, 0)

            if rank == 1:
                attached.await_it()
                works = [begin(), held[0].allreduce([later], dist.AllreduceOptions())]
            else:
                work = begin()
                future = work.get_future()
                chained = future.then(drop)
                works = [work, held[0].allreduce([later], dist.AllreduceOptions())]
                attached.give()
            if rank == 0 and not waits:
                assert dropped.wait(SOON), name
            for work in works:
                work.wait()
            assert tensor.tolist() == [1.0] * 3 and later.tolist() == [2.0] * 3, (name, tensor, later)
            if rank == 0:
                assert dropped.wait(SOON) and took[0] < 4, (name, took)  # not the 5 s for calls that are in flight
                del future, chained
            del work, works
            held.clear()
            dist.barrier()
            await_threads(before, name)


def group_of(name, rank, size):
    """One that nothing else has."""
    store = dist.distributed_c10d._get_default_store()
    return tutti_torch._create(dist.PrefixStore(name, store), rank, size, datetime.timedelta(seconds=30))


def await_threads(count, name):
    """Of groups that have gone."""
    deadline = time.monotonic() + SOON
    while threads() > count:
        assert time.monotonic() < deadline, (name, count, os.listdir("/proc/self/task"))
        time.sleep(0.01)


def case_dropped_crosswise(rank, size):
    """The last references to two groups go in callbacks of each other, at the same time."""
    before = threads()
    held = {name: group_of("crosswise " + name, rank, size) for name in ("one", "other")}
    begun = {name: threading.Event() for name in held}
    ended = {name: threading.Event() for name in held}
    go_on, took = threading.Event(), []

    def drop(mine, others):
        go_on.wait(SOON)  # the callbacks are attached
        begun[mine].set()
        assert begun[others].wait(SOON)
        since = time.monotonic()
        held.pop(others)
        took.append(time.monotonic() - since)
        ended[mine].set()

    works = [held[name].allreduce([torch.ones(3)], dist.AllreduceOptions()) for name in ("one", "other")]
    for work, mine, others in zip(works, ("one", "other"), ("other", "one")):
        work.get_future().then(lambda _future, mine=mine, others=others: drop(mine, others))
        del work
    go_on.set()
    del works
    for event in ended.values():
        assert event.wait(SOON), took
    assert max(took) < 4, took
    await_threads(before, "crosswise")


def case_collected(rank, size):
    """A collection of garbage finds a group while this thread has a lock of its queue or of its messages."""
    if tutti_torch.implementation() != "python":
        return  # compiled, no Python runs under these locks
    before = threads()
    for part in ("queue", "messages"):
        group = group_of("collected " + part, rank, size)
        group.allreduce([torch.ones(3)], dist.AllreduceOptions()).wait()
        lock = getattr(group._state, part)._lock
        cycle = [group]
        cycle.append(cycle)
        del group, cycle
        with lock:
            gc.collect()
        await_threads(before, part)


def case_abort_beside_shutdown(rank, size):
    """abort() while another thread shuts the group down."""
    if tutti_torch.implementation() == "compiled" and torch.__version__.startswith("1."):
        return  # which gives Python neither
    for turn in range(20):
        group = group_of(f"beside shutdown {turn}", rank, size)
        ends = group if hasattr(group, "abort") else group._get_backend(torch.device("cpu"))
        dist.barrier()
        over = threading.Event()

        def abort(ends=ends, over=over):
            while not over.is_set():
                ends.abort()

        aborting = threading.Thread(target=abort)
        aborting.start()
        ends.shutdown()
        over.set()
        aborting.join(SOON)
        assert not aborting.is_alive(), turn


def case_wait_limit(rank, size):
    """A wait that is too short leaves the call as it is."""
    tensor = torch.ones(3)
    waited = Sign("waited")
    if rank == 1:
        waited.await_it()
    work = dist.all_reduce(tensor, async_op=True)
    if rank == 0:
        fails(lambda: work.wait(datetime.timedelta(milliseconds=100)), "Timed out")
        waited.give()
    work.wait()
    assert tensor.tolist() == [2.0] * 3
    place = torch.zeros(3)
    if rank == 0:
        work = dist.irecv(place, 1)
        fails(lambda: work.wait(datetime.timedelta(milliseconds=100)), "Timed out")
        dist.barrier()
        work.wait()
        assert place.tolist() == [1.0] * 3
    else:
        dist.barrier()
        dist.send(torch.ones(3), 0)


def case_unanswered(rank, size):
    """A receive that is never answered ends with the group's timeout."""
    group, told = limited(), Sign("told")
    if rank == 0:
        took = fails(lambda: dist.recv(torch.zeros(1), 1, group=group), "Timed out")
        assert 0.9 <= took < SOON, took
        told.give()
    else:
        told.await_it()


def case_bad(rank, size):
    """What makes no sense is refused on the rank itself, and the group goes on."""
    fails(lambda: dist.all_gather([torch.zeros(2)], torch.zeros(2)), "for each of 2 ranks")
    fails(lambda: dist.all_reduce(torch.zeros(2), op=dist.ReduceOp.BAND), "not defined on")
    fails(lambda: dist.all_to_all_single(torch.zeros(3), torch.zeros(4)), "equal blocks")
    # Later torches have no such call for sparse tensors, and say so themselves.
    fails(lambda: dist.broadcast(torch.zeros(2).to_sparse(), 0), "parse")
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [2.0, 2.0]


def case_mismatch(rank, size):
    """Ranks that call different things are told so."""
    call = (lambda: dist.all_reduce(torch.ones(3))) if rank == 0 else (lambda: dist.barrier())
    fails(call, "MISMATCH")


def case_abort(rank, size):
    """abort() ends what is in flight, on all ranks."""
    group = dist.distributed_c10d._get_default_group()
    if rank == 0:
        work = dist.barrier(async_op=True)
        Sign("begun").give()
        fails(work.wait, "abort")
    else:
        Sign("begun").await_it()
        group._get_backend(torch.device("cpu")).abort()
        fails(dist.barrier, "abort")


def case_alone(rank, size, store):
    """Ranks that do not come: an error after the group's timeout."""
    took = fails(lambda: dist.init_process_group("tutti", init_method=f"file://{store}", rank=0, world_size=2,
                                                 timeout=datetime.timedelta(seconds=2)), "imed out")
    assert took < SOON, took


case_alone.no_group = True


def case_setup_fails(rank, size, store):
    """A rank whose communicator cannot be made: an error on all, at once."""
    if rank == 1:
        os.environ["TUTTI_TRANSPORTS"] = "nonsense"
    took = fails(lambda: dist.init_process_group("tutti", init_method=f"file://{store}", rank=rank, world_size=size,
                                                 timeout=datetime.timedelta(seconds=60)), "nonsense")
    assert took < SOON, took


case_setup_fails.no_group = True


def old_torch():
    """One clear sentence on a torch that is too old."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "torch"))
        os.mkdir(os.path.join(folder, "torch", "distributed"))
        with open(os.path.join(folder, "torch", "__init__.py"), "w", encoding="utf-8") as file:
            file.write('__version__ = "1.9.1"\n')
        open(os.path.join(folder, "torch", "distributed", "__init__.py"), "w", encoding="utf-8").close()
        told = subprocess.run([sys.executable, "-c", "import tutti_torch"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": folder + os.pathsep + os.environ.get("PYTHONPATH", "")})
        assert told.returncode != 0, told
        assert told.stderr.splitlines()[-1] == \
            "ImportError: tutti_torch needs PyTorch 1.13 or later; this is 1.9.1", told.stderr


def other_torch():
    """A compiled form that was built beside another torch is not used, though it loads."""
    program = ("import torch; torch.__version__ = '2.99.0'; import tutti_torch; print(tutti_torch.implementation()); "
               "tutti_torch.use('compiled')")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})  # where it is installed, torch imports it
    release = ".".join(torch.__version__.split(".")[:2])
    assert done.stdout == "python\n", (done.stdout, done.stderr)
    assert f"it was built for PyTorch {release}, and this is 2.99" in done.stderr, done.stderr


if __name__ == "__main__":
    if ranks.is_rank():
        ranks.main(globals())
    else:
        form = sys.argv[1]
        old_torch()
        other_torch()
        ranks.run(__file__, "late+interrupted+ended_by_hand+dropped+dropped_crosswise+collected+abort_beside_shutdown+wait_limit+unanswered+bad+mismatch+setup_fails", form, 2)
        ranks.run(__file__, "alone", form, 1)
        ranks.run(__file__, "killed", form, 3, expect=[0, -signal.SIGKILL, 0])
        if not torch.__version__.startswith("1."):
            ranks.run(__file__, "abort", form, 2)
