#!/usr/bin/env python3
"""Every collective of torch.distributed, on every type, layout and size, against what it must give.

    collectives_test.py FORM [NRANKS]      FORM: compiled or python
"""

import importlib.util
import itertools
import random
import sys
import time

import ranks
import torch
import torch.distributed as dist
import tutti_torch

MODERN = not torch.__version__.startswith("1.")

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
SHAPES = [(0,), (1,), (7,), (3, 5), (64, 129), ()]


def value(rank, shape, dtype, seed=0):
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    numbers = torch.randint(1, 5, shape, generator=generator)
    return (numbers % 2 == 0) if dtype == torch.bool else numbers.to(dtype)


def strided(tensor):
    """The same values in every second place of a larger tensor."""
    wide = torch.zeros(tuple(tensor.shape) + (2,), dtype=tensor.dtype)
    wide[..., 0] = tensor
    return wide[..., 0]


def bits(tensor):
    flat = tensor.reshape(-1).clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8) if flat.numel() else flat.to(torch.uint8)


def same(given, wanted, what):
    assert given.dtype == wanted.dtype and given.shape == wanted.shape, (what, given.shape, wanted.shape)
    assert torch.equal(bits(given), bits(wanted)), (what, given, wanted)


def reduced(values, op):
    result = values[0].clone()
    for other in values[1:]:
        if op == dist.ReduceOp.SUM:
            result = (result | other) if result.dtype == torch.bool else result + other
        elif op == dist.ReduceOp.PRODUCT:
            result = (result & other) if result.dtype == torch.bool else result * other
        elif op == dist.ReduceOp.MIN:
            result = torch.minimum(result, other)
        elif op == dist.ReduceOp.MAX:
            result = torch.maximum(result, other)
        elif op == dist.ReduceOp.BAND:
            result = result & other
        elif op == dist.ReduceOp.BOR:
            result = result | other
        else:
            result = result ^ other
    return result


def case_reductions(rank, size):
    for dtype in FLOATS + INTEGERS + [torch.bool]:
        ops = [dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX]
        if dtype not in FLOATS:
            ops += [dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR]
        for shape in SHAPES:
            values = [value(r, shape, dtype) for r in range(size)]
            for op in ops:
                wanted = reduced(values, op)
                for layout in (torch.clone, strided):
                    tensor = layout(values[rank])
                    dist.all_reduce(tensor, op=op)
                    same(tensor, wanted, ("all_reduce", dtype, shape, op))
                    root = size - 1
                    tensor = layout(values[rank])
                    dist.reduce(tensor, root, op=op)
                    same(tensor, wanted if rank == root else values[rank], ("reduce", dtype, shape, op))
    for dtype in (torch.complex64, torch.complex128):
        values = [torch.complex(value(r, (9,), torch.float64), value(r, (9,), torch.float64, 1)).to(dtype)
                  for r in range(size)]
        tensor = values[rank].clone()
        dist.all_reduce(tensor)
        assert torch.equal(tensor, sum(values[1:], values[0])), dtype


def case_averages(rank, size):
    for dtype in FLOATS:
        tensor = value(rank, (33,), dtype)
        wanted = sum(value(r, (33,), torch.float64) for r in range(size)) / size
        dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
        assert torch.allclose(tensor.double(), wanted, rtol=1e-2), dtype
        if dtype == torch.float32:
            same(tensor, wanted.to(dtype) if size in (1, 2, 4) else tensor, "average")
    for factor in (0.5, 3.0):
        tensor = value(rank, (17,), torch.float32)
        if not MODERN and tutti_torch.implementation() == "python":
            # That version does not tell Python the factor.
            try:
                dist.all_reduce(tensor, op=dist._make_nccl_premul_sum(factor))
            except ValueError as error:
                assert "PREMUL_SUM" in str(error), error
            else:
                raise AssertionError("a pre-multiplied sum whose factor is unknown was taken")
            continue
        dist.all_reduce(tensor, op=dist._make_nccl_premul_sum(factor))
        same(tensor, sum(value(r, (17,), torch.float32) * factor for r in range(size)), "premul_sum")


