"""One cluster for all tests of a form, and a table of what they measured."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kind.cluster import NAME, Cluster, Figure, exists
from tests.kind.commands import KIND_SH, ROOT, missing_tools, run
from tests.kind.culprit import Culprit
from tests.kind.images import build

RESULTS = ROOT / "build" / "kind" / "RESULTS.md"
_KEEP = "GENGUARD_KIND_KEEP"
_FIGURE = "figure"


@pytest.fixture(scope="session", autouse=True)
def _machine() -> Iterator[None]:
    """Docker, kind and kubectl, and no cluster that is somebody's."""
    why = missing_tools()
    if not why and exists() and _KEEP not in os.environ:
        why = f"a kind cluster named {NAME} is there already: manifests/kind/kind.sh down"
    if why:
        pytest.exit(f"the kind tests cannot run: {why}", returncode=1)
    yield
    if _KEEP not in os.environ:
        run(KIND_SH, "down")


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where kind writes how to reach the cluster."""
    found = os.environ.get(_KEEP)
    return Path(found) if found else tmp_path_factory.mktemp("kind") / "kubeconfig"


@pytest.fixture(scope="session")
def cluster(kubeconfig: Path) -> Cluster:
    """The cluster of manifests/kind; `kind.sh up` makes it."""
    return Cluster(kubeconfig)


@pytest.fixture(scope="session")
def culprit(cluster: Cluster) -> Culprit:
    """A webhook in the cluster that clears observedGeneration where it is registered."""
    if not exists():
        cluster.up(audit_only=True)
    cluster.load(build("culprit", ROOT / "examples" / "culprits" / "webhook"))
    found = Culprit(cluster)
    found.run()
    return found


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Figure:
    """Takes what a test has measured, for the table at the end."""
    return lambda text: request.node.user_properties.append((_FIGURE, text))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table, and add it to a file that the Makefile has removed before."""
    reports = [
        one
        for outcome in ("passed", "failed", "error")
        for one in terminalreporter.stats.get(outcome, ())
    ]
    rows = [_row(one) for one in sorted(reports, key=lambda one: one.start)]
    if not rows:
        return
    if not RESULTS.exists():
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text("| form | what | figure | time |\n|---|---|---|---|\n")
    with RESULTS.open("a") as file:
        file.writelines(f"{row}\n" for row in rows)
    terminalreporter.section(f"figures: {RESULTS}")
    for row in rows:
        terminalreporter.write_line(row)


def _row(report: pytest.TestReport) -> str:
    path, _, name = report.nodeid.rpartition("::")
    sentence = name.removeprefix("test_").replace("_", " ")
    figures = "; ".join(str(text) for key, text in report.user_properties if key == _FIGURE)
    time = f"{report.duration:.0f} s"
    result = time if report.passed else f"**failed**, {time}"
    return f"| {Path(path).parent.name} | {sentence} | {figures} | {result} |"
