"""Finds Prometheus, promtool and Alertmanager: `python -m tests.monitoring.binaries`.

On PATH first, elsewhere out of Debian's packages. What is unpacked runs from anywhere but for one
path in Debian's Alertmanager: see `relocate`.
"""

import shutil
from pathlib import Path

from tests.debian import Packages

_TEMPLATES = "usr/share/prometheus/alertmanager"


def relocate(program: Path) -> None:
    """Makes an Alertmanager read its templates from the folder that it is started in.

    Debian compiles the path of the installed ones in; upstream compiles the templates in.
    """
    path = f"/{_TEMPLATES}".encode()
    here = b".".ljust(len(path), b"/")  # of the same length, and followed by /default.tmpl
    program.write_bytes(program.read_bytes().replace(path, here))


PACKAGES = Packages(
    "monitoring",
    {
        "prometheus": ("prometheus",),
        "promtool": ("promtool",),
        "alertmanager": ("alertmanager", "prometheus-alertmanager"),
    },
    (("prometheus", "prometheus-alertmanager"),),
    "https://prometheus.io/download",
    prepare=lambda unpacked: relocate(unpacked / "usr" / "bin" / "prometheus-alertmanager"),
)
binary = PACKAGES.binary


def files_beside(folder: Path) -> None:
    """Puts what an unpacked Alertmanager looks for where it is about to be started."""
    binary("alertmanager")
    for template in (PACKAGES.folder / _TEMPLATES).glob("*.tmpl"):
        shutil.copy(template, folder)


if __name__ == "__main__":
    PACKAGES.main()