def case_moves(rank, size):
    dtypes = FLOATS + INTEGERS + [torch.bool, torch.complex64]
    dtypes += [getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name)]  # from 2.1 on
    for dtype in dtypes:
        base = torch.float32 if dtype.is_complex or "float8" in str(dtype) else dtype
        for shape in SHAPES:
            values = [value(r, shape, base).to(dtype) for r in range(size)]
            zeros = torch.zeros(shape).to(dtype)  # no zeros_like(): torch 2.1 does not fill float8
            for layout in (torch.clone, strided) if "float8" not in str(dtype) else (torch.clone,):
                root = size // 2
                tensor = layout(values[rank])
                dist.broadcast(tensor, root)
                same(tensor, values[root], ("broadcast", dtype, shape))

                places = [layout(zeros.clone()) for _ in range(size)]
                dist.all_gather(places, layout(values[rank]))
                for place, wanted in zip(places, values):
                    same(place, wanted, ("all_gather", dtype, shape))

                places = [layout(zeros.clone()) for _ in range(size)] if rank == root else None
                dist.gather(layout(values[rank]), places, dst=root)
                for place, wanted in zip(places or [], values):
                    same(place, wanted, ("gather", dtype, shape))

                place = layout(zeros.clone())
                dist.scatter(place, [layout(one) for one in values] if rank == root else None, src=root)
                same(place, values[rank], ("scatter", dtype, shape))


def case_scattered(rank, size):
    gather_into = getattr(dist, "all_gather_into_tensor")
    scatter_from = getattr(dist, "reduce_scatter_tensor")
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        for rows in (0, 1, 5):
            parts = [[value(r, (rows, 3), dtype, part) for part in range(size)] for r in range(size)]
            wanted = reduced([parts[r][rank] for r in range(size)], dist.ReduceOp.SUM)
            output = torch.empty(rows, 3, dtype=dtype)
            dist.reduce_scatter(output, [part.clone() for part in parts[rank]])
            same(output, wanted, ("reduce_scatter", dtype, rows))
            output = torch.empty(rows, 3, dtype=dtype)
            scatter_from(output, torch.cat(parts[rank]))
            same(output, wanted, ("reduce_scatter_tensor", dtype, rows))
            together = torch.cat(parts[rank])  # the output a part of the input
            scatter_from(together[rank * rows:(rank + 1) * rows], together)
            same(together[rank * rows:(rank + 1) * rows], wanted, ("in place", dtype, rows))
            output = torch.empty(size * rows, 3, dtype=dtype)
            gather_into(output, parts[rank][0])
            same(output, torch.cat([parts[r][0] for r in range(size)]), ("all_gather_into_tensor", dtype, rows))
            output[rank * rows:(rank + 1) * rows] = parts[rank][1 % size]  # the input a part of the output
            gather_into(output, output[rank * rows:(rank + 1) * rows])
            same(output, torch.cat([parts[r][1 % size] for r in range(size)]), ("in place", dtype, rows))
            if hasattr(dist, "gather_single"):  # from 2.15 on
                output = torch.empty(size * rows, 3, dtype=dtype) if rank == size - 1 else None
                dist.gather_single(parts[rank][0], output, dst=size - 1)
                if output is not None:
                    same(output, torch.cat([parts[r][0] for r in range(size)]), ("gather_single", dtype, rows))
    # Blocks of different lengths.
    parts = [[value(r, (part + 1,), torch.float32, part) for part in range(size)] for r in range(size)]
    output = torch.empty(rank + 1)
    dist.reduce_scatter(output, parts[rank])
    same(output, reduced([parts[r][rank] for r in range(size)], dist.ReduceOp.SUM), "uneven reduce_scatter")
    places = [torch.empty(r + 1) for r in range(size)]
    dist.all_gather(places, value(rank, (rank + 1,), torch.float32))
    for r in range(size):
        same(places[r], value(r, (r + 1,), torch.float32), "uneven all_gather")


def case_all_to_all(rank, size):
    for dtype in (torch.float32, torch.int64, torch.bool):
        length = lambda a, b: (a + 2 * b) % 4
        block = lambda a, b: value(10 * a + b, (length(a, b), 2), dtype)
        output = torch.empty(sum(length(r, rank) for r in range(size)), 2, dtype=dtype)
        dist.all_to_all_single(output, torch.cat([block(rank, r) for r in range(size)]),
                               [length(r, rank) for r in range(size)], [length(rank, r) for r in range(size)])
        same(output, torch.cat([block(r, rank) for r in range(size)]), "all_to_all_single with splits")
        places = [torch.empty(length(r, rank), 2, dtype=dtype) for r in range(size)]
        dist.all_to_all(places, [block(rank, r) for r in range(size)])
        for r in range(size):
            same(places[r], block(r, rank), "all_to_all")
        sent = value(rank, (2 * size, 3), dtype)
        output = torch.empty_like(sent)
        # Splits on some ranks only.
        splits = [2] * size if rank == 0 else None
        dist.all_to_all_single(output, sent, splits, splits)
        same(output, torch.cat([value(r, (2 * size, 3), dtype)[2 * rank:2 * rank + 2] for r in range(size)]),
             "all_to_all_single")


