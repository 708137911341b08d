"""Every verb that asks a cluster, with every kubeconfig that does not lead to one."""

import base64
import errno
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import yaml
from click.testing import CliRunner

import certs
from tests.malformed.answering import Places, places
from tests.malformed.table import NO_CLUSTER, ROWS
from webhook.cli import VERBS, main
from webhook.cli.errors import ExitCode, why_it_ended


class Broken(NamedTuple):
    """A kubeconfig that does not lead to a cluster.

    write   makes it, and returns further flags
    told    is in the one line that every verb prints
    starts  `serve` starts with it: the API server may be waiting for its webhook
    """

    because: str
    write: Callable[[Path, Places], list[str]]
    told: str
    starts: bool = False


def config(server: str = "https://127.0.0.1:1", *, current: str | None = "a", **user: object):
    """A whole kubeconfig with the context `a`."""
    whole = {
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "contexts": [
            {"name": "a", "context": {"cluster": "a", "user": "a"}},
            {"name": "production", "context": {"cluster": "a", "user": "a"}},
            {"name": "lost", "context": {"cluster": "nowhere"}},
            {"name": "empty", "context": {"user": "a"}},
        ],
        "users": [{"name": "a", "user": user}],
    }
    return whole | ({} if current is None else {"current-context": current})


def text(content: str | bytes) -> Callable[[Path, Places], list[str]]:
    def write(path: Path, _: Places) -> list[str]:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return []

    return write


def whole(*flags: str, current: str | None = "a", **user: object):
    def write(path: Path, _: Places) -> list[str]:
        path.write_text(yaml.safe_dump(config(current=current, **user)))
        return list(flags)

    return write


def leading_to(place: str, suffix: str = "", **user: object):
    def write(path: Path, known: Places) -> list[str]:
        path.write_text(yaml.safe_dump(config(getattr(known, place) + suffix, **user)))
        return []

    return write


def expired(path: Path, known: Places) -> list[str]:
    """A client certificate of last year; the server answers 401 as an API server does."""
    then = datetime.now(UTC) - timedelta(days=400)
    folder = path.parent / "old"
    certs.ensure(folder, names=("me",), at=then, leaf_lifetime=timedelta(days=30))
    data = {
        f"client-{name}-data": base64.b64encode((folder / file).read_bytes()).decode()
        for name, file in (("certificate", "tls.crt"), ("key", "tls.key"))
    }
    server = f"{known.untrusted}/401"
    whole = config(server, **data)
    whole["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    path.write_text(yaml.safe_dump(whole))
    return []


def folder(path: Path, _: Places) -> list[str]:
    path.mkdir()
    return []


def missing(_: Path, __: Places) -> list[str]:
    return []


def plugin(*command: str) -> dict[str, object]:
    name, *arguments = command
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": name,
            "args": arguments,
        }
    }


