"""Keeps a loopback port reserved until its server has it, and as long as the server runs."""

import socket


class ReservedPort:
    """A bound socket that never listens: connections go to the server that shares the port.

    The server must set SO_REUSEPORT too (kube-apiserver: --permit-port-sharing). Nobody else who
    asks the kernel for a free port can be given this one, so there is no collision to retry.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Gives the port back to the kernel."""
        self._socket.close()
