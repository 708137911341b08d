"""The two rules as a handler of kopf: its web server and its admission engine, without a cluster.

kopf learns from a cluster which resources there are; here it is told of pods. Everything between
the socket and the handler is kopf's own, as `kopf run` puts it together (spawn_tasks in its
reactor/running.py); its watching of objects does not run.

python -m tools.bench.servers.with_kopf PORT FOLDER
"""

import asyncio
import logging
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import kopf
from kopf._cogs.structs.ephemera import Memo
from kopf._cogs.structs.references import Insights, Resource
from kopf._core.engines.admission import serve_admission_request
from kopf._core.engines.indexing import OperatorIndexers
from kopf._core.reactor.inventory import ResourceMemories

from tools.bench.servers.two_rules import apply_rules

REGISTRY = kopf.OperatorRegistry()


@kopf.on.mutate("pods", id="mutate", subresource="*", registry=REGISTRY)
def mutate(operation: str, subresource: str | None, old: Any, patch: kopf.Patch, **_: Any) -> None:
    """Have the object changed; kopf finds the difference."""
    if operation in ("CREATE", "UPDATE"):
        patch.fns.append(
            partial(apply_rules, old=old, operation=operation, subresource=subresource)
        )


async def main(port: int, folder: Path) -> None:
    """Serve until told to stop."""
    logging.getLogger("kopf").setLevel(logging.WARNING)
    answer = partial(
        serve_admission_request,
        settings=kopf.OperatorSettings(),
        memories=ResourceMemories(),
        memobase=Memo(),
        registry=REGISTRY,
        insights=Insights(webhook_resources={Resource("", "v1", "pods")}),
        indices=OperatorIndexers().indices,
    )
    server = kopf.WebhookServer(
        addr="127.0.0.1", port=port, certfile=folder / "tls.crt", pkeyfile=folder / "tls.key"
    )
    serving = asyncio.create_task(_serve(server, answer))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    await asyncio.wait((serving,))


async def _serve(server: kopf.WebhookServer, answer: Any) -> None:
    async for _ in server(answer):
        pass  # told where it listens, at the start and when the certificate has changed


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))