def case_messages(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    # A send does not wait for its receive: all send first, also long messages.
    for count in (0, 1, 1000, 3_000_000):
        sent = [torch.full((count,), float(rank + 10 * i)) for i in range(3)]
        works = [dist.isend(tensor, right, tag=i) for i, tensor in enumerate(sent)]
        got = [strided(torch.zeros(count)) for _ in range(3)]
        for i, tensor in enumerate(got):
            dist.recv(tensor, left, tag=i)
            same(tensor, torch.full((count,), float(left + 10 * i)), "recv")
        for work in works:
            work.wait()
    # Messages neither wait for collectives nor hold them up.
    place = torch.zeros(5)
    work = dist.irecv(place, left)
    dist.barrier()
    dist.send(torch.full((5,), float(rank)), right)
    work.wait()
    same(place, torch.full((5,), float(left)), "irecv before a barrier")
    # Of pipelines.
    sent, place = torch.full((4,), float(rank)), torch.zeros(4)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, right), dist.P2POp(dist.irecv, place, left)]):
        work.wait()
    same(place, torch.full((4,), float(left)), "batch_isend_irecv")


def case_any_source(rank, size, group=None, members=None):
    members = members or list(range(size))
    root, others = members[0], members[1:]
    for count in (1, 1000, 300_000):
        for _round in range(3):
            if rank != root:
                dist.send(torch.full((count,), float(rank)), root, group=group)
                dist.send(torch.full((count,), float(rank + 100)), root, group=group, tag=1)
                continue
            # Tensors of any layout; other tags are left alone.
            works = [(dist.irecv(place, group=group), place) for place in (strided(torch.zeros(count)) for _ in others[1:])]
            last = torch.zeros(count)
            senders = [dist.recv(last, group=group)]
            same(last, torch.full((count,), float(senders[0])), "recv from any source")
            for work, place in works:
                work.wait()
                # Works know ranks by their place in the group.
                senders.append(members[work._source_rank()])
                same(place, torch.full((count,), float(senders[-1])), "irecv from any source")
            assert sorted(senders) == others, senders
            for sender in others:
                dist.recv(last, sender, group=group, tag=1)
                same(last, torch.full((count,), float(sender + 100)), "recv behind one from any source")
    # It neither waits for collectives nor holds them up, and is there before its message.
    place = torch.zeros(5)
    work = dist.irecv(place, group=group) if rank == root else None
    dist.barrier(group=group)
    if rank == others[-1]:
        dist.send(torch.ones(5), root, group=group)
    if work is not None:
        work.wait()
        assert members[work._source_rank()] == others[-1]
        same(place, torch.ones(5), "irecv from any source before a barrier")
    if size == 2 or rank != root:
        return
    try:
        dist.recv(torch.zeros(0), group=group)
    except RuntimeError as error:
        assert "needs elements" in str(error), error
    else:
        raise AssertionError("an empty tensor was received from any source")


def case_any_source_of_some(rank, size):
    members = [1, 2, 3]
    group = dist.new_group(members)
    if rank in members:
        case_any_source(rank, 3, group, members)


def case_works(rank, size):
    # Many in flight, waited for in another order; tensors that only the library still holds.
    works, tensors = [], []
    for i in range(50):
        tensor = torch.full((100,), float(i + rank))
        works.append(dist.all_reduce(tensor, async_op=True))
        tensors.append(tensor)
        dist.all_reduce(torch.ones(1000), async_op=True)
    for i in reversed(range(50)):
        works[i].wait()
        assert works[i].is_completed()
        same(tensors[i], torch.full((100,), float(i * size + sum(range(size)))), "in flight")
    tensor = torch.ones(4)
    work = dist.all_reduce(tensor, async_op=True)
    future = work.get_future()
    doubled = future.then(lambda done: done.value()[0] * 2).wait()
    same(doubled, torch.full((4,), 2.0 * size), "future")
    same(work.get_future().wait()[0], torch.full((4,), float(size)), "future of what is done")
    assert work.is_success() if hasattr(work, "is_success") else True
    # Gradients and inference tensors are written to as others are.
    parameter = torch.nn.Parameter(torch.ones(3))
    dist.all_reduce(parameter.data)
    same(parameter.data, torch.full((3,), float(size)), "parameter")
    with torch.inference_mode():
        tensor = strided(torch.ones(3))
        dist.all_reduce(tensor)
        same(tensor, torch.full((3,), float(size)), "inference tensor")


