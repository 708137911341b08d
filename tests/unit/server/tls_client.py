"""A listener on loopback, and a client that opens a new connection at each call."""

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from cryptography import x509
from cryptography.hazmat.primitives import hashes


@dataclass(frozen=True, slots=True)
class Handshake:
    """What a client sees of one new connection."""

    fingerprint: str
    version: str | None
    cipher: str
    protocol: str | None


@dataclass(frozen=True, slots=True)
class Client:
    """Trusts one bundle, as the API server does, and keeps no session between connections."""

    port: int
    ca_pem: bytes
    versions: tuple[ssl.TLSVersion, ssl.TLSVersion] = (
        ssl.TLSVersion.TLSv1_2,
        ssl.TLSVersion.TLSv1_3,
    )
    protocols: tuple[str, ...] = ()
    ciphers: str | None = None

    def only(self, version: ssl.TLSVersion) -> "Client":
        return replace(self, versions=(version, version))

    async def connect(
        self, name: str = "localhost"
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        settings = ssl.create_default_context(cadata=self.ca_pem.decode())
        settings.minimum_version, settings.maximum_version = self.versions
        if self.protocols:
            settings.set_alpn_protocols(self.protocols)
        if self.ciphers:
            settings.set_ciphers(self.ciphers)
        return await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=settings, server_hostname=name
        )

    async def shake(self, name: str = "localhost") -> Handshake:
        _, writer = await self.connect(name)
        try:
            connection = writer.get_extra_info("ssl_object")
            return Handshake(
                hashlib.sha256(connection.getpeercert(binary_form=True)).hexdigest(),
                connection.version(),
                connection.cipher()[0],
                connection.selected_alpn_protocol(),
            )
        finally:
            writer.close()
            await writer.wait_closed()


@asynccontextmanager
async def echoing(context: ssl.SSLContext, ca_pem: bytes) -> AsyncIterator[Client]:
    """Sends back what it gets, under the context given."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=context)
    async with server:
        yield Client(server.sockets[0].getsockname()[1], ca_pem)


def fingerprint(cert_pem: bytes) -> str:
    return x509.load_pem_x509_certificate(cert_pem).fingerprint(hashes.SHA256()).hex()
