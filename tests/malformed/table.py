"""What each verb is tried with: one row a verb. A new verb needs a row."""

from typing import Final, NamedTuple


class Row(NamedTuple):
    """How a verb is called in each trial; a test enforces that every verb has a row.

    quick    a run that ends well and prints something; FILE is replaced by a file of one
             object, HOOKS by one of a webhook configuration
    cluster  the words of a run that asks a cluster, without --kubeconfig; None for other verbs
    reads    the words before a FILE that it reads; none where it reads no file but those of flags
    waits    the words of a run that waits until it is interrupted, with its exit code; None where
             nothing is waited for, and CLUSTER is replaced by a kubeconfig of a silent server
    """

    quick: tuple[str, ...] | None
    cluster: tuple[str, ...] | None = None
    reads: tuple[str, ...] = ()
    waits: tuple[tuple[str, ...], int] | None = None


_ASKS: Final = "--kubeconfig=CLUSTER"
ROWS: Final[dict[str, Row]] = {
    "serve": Row(
        None,  # it serves until it is ended
        cluster=("--secure-port=0", "--ops-port=0", "--cert-dir=CERTS"),
        waits=(("--secure-port=0", "--ops-port=0", "--cert-dir=CERTS"), 0),
    ),
    "install": Row(
        ("-o", "yaml"),
        cluster=("--dry-run",),
        waits=(("--dry-run", _ASKS), 130),
    ),
    "doctor": Row(
        None,  # it needs a cluster
        cluster=(),
        waits=((_ASKS,), 130),
    ),
    "uninstall": Row(
        None,  # it needs a cluster
        cluster=("--dry-run",),
        waits=(("--dry-run", _ASKS), 130),
    ),
    "dashboard": Row(
        None,  # it needs a cluster
        cluster=("--no-browser",),
        waits=(("--no-browser", _ASKS), 130),
    ),
    "status": Row(
        ("-f", "FILE"),
        cluster=("deploy/web",),
        reads=("-f",),
        waits=(("deploy/web", "-w", _ASKS), 130),
    ),
    "wait": Row(
        None,  # it needs a cluster
        cluster=("deploy/web",),
        reads=("-f",),
        waits=(("deploy/web", _ASKS), 130),
    ),
    "publish-status": Row(
        None,  # it writes until it is ended
        cluster=("widgets",),
        waits=(("widgets", _ASKS), 130),
    ),
    "explain": Row(
        ("deployments",),
        cluster=("widgets",),
        waits=(("widgets", _ASKS), 130),
    ),
    "blame": Row(
        ("-f", "LOG", "deployments/web"),
        cluster=("deploy/web",),
        reads=("deployments/web", "-f"),
        waits=(("deploy/web", _ASKS), 130),
    ),
    "replay": Row(
        ("LOG",),
        reads=("--max-line=1",),
        waits=(("-",), 130),
    ),
    "trace": Row(
        None,  # it needs a cluster
        cluster=("deploy/web", "--yes"),
        waits=(("deploy/web", _ASKS), 130),
    ),
    "watch": Row(
        None,  # it needs a cluster
        cluster=("--timeout=60s",),
        waits=((_ASKS,), 130),
    ),
    "findings": Row(
        None,  # it asks a server
        cluster=(),
        waits=((_ASKS,), 130),
    ),
    "rules": Row(
        ("check",),
        reads=("check",),
    ),
    "converge": Row(
        None,  # it needs a cluster
        cluster=("-f", "examples/controller/crd.yaml"),
        reads=("-f",),
        waits=(("-f", "FILE", _ASKS), 130),
    ),
    "reproduce": Row(
        None,  # it writes a folder
        reads=("finding/a", "-o", "FOLDER"),
        waits=(("finding/a", "-o", "FOLDER", "-"), 130),
    ),
    "lint": Row(
        ("HOOKS",),
        cluster=(),
        reads=("--max-line=1",),
        waits=(("-",), 130),
    ),
    "version": Row(
        ()
    ),
    "completion": Row(
        ("bash",)
    ),
}  # fmt: skip
NO_CLUSTER: Final = {
    "replay": "it reads recordings",
    "reproduce": "it reads recordings",
    "rules": "it reads files of rules",
    "version": "it prints what it knows",
    "completion": "it prints a script",
}
NOTHING_TO_WAIT_FOR: Final = ("rules", "version", "completion")