def case_callbacks(rank, size):
    """Random programs whose callbacks issue calls and wait for them, at other times on each rank: all run one order. Calls
    are equally long and each has its own value, so that ranks that differ in the order get wrong sums."""
    program, moments = random.Random(5), random.Random(rank)
    numbers, tensors = itertools.count(1), []

    def pause():
        if moments.random() < 0.3:
            time.sleep(moments.random() * 0.001)

    def call(number):
        tensor = torch.full((3,), float(number))
        tensors.append((number, tensor))
        return dist.all_reduce(tensor, async_op=True)

    def plan(depth, earlier):
        """What a callback does, by the program's random numbers: so it is the same on all ranks."""
        steps = []
        for _ in range(program.randint(1, 4)):
            kind = program.choice(["issue", "issue and wait", "wait for the future", "wait for an earlier one", "callback"])
            then = plan(depth - 1, earlier) if kind == "callback" and depth > 0 else []
            steps.append((kind, next(numbers), program.choice(earlier), then))
        return steps

    def follow(steps):
        for kind, number, earlier, then in steps:
            pause()
            if kind == "wait for an earlier one":
                earlier.wait()
                continue
            work = call(number)
            if kind == "issue and wait":
                work.wait()
            elif kind == "wait for the future":
                work.get_future().wait()
            elif kind == "callback":
                work.get_future().then(lambda _done, then=then: follow(then))

    ends = []
    for _ in range(60):
        works = [call(next(numbers)) for _ in range(program.randint(1, 3))]
        for i, work in enumerate(works):
            steps, chained = plan(2, works[:i + 1]), plan(1, works[:i + 1])
            pause()
            end = work.get_future().then(lambda _done, steps=steps: follow(steps))
            if program.random() < 0.5:
                end = end.then(lambda _done, chained=chained: follow(chained))
            ends.append(end)
        if program.random() < 0.4:
            pause()
            call(next(numbers)).wait()
        if program.random() < 0.3:
            ends[-1].wait()
    for end in ends:
        end.wait()
    dist.barrier()
    dist.barrier()  # behind what callbacks issued last
    assert len(tensors) > 300, len(tensors)
    for number, tensor in tensors:
        same(tensor, torch.full((3,), float(number * size)), f"call {number} among callbacks")


def case_objects(rank, size):
    mine = {"rank": rank, "text": "x" * (100 * rank)}
    everything = [None] * size
    dist.all_gather_object(everything, mine)
    assert [one["rank"] for one in everything] == list(range(size))
    some = [mine, rank] if rank == 0 else [None, None]
    dist.broadcast_object_list(some, src=0)
    assert some == [{"rank": 0, "text": ""}, 0]
    place = [None] * size if rank == 0 else None
    dist.gather_object(mine, place, dst=0)
    assert rank or place[size - 1]["rank"] == size - 1
    place = [None]
    dist.scatter_object_list(place, [f"for {r}" for r in range(size)] if rank == 0 else [None] * size, src=0)
    assert place == [f"for {rank}"]


def case_sparse(rank, size):
    def mine(r, dense):
        rows = torch.tensor([[r, 3, r + 1], [0, 1, 2]]) if not dense else torch.tensor([[r, 3, r]])
        values = torch.arange(3.0) + r if not dense else torch.arange(6.0).view(3, 2) + r
        return torch.sparse_coo_tensor(rows, values, (size + 4, 4) if not dense else (size + 4, 2))
    for dense in (False, True):
        tensor = mine(rank, dense)
        dist.all_reduce(tensor)
        wanted = sum(mine(r, dense).to_dense() for r in range(size))
        same(tensor.to_dense(), wanted, "sparse all_reduce")
    empty = torch.sparse_coo_tensor(torch.empty(1, 0, dtype=torch.long), torch.empty(0), (5,))
    dist.all_reduce(empty)
    same(empty.to_dense(), torch.zeros(5), "sparse all_reduce of nothing")


