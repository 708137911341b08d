"""Asks a running server what it saw of one object: its writes, findings, and who is called."""

from collections.abc import Mapping
from typing import Any

from genguard.blame.report import BlamedObject, ObjectAnswer, Seen, WebhooksAnswer, seen
from webhook.cli.asking_server import Server


async def seen_by(server: Server, where: BlamedObject, document: Mapping[str, Any]) -> Seen:
    """Ask a server for what it saw of an object; raises NoServerError."""
    query = {
        "group": where.group,
        "resource": where.resource,
        "namespace": where.namespace,
        "name": where.name,
        "uid": where.uid,
    }
    answer = await server.ask("/api/object", query, ObjectAnswer)
    called = {
        subresource: await server.ask(
            "/api/webhooks",
            {
                "resource": where.resource_name,
                "subresource": subresource,
                "namespace": where.namespace,
            },
            WebhooksAnswer,
        )
        or WebhooksAnswer()
        for subresource in ("", "status")
    }
    return seen(answer or ObjectAnswer(), called, document)
