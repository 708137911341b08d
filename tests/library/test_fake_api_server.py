"""What the fake API server does with one request after another.

tests/differential/test_fake_api_server.py holds the same against a real one, with random writes.
"""

import contextlib
import http.client
import json
import socket
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from genguard.testing import FakeApiServer, RequestRefusedError
from genguard.testing.patches import JSON_PATCH, STRATEGIC_MERGE_PATCH
from tests.cases_loader import Case, table
from tests.differential.samples import definitions
from tests.waiting import PATIENCE

WIDGETS = "widgets.example.org"


@pytest.fixture
def server(fake_api_server: FakeApiServer) -> FakeApiServer:
    for definition in definitions()["items"]:
        fake_api_server.define(definition)
    return fake_api_server


def widget(**fields: Any) -> dict[str, Any]:
    kind = {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "one"}}
    return {**kind, "spec": {"size": 1}, **fields}


def pod(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "example.org/app:1"}]
    kind = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}}
    return {**kind, "spec": {"containers": containers, **spec}}


def generation(document: dict[str, Any]) -> int:
    return document["metadata"]["generation"]


def ask(
    server: FakeApiServer, method: str, path: str, body: Any = None, kind: str = "application/json"
) -> tuple[int, Any]:
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{server.url}{path}", content, {"Content-Type": kind})
    request.method = method
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


@table("library/lists.yaml", "patch", "containers")
def test_a_patch_changes_a_list_as_its_type_says(server: FakeApiServer, case: Case) -> None:
    server.create(pod())
    patch = case["patch"]
    kind = JSON_PATCH if isinstance(patch, list) else STRATEGIC_MERGE_PATCH
    changed = server.patch("pods", "one", patch, content_type=kind)
    found = {each["name"]: each["image"] for each in changed["spec"]["containers"]}
    assert found == case["containers"], case.because
    assert generation(changed) == 2


@table("library/refused.yaml", "ask", "body", "type", "status", "says")
def test_what_it_cannot_do_is_refused_and_says_why(server: FakeApiServer, case: Case) -> None:
    server.create(widget())
    method, path = case["ask"].split()
    kind = case.get("type", "application/json")
    answered, refusal = ask(server, method, path, case.get("body"), kind)
    told = answered, refusal["kind"], refusal["code"]
    assert told == (case["status"], "Status", case["status"]), case.because
    assert case["says"] in refusal["message"], case.because


