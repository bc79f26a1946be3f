#!/usr/bin/env python3
"""Tensors in memory of a GPU, where torch knows of none of a fake one (fake_gpu.py): the form in Python alone takes them.

    gpu_test.py python
"""

import datetime
import os
import sys
import threading
import time

import ranks
import torch
import torch.distributed as dist
from tutti_torch import _gpu

if torch.cuda.is_available():
    import real_gpu as gpu
else:
    import fake_gpu as gpu
empty, to_gpu = gpu.empty, gpu.to_gpu
gpu.serve(_gpu)

MODERN = not torch.__version__.startswith("1.")


def group():
    return dist.distributed_c10d._get_default_group()


# Past what torch.distributed itself does first: for classes of tensors it calls itself again with __torch_function__ off,
# and then parts of a tensor of fake_gpu.py are none.


def begin_all_reduce(tensor, op=dist.ReduceOp.SUM, on=None):
    opts = dist.AllreduceOptions()
    opts.reduceOp = op
    return (on or group()).allreduce([tensor], opts)


def all_reduce(tensor, op=dist.ReduceOp.SUM):
    begin_all_reduce(tensor, op).wait()


def rooted(options, root):
    opts = options()
    opts.rootRank = root
    return opts


def send(tensor, peer):
    group().send([tensor], peer, 0).wait()


def receive(tensor, peer=None):
    work = group().recv_anysource([tensor], 0) if peer is None else group().recv([tensor], peer, 0)
    work.wait()
    return work.source_rank()


def numbers(rank, *shape, dtype=torch.float32):
    count = 1
    for length in shape:
        count *= length
    return (torch.arange(count) % 7 + rank + 1).to(dtype).reshape(shape)


def strided(tensor):
    """The same values in every second place."""
    wide = to_gpu(torch.stack([tensor, tensor + 1], dim=-1))
    return wide[..., 0]


def same(given, wanted, what):
    assert given.is_cuda and torch.equal(given.cpu(), wanted), (what, given.cpu(), wanted)


def raises(function, words):
    try:
        function()
    except (RuntimeError, ValueError) as error:
        assert words in str(error), error
        return
    raise AssertionError(f"nothing was raised; wanted: {words}")


def case_collectives(rank, nranks):
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.int64, torch.uint8):
        for shape in ((1,), (3, 5), (70_001,)):
            mine = [numbers(r, *shape, dtype=dtype) for r in range(nranks)]
            total = sum(mine[1:], mine[0].clone())
            for make in (to_gpu, strided):
                what = (dtype, shape, make.__name__)
                tensor = make(mine[rank])
                all_reduce(tensor)
                same(tensor, total, ("all_reduce", *what))
                tensor = make(mine[rank])
                all_reduce(tensor, dist.ReduceOp.MAX)
                same(tensor, mine[-1], ("max", *what))
                tensor = make(mine[rank])
                group().reduce([tensor], rooted(dist.ReduceOptions, 1)).wait()
                if rank == 1:
                    same(tensor, total, ("reduce", *what))
                tensor = make(mine[rank])
                group().broadcast([tensor], rooted(dist.BroadcastOptions, nranks - 1)).wait()
                same(tensor, mine[-1], ("broadcast", *what))
                places = [make(torch.zeros_like(mine[0])) for _ in range(nranks)]
                group().allgather([places], [make(mine[rank])]).wait()
                for r, place in enumerate(places):
                    same(place, mine[r], ("all_gather", *what))
                places = [make(torch.zeros_like(mine[0])) for _ in range(nranks)]
                group().gather([places] if rank == 0 else [], [make(mine[rank])], rooted(dist.GatherOptions, 0)).wait()
                for r, place in enumerate(places if rank == 0 else []):
                    same(place, mine[r], ("gather", *what))
                tensor = make(torch.zeros_like(mine[0]))
                group().scatter([tensor], [[make(one) for one in mine]] if rank == 0 else [], rooted(dist.ScatterOptions, 0)).wait()
                same(tensor, mine[rank], ("scatter", *what))
                tensor = make(torch.zeros_like(mine[0]))
                group().reduce_scatter([tensor], [[make(one * (rank + 1)) for one in mine]]).wait()
                weights = nranks * (nranks + 1) // 2
                same(tensor, mine[rank] * weights, ("reduce_scatter", *what))
                tensors = [make(one) for one in mine]
                outputs = [make(torch.zeros_like(mine[0])) for _ in range(nranks)]
                group().alltoall(outputs, tensors).wait()
                for output in outputs:
                    same(output, mine[rank], ("all_to_all", *what))
            flat = torch.stack(mine)
            output = to_gpu(torch.zeros_like(flat))
            group()._allgather_base(output, to_gpu(mine[rank])).wait()
            same(output, flat, ("all_gather_into_tensor", dtype, shape))
            output = to_gpu(torch.zeros_like(mine[0]))
            group()._reduce_scatter_base(output, to_gpu(flat)).wait()
            same(output, mine[rank] * nranks, ("reduce_scatter_tensor", dtype, shape))


