"""`python -m tools.fuzz [--seconds N] [TARGET...]`: coverage-guided, all targets for so long.

Each target is a process of its own; what libFuzzer finds new is kept in build/fuzz/TARGET, and
what fails in build/fuzz/TARGET.fault-*: mend it, and put the file into tools/fuzz/corpus/TARGET.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tools.fuzz.corpus import CORPUS

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "fuzz"
_LONGEST = 16_384
_INSTRUMENTED = ["webhook", "genguard", "certs", "yaml"]


def main() -> int:
    """The exit code is 1 when something failed."""
    from tools.fuzz.targets import TARGETS  # noqa: PLC0415 - a child imports it instrumented

    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="of all targets together")
    parser.add_argument("targets", nargs="*", default=list(TARGETS))
    given = parser.parse_args()
    failed = [
        name for name in given.targets if run(name, given.seconds // len(given.targets)).returncode
    ]
    print(f"failed: {', '.join(failed)}" if failed else "nothing failed")
    return bool(failed)


def run(
    name: str, seconds: int, kept: Path = KEPT, *, seed: int = 0
) -> subprocess.CompletedProcess[bytes]:
    """One target, in a process that imports everything instrumented; a seed of 0 is any.

    With a seed the same is tried each time, as far as `seconds` let it get.
    """
    found = kept / name
    found.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable, "-c", f"from tools.fuzz.__main__ import fuzz; fuzz({name!r})",
        f"-seed={seed}", f"-max_total_time={max(seconds, 1)}", f"-max_len={_LONGEST}",
        "-timeout=20", "-rss_limit_mb=2048", f"-artifact_prefix={found}.fault-", "-verbosity=0",
        "-print_final_stats=1", str(found), str(CORPUS / name),
    ]  # fmt: skip
    print(f"== {name}: {seconds} s", flush=True)
    hashing = {"PYTHONHASHSEED": str(seed)} if seed else {}
    return subprocess.run(command, cwd=ROOT, env=os.environ | hashing, check=False)


def fuzz(name: str) -> None:
    """In the child: libFuzzer's loop, which does not return."""
    import atheris  # noqa: PLC0415 - loads libFuzzer

    with atheris.instrument_imports(include=_INSTRUMENTED, enable_loader_override=False):
        from tools.fuzz.targets import TARGETS  # noqa: PLC0415
    atheris.Setup(sys.argv, TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
