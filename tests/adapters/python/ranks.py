"""A rank of calls_test.py: ranks.py CASE. Every case leaves the communicator usable, and ends with the line "done"."""

import operator
import random
import sys

import numpy as np

import tutti
from tutti import Dtype, Op

comm = tutti.init(timeout=60)
rank, size = comm.rank, comm.size


def equal(got, wanted, what=""):
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape and got.tobytes() == wanted.astype(got.dtype).tobytes(), (what, got, wanted)


def refused(kind, call, words):
    try:
        call()
    except kind as problem:
        assert words in str(problem), str(problem)
        return problem
    raise AssertionError(f"no {kind.__name__}: {words}")


NUMPY = [d for d in Dtype if d not in (Dtype.BFLOAT16, Dtype.FLOAT8_E4M3, Dtype.FLOAT8_E5M2, Dtype.BINNED_FLOAT32,
                                       Dtype.BINNED_FLOAT64)]


def inputs(dtype, count, seed):
    """One vector a rank. Small integers, so that sums and products are exact in every type."""
    made = []
    for r in range(size):
        generator = np.random.default_rng(1000 * seed + r)
        kind = tutti.numpy_dtype(dtype)
        small = generator.integers(0 if kind.kind in "ub" else -2, 3, count)
        if kind.names:
            vector = np.empty(count, kind)
            vector["value"], vector["index"] = small, generator.integers(0, 100, count)
        elif kind.kind in "iu" and seed % 2:
            limits = np.iinfo(kind)
            vector = generator.integers(limits.min, limits.max, count, kind, endpoint=True)
        else:
            vector = small.astype(kind)
            if kind.kind == "c":
                vector = vector + 1j * generator.integers(-2, 3, count).astype(vector.real.dtype)
                vector = vector.astype(kind)
        made.append(vector)
    return made