def case_blocks_of_different_lengths(rank, nranks):
    parts = [numbers(r, 3 * r + 1) for r in range(nranks)]
    places = [to_gpu(torch.zeros_like(part)) for part in parts]
    group().allgather([places], [to_gpu(parts[rank])]).wait()
    for place, part in zip(places, parts):
        same(place, part, "all_gather")
    output = to_gpu(torch.zeros_like(parts[rank]))
    group().reduce_scatter([output], [[to_gpu(part) for part in parts]]).wait()
    same(output, parts[rank] * nranks, "reduce_scatter")
    sent = [r + 1 for r in range(nranks)]
    tensor = to_gpu(numbers(rank, sum(sent)))
    output = empty(((rank + 1) * nranks,), torch.float32)
    group().alltoall_base(output, tensor, [rank + 1] * nranks, sent).wait()
    begin = sum(sent[:rank])
    same(output, torch.cat([numbers(r, sum(sent))[begin:begin + rank + 1] for r in range(nranks)]), "all_to_all_single")


def case_premultiplied(rank, nranks):
    if not MODERN:
        return
    tensor = to_gpu(numbers(rank, 9))
    all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
    same(tensor, sum(numbers(r, 9) * 0.5 for r in range(nranks)), "premul_sum")


def case_in_the_order_of_streams(rank, nranks):
    """Behind what is on the caller's stream, before what comes after wait(), and the host is not held up."""
    source, tensor, later = to_gpu(numbers(rank, 1000)), to_gpu(torch.zeros(1000)), to_gpu(torch.zeros(1000))
    stream = gpu.current_stream()
    all_reduce(to_gpu(torch.ones(1)))  # the first call makes the communicator
    stream.synchronize()
    release = gpu.hold(stream)
    gpu.copy(stream, tensor, source)
    work = begin_all_reduce(tensor)
    work.wait()
    assert gpu.streams_of(tensor) in (None, {group()._state.gpu.stream})
    gpu.copy(stream, later, tensor)
    time.sleep(0.05)
    assert not work.is_completed() and not work.is_success() and work.exception() is None
    total = sum(numbers(r, 1000) for r in range(1, nranks)) + numbers(0, 1000)
    assert work.get_future().wait()[0].data_ptr() == tensor.data_ptr()
    on_host = torch.full((3,), float(rank))
    all_reduce(on_host)  # calls of the host go on beside those that wait on the GPU
    assert torch.equal(on_host, torch.full((3,), float(sum(range(nranks)))))
    release()
    stream.synchronize()
    same(later, total, "what comes after wait()")
    assert work.is_completed() and work.is_success()
    works = [begin_all_reduce(to_gpu(torch.full((5,), float(i)))) for i in range(50)]
    for i, one in enumerate(works):
        one.wait()
        same(one.result()[0], torch.full((5,), float(i * nranks)), i)
    dist.barrier()


def after_a_while(release):
    def wait():
        time.sleep(0.1)
        release()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def case_in_that_order_without_a_form_for_streams(rank, nranks):
    parts = [numbers(r, 3 * r + 1) for r in range(nranks)]
    places = [to_gpu(torch.zeros_like(part)) for part in parts]
    source, tensor, stream = to_gpu(parts[rank]), to_gpu(torch.zeros_like(parts[rank])), gpu.current_stream()
    all_reduce(to_gpu(torch.ones(1)))
    thread = after_a_while(gpu.hold(stream))
    gpu.copy(stream, tensor, source)
    group().allgather([places], [tensor]).wait()
    for place, part in zip(places, parts):
        same(place, part, "all_gather")
    thread.join()


