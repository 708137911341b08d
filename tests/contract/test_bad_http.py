"""Requests that break HTTP, the protocol of admission or the server's patience."""

import asyncio

import pytest

from genguard.admission.decode import MAX_BODY_BYTES
from tests.cases_loader import Case, table
from tests.contract.hostile import CANARY, GOOD
from tests.contract.service import head, http_post

TOO_LARGE = MAX_BODY_BYTES + 1


def spoilt(case: Case) -> bytes:
    """The bytes of a case, as its file says."""
    text = case.get("raw") or "\r\n".join((*case["lines"], "", ""))
    what, count = case.get("times", ("", 0))
    return str(text).replace("LONG", what * count).encode("latin-1")


@table("contract/http.yaml", "lines", "raw", "times")
async def test_broken_http_is_refused_in_json_and_never_repeated(running, case, logged):
    wire = await running.connect()
    await wire.send(spoilt(case))
    answer = await wire.answer()
    assert (answer.status, answer.json["error"]) == (400, "bad_http"), case.because
    assert CANARY not in answer.body.decode()
    assert await wire.closed()
    assert (await running.post(GOOD.encode())).status == 200
    assert await running.samples("genguard_refused_requests_total") == {'reason="bad_http"': 1.0}
    assert CANARY not in logged()


WRONG = {
    "GET": (head("GET /mutate HTTP/1.1", [("Host", "x")]), 405, "wrong_method"),
    "PUT": (http_post(GOOD.encode()).replace(b"POST", b"PUT", 1), 405, "wrong_method"),
    "an unknown path": (http_post(GOOD.encode(), f"/{CANARY}"), 404, "unknown_path"),
    "the root": (http_post(GOOD.encode(), "/"), 404, "unknown_path"),
    "a path below": (http_post(GOOD.encode(), "/mutate/x"), 404, "unknown_path"),
    "no version": (f"POST /{CANARY}\r\nHost: x\r\n\r\n".encode(), 404, "unknown_path"),
    "an absolute target": (http_post(GOOD.encode(), "https://x/mutate"), 404, "unknown_path"),
    "a proxy's CONNECT": (head("CONNECT x:80 HTTP/1.1", [("Host", "x")]), 404, "unknown_path"),
    "gzip": (http_post(b"\x1f\x8b\x08", Content_Encoding="gzip"), 415, "wrong_media_type"),
    "YAML": (
        http_post(GOOD.encode(), Content_Type="application/yaml"), 415, "wrong_media_type"
    ),
    "text": (http_post(GOOD.encode(), Content_Type="text/plain"), 415, "wrong_media_type"),
    "no type": (http_post(GOOD.encode(), Content_Type=""), 415, "wrong_media_type"),
    "8 MiB": (http_post(b"x" * 8 * 1024 * 1024), 413, "too_large"),
    "8 MiB announced": (http_post(b"", Content_Length=str(8 * 1024 * 1024)), 413, "too_large"),
    "no length and no chunks": (http_post(b"", Content_Length=""), 400, "not_json"),
    "8 MiB in chunks": (
        http_post(b"", Content_Length="", Transfer_Encoding="chunked")
        + b"%x\r\n%b\r\n0\r\n\r\n" % (TOO_LARGE, b"x" * TOO_LARGE),
        413, "too_large",
    ),
    "an endless timeout": (
        http_post(b"{", f"/mutate?timeout={'9' * 5_000}s"), 400, "not_json"
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "status", "code"), WRONG.values(), ids=[name.replace(" ", "-") for name in WRONG]
)
async def test_a_request_of_the_wrong_kind_is_refused_with_its_status(
    running, request_, status, code, logged
):
    wire = await running.connect()
    sending = asyncio.ensure_future(wire.send(request_))
    answer = await wire.answer()
    assert (answer.status, answer.json["error"]) == (status, code)
    assert CANARY not in answer.body.decode()
    assert (answer.headers.get("allow") == "POST") == (status == 405)
    assert (await running.post(GOOD.encode())).status == 200
    await wire.close()
    await asyncio.wait([sending])
    assert CANARY not in logged()
    sending.exception()
