"""Runs docker, kind, kubectl, genguard and kind.sh as users type them; says what is missing."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
KIND_SH = str(ROOT / "manifests" / "kind" / "kind.sh")
_PAGES = {
    "docker": "https://docs.docker.com/get-docker/",
    "kind": "https://kind.sigs.k8s.io/docs/user/quick-start/",
    "kubectl": "https://kubernetes.io/docs/tasks/tools/",
}
_SECONDS = 600.0

Done = subprocess.CompletedProcess[str]


class CommandError(Exception):
    """A command failed; the message has its output."""


def missing_tools() -> str:
    """Why these tests cannot run on this machine; "" where they can."""
    for tool, page in _PAGES.items():
        if shutil.which(tool) is None:
            return f"{tool} is not on PATH: {page}"
    asked = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False)
    return "" if asked.returncode == 0 else f"docker does not answer: {asked.stderr.strip()}"


def environment(kubeconfig: Path) -> dict[str, str]:
    """The caller's own, with this kubeconfig, and with the genguard of this Python on PATH."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": path}


def run(
    *words: str,
    env: Mapping[str, str] | None = None,
    timeout: float = _SECONDS,
    check: bool = True,
    text: str | None = None,
) -> Done:
    """Run a command in the repository's top folder; `text` is its standard input.

    Raises CommandError when it fails and `check` is set, or when it takes too long.
    """
    try:
        done = subprocess.run(
            words,
            cwd=ROOT,
            env=env,
            input=text if text is not None else "",
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"{' '.join(words)}: no end within {timeout:g} s") from error
    if check and done.returncode != 0:
        told = f"{done.stdout[-4000:]}{done.stderr[-4000:]}"
        raise CommandError(f"{' '.join(words)}: exit code {done.returncode}\n{told}")
    return done
