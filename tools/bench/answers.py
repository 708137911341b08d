"""Whether a server's answers are right: looked into before anything is measured."""

import http.client
import json
import ssl
from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Any, Final

import jsonpatch

from genguard.admission.review import Phase
from tests.contract_of_answers import violations
from tools.bench.servers import CONSTANT_ANSWER, Answers, Server
from tools.bench.template import Template
from tools.bench.two_rules import mutated

_SHOWN: Final = 5


def check_all(
    server: Server, port: int, context: ssl.SSLContext, templates: Sequence[Template]
) -> list[str]:
    """Send every review once and say what is wrong with the answers, if anything."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    try:
        return list(_wrong(server, connection, templates))[:_SHOWN]
    except (OSError, http.client.HTTPException) as error:
        return [f"{server.name}: {type(error).__name__}: {error}"]
    finally:
        connection.close()


def _wrong(
    server: Server, connection: http.client.HTTPSConnection, templates: Sequence[Template]
) -> Iterator[str]:
    for number, template in enumerate(templates):
        filled = template.fill(number)
        headers = {"Content-Type": "application/json"}
        connection.request("POST", server.path, filled.body, headers)
        response = connection.getresponse()
        content = response.read()
        where = f"{server.name}, review {number}"
        if response.status != http.HTTPStatus.OK:
            yield f"{where}: status {response.status}"
            continue
        for reason in _unfit(server, json.loads(filled.body), json.loads(content)):
            yield f"{where}: {reason}"


def _unfit(server: Server, asked: dict[str, Any], answer: dict[str, Any]) -> Iterator[str]:
    if server.answers is Answers.CONSTANT:
        if answer["response"] != CONSTANT_ANSWER["response"]:
            yield "not the constant answer"
        return
    broken = violations(asked, answer, Phase.MUTATE)
    yield from broken
    if broken or server.answers is Answers.ALLOWED:
        return
    patch = answer["response"].get("patch")
    given = asked["request"].get("object")
    patched = jsonpatch.apply_patch(given, json.loads(b64decode(patch))) if patch else given
    if patched != mutated(asked["request"]):
        yield "the patched object is not what the rules make of it"
