"""A TCP proxy for tests of what clients do when connections break."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class Proxy:
    """Passes bytes to a server and back. `hold_replies` keeps the server's bytes from the client; `cut` closes every
    connection and lets new ones pass freely."""

    def __init__(self, upstream: str) -> None:
        host, _, port = upstream.rpartition(":")
        self._upstream = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.target = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets: list[socket.socket] = []
        self._passes = threading.Event()
        self._passes.set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def hold_replies(self) -> None:
        self._passes.clear()

    def cut(self) -> None:
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for each in sockets:
            _shut(each)
        self._passes.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _shut(self._listener)
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._upstream)
            with self._lock:
                self._sockets += [client, server]
            threading.Thread(target=self._copy, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._copy, args=(server, client, True), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket, is_reply: bool) -> None:
        try:
            while data := source.recv(65536):
                if is_reply:
                    self._passes.wait()
                sink.sendall(data)
        except OSError:
            pass
        finally:
            _shut(source)
            _shut(sink)


def _shut(each: socket.socket) -> None:
    with contextlib.suppress(OSError):  # Closed by the other side, or not connected.
        each.shutdown(socket.SHUT_RDWR)
    each.close()
