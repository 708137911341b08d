"""Issue a serving certificate from the command line: `python -m certs issue --dir tls`.

Writes  tls.crt, tls.key, ca.crt and ca.key, or keeps a pair that is still good
Prints  the base64 caBundle to standard output, a log line to standard error
"""

import argparse
import base64
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from certs import FIRST_LEAF_LIFETIME, CertificateError, ensure, installed_names


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        done = ensure(
            options.dir,
            names=(*installed_names(options.service, options.namespace), *options.name),
            at=datetime.now(UTC),
            leaf_lifetime=timedelta(days=options.days),
        )
    except CertificateError as error:
        sys.stderr.write(f"certs: {error}\n")
        return 1
    sys.stderr.write(f"certs: {done.action} in {options.dir}. {done.reason}".rstrip() + "\n")
    sys.stdout.write(base64.b64encode(done.pair.ca_pem or b"").decode() + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m certs", description=__doc__)
    issue = parser.add_subparsers(required=True).add_parser(
        "issue", help="make a pair, or keep a good one"
    )
    issue.add_argument("--dir", type=Path, required=True, help="the folder for the pair")
    issue.add_argument("--service", default="genguard", help="the Service to call")
    issue.add_argument("--namespace", default="genguard-system", help="its namespace")
    issue.add_argument(
        *("--name", "--ip"),
        dest="name",
        action="append",
        default=[],
        help="an additional DNS name or IP address",
    )
    issue.add_argument(
        "--days",
        type=int,
        default=FIRST_LEAF_LIFETIME.days,
        help="days until it expires; default: a year, since files are not renewed",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
