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
    flags    command lines that are wrong, with what is said of them
    """

    quick: tuple[str, ...] | None
    cluster: tuple[str, ...] | None = None
    reads: tuple[str, ...] = ()
    waits: tuple[tuple[str, ...], int] | None = None
    flags: tuple[tuple[tuple[str, ...], str], ...] = ()


_ASKS: Final = "--kubeconfig=CLUSTER"
ROWS: Final[dict[str, Row]] = {
    "serve": Row(
        None,  # it serves until it is ended
        cluster=("--secure-port=0", "--ops-port=0", "--cert-dir=CERTS"),
        waits=(("--secure-port=0", "--ops-port=0", "--cert-dir=CERTS"), 0),
        flags=(
            (("--ops-prot=1",), "Did you mean"),
            (("--secure-port=https",), "is not a valid integer"),
            (("--secure-port=70000",), "is not in the range"),
            (("--heal", "--audit-only", "--kubeconfig=k"), "leave one out"),
            (("--tls-cert-file=a",), "go together"),
        ),
    ),
    "install": Row(
        ("-o", "yaml"),
        cluster=("--dry-run",),
        waits=(("--dry-run", _ASKS), 130),
        flags=(
            (("--audit-onyl",), "Did you mean --audit-only?"),
            (("--replicas=many",), "is not a valid integer"),
            (("--replicas=0",), "is not in the range"),
            (("--heal", "--audit-only"), "leave out --heal"),
            (("--ha", "--store=disk"), "give memory"),
        ),
    ),
    "doctor": Row(
        None,  # it needs a cluster
        cluster=(),
        waits=((_ASKS,), 130),
        flags=((("--contxt=a",), "Did you mean --context?"), (("-o", "yaml"), "is not one of")),
    ),
    "uninstall": Row(
        None,  # it needs a cluster
        cluster=("--dry-run",),
        waits=(("--dry-run", _ASKS), 130),
        flags=(
            (("--registration-only",), "Did you mean --registrations-only?"),
            (("--timeout=soon",), "is not a time"),
            (("--timeout=2h",), "is not a time up to 1h"),
        ),
    ),
    "status": Row(
        ("-f", "FILE"),
        cluster=("deploy/web",),
        reads=("-f",),
        waits=(("deploy/web", "-w", _ASKS), 130),
        flags=(
            (("--namespcae=a",), "Did you mean --namespace?"),
            (("-o", "xml"), "is not one of"),
            (("deploy/web", "-l", "a=b"), "not by both"),
            (("--max-line=0", "-f", "x"), "is not in the range"),
            (("deploy/",), "is not KIND/NAME"),
        ),
    ),
    "wait": Row(
        None,  # it needs a cluster
        cluster=("deploy/web",),
        reads=("-f",),
        waits=(("deploy/web", _ASKS), 130),
        flags=(
            (("deploy/web", "--timout=1s"), "Did you mean --timeout?"),
            (("deploy/web", "--timeout=soon"), "is not a time"),
            (("deploy/web", "--timeout=25h"), "is not a time up to 24h"),
            (("deploy/web", "--for=done"), "is not a goal"),
            (("deploy/web", "-f", "x"), "give either"),
        ),
    ),
    "publish-status": Row(
        None,  # it writes until it is ended
        cluster=("widgets",),
        waits=(("widgets", _ASKS), 130),
        flags=(
            (("widgets", "--lease-namspace=a"), "Did you mean --lease-namespace?"),
            ((), "Missing argument"),
        ),
    ),
    "explain": Row(
        ("deployments",),
        cluster=("widgets",),
        waits=(("widgets", _ASKS), 130),
        flags=(
            (("deploy", "--crd=x"), "Did you mean --crds?"),
            (("deploy", "--server-version=new"), "is no Kubernetes version"),
            (("deploy", "--server=http://h"), "--server is for finding/ID"),
            (("finding/a", "--crds=x"), "leave out what is of kinds"),
            (("finding/../a",), "is not finding/ID"),
        ),
    ),
    "blame": Row(
        ("-f", "LOG", "deployments/web"),
        cluster=("deploy/web",),
        reads=("deployments/web", "-f"),
        waits=(("deploy/web", _ASKS), 130),
        flags=(
            (("deploy/web", "--sever=http://h"), "Did you mean --server?"),
            (("deploy",), "is not KIND/NAME"),
            (("deploy/web", "-f", "x", "--server=http://h"), "leave them out"),
            (("deploy/web", "--max-line=none"), "is not a valid integer"),
        ),
    ),
    "replay": Row(
        ("LOG",),
        reads=("--max-line=1",),
        waits=(("-",), 130),
        flags=(
            (("--webhook=x", "-"), "Did you mean --webhooks?"),
            ((), "Missing argument"),
            (("--server-version=new", "-"), "is no Kubernetes version"),
            (("--max-line=0", "-"), "is not in the range"),
        ),
    ),
    "trace": Row(
        None,  # it needs a cluster
        cluster=("deploy/web", "--yes"),
        waits=(("deploy/web", _ASKS), 130),
        flags=(
            (("deploy/web", "--pok"), "Did you mean --poke?"),
            (("deploy/web", "--for=soon"), "is not a time"),
            (("deploy/web", "--writes=0"), "is not in the range"),
            (("deploy/web", "--listen=h"), "is not ADDRESS:PORT"),
            ((), "give KIND/NAME"),
        ),
    ),
    "findings": Row(
        None,  # it asks a server
        cluster=(),
        waits=((_ASKS,), 130),
        flags=(
            (("--sevrity=info",), "Did you mean --severity?"),
            (("--since=soon",), "is not a time"),
            (("--state=new",), "is not one of"),
            (("-o", "csv"), "csv"),
            (("--server=a b",), "is neither a URL"),
        ),
    ),
    "rules": Row(
        ("check",),
        reads=("check",),
        flags=(
            (("tset",), "is not one of"),
            ((), "Missing argument"),
            (("test", "--fiel"), "No such option"),
        ),
    ),
    "lint": Row(
        ("HOOKS",),
        cluster=(),
        reads=("--max-line=1",),
        waits=(("-",), 130),
        flags=(
            (("--fail-no=error", "x"), "Did you mean --fail-on?"),
            (("--fail-on=all", "x"), "is not one of"),
            (("--only=pods", "x"), "is not one of"),
            ((), "give either FILEs or"),
            (("--kubeconfig=k", "x"), "give either FILEs or"),
        ),
    ),
    "version": Row(
        (), flags=((("-o", "xml"), "is not one of"), (("please",), "unexpected extra argument"))
    ),
    "schema": Row((), flags=((("serve",), "is not one of"), (("--out=x",), "No such option"))),
    "completion": Row(
        ("bash",), flags=((("tcsh",), "is not one of"), ((), "Missing argument"))
    ),
    "man": Row(
        ("serve",),
        flags=((("stats",), "is not one of"), (("serve", "--to=x"), "leave out VERB")),
    ),
}  # fmt: skip
NO_CLUSTER: Final = {
    "replay": "it reads recordings",
    "rules": "it reads files of rules",
    "version": "it prints what it knows",
    "schema": "the same",
    "completion": "it prints a script",
    "man": "it prints a page",
}
NOTHING_TO_WAIT_FOR: Final = ("rules", "version", "schema", "completion", "man")
