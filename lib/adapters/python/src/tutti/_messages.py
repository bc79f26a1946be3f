"""Messages between two ranks."""

import contextlib
from ctypes import byref, c_int, c_void_p
from typing import Any, Iterator, List, Optional

from . import _abi
from ._buffers import Buffer, buffer_of
from ._calls import Call, Calls
from ._config import Config
from ._errors import invalid
from ._library import load
from ._requests import AnyRequest, Prequest, Request
from ._types import Dtype

_lib = load()
NO_PEER = _abi.TUTTI_NO_PEER  #: as a rank of Sendrecv: leave that half out


class Messages(Calls):
    """Messages. Type, length and tag must agree on both sides; in order per pair of ranks."""

    def __init__(self, handle: c_void_p, device: bool) -> None:
        super().__init__(handle, device)
        self._recorded: Optional[List[Any]] = None  # of an open group: what its messages keep alive

    @contextlib.contextmanager
    def group(self, config: Optional[Config] = None) -> Iterator[None]:
        """`with comm.group():` in it Send(), Recv() and Sendrecv() are only recorded; on leaving it they
        all run concurrently, those of a pair of ranks in order, and have ended then. Their buffers stay
        alive till then. An exception in it discards what was recorded. Other calls are InvalidError in
        it. The limit is that of `config`."""
        self._check_process()
        self._local(_lib.tutti_group_begin(self._handle))
        self._recorded = []
        try:
            yield
        except BaseException:
            if self._handle is not None:
                _lib.tutti_group_cancel(self._handle)
            raise
        else:
            self._check_process()
            self._local(_lib.tutti_group_end_with(self._handle, config._pointer if config is not None else None))
        finally:
            self._recorded = None

    def _message_call(self, call: Call, config: Optional[Config]) -> None:
        self._run(call, config)
        if self._recorded is not None:
            self._recorded.append(call[2])

    def _message(self, name: str, buffer: Any, writable: bool, peer: int, tag: int) -> Call:
        vector = buffer_of(buffer, writable, self._device)
        return name, (vector.address, vector.length, vector.dtype, peer, tag), vector, None

    def Send(self, buffer: Any, dest: int, tag: int = 0, config: Optional[Config] = None) -> None:
        """A message. Type, length and tag must agree on both sides; in order per pair of ranks."""
        self._message_call(self._message("send", buffer, False, dest, tag), config)

    def Send_init(self, buffer: Any, dest: int, tag: int = 0, config: Optional[Config] = None) -> Prequest:
        """Prepares Send()."""
        return self._p(self._message("send", buffer, False, dest, tag), config)

    def Recv(self, buffer: Any, source: int, tag: int = 0, config: Optional[Config] = None) -> None:
        """Receives it."""
        self._message_call(self._message("recv", buffer, True, source, tag), config)

    def Recv_init(self, buffer: Any, source: int, tag: int = 0, config: Optional[Config] = None) -> Prequest:
        """Prepares Recv()."""
        return self._p(self._message("recv", buffer, True, source, tag), config)

    def Isend(self, buffer: Any, dest: int, tag: int = 0, config: Optional[Config] = None) -> Request:
        """Begins Send()."""
        return self._i(self._message("send", buffer, False, dest, tag), config)

    def Irecv(self, buffer: Any, source: int, tag: int = 0, config: Optional[Config] = None) -> Request:
        """Begins Recv()."""
        return self._i(self._message("recv", buffer, True, source, tag), config)

    def Irecv_any(self, buffer: Any, tag: int = 0, config: Optional[Config] = None) -> AnyRequest:
        """Begins to receive the next message of any other rank with that type, length (not 0) and tag.
        The request's `source` is its sender, once it has ended. Collectives begun later wait for it."""
        sender, vector = c_int(), buffer_of(buffer, True, self._device)
        call = "recv_any", (vector.address, vector.length, vector.dtype, tag, byref(sender)), (vector, sender), None
        return AnyRequest(self, self._begin(call, config), call[2], sender)

    def Recv_any(self, buffer: Any, tag: int = 0, config: Optional[Config] = None) -> int:
        """Receives such a message; its sender."""
        request = self.Irecv_any(buffer, tag, config)
        request.wait()
        assert request.source is not None
        return request.source

    def _exchange(self, send: Any, dest: int, recv: Any, source: int, sendtag: int, recvtag: int) -> Call:
        given = buffer_of(send, False, self._device) if dest != NO_PEER else None
        out = buffer_of(recv, True, self._device) if source != NO_PEER else None
        if given is not None and out is not None and given.dtype != out.dtype:
            raise invalid(f"what is sent is of {given.dtype!r}, what is received of {out.dtype!r}", self._rank)
        known = given or out or Buffer(0, 0, Dtype.UINT8, None)
        given, out = given or known._replace(address=0, length=0), out or known._replace(address=0, length=0)
        return ("sendrecv", (given.address, given.length, dest, sendtag, out.address, out.length, source, recvtag,
                             known.dtype), (given, out), None)

    def Sendrecv(self, send: Any, dest: int, recv: Any, source: int, sendtag: int = 0, recvtag: int = 0,
                 config: Optional[Config] = None) -> None:
        """Sends and receives at once. NO_PEER as either rank leaves that half out (then its buffer
        may be None)."""
        self._message_call(self._exchange(send, dest, recv, source, sendtag, recvtag), config)

    def Isendrecv(self, send: Any, dest: int, recv: Any, source: int, sendtag: int = 0, recvtag: int = 0,
                  config: Optional[Config] = None) -> Request:
        """Begins Sendrecv()."""
        return self._i(self._exchange(send, dest, recv, source, sendtag, recvtag), config)

    def Sendrecv_init(self, send: Any, dest: int, recv: Any, source: int, sendtag: int = 0, recvtag: int = 0,
                      config: Optional[Config] = None) -> Prequest:
        """Prepares Sendrecv()."""
        return self._p(self._exchange(send, dest, recv, source, sendtag, recvtag), config)
