"""Folders and https URLs in the place of files: `-f` of status, wait and blame, files of lint."""

import http.server
import json
import ssl
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import pytest
import yaml
from click.testing import CliRunner

from certs import issue
from tests.unit.cli.test_status_files import POD, WEB
from webhook.cli import files, main

HOOKS = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "hooks"},
    "webhooks": [],
}


def run(*words: object):
    return CliRunner().invoke(main, list(map(str, words)))


def named(result):
    return [json.loads(line)["name"] for line in result.stdout.splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b.yaml").write_text(yaml.safe_dump(WEB))
    (tmp_path / "a.json").write_text(json.dumps(POD))
    (tmp_path / "README.md").write_text("# not an object\n")
    (tmp_path / "below.yaml").mkdir()
    other = WEB | {"metadata": WEB["metadata"] | {"name": "below"}}
    (tmp_path / "below.yaml" / "c.yml").write_text(yaml.safe_dump(other))
    return tmp_path


def test_the_manifests_of_a_folder_are_read_in_order_of_their_names(folder):
    result = run("status", "-f", folder, "-o", "json")
    assert (named(result), result.exit_code) == (["web-1-x", "web"], 0)


def test_recursive_reads_the_folders_in_it_too(folder):
    result = run("status", "-R", "-f", folder, "-o", "json")
    assert named(result) == ["web-1-x", "web", "below"]


@pytest.mark.parametrize("words", [("status", "-f"), ("wait", "-f"), ("lint",)])
def test_a_folder_without_manifests_is_told_in_one_line(tmp_path, words):
    result = run(*words, tmp_path)
    assert result.exit_code == 1
    assert (
        f"{tmp_path}: no file of the folder ends in .json .yaml .yml, or give -R" in result.stderr
    )


def test_a_folder_of_audit_logs_is_read_the_oldest_first(tmp_path):
    for name in ("audit.log", "audit-2026-11-20T00-00-00.000.log", "notes.txt"):
        (tmp_path / name).touch()
    found = [
        Path(name).name for name in files.expand((str(tmp_path),), files.LOGS, recursive=False)
    ]
    assert found == ["audit-2026-11-20T00-00-00.000.log", "audit.log"]
    result = run("blame", "-f", tmp_path, "deploy/web")
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)


def test_lint_reads_a_folder_and_says_when_there_is_no_webhook_configuration(folder):
    result = run("lint", folder)
    assert (result.exit_code, result.stderr) == (
        0,
        f"No webhook configuration or CustomResourceDefinition found in {folder}.\n",
    )
    (folder / "hooks.json").write_text(json.dumps(HOOKS))
    assert run("lint", folder).stderr == ""


class _Site(http.server.BaseHTTPRequestHandler):
    pages: ClassVar[dict[str, bytes]] = {}

    def do_GET(self):
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:9/web.yaml")
            self.end_headers()
            return
        known = self.pages.get(self.path)
        self.send_response(404 if known is None else 200)
        self.end_headers()
        self.wfile.write(known or b"")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def site(folder: Path, pages: dict[str, bytes]):
    """An https server on this host; yields its URL and the file of its authority."""
    pair = issue(names=("localhost",), at=datetime.now(UTC))
    (folder / "tls.pem").write_bytes(pair.cert_pem + pair.key_pem)
    (folder / "ca.pem").write_bytes(pair.ca_pem)
    handler = type("Site", (_Site,), {"pages": pages})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}", folder / "ca.pem"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_an_https_url_is_read_as_a_file_is(tmp_path, monkeypatch):
    pages = {"/web.yaml": yaml.safe_dump(WEB).encode(), "/hooks.json": json.dumps(HOOKS).encode()}
    with site(tmp_path, pages) as (url, authority):
        refused = run("status", "-f", f"{url}/web.yaml", "-o", "json")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        good = run("status", "-f", f"{url}/web.yaml", "-o", "json")
        missing = run("status", "-f", f"{url}/other.yaml", "-o", "json")
        away = run("status", "-f", f"{url}/away", "-o", "json")
        linted = run("lint", f"{url}/hooks.json")
        monkeypatch.setattr(files, "_MOST_URL_BYTES", 10)
        large = run("status", "-f", f"{url}/web.yaml", "-o", "json")
    assert (named(good), good.exit_code) == (["web"], 0)
    assert linted.exit_code == 0, linted.stderr
    for result, reason in (
        (refused, "certificate verify failed"),
        (missing, "the server answers 404 Not Found"),
        (away, "it leads to a URL without https"),
        (large, "more than 0 MiB"),
    ):
        assert result.exit_code == 1
        assert reason in result.stderr
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:9/web.yaml", "give an https URL"),
        ("https://", "give an https URL"),
        ("https://127.0.0.1:9/web.yaml", "Connection refused"),
    ],
)
def test_a_url_that_cannot_be_read_is_told_in_one_line(url, reason):
    result = run("status", "-f", url)
    assert result.exit_code == 1
    assert f"{url}: " in result.stderr
    assert reason in result.stderr
    assert len(result.stderr.splitlines()) == 1