def case_received_behind_what_reads_the_place(rank, nranks):
    if rank == 0:
        for peer in range(1, nranks):
            send(to_gpu(numbers(peer, 50)), peer)
    else:
        place, before, stream = to_gpu(torch.full((50,), -1.0)), to_gpu(torch.zeros(50)), gpu.current_stream()
        thread = after_a_while(gpu.hold(stream))
        gpu.copy(stream, before, place)
        receive(place, 0)
        same(before, torch.full((50,), -1.0), "what was there")
        same(place, numbers(rank, 50), "recv")
        thread.join()
    dist.barrier()


def case_messages(rank, nranks):
    for make in (to_gpu, strided):
        if rank == 0:
            for peer in range(1, nranks):
                send(make(numbers(peer, 4, 3)), peer)
            got = empty((7,), torch.int64)
            assert receive(got) in range(1, nranks)
            for _ in range(nranks - 2):
                receive(got)
        else:
            got = make(torch.zeros(4, 3))
            receive(got, 0)
            same(got, numbers(rank, 4, 3), "recv")
            send(make(numbers(rank, 7, dtype=torch.int64)), 0)
    dist.barrier()


def case_work_that_outlives_its_group(rank, nranks):
    other = dist.new_group(list(range(nranks)))
    work = begin_all_reduce(to_gpu(numbers(rank, 10)), on=other)
    dist.destroy_process_group(other)
    other.shutdown()  # torch 1.13 does not
    work.wait()
    assert work._calls.comm is None
    gpu.current_stream().synchronize()
    assert work.exception() is None and work.is_completed() and work.is_success(), work.exception()


def case_barrier_is_not_behind_later_calls(rank, nranks):
    all_reduce(to_gpu(torch.ones(1)))
    barrier, tensor = dist.barrier(async_op=True), to_gpu(numbers(rank, 10))
    if rank == 0:
        all_reduce(tensor)
        time.sleep(0.1)
        barrier.wait()
    else:
        barrier.wait()
        all_reduce(tensor)
    same(tensor, sum(numbers(r, 10) for r in range(nranks)), "all_reduce")
    # But behind earlier ones, and behind what is on the caller's stream.
    stream, place = gpu.current_stream(), to_gpu(torch.zeros(10))
    thread = after_a_while(gpu.hold(stream))
    gpu.copy(stream, place, to_gpu(numbers(1, 10)))
    begun = time.monotonic()
    dist.barrier()
    assert time.monotonic() - begun > 0.05
    thread.join()


def case_message_beside_a_call_that_waits(rank, nranks):
    tensor, place = to_gpu(numbers(rank, 10)), to_gpu(torch.zeros(5))
    all_reduce(to_gpu(torch.ones(1)))
    if rank == 0:
        work = begin_all_reduce(tensor)
        for peer in range(1, nranks):
            receive(place, peer)
            same(place, numbers(peer, 5), "recv")
            send(place, peer)
        work.wait()
    else:
        send(to_gpu(numbers(rank, 5)), 0)
        work = group().recv([place], 0, 0)
        assert work.get_future().wait()[0].data_ptr() == place.data_ptr()
        same(place, numbers(rank, 5), "recv")
        all_reduce(tensor)
    same(tensor, sum(numbers(r, 10) for r in range(nranks)), "all_reduce")


def case_a_copy_that_fails(rank, nranks):
    """Ends its message, and no other one."""
    def failing():
        raise RuntimeError("the copy failed")

    if rank == 0:
        for peer in range(1, nranks):
            for _ in range(2):
                send(numbers(peer, 5), peer)
    else:
        place, right = to_gpu(torch.zeros(5)), _gpu.received_in_host_memory

        def fails(tensor):
            received, begin_copy = right(tensor)
            return received, lambda kept=begin_copy: failing  # it has the memory for the message

        _gpu.received_in_host_memory = fails
        raises(lambda: receive(place, 0), "the copy failed")
        _gpu.received_in_host_memory = right
        receive(place, 0)
        same(place, numbers(rank, 5), "recv")
    dist.barrier()