def strict(name: str) -> dict[str, Any]:
    """A definition with defaults, limits and nothing else."""
    size = {"type": "integer", "minimum": 1, "default": 3}
    mode = {"type": "string", "enum": ["fast", "slow"]}
    spec = {"type": "object", "required": ["mode"], "properties": {"size": size, "mode": mode}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    names = {"plural": name, "singular": name, "kind": "Strict", "listKind": "StrictList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }


def test_a_custom_resource_is_completed_pruned_and_validated(server):
    server.define(strict("stricts"))
    kind = {"apiVersion": "example.com/v1", "kind": "Strict", "metadata": {"name": "one"}}
    made = server.create({**kind, "spec": {"mode": "fast", "unknown": 1}})
    assert made["spec"] == {"mode": "fast", "size": 3}
    same = server.patch("stricts.example.com", "one", {"spec": {"other": 2, "size": 3}})
    assert generation(same) == 1
    for spec, field in (({"mode": "odd"}, "spec.mode"), ({"size": 0}, "spec.size")):
        with pytest.raises(RequestRefusedError) as caught:
            server.patch("stricts.example.com", "one", {"spec": spec})
        assert (caught.value.status, field in caught.value.message) == (422, True)
    with pytest.raises(RequestRefusedError, match=r"spec\.mode: Required value"):
        server.create({**kind, "metadata": {"name": "two"}, "spec": {}})


def test_an_unknown_field_is_warned_of_or_refused(server):
    server.define(strict("stricts"))
    path = "/apis/example.com/v1/namespaces/default/stricts"
    body = {"metadata": {"name": "one"}, "spec": {"mode": "fast", "unknown": 1}}
    assert ask(server, "POST", f"{path}?fieldValidation=Strict", body)[0] == 400
    request = urllib.request.Request(f"{server.url}{path}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        assert answer.headers["Warning"] == '299 - "unknown field \\"spec.unknown\\""'


def test_a_watch_is_told_who_owns_what_an_apply_creates(server):
    server.apply(widget(), "maker")
    query = "watch=true&timeoutSeconds=1"
    address = f"{server.url}/apis/example.org/v1/widgets?{query}"
    with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
        (entry,) = json.loads(answer.readline())["object"]["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("maker", "Apply")


def test_apply_takes_no_field_of_another_manager_unless_it_is_forced(server):
    server.create(widget(), user="maker")
    with pytest.raises(RequestRefusedError, match=r'conflict with "maker": \.spec\.size') as caught:
        server.apply(widget(spec={"size": 2}), "taker")
    assert caught.value.status == 409
    forced = server.apply(widget(spec={"size": 2}), "taker", force=True)
    assert generation(forced) == 2
    (entry,) = forced["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("taker", "Apply")
    assert entry["fieldsV1"] == {"f:spec": {"f:size": {}}}


def test_apply_joins_lists_by_their_keys(server):
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
    }
    server.apply(service, "one")
    other = {"ports": [{"name": "https", "port": 443, "protocol": "TCP"}]}
    server.apply({**service, "spec": other}, "two")
    left = server.apply({**service, "spec": {"ports": []}}, "one")
    assert [port["name"] for port in left["spec"]["ports"]] == ["https"]


def test_a_kubernetes_without_a_generation_of_pods_is_imitated():
    with FakeApiServer(server_version="1.32") as server:
        assert "generation" not in server.create(pod())["metadata"]
        assert ask(server, "GET", "/version")[1]["minor"] == "32"
    with pytest.raises(ValueError, match="is no Kubernetes version"):
        FakeApiServer(server_version="newest")


def test_a_definition_that_cannot_be_used_is_refused_with_its_field(tmp_path):
    path = tmp_path / "crds.yaml"
    path.write_text("kind: CustomResourceDefinition\napiVersion: apiextensions.k8s.io/v1\n"
                    "metadata: {name: a.b.c}\nspec: {names: {plural: a, kind: A}}\n")  # fmt: skip
    with pytest.raises(RequestRefusedError, match=r"spec\.group is missing"):
        FakeApiServer(path)
    with pytest.raises(LookupError, match="give its CustomResourceDefinition"):
        FakeApiServer().create({"apiVersion": "a.b/v1", "kind": "A", "metadata": {"name": "a"}})


def test_a_definition_that_is_posted_is_served_until_it_is_deleted(server):
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    status, made = ask(server, "POST", path, strict("stricts"))
    assert (status, made["status"]["conditions"][1]["type"]) == (201, "Established")
    assert ask(server, "GET", "/apis/example.com/v1/stricts")[0] == 200
    assert ask(server, "DELETE", f"{path}/stricts.example.com")[0] == 200
    assert ask(server, "GET", "/apis/example.com/v1/stricts")[0] == 404


def connect(server: FakeApiServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=PATIENCE)


def test_a_body_that_is_too_large_is_refused_and_the_connection_goes_on(server):
    path = "/apis/example.org/v1/namespaces/default/widgets"
    with contextlib.closing(connect(server)) as connection:
        for size, status, reason in (
            (3 * 2**20 + 1, 413, "RequestEntityTooLarge"),
            (3 * 2**20, 400, "BadRequest"),
        ):
            connection.request("POST", path, b" " * (size - 2) + b"[]")
            answer = connection.getresponse()
            assert (answer.status, json.loads(answer.read())["reason"]) == (status, reason)


def test_a_body_in_chunks_is_read(server):
    server.create(widget())
    path = "/apis/example.org/v1/namespaces/default/widgets/one"
    pieces = [b'{"spec":', b'{"size": 7}}']
    with contextlib.closing(connect(server)) as connection:
        kind = {"Content-Type": "application/merge-patch+json"}
        connection.request("PATCH", path, iter(pieces), kind)
        assert json.loads(connection.getresponse().read())["spec"] == {"size": 7}
        connection.request("GET", path)
        assert json.loads(connection.getresponse().read())["spec"] == {"size": 7}


def test_a_server_that_stops_ends_every_answer_and_leaves_no_thread():
    before = set(threading.enumerate())
    server = FakeApiServer(*definitions()["items"])
    server.start()
    with contextlib.ExitStack() as stack:
        idle, watching, sending = (
            stack.enter_context(contextlib.closing(connect(server))) for _ in range(3)
        )
        for connection in (idle, sending):  # an answer shows that the server accepted it
            connection.request("GET", "/version")
            assert connection.getresponse().read()
        watching.request("GET", "/apis/example.org/v1/widgets?watch=true")
        watch = watching.getresponse()
        sending.putrequest("POST", "/apis/example.org/v1/namespaces/default/widgets")
        sending.putheader("Content-Length", "100")
        sending.endheaders(b"{")
        server.create(widget())
        assert json.loads(watch.readline())["type"] == "ADDED"
        server.stop()
        server.stop()
        assert watch.read() == b""  # it has an end: otherwise that is an IncompleteRead
        for connection in (idle, sending):
            assert connection.sock.recv(1) == b""
        assert set(threading.enumerate()) <= before


def test_a_client_that_does_not_read_holds_up_nobody():
    with FakeApiServer(*definitions()["items"]) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"GET /apis/example.org/v1/widgets?watch=1 HTTP/1.1\r\nHost: a\r\n\r\n")
            for number in range(64):
                name = {"name": f"w-{number}", "annotations": {"a": "b" * 250_000}}
                server.create(widget(metadata=name))
            server.stop()


def test_many_threads_lose_no_update(server):
    server.create(widget())

    def write() -> None:
        for _ in range(20):
            while True:
                found = server.get(WIDGETS, "one")
                found["spec"]["size"] += 1
                try:
                    server.update(found)
                except RequestRefusedError as error:
                    assert error.status == 409
                else:
                    break

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = server.get(WIDGETS, "one")
    assert (stored["spec"]["size"], generation(stored)) == (81, 81)
