"""A `genguard serve` under attack: honest traffic beside it, its memory, descriptors and log."""

import asyncio
import contextlib
import json
import resource
import ssl
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.contract.service import Wire, head, http_post
from tests.contract.test_process import Served, served
from tests.waiting import until

MOST_BYTES = 512 * 1024 * 1024
"""Less than half of the memory limit of manifests/base/server/deployment.yaml: no attack of a test
fills everything to its bound."""


@dataclass(slots=True)
class Victim:
    """The process, what it logs, and how long honest reviews have waited for their answers."""

    run: Served
    trust: ssl.SSLContext
    log: list[dict[str, Any]] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.run.fields["admission"].rpartition(":")[2])

    @property
    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.run.process.pid}/fd").iterdir()))

    @property
    def most_bytes(self) -> int:
        """The most memory that it ever had."""
        status = Path(f"/proc/{self.run.process.pid}/status").read_text()
        line = next(one for one in status.splitlines() if one.startswith("VmHWM"))
        return int(line.split()[1]) * 1024

    @property
    def most_descriptors(self) -> int:
        """How many descriptors it may have, by its own soft limit."""
        return resource.prlimit(self.run.process.pid, resource.RLIMIT_NOFILE)[0]

    async def plain(self) -> Wire:
        """A connection without TLS."""
        return await Wire.dialled(self.port)

    async def plain_ops(self) -> Wire:
        """A connection to the ops port."""
        return await Wire.dialled(int(self.run.fields["ops"].rpartition(":")[2]))

    async def connect(self) -> Wire:
        return await Wire.dialled(self.port, self.trust)

    async def ops(self, path: str) -> str:
        url = self.run.fields["ops"]
        answer = await self.run.ask(url, head(f"GET {path} HTTP/1.1", [("Host", "localhost")]))
        assert answer.status == 200
        return answer.body.decode()

    async def metric(self, sample: str) -> float:
        for line in (await self.ops("/metrics")).splitlines():
            if line.startswith(f"{sample} "):
                return float(line.rpartition(" ")[2])
        return 0.0

    async def back_to(self, descriptors: int) -> None:
        """Wait until it has given back what an attack made it open."""
        await until(lambda: self.descriptors <= descriptors, "descriptors given back")

    def waited_by(self, share: float) -> float:
        """Seconds within which such a share of honest reviews was answered."""
        return sorted(self.waited)[int(len(self.waited) * share)]

    async def be_honest(self) -> None:
        """Send one review after another, as one API server does over one connection."""
        arguments = ("-m", "tests.contract.honest", str(self.port), str(self.run.folder / "ca.crt"))
        process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=PIPE)
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                self.waited.append(float(line))
            raise AssertionError("the honest client has ended; its error is on stderr")
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def statuses(
        self, requests: Iterable[tuple[str, bytes]], timeout: int = 30
    ) -> Counter[int]:
        """Send reviews, path and body, one after the other; 0 stands for a connection that ended.

        That is what a client sees whose body was too slow, and the next one is made then.
        """
        seen: Counter[int] = Counter()
        wire = await self.connect()
        for path, body in requests:
            try:
                await wire.send(http_post(body, f"{path}?timeout={timeout}s"))
                seen[(await wire.answer()).status] += 1
            except (ConnectionError, asyncio.IncompleteReadError):
                seen[0] += 1
                wire.writer.transport.abort()
                wire = await self.connect()
        await wire.close()
        return seen

    async def read_log(self) -> None:
        stream = self.run.process.stderr
        assert stream is not None
        while line := await stream.readline():
            self.log.append(json.loads(line))  # one object a line, whatever was sent


@contextlib.asynccontextmanager
async def victim(
    folder: Path,
    *flags: str,
    descriptors: tuple[int, int] | None = None,
    most_bytes: int = MOST_BYTES,
    module: str = "webhook",
) -> AsyncIterator[Victim]:
    """It must be whole afterwards: alive, within its memory, honest reviews answered meanwhile."""
    async with served(folder, *flags, descriptors=descriptors, module=module) as run:
        trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        found = Victim(run, trust)
        logging = asyncio.create_task(found.read_log())
        honest = asyncio.create_task(found.be_honest())
        await until(lambda: len(found.waited) >= 5 or honest.done(), "the first answers")
        yield found
        answered = len(found.waited)
        await until(lambda: len(found.waited) >= answered + 5 or honest.done(), "answers after it")
        assert not honest.done(), honest.exception()
        assert run.process.returncode is None
        assert found.most_bytes < most_bytes
        print(
            f"honest: {len(found.waited)} answers, p99 {found.waited_by(0.99) * 1e3:.1f} ms; "
            f"{found.most_bytes / 2**20:.0f} MiB at most, {found.descriptors} descriptors"
        )
        honest.cancel()
        await asyncio.wait([honest])
        run.process.kill()
        await run.process.wait()
        await logging