def case_made_again_through_a_store(rank, nranks, path):
    if not MODERN:  # whose own barrier through the store does not end a second time
        return
    store = dist.FileStore(path, nranks)
    for _ in range(3):
        dist.init_process_group("tutti", store=store, rank=rank, world_size=nranks)
        for tensor in (to_gpu(numbers(rank, 10)), numbers(rank, 10)):
            all_reduce(tensor)
            assert torch.equal(tensor.cpu(), sum(numbers(r, 10) for r in range(nranks)))
        dist.barrier()
        dist.destroy_process_group()


case_made_again_through_a_store.no_group = True


def case_refused(rank, nranks):
    tensor = to_gpu(numbers(rank, 4))
    all_reduce(tensor)
    other = gpu.elsewhere(numbers(rank, 4))
    if other is not None:
        raises(lambda: all_reduce(other), "the group's calls are on cuda:0, but the tensors lie in memory of cuda:1")
    raises(lambda: group().allgather([[torch.zeros(4) for _ in range(nranks)]], [tensor]), "tensors of one device, not of cpu and cuda:0")
    raises(lambda: dist.broadcast(torch.zeros(3, device="meta"), 0), "in memory of meta")
    all_reduce(tensor)
    dist.barrier()


def case_two_groups(rank, nranks):
    other = dist.new_group(list(range(nranks)))
    first, second = to_gpu(numbers(rank, 300)), to_gpu(numbers(rank, 200))
    total = sum(numbers(r, 300) for r in range(nranks))
    works = [begin_all_reduce(first), begin_all_reduce(second, on=other)]
    for work in works:
        work.wait()
    same(first, total, "the first group")
    same(second, total[:200], "the second group")


def case_late(rank, nranks):
    """A rank that does not come: the GPU is released at the deadline, and who looks is told."""
    tensor = to_gpu(numbers(rank, 8))
    all_reduce(tensor)
    if rank == 0:
        group().set_timeout(datetime.timedelta(seconds=1))
        work = begin_all_reduce(tensor)
        begun = time.monotonic()
        while not work.is_completed() and time.monotonic() - begun < 20:
            time.sleep(0.01)
        assert 0.5 < time.monotonic() - begun < 10
        assert "Timed out" in str(work.exception()), work.exception()
        raises(work.wait, "Timed out")
        raises(lambda: all_reduce(tensor), "tutti: ")
    else:
        time.sleep(2.5)
        raises(lambda: all_reduce(tensor) or gpu.current_stream().synchronize() or all_reduce(tensor), "tutti: ")


def case_another_thread(rank, nranks):
    """As backward() of DDP does: with a current stream of its own."""
    tensor, failures = to_gpu(numbers(rank, 50)), []

    def call():
        try:
            all_reduce(tensor)
            same(tensor, sum(numbers(r, 50) for r in range(nranks)), "all_reduce")
        except BaseException as error:  # pylint: disable=broad-except
            failures.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert not failures, failures


def case_one_is_killed(rank, nranks):
    tensor = to_gpu(numbers(rank, 8))
    all_reduce(tensor)
    if rank == nranks - 1:
        os._exit(7)
    work = begin_all_reduce(tensor)
    begun = time.monotonic()
    while work.exception() is None and time.monotonic() - begun < 20:
        time.sleep(0.005)
    assert time.monotonic() - begun < 5
    assert f"rank {nranks - 1}" in str(work.exception()), work.exception()
    os._exit(0)


def main():
    form = sys.argv[1]
    cases = ("collectives", "blocks_of_different_lengths", "premultiplied", "in_the_order_of_streams",
             "in_that_order_without_a_form_for_streams", "messages", "received_behind_what_reads_the_place", "refused", "two_groups",
             "another_thread", "work_that_outlives_its_group", "barrier_is_not_behind_later_calls",
             "message_beside_a_call_that_waits", "a_copy_that_fails", "made_again_through_a_store")
    for nranks in (2, 3):
        ranks.run(__file__, "+".join(cases), form, nranks, limit=200)
    ranks.run(__file__, "late", form, 2)
    ranks.run(__file__, "one_is_killed", form, 3, expect=[0, 0, 7])


if ranks.is_rank():
    ranks.main(globals())
else:
    main()
