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
    misspelt words with a flag that is misspelt, and the flag that is meant
    flags    command lines that are wrong; unit tests say what is said of them
    """

    quick: tuple[str, ...] | None
    cluster: tuple[str, ...] | None = None
    reads: tuple[str, ...] = ()
    waits: tuple[tuple[str, ...], int] | None = None
    misspelt: tuple[tuple[str, ...], str] | None = None
    flags: tuple[tuple[str, ...], ...] = ()


_ASKS: Final = "--kubeconfig=CLUSTER"
ROWS: Final[dict[str, Row]] = {
    "serve": Row(
        None,  # it serves until it is ended
        cluster=("--secure-port=0", "--ops-port=0", "--cert-dir=CERTS"),
        waits=(("--secure-port=0", "--ops-port=0", "--cert-dir=CERTS"), 0),
        misspelt=(("--ops-prot=1",), "--ops-port"),
        flags=(
            ("--secure-port=https",),
            ("--secure-port=70000",),
            ("--heal", "--audit-only", "--kubeconfig=k"),
            ("--tls-cert-file=a",),
        ),
    ),
    "install": Row(
        ("-o", "yaml"),
        cluster=("--dry-run",),
        waits=(("--dry-run", _ASKS), 130),
        misspelt=(("--audit-onyl",), "--audit-only"),
        flags=(
            ("--replicas=many",),
            ("--replicas=0",),
            ("--heal", "--audit-only"),
            ("--ha", "--store=disk"),
        ),
    ),
    "doctor": Row(
        None,  # it needs a cluster
        cluster=(),
        waits=((_ASKS,), 130),
        misspelt=(("--contxt=a",), "--context"),
        flags=(("-o", "yaml"),),
    ),
    "uninstall": Row(
        None,  # it needs a cluster
        cluster=("--dry-run",),
        waits=(("--dry-run", _ASKS), 130),
        misspelt=(("--registration-only",), "--registrations-only"),
        flags=(("--timeout=soon",), ("--timeout=2h",)),
    ),
    "dashboard": Row(
        None,  # it needs a cluster
        cluster=("--no-browser",),
        waits=(("--no-browser", _ASKS), 130),
        misspelt=(("--no-brwser",), "--no-browser"),
        flags=(("--port=http",), ("--port=70000",)),
    ),
    "status": Row(
        ("-f", "FILE"),
        cluster=("deploy/web",),
        reads=("-f",),
        waits=(("deploy/web", "-w", _ASKS), 130),
        misspelt=(("--namespcae=a",), "--namespace"),
        flags=(
            ("-o", "xml"),
            ("deploy/web", "-l", "a=b"),
            ("--max-line=0", "-f", "x"),
            ("deploy/",),
        ),
    ),
    "wait": Row(
        None,  # it needs a cluster
        cluster=("deploy/web",),
        reads=("-f",),
        waits=(("deploy/web", _ASKS), 130),
        misspelt=(("deploy/web", "--timout=1s"), "--timeout"),
        flags=(
            ("deploy/web", "--timeout=soon"),
            ("deploy/web", "--timeout=25h"),
            ("deploy/web", "--for=done"),
            ("deploy/web", "-f", "x"),
        ),
    ),
    "publish-status": Row(
        None,  # it writes until it is ended
        cluster=("widgets",),
        waits=(("widgets", _ASKS), 130),
        misspelt=(("widgets", "--lease-namspace=a"), "--lease-namespace"),
        flags=((),),
    ),
    "explain": Row(
        ("deployments",),
        cluster=("widgets",),
        waits=(("widgets", _ASKS), 130),
        misspelt=(("deploy", "--crd=x"), "--crds"),
        flags=(
            ("deploy", "--server-version=new"),
            ("deploy", "--server=http://h"),
            ("finding/a", "--crds=x"),
            ("finding/../a",),
        ),
    ),
    "blame": Row(
        ("-f", "LOG", "deployments/web"),
        cluster=("deploy/web",),
        reads=("deployments/web", "-f"),
        waits=(("deploy/web", _ASKS), 130),
        misspelt=(("deploy/web", "--sever=http://h"), "--server"),
        flags=(
            ("deploy",),
            ("deploy/web", "-f", "x", "--server=http://h"),
            ("deploy/web", "--max-line=none"),
        ),
    ),
    "replay": Row(
        ("LOG",),
        reads=("--max-line=1",),
        waits=(("-",), 130),
        misspelt=(("--webhook=x", "-"), "--webhooks"),
        flags=((), ("--server-version=new", "-"), ("--max-line=0", "-")),
    ),
    "trace": Row(
        None,  # it needs a cluster
        cluster=("deploy/web", "--yes"),
        waits=(("deploy/web", _ASKS), 130),
        misspelt=(("deploy/web", "--pok"), "--poke"),
        flags=(
            ("deploy/web", "--timeout=soon"),
            ("deploy/web", "--writes=0"),
            ("deploy/web", "--listen=h"),
            (),
        ),
    ),
    "watch": Row(
        None,  # it needs a cluster
        cluster=("--timeout=60s",),
        waits=((_ASKS,), 130),
        misspelt=(("--timout=1s",), "--timeout"),
        flags=(("--timeout=soon",), ("--timeout=0",), ("-o", "csv")),
    ),
    "findings": Row(
        None,  # it asks a server
        cluster=(),
        waits=((_ASKS,), 130),
        misspelt=(("--sevrity=info",), "--severity"),
        flags=(("--since=soon",), ("--state=new",), ("-o", "csv"), ("--server=a b",)),
    ),
    "rules": Row(
        ("check",),
        reads=("check",),
        flags=(("tset",), (), ("test", "--fiel")),
    ),
    "converge": Row(
        None,  # it needs a cluster
        cluster=("-f", "examples/controller/crd.yaml"),
        reads=("-f",),
        waits=(("-f", "FILE", _ASKS), 130),
        misspelt=(("-f", "x", "--argo-app=a"), "--argocd-app"),
        flags=((), ("-f", "x", "-o", "yaml"), ("-f", "x", "--as-group=g")),
    ),
    "reproduce": Row(
        None,  # it writes a folder
        reads=("finding/a", "-o", "FOLDER"),
        waits=(("finding/a", "-o", "FOLDER", "-"), 130),
        misspelt=(("finding/a", "--keep-name"), "--keep-names"),
        flags=((), ("finding/a",), ("a", "-o", "FOLDER"), ("finding/", "-o", "FOLDER")),
    ),
    "lint": Row(
        ("HOOKS",),
        cluster=(),
        reads=("--max-line=1",),
        waits=(("-",), 130),
        misspelt=(("--fail-no=error", "x"), "--fail-on"),
        flags=(("--fail-on=all", "x"), ("--only=pods", "x"), (), ("--kubeconfig=k", "x")),
    ),
    "version": Row(
        (), flags=(("-o", "xml"), ("please",))
    ),
    "completion": Row(
        ("bash",), flags=(("tcsh",), ())
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
