"""The collectives, on buffers."""

from typing import Any, Optional, Sequence

from . import _abi
from ._buffers import Blocks, Buffer, blocks_of, buffer_of, size_array
from ._calls import IN_PLACE, Call, Calls
from ._config import Config
from ._errors import invalid
from ._requests import Prequest, Request
from ._types import AnyOp, Op


class Collectives(Calls):
    """Collective calls: all ranks make them, in the same order."""

    # -------------------------------------------------------------- allreduce, reduce, broadcast

    def _allreduce(self, name: str, send: Any, recv: Any, op: AnyOp) -> Call:
        if send is IN_PLACE:
            out = buffer_of(recv, True, self._device)
            return name, (_abi.TUTTI_IN_PLACE, out[0], out[1], out[2], op), (out, op), op
        given, out = buffer_of(send, False, self._device), buffer_of(recv, True, self._device)
        if given[2] != out[2] or given[1] != out[1]:
            self._pair(send, recv)  # which says it
        return name, (given[0], out[0], out[1], out[2], op), (given, out, op), op

    def Allreduce(self, send: Any, recv: Any, op: AnyOp = Op.SUM, config: Optional[Config] = None) -> None:
        """recv[i] = send[i] of rank 0 op send[i] of rank 1 op ..., on all ranks the same bits."""
        self._run(self._allreduce("allreduce", send, recv, op), config)

    def Iallreduce(self, send: Any, recv: Any, op: AnyOp = Op.SUM, config: Optional[Config] = None) -> Request:
        """Begins Allreduce()."""
        return self._i(self._allreduce("allreduce", send, recv, op), config)

    def Allreduce_init(self, send: Any, recv: Any, op: AnyOp = Op.SUM, config: Optional[Config] = None) -> Prequest:
        """Prepares Allreduce(), to be started again and again."""
        return self._p(self._allreduce("allreduce", send, recv, op), config)

    def _reduce(self, send: Any, recv: Any, op: AnyOp, root: int) -> Call:
        if self._is_root(root):
            address, out, count, keep = self._pair(send, recv)
            return "reduce", (address, out.address, count, out.dtype, op, root), (keep, op), op
        given = buffer_of(send, False, self._device)
        return "reduce", (given.address, None, given.length, given.dtype, op, root), (given, op), op

    def Reduce(self, send: Any, recv: Any, op: AnyOp = Op.SUM, root: int = 0, config: Optional[Config] = None) -> None:
        """As Allreduce(), with the result on `root` only; elsewhere `recv` is ignored."""
        self._run(self._reduce(send, recv, op, root), config)

    def Ireduce(self, send: Any, recv: Any, op: AnyOp = Op.SUM, root: int = 0,
                config: Optional[Config] = None) -> Request:
        """Begins Reduce()."""
        return self._i(self._reduce(send, recv, op, root), config)

    def Reduce_init(self, send: Any, recv: Any, op: AnyOp = Op.SUM, root: int = 0,
                    config: Optional[Config] = None) -> Prequest:
        """Prepares Reduce()."""
        return self._p(self._reduce(send, recv, op, root), config)

    def _bcast(self, buffer: Any, root: int) -> Call:
        vector = buffer_of(buffer, not self._is_root(root), self._device)
        return "broadcast", (vector.address, vector.length, vector.dtype, root), vector, None

    def Bcast(self, buffer: Any, root: int = 0, config: Optional[Config] = None) -> None:
        """The buffer of `root` is copied to all ranks."""
        self._run(self._bcast(buffer, root), config)

    def Ibcast(self, buffer: Any, root: int = 0, config: Optional[Config] = None) -> Request:
        """Begins Bcast()."""
        return self._i(self._bcast(buffer, root), config)

    def Bcast_init(self, buffer: Any, root: int = 0, config: Optional[Config] = None) -> Prequest:
        """Prepares Bcast()."""
        return self._p(self._bcast(buffer, root), config)

    # -------------------------------------------------------------- allgather, gather, scatter

    def _allgather(self, send: Any, recv: Any) -> Call:
        address, out, count, keep = self._pair(send, recv, receives=self._size)
        return "allgather", (address, out.address, count, out.dtype), keep, None

    def Allgather(self, send: Any, recv: Any, config: Optional[Config] = None) -> None:
        """`recv` has as many blocks as there are ranks: rank r's `send` is the r-th. In place: the own
        one is there already."""
        self._run(self._allgather(send, recv), config)

    def Iallgather(self, send: Any, recv: Any, config: Optional[Config] = None) -> Request:
        """Begins Allgather()."""
        return self._i(self._allgather(send, recv), config)

    def Allgather_init(self, send: Any, recv: Any, config: Optional[Config] = None) -> Prequest:
        """Prepares Allgather()."""
        return self._p(self._allgather(send, recv), config)

    def _matched(self, send: Any, blocks: Blocks) -> Buffer:
        given = buffer_of(send, False, self._device)
        if given.dtype != blocks.buffer.dtype:
            raise invalid(f"the input is of {given.dtype!r}, the output of {blocks.buffer.dtype!r}", self._rank)
        return given

    def _allgatherv(self, send: Any, recv: Any, counts: Any, displs: Any) -> Call:
        out = blocks_of(recv, True, self._size, counts, displs, self._device)
        tail = (out.buffer.address, out.counts, out.displs, out.buffer.dtype)
        if send is IN_PLACE:
            return "allgatherv", (_abi.TUTTI_IN_PLACE, 0) + tail, out, None
        given = self._matched(send, out)
        return "allgatherv", (given.address, given.length) + tail, (given, out), None

    def Allgatherv(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None,
                   displs: Optional[Sequence[int]] = None, config: Optional[Config] = None) -> None:
        """The same with blocks of counts[r] elements at displs[r]; without `displs` one after the
        other. `recv` may also be mpi4py's [buffer, counts, displs]."""
        self._run(self._allgatherv(send, recv, counts, displs), config)

    def Iallgatherv(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None,
                    displs: Optional[Sequence[int]] = None, config: Optional[Config] = None) -> Request:
        """Begins Allgatherv()."""
        return self._i(self._allgatherv(send, recv, counts, displs), config)

    def Allgatherv_init(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None,
                        displs: Optional[Sequence[int]] = None, config: Optional[Config] = None) -> Prequest:
        """Prepares Allgatherv()."""
        return self._p(self._allgatherv(send, recv, counts, displs), config)

    def _gather(self, send: Any, recv: Any, root: int) -> Call:
        if self._is_root(root):
            address, out, count, keep = self._pair(send, recv, receives=self._size)
            return "gather", (address, out.address, count, out.dtype, root), keep, None
        given = buffer_of(send, False, self._device)
        return "gather", (given.address, None, given.length, given.dtype, root), given, None

    def Gather(self, send: Any, recv: Any, root: int = 0, config: Optional[Config] = None) -> None:
        """As Allgather(), with the result on `root` only; elsewhere `recv` is ignored."""
        self._run(self._gather(send, recv, root), config)

    def Igather(self, send: Any, recv: Any, root: int = 0, config: Optional[Config] = None) -> Request:
        """Begins Gather()."""
        return self._i(self._gather(send, recv, root), config)

    def Gather_init(self, send: Any, recv: Any, root: int = 0, config: Optional[Config] = None) -> Prequest:
        """Prepares Gather()."""
        return self._p(self._gather(send, recv, root), config)

    def _gatherv(self, send: Any, recv: Any, counts: Any, displs: Any, root: int) -> Call:
        if not self._is_root(root):
            given = buffer_of(send, False, self._device)
            return "gatherv", (given.address, given.length, None, None, None, given.dtype, root), given, None
        out = blocks_of(recv, True, self._size, counts, displs, self._device)
        tail = (out.buffer.address, out.counts, out.displs, out.buffer.dtype, root)
        if send is IN_PLACE:
            return "gatherv", (_abi.TUTTI_IN_PLACE, 0) + tail, out, None
        given = self._matched(send, out)
        return "gatherv", (given.address, given.length) + tail, (given, out), None

    def Gatherv(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None,
                displs: Optional[Sequence[int]] = None, root: int = 0, config: Optional[Config] = None) -> None:
        """Gather() with blocks of their own lengths, which matter at the root only."""
        self._run(self._gatherv(send, recv, counts, displs, root), config)

    def Igatherv(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None,
                 displs: Optional[Sequence[int]] = None, root: int = 0, config: Optional[Config] = None) -> Request:
        """Begins Gatherv()."""
        return self._i(self._gatherv(send, recv, counts, displs, root), config)

    def Gatherv_init(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None,
                     displs: Optional[Sequence[int]] = None, root: int = 0, config: Optional[Config] = None) -> Prequest:
        """Prepares Gatherv()."""
        return self._p(self._gatherv(send, recv, counts, displs, root), config)

    def _scatter(self, send: Any, recv: Any, root: int) -> Call:
        if not self._is_root(root):
            out = buffer_of(recv, True, self._device)
            return "scatter", (None, out.address, out.length, out.dtype, root), out, None
        if recv is not IN_PLACE:
            address, out, count, keep = self._pair(send, recv, sends=self._size)
            return "scatter", (address, out.address, count, out.dtype, root), keep, None
        given = buffer_of(send, False, self._device)
        if given.length % self._size:
            raise invalid(f"the input has {given.length} elements, which are no {self._size} blocks", self._rank)
        return ("scatter", (given.address, _abi.TUTTI_IN_PLACE, given.length // self._size, given.dtype, root),
                given, None)

    def Scatter(self, send: Any, recv: Any, root: int = 0, config: Optional[Config] = None) -> None:
        """Rank r gets the r-th block of `send` of `root`, which is ignored elsewhere. IN_PLACE as
        `recv`, at the root only: its block stays where it is."""
        self._run(self._scatter(send, recv, root), config)

    def Iscatter(self, send: Any, recv: Any, root: int = 0, config: Optional[Config] = None) -> Request:
        """Begins Scatter()."""
        return self._i(self._scatter(send, recv, root), config)

    def Scatter_init(self, send: Any, recv: Any, root: int = 0, config: Optional[Config] = None) -> Prequest:
        """Prepares Scatter()."""
        return self._p(self._scatter(send, recv, root), config)

    def _scatterv(self, send: Any, recv: Any, counts: Any, displs: Any, root: int) -> Call:
        if not self._is_root(root):
            out = buffer_of(recv, True, self._device)
            return "scatterv", (None, None, None, out.address, out.length, out.dtype, root), out, None
        given = blocks_of(send, False, self._size, counts, displs, self._device)
        head = (given.buffer.address, given.counts, given.displs)
        if recv is IN_PLACE:
            return "scatterv", head + (_abi.TUTTI_IN_PLACE, 0, given.buffer.dtype, root), given, None
        out = buffer_of(recv, True, self._device)
        if given.buffer.dtype != out.dtype:
            raise invalid(f"the input is of {given.buffer.dtype!r}, the output of {out.dtype!r}", self._rank)
        return "scatterv", head + (out.address, out.length, out.dtype, root), (given, out), None

    def Scatterv(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None,
                 displs: Optional[Sequence[int]] = None, root: int = 0, config: Optional[Config] = None) -> None:
        """Scatter() with blocks of their own lengths, which matter at the root only."""
        self._run(self._scatterv(send, recv, counts, displs, root), config)

    def Iscatterv(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None,
                  displs: Optional[Sequence[int]] = None, root: int = 0, config: Optional[Config] = None) -> Request:
        """Begins Scatterv()."""
        return self._i(self._scatterv(send, recv, counts, displs, root), config)

    def Scatterv_init(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None,
                      displs: Optional[Sequence[int]] = None, root: int = 0, config: Optional[Config] = None) -> Prequest:
        """Prepares Scatterv()."""
        return self._p(self._scatterv(send, recv, counts, displs, root), config)

    # -------------------------------------------------------------- reduce_scatter, alltoall, scans

    def _reduce_scatter_block(self, send: Any, recv: Any, op: AnyOp) -> Call:
        address, out, count, keep = self._pair(send, recv, sends=self._size)
        return "reduce_scatter_block", (address, out.address, count, out.dtype, op), (keep, op), op

    def Reduce_scatter_block(self, send: Any, recv: Any, op: AnyOp = Op.SUM, config: Optional[Config] = None) -> None:
        """Every rank has a block for each; rank r gets the reduction of the r-th ones. In place: the
        blocks are in `recv`, which then begins with the result."""
        self._run(self._reduce_scatter_block(send, recv, op), config)

    def Ireduce_scatter_block(self, send: Any, recv: Any, op: AnyOp = Op.SUM,
                              config: Optional[Config] = None) -> Request:
        """Begins Reduce_scatter_block()."""
        return self._i(self._reduce_scatter_block(send, recv, op), config)

    def Reduce_scatter_block_init(self, send: Any, recv: Any, op: AnyOp = Op.SUM,
                                  config: Optional[Config] = None) -> Prequest:
        """Prepares Reduce_scatter_block()."""
        return self._p(self._reduce_scatter_block(send, recv, op), config)

    def _reduce_scatter(self, send: Any, recv: Any, counts: Optional[Sequence[int]], op: AnyOp) -> Call:
        out = buffer_of(recv, True, self._device)
        given = out if send is IN_PLACE else buffer_of(send, False, self._device)
        if counts is None:  # mpi4py's: as long as each rank's output; here they are equal
            return self._reduce_scatter_block(send, recv, op)
        lengths = size_array(counts, self._size, "counts")
        if given.dtype != out.dtype:
            raise invalid(f"the input is of {given.dtype!r}, the output of {out.dtype!r}", self._rank)
        if given.length != sum(counts) or out.length < counts[self._rank]:
            raise invalid(f"the input has {given.length} elements and the output {out.length}, for blocks of "
                          f"{list(counts)}", self._rank)
        address = _abi.TUTTI_IN_PLACE if send is IN_PLACE else given.address
        return "reduce_scatter", (address, out.address, lengths, out.dtype, op), (given, out, lengths, op), op

    def Reduce_scatter(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None, op: AnyOp = Op.SUM,
                       config: Optional[Config] = None) -> None:
        """The same with blocks of counts[r] elements; without `counts` they are equal."""
        self._run(self._reduce_scatter(send, recv, counts, op), config)

    def Ireduce_scatter(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None, op: AnyOp = Op.SUM,
                        config: Optional[Config] = None) -> Request:
        """Begins Reduce_scatter()."""
        return self._i(self._reduce_scatter(send, recv, counts, op), config)

    def Reduce_scatter_init(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None, op: AnyOp = Op.SUM,
                            config: Optional[Config] = None) -> Prequest:
        """Prepares Reduce_scatter()."""
        return self._p(self._reduce_scatter(send, recv, counts, op), config)

    def _alltoall(self, send: Any, recv: Any) -> Call:
        address, out, count, keep = self._pair(send, recv, self._size, self._size)
        return "alltoall", (address, out.address, count, out.dtype), keep, None

    def Alltoall(self, send: Any, recv: Any, config: Optional[Config] = None) -> None:
        """Block r of `send` goes to rank r; that from rank r comes to place r of `recv`."""
        self._run(self._alltoall(send, recv), config)

    def Ialltoall(self, send: Any, recv: Any, config: Optional[Config] = None) -> Request:
        """Begins Alltoall()."""
        return self._i(self._alltoall(send, recv), config)

    def Alltoall_init(self, send: Any, recv: Any, config: Optional[Config] = None) -> Prequest:
        """Prepares Alltoall()."""
        return self._p(self._alltoall(send, recv), config)

    def _alltoallv(self, send: Any, recv: Any) -> Call:
        out = blocks_of(recv, True, self._size, None, None, self._device)
        tail = (out.buffer.address, out.counts, out.displs, out.buffer.dtype)
        if send is IN_PLACE:
            return "alltoallv", (_abi.TUTTI_IN_PLACE, None, None) + tail, out, None
        given = blocks_of(send, False, self._size, None, None, self._device)
        if given.buffer.dtype != out.buffer.dtype:
            raise invalid(f"the input is of {given.buffer.dtype!r}, the output of {out.buffer.dtype!r}", self._rank)
        return "alltoallv", (given.buffer.address, given.counts, given.displs) + tail, (given, out), None

    def Alltoallv(self, send: Any, recv: Any, config: Optional[Config] = None) -> None:
        """The same with blocks of their own lengths: both are [buffer, counts] or [buffer, counts,
        displs]."""
        self._run(self._alltoallv(send, recv), config)

    def Ialltoallv(self, send: Any, recv: Any, config: Optional[Config] = None) -> Request:
        """Begins Alltoallv()."""
        return self._i(self._alltoallv(send, recv), config)

    def Alltoallv_init(self, send: Any, recv: Any, config: Optional[Config] = None) -> Prequest:
        """Prepares Alltoallv()."""
        return self._p(self._alltoallv(send, recv), config)

    def Scan(self, send: Any, recv: Any, op: AnyOp = Op.SUM, config: Optional[Config] = None) -> None:
        """Rank r gets the reduction of ranks 0 to r."""
        self._run(self._allreduce("scan", send, recv, op), config)

    def Iscan(self, send: Any, recv: Any, op: AnyOp = Op.SUM, config: Optional[Config] = None) -> Request:
        """Begins Scan()."""
        return self._i(self._allreduce("scan", send, recv, op), config)

    def Scan_init(self, send: Any, recv: Any, op: AnyOp = Op.SUM, config: Optional[Config] = None) -> Prequest:
        """Prepares Scan()."""
        return self._p(self._allreduce("scan", send, recv, op), config)

    def Exscan(self, send: Any, recv: Any, op: AnyOp = Op.SUM, config: Optional[Config] = None) -> None:
        """Rank r gets the reduction of ranks 0 to r-1; `recv` of rank 0 is left as it is."""
        self._run(self._allreduce("exscan", send, recv, op), config)

    def Iexscan(self, send: Any, recv: Any, op: AnyOp = Op.SUM, config: Optional[Config] = None) -> Request:
        """Begins Exscan()."""
        return self._i(self._allreduce("exscan", send, recv, op), config)

    def Exscan_init(self, send: Any, recv: Any, op: AnyOp = Op.SUM, config: Optional[Config] = None) -> Prequest:
        """Prepares Exscan()."""
        return self._p(self._allreduce("exscan", send, recv, op), config)

    def Barrier(self, config: Optional[Config] = None) -> None:
        """Returns after every rank has entered."""
        self._run(("barrier", (), None, None), config)

    def Ibarrier(self, config: Optional[Config] = None) -> Request:
        """Begins Barrier()."""
        return self._i(("barrier", (), None, None), config)

    def Barrier_init(self, config: Optional[Config] = None) -> Prequest:
        """Prepares Barrier()."""
        return self._p(("barrier", (), None, None), config)
