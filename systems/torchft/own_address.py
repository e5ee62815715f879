"""Servers of a replica on its host's own address. Imports torch and torchft.

torchft's servers listen on all addresses and check no token; the one that hands out the state reads
pickles. A replica's servers must be reachable by the other hosts of the cluster only.
"""

from __future__ import annotations

import socket
from http.server import ThreadingHTTPServer
from typing import Any

import torch.distributed as dist
import torchft.checkpointing.http_transport as http_transport
import torchft.manager as manager

from systems.runtime.wire.name_lookups import no_name_lookups


class StateTransport(http_transport.HTTPTransport[Any]):  # type: ignore[misc]
    """torchft's transport of the state over HTTP, on one address."""

    def __init__(self, address: str, timeout: Any) -> None:
        """Begin to serve."""
        self._own_address = address

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
            request_queue_size = 1024

            def __init__(self, _: object, handler: Any) -> None:
                super().__init__((address, 0), handler)

        before = http_transport._IPv6HTTPServer
        http_transport._IPv6HTTPServer = Server
        try:
            super().__init__(timeout=timeout, num_chunks=0)
        finally:
            http_transport._IPv6HTTPServer = before

    def address(self) -> str:
        """Return the address at which other replicas fetch the state; the step is appended."""
        host = _in_url(self._own_address)
        return f"http://{host}:{self._server.socket.getsockname()[1]}/checkpoint/"


def make_manager(address: str, **options: Any) -> manager.Manager:
    """Return torchft's manager, whose server listens on one address only."""
    before = manager.ManagerServer

    def on_own_address(**settings: Any) -> Any:
        return before(**{**settings, "bind": f"{_in_url(address)}:0"})

    manager.ManagerServer = on_own_address
    try:
        return manager.Manager(hostname=address, store_addr=address, **options)
    finally:
        manager.ManagerServer = before


def open_store(address: str) -> Any:
    """Return a store on a free port of an address, in which the replica's group meets."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, 0), family=family, backlog=512)
    port = listener.getsockname()[1]
    with no_name_lookups(address):
        return dist.TCPStore(  # type: ignore[attr-defined]
            address,
            port,
            is_master=True,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
        )


def _in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address
