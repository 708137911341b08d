"""Every verb that asks a cluster, with every kubeconfig that does not lead to one."""

import base64
import errno
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
import pytest
import yaml
from click.testing import CliRunner

import certs
from tests.malformed.answering import Places, places
from tests.malformed.table import NO_CLUSTER, ROWS
from webhook.cli import VERBS, main
from webhook.cli.errors import ExitCode, why_it_ended


class Broken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kubeconfig of clusters.yaml, which explains it; `told` is in the line of every verb."""

    because: str
    told: str
    text: str | None = None
    made: str = ""
    server: str = "https://127.0.0.1:1"
    leads: tuple[str, ...] = ()
    user: dict[str, str] = {}
    runs: tuple[str, ...] = ()
    current: str | None = "a"
    flags: tuple[str, ...] = ()
    starts: bool = False

    def write(self, path: Path, known: Places) -> list[str]:
        """Make it, and return further flags."""
        if self.made:
            MAKES[self.made](path, known)
        elif self.text is not None:
            path.write_text(self.text)
        else:
            place = getattr(known, self.leads[0]) if self.leads else self.server
            user = self.user | (plugin(*self.runs) if self.runs else {})
            server = "".join((place, *self.leads[1:]))
            path.write_text(yaml.safe_dump(config(server, current=self.current, **user)))
        return list(self.flags)


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


def expired(path: Path, known: Places) -> None:
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


def plugin(*command: str) -> dict[str, object]:
    name, *arguments = command
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": name,
            "args": arguments,
        }
    }


MAKES: Final[dict[str, Callable[[Path, Places], object]]] = {
    "binary": lambda path, _: path.write_bytes(b"\xfb\x00\xff"),
    "deep": lambda path, _: path.write_text("[" * 20_000 + "]" * 20_000),
    "missing": lambda *_: None,
    "folder": lambda path, _: path.mkdir(),
    "expired": expired,
}
BROKEN: Final = msgspec.yaml.decode(
    Path(__file__).with_name("clusters.yaml").read_bytes(), type=dict[str, Broken]
)
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
    assert done.exit_code == ROWS[verb].unreached
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
    assert set(VERBS) - takes == NO_CLUSTER
