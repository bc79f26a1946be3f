"""Messages between two ranks."""

from typing import Any, Optional

from . import _abi
from ._buffers import Buffer, buffer_of
from ._calls import Call, Calls
from ._config import Config
from ._errors import invalid
from ._requests import Request
from ._types import Dtype

NO_PEER = _abi.TUTTI_NO_PEER  #: as a rank of Sendrecv: leave that half out


class Messages(Calls):
    """Messages. Type, length and tag must agree on both sides; in order per pair of ranks."""

    def _message(self, name: str, buffer: Any, writable: bool, peer: int, tag: int) -> Call:
        vector = buffer_of(buffer, writable)
        return name, (vector.address, vector.length, vector.dtype, peer, tag), vector, None

    def Send(self, buffer: Any, dest: int, tag: int = 0, config: Optional[Config] = None) -> None:
        """A message. Type, length and tag must agree on both sides; in order per pair of ranks."""
        self._run(self._message("send", buffer, False, dest, tag), config)

    def Recv(self, buffer: Any, source: int, tag: int = 0, config: Optional[Config] = None) -> None:
        """Receives it."""
        self._run(self._message("recv", buffer, True, source, tag), config)

    def Isend(self, buffer: Any, dest: int, tag: int = 0, config: Optional[Config] = None) -> Request:
        """Begins Send()."""
        return self._i(self._message("send", buffer, False, dest, tag), config)

    def Irecv(self, buffer: Any, source: int, tag: int = 0, config: Optional[Config] = None) -> Request:
        """Begins Recv()."""
        return self._i(self._message("recv", buffer, True, source, tag), config)

    def Sendrecv(self, send: Any, dest: int, recv: Any, source: int, sendtag: int = 0, recvtag: int = 0,
                 config: Optional[Config] = None) -> None:
        """Sends and receives at once. NO_PEER as either rank leaves that half out (then its buffer
        may be None)."""
        given = buffer_of(send, False) if dest != NO_PEER else None
        out = buffer_of(recv, True) if source != NO_PEER else None
        if given is not None and out is not None and given.dtype != out.dtype:
            raise invalid(f"what is sent is of {given.dtype!r}, what is received of {out.dtype!r}", self._rank)
        known = given or out or Buffer(0, 0, Dtype.UINT8, None)
        given, out = given or known._replace(address=0, length=0), out or known._replace(address=0, length=0)
        self._run(("sendrecv", (given.address, given.length, dest, sendtag, out.address, out.length, source, recvtag,
                                known.dtype), (given, out), None), config)