GARBAGE = base64.b64encode(b"canary-7f3a").decode()
BROKEN = {
    "two documents": Broken("cat of two", text("a: 1\n---\nb: 2"), "found another document"),
    "a tab": Broken("an editor put it there", text("a: 1\n\tb: 2"), "line 2: found a"),
    "empty": Broken("a download failed", text(""), "no kubeconfig"),
    "not YAML": Broken("half a file", text("a: [1"), "line 2: did not find expected"),
    "binary": Broken("the wrong file", text(b"\xfb\x00\xff"), "no text in YAML"),
    "deep": Broken("an attack", text("[" * 20_000 + "]" * 20_000), "nested too deep"),
    "a text": Broken("the wrong file", text("hello"), "expected `clusters`"),
    "another kind": Broken("the wrong file", text("kind: Pod"), "expected `clusters`"),
    "missing": Broken("a typo", missing, "no such file"),
    "a folder": Broken("~/.kube for ~/.kube/config", folder, "Is a directory"),
    "no context": Broken(
        "kubectl config unset", whole(current=None), "no current-context: --context, one of a,"
    ),
    "an unknown context": Broken(
        "a typo", whole("--context=producton"), "did you mean production?"
    ),
    "an unlike context": Broken("another cluster's", whole("--context=x"), "one of a, empty, lost"),
    "a current context that is gone": Broken(
        "it was deleted", whole(current="prodution"), "did you mean production?"
    ),
    "a context without cluster": Broken(
        "written by hand", whole(current="empty"), "context empty names cluster None"
    ),
    "a cluster that is not there": Broken(
        "it was deleted", whole(current="lost"), "names cluster nowhere, which is not there"
    ),
    "a certificate that is none": Broken(
        "cut when it was copied",
        leading_to(
            "untrusted", **{"client-certificate-data": GARBAGE, "client-key-data": GARBAGE}
        ),
        "its certificates or its key cannot be used",
    ),
    "no file of the certificate": Broken(
        "minikube was deleted",
        leading_to("untrusted", **{"client-certificate": "/nowhere/c", "client-key": "/nowhere/k"}),
        "/nowhere/c",
    ),
    "an exec plugin that is missing": Broken(
        "gke-gcloud-auth-plugin is not installed", whole(**plugin("gengaurd-no-plugin")), "log in"
    ),
    "an exec plugin that fails": Broken(
        "a session is over", whole(**plugin("sh", "-c", "echo sign in >&2; exit 3")), "log in again"
    ),
    "an expired certificate": Broken(
        "of an old cluster", expired, "log in again", starts=True
    ),
    "unreachable": Broken("a VPN is off", leading_to("unreachable"), "Cannot connect", True),
    "no such name": Broken(
        "a cluster is gone",
        text(yaml.safe_dump(config("https://no-such-host.invalid:6443"))),
        "no-such-host.invalid:6443",
        starts=True,
    ),
    "TLS of an unknown authority": Broken(
        "a proxy in between", leading_to("untrusted"), "certificate verify failed", starts=True
    ),
    "no TLS": Broken("http:// is meant", leading_to("no_tls"), "SSL", starts=True),
    "not Kubernetes": Broken(
        "another port", leading_to("plain", "/html"), "is no Kubernetes API server", starts=True
    ),
    "another API": Broken(
        "another port", leading_to("plain", "/json"), "is no Kubernetes API server", starts=True
    ),
    "401": Broken("a token is old", leading_to("plain", "/401"), "log in again", starts=True),
    "403": Broken("no rights", leading_to("plain", "/403"), "is forbidden", starts=True),
}  # fmt: skip


NOT_TOLD: Final = {
    **{
        ("serve", name): "it starts and asks again: the API server may be waiting for its webhook"
        for name, row in BROKEN.items()
        if row.starts
    },
    ("serve", "an unknown context"): "it has no --context",
    ("serve", "an unlike context"): "the same",
}
"""Verbs and kubeconfigs that are not tried together, and why."""


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    with places(tmp_path_factory.mktemp("places")) as found:
        yield found


@pytest.mark.parametrize("verb", [verb for verb, row in ROWS.items() if row.cluster is not None])
def test_it_is_told_in_a_line_with_the_next_step(verb, known, tmp_path, monkeypatch, subtests):
    for name, row in BROKEN.items():
        if (verb, name) not in NOT_TOLD:
            home = tmp_path / name
            home.mkdir()
            monkeypatch.setenv("HOME", str(home))
            with subtests.test(name):
                it_is_told_in_a_line(verb, row, known, home)


def it_is_told_in_a_line(verb: str, row: Broken, known: Places, home: Path) -> None:
    path = home / "config"
    flags = row.write(path, known)
    words = [word.replace("CERTS", str(home)) for word in ROWS[verb].cluster or ()]
    words += [f"--kubeconfig={path}", *flags]
    done = CliRunner().invoke(main, [verb, *words])
    assert isinstance(done.exception, SystemExit), done.exc_info
    assert done.exit_code == 1
    told = done.stdout if verb == "doctor" else done.stderr
    assert row.told in told
    assert "canary" not in done.output
    if verb == "doctor":  # what it prints is its report
        assert told.count("\n") == 2
        assert told.startswith("fail api-server")
    else:
        assert done.stderr.startswith("Error: ")
        assert done.output.count("\n") == 1


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(errno.ENOSPC, "No space left")])
def test_an_output_that_fails_is_not_taken_for_the_cluster(error):
    assert why_it_ended(error)[0] is ExitCode.DONE


def test_each_verb_that_takes_a_kubeconfig_is_tried():
    takes = {
        name
        for name in VERBS
        if any("--kubeconfig" in one.opts for one in main.get_command(None, name).params)  # type: ignore[arg-type, union-attr]
    }
    assert set(ROWS) == set(VERBS)
    assert {name for name, row in ROWS.items() if row.cluster is not None} == takes
    assert set(NO_CLUSTER) == set(VERBS) - takes