def oracle(op, vectors):
    kind = vectors[0].dtype
    out = vectors[0].copy()
    if op in (Op.MINLOC, Op.MAXLOC):
        for v in vectors[1:]:
            better = v["value"] < out["value"] if op == Op.MINLOC else v["value"] > out["value"]
            better |= (v["value"] == out["value"]) & (v["index"] < out["index"])
            out[better] = v[better]
        return out
    if op in (Op.LAND, Op.LOR, Op.LXOR):
        out = out != 0
    if kind == bool and op in (Op.SUM, Op.MAX, Op.BOR):
        return np.logical_or.reduce(vectors)
    if kind == bool and op in (Op.PROD, Op.MIN, Op.BAND):
        return np.logical_and.reduce(vectors)
    step = {Op.SUM: np.add, Op.AVG: np.add, Op.PROD: np.multiply, Op.MIN: np.minimum, Op.MAX: np.maximum,
            Op.LAND: np.logical_and, Op.LOR: np.logical_or, Op.LXOR: np.logical_xor, Op.BAND: np.bitwise_and,
            Op.BOR: np.bitwise_or, Op.BXOR: np.bitwise_xor}[op]
    with np.errstate(over="ignore"):
        for v in vectors[1:]:
            out = step(out, v)
    if op == Op.AVG:
        if kind.kind in "iu":
            return np.array([int(abs(int(x)) // len(vectors)) * (-1 if x < 0 else 1) for x in out], kind)
        parts = out.view(out.real.dtype)  # of complex numbers both
        wide = np.float64 if parts.itemsize == 8 else np.float32
        return (parts.astype(wide) / wide(len(vectors))).astype(parts.dtype).view(kind)
    return out.astype(kind)


def types():
    """All types and operators against NumPy, for short and long vectors."""
    done = 0
    for dtype in NUMPY:
        for op in Op:
            for count in (1, 3, 1000):
                seed = 1 if count == 3 and op not in (Op.AVG,) else 2
                vectors = inputs(dtype, count, seed)
                out = np.zeros(count, vectors[0].dtype)
                if not tutti.supports(op, dtype):
                    refused(tutti.InvalidError, lambda: comm.Allreduce(vectors[rank], out, op), op.name.lower())
                    continue
                comm.Allreduce(vectors[rank], out, op)
                equal(out, oracle(op, vectors), (dtype, op, count))
                out = vectors[rank].copy()
                comm.Allreduce(tutti.IN_PLACE, out, op=op)
                equal(out, oracle(op, vectors), (dtype, op, count, "in place"))
                done += 1
    assert done > 300, done
    # Types that NumPy lacks, by their bits: 1.0, and the sum of as many.
    for dtype, letter, one, sums in ((Dtype.BFLOAT16, "u2", 0x3F80, {2: 0x4000, 3: 0x4040}),
                                     (Dtype.FLOAT8_E4M3, "u1", 0x38, {2: 0x40, 3: 0x44}),
                                     (Dtype.FLOAT8_E5M2, "u1", 0x3C, {2: 0x40, 3: 0x42})):
        vector = np.full(100, one, letter)
        out = np.zeros_like(vector)
        comm.Allreduce([vector, dtype], [out, dtype], tutti.SUM)
        equal(out, np.full(100, sums[size], letter), dtype)
    try:
        import ml_dtypes
    except ImportError:
        return
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        vector = np.ones(50).astype(getattr(ml_dtypes, name))
        out = np.zeros_like(vector)
        comm.Allreduce(vector, out)
        equal(out.astype("f4"), np.full(50, size, "f4"), name)
    print("with ml_dtypes")


def collectives():
    """Every call against what NumPy makes of all ranks' inputs."""
    for count in (0, 1, 7, 5000):
        everyone = [np.arange(count * size, dtype="f8") + 100 * r for r in range(size)]
        mine, total = everyone[rank], sum(everyone)
        root = count % size
        for call, begin in ((comm.Reduce, comm.Ireduce),):
            out = np.zeros(count * size)
            call(mine, out if rank == root else None, tutti.SUM, root)
            equal(out, total if rank == root else np.zeros(count * size))
            out[:] = 0
            begin(mine, out if rank == root else None, tutti.SUM, root).wait()
            equal(out, total if rank == root else np.zeros(count * size))
        out = mine.copy()
        comm.Bcast(out, root)
        equal(out, everyone[root])
        out = np.zeros(size * size * count)
        comm.Allgather(mine, out)
        equal(out, np.concatenate(everyone))
        out = np.zeros(size * size * count)
        out[rank * size * count:(rank + 1) * size * count] = mine
        comm.Allgather(tutti.IN_PLACE, out)
        equal(out, np.concatenate(everyone))
        out = np.zeros(size * size * count)
        comm.Gather(mine, out if rank == root else None, root)
        equal(out, np.concatenate(everyone) if rank == root else out * 0)
        out = np.zeros(count)
        comm.Scatter(mine if rank == root else None, out, root)
        equal(out, everyone[root][rank * count:(rank + 1) * count])
        out = np.zeros(count)
        comm.Reduce_scatter_block(mine, out)
        equal(out, total[rank * count:(rank + 1) * count])
        comm.Reduce_scatter(mine, out)
        equal(out, total[rank * count:(rank + 1) * count])
        out = np.zeros(size * count)
        comm.Alltoall(mine, out)
        equal(out, np.concatenate([e[rank * count:(rank + 1) * count] for e in everyone]))
        out = np.full(size * count, -1.0)
        comm.Scan(mine, out)
        equal(out, sum(everyone[:rank + 1]))
        out = np.full(size * count, -1.0)
        comm.Exscan(mine, out)
        equal(out, sum(everyone[:rank]) if rank else np.full(size * count, -1.0))
        comm.Barrier()
        comm.Ibarrier().wait()

    counts = [3 + 2 * r for r in range(size)]
    displs = [10 * r for r in range(size)]
    blocks = [np.arange(n, dtype="i4") + 1000 * r for r, n in enumerate(counts)]
    placed = np.full(10 * size + 30, -1, "i4")
    for r, block in enumerate(blocks):
        placed[displs[r]:displs[r] + counts[r]] = block
    for recv in (lambda o: [o, counts, displs], lambda o: [o, (counts, displs)]):
        out = np.full_like(placed, -1)
        comm.Allgatherv(blocks[rank], recv(out))
        equal(out, placed)
    out = np.full_like(placed, -1)
    comm.Iallgatherv(blocks[rank], out, counts, displs).wait()
    equal(out, placed)
    out = np.full_like(placed, -1)
    comm.Gatherv(blocks[rank], [out, counts, displs] if rank == 0 else None)
    equal(out, placed if rank == 0 else np.full_like(placed, -1))
    out = np.zeros(counts[rank], "i4")
    comm.Scatterv([placed, counts, displs] if rank == 0 else None, out)
    equal(out, blocks[rank])
    whole = np.arange(sum(counts), dtype="i8")
    out = np.zeros(counts[rank], "i8")
    comm.Reduce_scatter(whole, out, counts)
    equal(out, size * whole[sum(counts[:rank]):sum(counts[:rank + 1])])
    # Rank r sends r + s + 1 elements to rank s.
    lengths = [rank + s + 1 for s in range(size)]
    given = np.concatenate([np.full(n, 10 * rank + s, "i2") for s, n in enumerate(lengths)])
    out = np.zeros(sum(lengths), "i2")
    comm.Alltoallv([given, lengths], [out, lengths])
    equal(out, np.concatenate([np.full(n, 10 * s + rank, "i2") for s, n in enumerate(lengths)]))
    to, source = (rank + 1) % size, (rank - 1) % size
    out = np.zeros(4)
    comm.Sendrecv(np.full(4, float(rank)), to, out, source, 5, 5)
    equal(out, np.full(4, float(source)))
    requests = [comm.Isend(np.full(3, float(rank)), to, 7), comm.Irecv(out[:3], source, 7)]
    tutti.waitall(requests)
    equal(out[:3], np.full(3, float(source)))
    if rank == 0:
        comm.Send(b"bytes", 1)
    elif rank == 1:
        got = bytearray(5)
        comm.Recv(got, 0)
        assert got == b"bytes"


def sequences():
    """Calls of all kinds, lengths and ways in one random order, the same on all ranks."""
    order = random.Random(7)
    shared = comm.empty(40000)
    heap = np.zeros(40000)
    adopted = comm.adopt(heap)
    configs = [None, tutti.Config(timeout=30), tutti.Config(level=tutti.Level.CANONICAL), tutti.Config(algorithm="ring"),
               tutti.Config(unfused=True)]
    prepared_in, prepared_out = np.zeros(33), np.zeros(33)
    prepared = comm.Allreduce_init(prepared_in, prepared_out)
    flying = []
    for number in range(400):
        count = order.choice([1, 2, 8, 100, 1023, 1024, 5000, 40000])
        way = order.choice(["heap", "shared", "adopted", "in place", "nonblocking", "prepared", "bcast", "gather"])
        config = order.choice(configs)
        if order.random() < 0.2:
            while flying:
                request, out, wanted = flying.pop(order.randrange(len(flying)))
                request.wait()
                equal(out, wanted)
        base = np.arange(count) % 50 + number
        wanted = size * base.astype("f8") + sum(range(size))
        if way in ("heap", "nonblocking"):
            out = np.empty(count)
            if way == "heap":
                comm.Allreduce(base + float(rank), out, config=config)
            else:  # the input is dropped at once: the request keeps it
                flying.append((comm.Iallreduce(base + float(rank), out, config=config), out, wanted))
                continue
        elif way in ("shared", "adopted"):
            out = (shared if way == "shared" else heap)[:count]
            out[:] = base + rank
            comm.Allreduce(tutti.IN_PLACE, out, config=config)
        elif way == "in place":
            out = base + float(rank)
            comm.Allreduce(tutti.IN_PLACE, out, config=config)
        elif way == "prepared":
            prepared_in[:] = number + rank
            prepared.start()
            prepared.wait()
            out, wanted = prepared_out, np.full(33, float(size * number + sum(range(size))))
        elif way == "bcast":
            root = number % size
            out, wanted = base + float(rank), base + float(root)
            comm.Bcast(out, root)
        else:
            out = np.empty(count * size)
            comm.Allgather(base + float(rank), out)
            wanted = np.concatenate([base + float(r) for r in range(size)])
        equal(out, wanted, (number, way, count))
    for request, out, wanted in flying:
        request.wait()
        equal(out, wanted)
    prepared.free()
    adopted.release()


def requests():
    """Requests keep their buffers, say when they have ended, and forbid to free what they use."""
    import gc
    gate = comm.dup()
    for first in range(size):
        if rank != first:
            gate.Barrier()  # until then the calls of `first` cannot end
        out = np.zeros(1000)
        dropped = comm.Iallreduce(np.ones(1000), out)
        del dropped  # it runs on, with its input
        second = np.zeros(10)
        request = comm.Iallreduce(np.ones(10), second)
        if rank == first:
            refused(tutti.InvalidError, comm.free, "in flight")
            gate.Barrier()
        gc.collect()
        comm.Barrier()
        while not request.test():
            pass
        assert request.test()
        request.wait()
        equal(out, np.full(1000, float(size)))
        equal(second, np.full(10, float(size)))
    gate.free()
    several = [comm.Iallreduce(np.ones(n), np.zeros(n)) for n in (1, 100, 10000)]
    places = set()
    while (place := tutti.waitany(several)) is not None:
        places.add(place)
    assert places == {0, 1, 2}, places
    held = bytearray(8)
    request = comm.Iallreduce(bytearray(8), held)
    refused(BufferError, lambda: held.extend(b"more"), "")
    request.wait()
    held.extend(b"more")


def objects():
    """Objects by pickle, and one that cannot be pickled is told to all."""
    assert comm.allgather(("rank", rank)) == [("rank", r) for r in range(size)]
    assert comm.bcast({"a": [1]} if rank == 1 else None, 1) == {"a": [1]}
    assert comm.gather(rank, 1) == (list(range(size)) if rank == 1 else None)
    assert comm.scatter([str(r) for r in range(size)] if rank == 0 else None) == str(rank)
    assert comm.allreduce([rank], operator.add) == list(range(size))
    if rank == 0:
        comm.send({"to": 1}, 1, 3)
    elif rank == 1:
        assert comm.recv(0, 3) == {"to": 1}
    problem = refused(Exception, lambda: comm.bcast((lambda: 0) if rank == 0 else None), "pickle")
    assert rank == 0 or (isinstance(problem, tutti.InvalidError) and problem.peer == 0)
    refused(Exception, lambda: comm.allgather((lambda: 0) if rank == size - 1 else 1), "pickle")
    refused(Exception, lambda: comm.scatter([1] if rank == 0 else None), "" if rank == 0 else "pickle")
    assert comm.allgather(rank) == list(range(size))


def operators():
    """Operators in Python: ufuncs, functions that keep rank order, scalars."""
    op = tutti.UserOp(np.maximum, commute=True)
    out = np.zeros(3000)
    comm.Allreduce(np.arange(3000.0) * (rank + 1), out, op)
    equal(out, np.arange(3000.0) * size)
    op.free()

    def after(lower, higher, out):  # the product of 2 by 2 matrices is not commutative
        out[:] = (lower.reshape(-1, 2, 2) @ higher.reshape(-1, 2, 2)).ravel()

    pair = tutti.UserDtype(32, "matrix")
    matrices = [np.array([[1, r + 1], [0, 1 + r % 2]], "f8") for r in range(size)]

    def after_bytes(lower, higher, out):
        a, b, c = (np.frombuffer(v, "f8").reshape(-1, 2, 2) for v in (lower, higher, out))
        np.matmul(a.copy(), b.copy(), out=c)

    op = tutti.UserOp(after_bytes)
    out = np.zeros((2, 2))
    comm.Allreduce([matrices[rank], pair], [out, pair], op)
    wanted = matrices[0]
    for matrix in matrices[1:]:
        wanted = wanted @ matrix
    equal(out, wanted)
    op.free()
    pair.free()
    halves = comm.premul_sum(0.5, Dtype.FLOAT64)
    out = np.zeros(5)
    comm.Allreduce(np.full(5, 2.0), out, halves)
    equal(out, np.full(5, float(size)))
    halves.free()
    out = np.zeros(4)
    tutti.reduce_local([np.full(4, 1.0), np.full(4, 2.0)], out)
    equal(out, np.full(4, 3.0))


def communicators():
    """split, dup, groups, as context managers; memory outlives views of it."""
    with comm.split(rank % 2) as half:
        assert half.size == len(range(rank % 2, size, 2)) and half.allgather(rank) == list(range(rank % 2, size, 2))
    refused(tutti.InvalidError, half.Barrier, "has been freed")
    assert comm.split(-1 if rank == 0 else 0, 0) is None or rank != 0
    with comm.dup() as other, comm.split_host() as host:
        assert (other.rank, other.size, host.size) == (rank, size, size)
        memory = other.mem_alloc(8000)
        array = memory.array(Dtype.FLOAT64, (10, 100))
        assert array.shape == (10, 100) and not array.any()
        refused(BufferError, memory.free, "in use")
        array[:] = rank
        other.Allreduce(tutti.IN_PLACE, array)
        assert memory.in_use
    equal(array, np.full((10, 100), float(sum(range(size)))))  # the communicator is gone, the view is not
    del array
    if rank < 2:
        with comm.create_group([1, 0]) as pair:
            assert pair.rank == 1 - rank
    with comm.dup() as over:
        assert over.failed_ranks() == [] and over.agree(6 if rank == 0 else 3) == (2, True)
        over.abort("to shrink it")
        with over.shrink() as again:
            assert (again.rank, again.size) == (rank, size) and again.allgather(rank) == list(range(size))
    comm.Barrier()
    assert comm.explain(100, Dtype.FLOAT32).algorithm and comm.counters.calls > 0 and comm.transport


def prepared():
    """Every call that can be prepared, started twice with changed inputs."""
    to, source, n = (rank + 1) % size, (rank - 1) % size, 6
    counts = [2 + r for r in range(size)]
    mine, whole, blocks = np.zeros(n * size), np.zeros(n * size), np.zeros(n * size * size)
    block, varied, part = np.zeros(n), np.zeros(sum(counts)), np.zeros(counts[rank])
    inputs = lambda turn: [np.arange(n * size) + 100.0 * r + turn for r in range(size)]
    at = [sum(counts[:r]) for r in range(size)]
    cases = [
        (lambda: comm.Scan_init(mine, whole), whole, lambda e: sum(e[:rank + 1])),
        (lambda: comm.Exscan_init(mine, whole), whole, lambda e: sum(e[:rank]) if rank else None),
        (lambda: comm.Gather_init(mine, blocks if rank == 1 else None, 1), blocks,
         lambda e: np.concatenate(e) if rank == 1 else None),
        (lambda: comm.Scatter_init(mine if rank == 1 else None, block, 1), block,
         lambda e: e[1][n * rank:n * (rank + 1)]),
        (lambda: comm.Alltoall_init(mine, whole), whole,
         lambda e: np.concatenate([v[n * rank:n * (rank + 1)] for v in e])),
        (lambda: comm.Reduce_scatter_block_init(mine, block), block, lambda e: sum(e)[n * rank:n * (rank + 1)]),
        (lambda: comm.Reduce_scatter_init(mine[:sum(counts)], part, counts), part,
         lambda e: sum(e)[at[rank]:at[rank] + counts[rank]]),
        (lambda: comm.Allgatherv_init(mine[:counts[rank]], varied, counts), varied,
         lambda e: np.concatenate([v[:c] for v, c in zip(e, counts)])),
        (lambda: comm.Gatherv_init(mine[:counts[rank]], varied if rank == 0 else None, counts), varied,
         lambda e: np.concatenate([v[:c] for v, c in zip(e, counts)]) if rank == 0 else None),
        (lambda: comm.Scatterv_init(mine[:sum(counts)] if rank == 0 else None, part, counts), part,
         lambda e: e[0][at[rank]:at[rank] + counts[rank]]),
        (lambda: comm.Alltoallv_init([mine[:2 * size], [2] * size], [whole[:2 * size], [2] * size]), whole[:2 * size],
         lambda e: np.concatenate([v[2 * rank:2 * rank + 2] for v in e])),
        (lambda: comm.Sendrecv_init(mine, to, whole, source, 3, 3), whole, lambda e: e[source]),
    ]
    for number, (prepare, out, wanted) in enumerate(cases):
        with prepare() as request:
            for turn in range(2):
                everyone = inputs(turn)
                mine[:], out[:] = everyone[rank], -1
                request.start()
                request.wait()
                expected = wanted(everyone)
                equal(out, expected if expected is not None else np.full_like(out, -1), (number, turn))
    with comm.Barrier_init() as barrier, comm.Send_init(mine, to, 9) as send, comm.Recv_init(whole, source, 9) as recv:
        tutti.startall([send, recv, barrier])
        tutti.waitall([send, recv, barrier])
    equal(whole, inputs(1)[source])
    comm.Isendrecv(mine, to, whole, source).wait()


def any_source():
    """Messages of any rank, among those of named ranks and collectives, in every order of waiting."""
    order = random.Random(11)
    total = np.zeros(1)
    for turn in range(60):
        count, tag = order.choice([1, 7, 1000, 50000]), turn  # senders may be a turn ahead
        way = order.choice(["recv", "waitall", "waitany", "test", "named first"])
        receiver = order.randrange(size)
        wanted = {r: np.full(count, 1000.0 * turn + r) for r in range(size) if r != receiver}
        if rank != receiver:
            comm.Send(wanted[rank], receiver, tag)
        else:
            senders, outs, requests = [], [np.zeros(count) for _ in wanted], []
            if way == "recv":
                senders = [comm.Recv_any(out, tag) for out in outs]
            else:
                if way == "named first":
                    requests.append(comm.Irecv(outs[0], min(wanted), tag))
                requests += [comm.Irecv_any(out, tag, tutti.Config(timeout=30)) for out in outs[len(requests):]]
                if way == "waitany":
                    while tutti.waitany(requests) is not None:
                        pass
                elif way == "test":
                    while not all([request.test() for request in requests]):
                        pass
                else:
                    tutti.waitall(requests)
                senders = [request.source if isinstance(request, tutti.AnyRequest) else min(wanted) for request in requests]
            assert sorted(senders) == sorted(wanted), (turn, way, senders)
            for sender, out in zip(senders, outs):
                equal(out, wanted[sender], (turn, way))
        if order.random() < 0.5:
            comm.Allreduce(np.ones(1), total)
            equal(total, np.full(1, float(size)))
    if rank == 0:
        other, named = np.zeros(2), np.zeros(3)
        request = comm.Irecv_any(named, 8)  # not the message of two elements, nor that with another tag
        assert request.source is None and not request.test()
        comm.Send(np.zeros(1), 1, 9)
        comm.Recv(other, 1, 8)
        request.wait()
        assert request.source == 1 and request.test()
        equal(named, np.full(3, 3.0))
    elif rank == 1:
        comm.Recv(np.zeros(1), 0, 9)
        comm.Send(np.full(2, 2.0), 0, 8)
        comm.Send(np.full(3, 3.0), 0, 8)
    refused(tutti.InvalidError, lambda: comm.Recv_any(np.zeros(0)), "needs elements")
    refused(tutti.InvalidError, lambda: comm.Irecv_any(b"read only"), "read-only")
    with comm.group():
        refused(tutti.InvalidError, lambda: comm.Irecv_any(np.zeros(1)), "group")
    own = comm.dup()
    if rank == 0:
        late = own.Irecv_any(np.zeros(1), config=tutti.Config(timeout=0.2))
        refused(tutti.DeadlineError, late.wait, "")
        assert late.source is None
    own.free()


def groups():
    """Messages that are recorded, and run together; what was recorded is discarded with an exception."""
    others = [r for r in range(size) if r != rank]
    received = {r: np.zeros(50000) for r in others}
    with comm.group():
        for r in others:  # more than staging holds: one at a time, all would wait for each other
            comm.Send(np.full(50000, 10.0 * rank + r), r, 1)  # the only reference is the group's
        for r in others:
            comm.Recv(received[r], r, 1)
        assert not any(v.any() for v in received.values())
        refused(tutti.InvalidError, comm.Barrier, "group")
        refused(tutti.InvalidError, lambda: comm.send("object", others[0]), "group")
        refused(tutti.InvalidError, lambda: comm.recv(others[0]), "group")
        refused(tutti.InvalidError, comm.group().__enter__, "open already")
    for r in others:
        equal(received[r], np.full(50000, 10.0 * r + rank))
    try:
        with comm.group(tutti.Config(timeout=30)):
            comm.Send(np.zeros(4), others[0])
            raise KeyError("mine")
    except KeyError:
        pass
    out = np.zeros(4)
    to, source = (rank + 1) % size, (rank - 1) % size
    with comm.group(tutti.Config(timeout=30)):
        comm.Sendrecv(np.full(4, 1.0 + rank), to, out, source)
    equal(out, np.full(4, 1.0 + source))  # and not the zeros of the group that was discarded
    with comm.group():
        pass


def sparse():
    """Vectors of which ranks give some entries, and the largest entries with memory of the others."""
    for dtype in ("f4", "f8", "i4"):
        length = 1000
        dense = [np.zeros(length, dtype) for _ in range(size)]
        given = [np.unique((np.arange(20 * (r + 1)) * (7 + r)) % length).astype("u4") for r in range(size)]
        for r in range(size):
            dense[r][given[r]] = given[r] % 13 + r + 1
        union = np.unique(np.concatenate(given)).astype("u4")
        indices, values = np.zeros(len(union) + 5, "u4"), np.zeros(len(union) + 5, dtype)
        n = comm.Allreduce_sparse((given[rank], dense[rank][given[rank]]), (indices, values), length)
        assert n == len(union), (n, len(union))
        equal(indices[:n], union)
        equal(values[:n], sum(dense)[union])
        everyone = np.maximum.reduce([np.where(np.isin(np.arange(length), g), d, -10**6) for g, d in zip(given, dense)])
        n = comm.Allreduce_sparse((given[rank], dense[rank][given[rank]]), (indices, values), length, Op.MAX,
                                  tutti.Config(timeout=30))
        equal(values[:n], everyone[union].astype(dtype))
        # Too short on one rank only: all are told how much it takes.
        room = len(union) - 1 if rank == 1 else len(union)
        problem = refused(tutti.CapacityError, lambda: comm.Allreduce_sparse(
            (given[rank], dense[rank][given[rank]]), (indices[:room], values[:room]), length), str(len(union)))
        assert (problem.capacity, problem.status, problem.rank) == (len(union), tutti.Status.INVALID, rank), problem
        import pickle
        assert pickle.loads(pickle.dumps(problem)).capacity == problem.capacity
    empty = np.zeros(0, "u4")
    assert comm.Allreduce_sparse((empty, np.zeros(0)), (empty, np.zeros(0)), 10) == 0
    one = (np.zeros(1, "u4"), np.ones(1))
    refused(tutti.InvalidError, lambda: comm.Allreduce_sparse((np.zeros(1, "i4"), np.ones(1)), one, 10), "UINT32")
    refused(tutti.InvalidError, lambda: comm.Allreduce_sparse((one[0], np.ones(2)), one, 10), "1 indices")
    refused(tutti.InvalidError, lambda: comm.Allreduce_sparse(one[0], one, 10), "a pair")
    refused(tutti.InvalidError, lambda: comm.Allreduce_sparse((np.array([3, 3], "u4"), np.ones(2)), one, 10), "ascend")
    refused(tutti.InvalidError, lambda: comm.Allreduce_sparse((one[0], np.ones(1, "f4")), one, 10), "FLOAT32")

    length, k = 64, 5
    for dtype in (Dtype.FLOAT32, Dtype.FLOAT64):
        kind = tutti.numpy_dtype(dtype)
        with tutti.TopK(length, k, dtype) as topk:
            assert not topk.residual.any()
            residuals = [np.zeros(length, kind) for _ in range(size)]
            for turn in range(4):
                everyone = [((np.arange(length) * (turn + 3) + r) % 17 - 8).astype(kind) for r in range(size)]
                wanted = np.zeros(length, kind)
                for r in range(size):
                    residuals[r] += everyone[r]
                    largest = np.argsort(-np.abs(residuals[r]), kind="stable")[:k]
                    wanted[largest] += residuals[r][largest]
                    residuals[r][largest] = 0
                out = everyone[rank].copy() if turn == 3 else np.zeros(length, kind)
                comm.Allreduce_topk(tutti.IN_PLACE if turn == 3 else everyone[rank], out, topk)
                equal(out, wanted, turn)
                equal(topk.residual, residuals[rank], turn)
            topk.residual[:] = 7  # as from a checkpoint
            comm.Allreduce_topk(np.zeros(length, kind), out, topk, Op.AVG)
            kept = topk.residual
            equal(out, np.array([7] * k + [0] * (length - k)))
            refused(tutti.InvalidError, lambda: comm.Allreduce_topk(np.zeros(9, kind), out, topk), "9 elements")
        refused(tutti.InvalidError, lambda: comm.Allreduce_topk(out, out.copy(), topk), "has been freed")
        equal(kept, np.array([0] * k + [7] * (length - k)))  # the view keeps the memory
    refused(tutti.InvalidError, lambda: tutti.TopK(4, 5), "")
    refused(tutti.InvalidError, lambda: tutti.TopK(4, 2, Dtype.INT32), "")


def coded():
    """Vectors that are encoded on the way: built in, and by a codec in Python."""
    everyone = [(np.arange(1000, dtype="f4") % 31 - 15) * (r + 1) / 8 for r in range(size)]
    total = sum(everyone)
    for codec, most in (("bf16", 1 / 64), (tutti.Codec("fp8"), 1 / 4)):
        out = np.zeros(1000, "f4")
        assert comm.Allreduce_coded(everyone[rank], out, codec) is None
        assert np.abs(out - total).max() <= most * sum(np.abs(v) for v in everyone).max(), np.abs(out - total).max()
        assert comm.allgather(out.tobytes()) == [out.tobytes()] * size
        again = everyone[rank].copy()
        loss = comm.Allreduce_coded(tutti.IN_PLACE, again, codec, config=tutti.Config(timeout=30), measure=True)
        equal(again, out)
        assert loss.rms_value > 1 and loss.not_finite == 0 and loss.max_error < 2 and loss.rms_error <= loss.max_error
    fine = tutti.Codec("fp8")
    assert (fine.block, fine.encoded_bytes(32), fine.encoded_bytes(64)) == (32, 33, 66)

    def encode(values, encoded):  # in eighths
        np.asarray(encoded).view("i2")[:] = np.asarray(values) * 8

    def decode(encoded, values):
        np.asarray(values)[:] = np.asarray(encoded).view("i2").astype("f4") / 8

    eighths = tutti.UserCodec("eighths", lambda count: 2 * count, encode, decode)
    assert eighths.encoded_bytes(10) == 20 and eighths.block == 1
    for count in (1, 1000):
        out = np.zeros(count, "f4")
        loss = comm.Allreduce_coded(everyone[rank][:count], out, eighths, measure=True)
        equal(out, total[:count])
        assert loss.max_error == 0
    out = np.zeros(1000, "f4")
    comm.Allreduce_coded(everyone[rank], out, eighths, Op.MAX)
    equal(out, np.maximum.reduce(everyone))
    refused(tutti.InvalidError, lambda: tutti.Codec("zip"), "bf16")
    refused(tutti.InvalidError, lambda: comm.Allreduce_coded(np.ones(4), np.ones(4), "bf16"), "FLOAT64")
    refused(tutti.InvalidError, lambda: comm.Allreduce_coded(out, out.copy(), tutti.UserCodec("", len, encode, decode)),
            "printable")
    refused(tutti.InvalidError, lambda: comm.Allreduce_coded(out, out.copy(), "bf16", config=tutti.Config(algorithm="ring")),
            "algorithm")


def locally():
    """What needs no communicator."""
    values = np.array([1e16, 1.0, -1e16, 3.5])
    parts = [bytearray(64), bytearray(64)]
    for part, some in zip(parts, (values[:1], values[1:])):
        tutti.binned_deposit_all([part, Dtype.BINNED_FLOAT64], some)
    total, out = bytearray(64), np.zeros(1)
    tutti.reduce_local([[part, Dtype.BINNED_FLOAT64] for part in parts], [total, Dtype.BINNED_FLOAT64])
    tutti.binned_finish([total, Dtype.BINNED_FLOAT64], out)
    equal(out, np.array([4.5]))
    several = bytearray(32 * 3)
    tutti.binned_deposit([several, Dtype.BINNED_FLOAT32], np.array([1, 2, 3], "f4"))
    tutti.binned_deposit([several, Dtype.BINNED_FLOAT32], np.array([10, 20, 30], "f4"))
    across = bytearray(32 * 3)
    comm.Allreduce([several, Dtype.BINNED_FLOAT32], [across, Dtype.BINNED_FLOAT32])
    result = np.zeros(3, "f4")
    tutti.binned_finish([across, Dtype.BINNED_FLOAT32], result)
    equal(result, size * np.array([11, 22, 33], "f4"))
    refused(tutti.InvalidError, lambda: tutti.binned_deposit([several, Dtype.BINNED_FLOAT32], np.ones(2, "f4")), "2 values")
    refused(tutti.InvalidError, lambda: tutti.binned_deposit([bytearray(8), Dtype.FLOAT64], np.ones(1)), "")
    refused(tutti.InvalidError, lambda: tutti.binned_finish([several, Dtype.BINNED_FLOAT32], np.ones(2)), "2 results")
    found = {(a.name, a.collective) for a in tutti.algorithms()}
    assert ("ring", "allreduce") in found and len(found) > 20, found
    assert tutti.place_of(out) == (tutti.MemoryKind.HOST, -1)
    # Memory that the program has mapped from a file.
    import mmap
    import tempfile
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        file.truncate(65536)
        mapped = mmap.mmap(file.fileno(), 65536)
        vector = np.frombuffer(mapped, "f8")
        with comm.register(mapped, file.fileno()):
            vector[:] = rank + 1
            before = comm.counters.direct_calls
            comm.Allreduce(tutti.IN_PLACE, vector)
            equal(vector, np.full(8192, size * (size + 1) / 2))
            assert comm.counters.direct_calls == before + 1
            comm.Barrier()


def errors():
    """What is wrong is said before anything is sent; the communicator stays usable."""
    good, out = np.ones(4), np.zeros(4)
    refused(tutti.InvalidError, lambda: comm.Allreduce(good, np.zeros(5)), "4 elements")
    refused(tutti.InvalidError, lambda: comm.Allreduce(good, np.zeros(4, "f4")), "FLOAT32")
    refused(tutti.InvalidError, lambda: comm.Allreduce(good, np.zeros(8)[::2]), "contiguous")
    refused(tutti.InvalidError, lambda: comm.Allreduce(np.ones((3, 4)).T, np.zeros((4, 3))), "contiguous")
    refused(tutti.InvalidError, lambda: comm.Allreduce(good, b"01234567" * 4), "read-only")
    refused(tutti.InvalidError, lambda: comm.Allreduce(good.astype(">f8"), out), "format")
    refused(tutti.InvalidError, lambda: comm.Allreduce(np.array(["a"]), out), "format")
    refused(tutti.InvalidError, lambda: comm.Allreduce(object(), out), "buffer protocol")
    refused(tutti.InvalidError, lambda: comm.Allreduce(good, out, op=99), "99")
    refused(tutti.InvalidError, lambda: comm.Bcast(out, size), str(size))
    refused(tutti.InvalidError, lambda: comm.Allgather(good, np.zeros(4 * size + 1)), "4 elements")
    refused(tutti.InvalidError, lambda: comm.Allgatherv(good, [np.zeros(4), [4] * size]), "ends at element")
    refused(tutti.InvalidError, lambda: comm.Allgatherv(good, [np.zeros(4), [4]]), "1 counts")
    refused(tutti.InvalidError, lambda: comm.Bcast([good, 9, Dtype.FLOAT64]), "9 elements")
    refused(tutti.InvalidError, lambda: comm.Alltoall(np.ones(size + 1), np.ones(size + 1)), f"{size} blocks")
    refused(tutti.InvalidError, lambda: tutti.Config(timeout=0), "above 0")
    refused(tutti.UnsupportedError, lambda: comm.Allreduce(good, out, tutti.PROD, tutti.Config(level=tutti.Level.EXACT)),
            "exact")
    readable = np.ones(4)
    readable.flags.writeable = False
    comm.Allreduce(readable, out)  # to be read it may well be read-only
    equal(out, np.full(4, float(size)))


def dlpack():
    """Tensors without the buffer protocol."""

    class Tensor:  # as PyTorch before 2.6, for one
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, stream=None):
            return self.array.__dlpack__()

    given, out = np.arange(6, dtype="f4").reshape(2, 3), np.zeros((2, 3), "f4")
    comm.Allreduce(Tensor(given), Tensor(out))
    equal(out, given * size)
    refused(tutti.InvalidError, lambda: comm.Allreduce(Tensor(given.T), Tensor(out)), "contiguous")


case = sys.argv[1]
globals()[case]()
equal_everywhere = np.zeros(1)
comm.Allreduce(np.ones(1), equal_everywhere)
assert equal_everywhere[0] == size
comm.free()
print("done")