def case_coalesced(rank, size):
    tensors = [torch.full((i,), float(rank)) for i in range(4)]
    dist.all_reduce_coalesced(tensors)
    for i, tensor in enumerate(tensors):
        same(tensor, torch.full((i,), float(sum(range(size)))), "all_reduce_coalesced")
    places = [[torch.empty(2), torch.empty(3)] for _ in range(size)]
    dist.all_gather_coalesced(places, [torch.full((2,), float(rank)), torch.full((3,), -float(rank))])
    for r in range(size):
        same(places[r][0], torch.full((2,), float(r)), "all_gather_coalesced")
        same(places[r][1], torch.full((3,), -float(r)), "all_gather_coalesced")
    if importlib.util.find_spec("torch.distributed._functional_collectives") is None:  # before 2.1
        print("functional collectives were not run: this torch has none")
        return
    from torch.distributed import _functional_collectives as functional
    group = dist.group.WORLD
    gathered = functional.all_gather_into_tensor_coalesced([torch.full((2,), float(rank))], group)
    same(gathered[0] + 0, torch.arange(size).float().repeat_interleave(2), "all_gather_into_tensor_coalesced")
    scattered = functional.reduce_scatter_tensor_coalesced([torch.ones(2 * size)], "sum", [0], group)
    same(scattered[0] + 0, torch.full((2,), float(size)), "reduce_scatter_tensor_coalesced")
    same(functional.all_reduce(torch.ones(3), "avg", group) + 0, torch.ones(3), "functional all_reduce")
    tensors = [torch.ones(2), torch.ones(3)]
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for tensor in tensors:
        same(tensor, torch.full_like(tensor, float(size)), "coalesced")


def case_groups(rank, size):
    groups = [dist.new_group([r for r in range(size) if r % 2 == part]) for part in range(2)]
    mine = groups[rank % 2]
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=mine)
    same(tensor, torch.full((3,), float(len(range(rank % 2, size, 2)))), "new_group")
    # Two groups at once, begun in different orders.
    pair = dist.new_group(list(range(size)))
    order = [None, pair] if rank % 2 else [pair, None]
    tensors = [torch.ones(10) for _ in order]
    works = [dist.all_reduce(tensor, group=group, async_op=True) for tensor, group in zip(tensors, order)]
    for work in works:
        work.wait()
    for tensor in tensors:
        same(tensor, torch.full((10,), float(size)), "two groups")
    dist.barrier(group=pair)
    dist.destroy_process_group(pair)


def case_short_forms(rank, size):
    """Calls of the group itself, without options."""
    group = dist.distributed_c10d._get_default_group()
    total = float(sum(range(size)))
    for call in (lambda tensor: group.allreduce([tensor]), lambda tensor: group.allreduce(tensor),
                 lambda tensor: group.allreduce([tensor], dist.ReduceOp.SUM), lambda tensor: group.allreduce(tensor, op=dist.ReduceOp.SUM)):
        tensor = torch.full((3,), float(rank))
        call(tensor).wait()
        same(tensor, torch.full((3,), total), "allreduce in a short form")
    tensor = torch.full((3,), float(rank))
    group.broadcast(tensor, root=1).wait()
    same(tensor, torch.ones(3), "broadcast in a short form")
    group.reduce(tensor, 0, dist.ReduceOp.MAX).wait()
    same(tensor, torch.ones(3), "reduce in a short form")
    places = [torch.empty(2) for _ in range(size)]
    group.allgather(places, torch.full((2,), float(rank))).wait()
    same(torch.stack(places), torch.arange(float(size)).view(size, 1).expand(size, 2), "allgather in a short form")
    group.gather([places] if rank == 0 else [], [torch.full((2,), 5.0)]).wait()
    same(places[1], torch.full((2,), 5.0 if rank == 0 else 1.0), "gather in a short form")
    group.scatter(tensor, [torch.full((3,), float(r)) for r in range(size)] if rank == 0 else [], 0).wait()
    same(tensor, torch.full((3,), float(rank)), "scatter in a short form")
    group.reduce_scatter(tensor, [torch.ones(3) for _ in range(size)]).wait()
    same(tensor, torch.full((3,), float(size)), "reduce_scatter in a short form")


def case_mixed_forms(rank, size):
    """Ranks that differ in the form that they would take: all take that in Python."""
    if tutti_torch._compiled is None:
        return
    tutti_torch.use("python" if rank == 0 else "compiled")
    group = dist.new_group(list(range(size)))
    tensor = torch.zeros(1 << 16)
    for _ in range(20):  # the compiled form would come to agree on sharing it
        dist.all_reduce(tensor.fill_(rank), group=group)
        same(tensor, torch.full((1 << 16,), float(sum(range(size)))), "all_reduce of mixed forms")
    tutti_torch.use(None)


CASES = ["short_forms", "reductions", "averages", "moves", "scattered", "all_to_all", "messages", "any_source", "works",
         "callbacks", "objects", "sparse", "coalesced", "groups"]


def case_all(rank, size):
    for case in CASES:
        globals()["case_" + case](rank, size)


if __name__ == "__main__":
    if ranks.is_rank():
        ranks.main(globals())
    else:
        ranks.run(__file__, "all", sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2)
        ranks.run(__file__, "mixed_forms", sys.argv[1], 3)
        ranks.run(__file__, "any_source+any_source_of_some", sys.argv[1], 4)
