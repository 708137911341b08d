"""What is in the wheel, and that it is of one version."""

import subprocess
import sys
import tomllib
import zipfile

import webhook
from tests.unit.manifest_files import MANIFESTS, REPOSITORY


def test_the_package_says_the_version_that_it_is_published_as():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert webhook.__version__ == project["version"]


def test_the_wheel_holds_every_manifest_runbook_and_page_and_no_key(tmp_path):
    source = tmp_path / "source"
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    )
    for name in tracked.stdout.decode().split("\0"):
        path = REPOSITORY / name
        if name.partition("/")[0] in (
            "webhook",
            "certs",
            "manifests",
            "pyproject.toml",
            "README.md",
        ):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes(path.read_bytes())
    (source / "manifests" / "tls" / "tls.key").write_text("secret")
    code = f"import setuptools.build_meta as b; b.build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    expected = {f"manifests/{path.relative_to(MANIFESTS)}" for path in MANIFESTS.rglob("*.yaml")}
    pages = REPOSITORY / "webhook" / "dashboard"
    shown = [*MANIFESTS.glob("monitoring/runbooks/*"), *pages.glob("*/*.*[!c]")]
    expected |= {str(path.relative_to(REPOSITORY)) for path in shown}
    assert "webhook/dashboard/templates/findings.html" in expected
    assert expected <= set(names)
    assert not [name for name in names if name.endswith((".key", ".crt"))]
