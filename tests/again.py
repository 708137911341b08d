"""Runs the files of the tests that have just failed once more, with nothing beside them.

python -m tests.again

Tests on the real control plane have deadlines, and two busy cores may miss one. What is wrong fails
alone, too. Exits as pytest does; with 1 where no failure is known, since then it was no test.
"""

import json
import subprocess
import sys
from pathlib import Path

_FAILED = Path(".pytest_cache/v/cache/lastfailed")
_MOST_FILES = 10
"""More are no accident."""


def main() -> int:
    """Run them."""
    failed = json.loads(_FAILED.read_text()) if _FAILED.exists() else {}
    files = sorted({name.partition("::")[0] for name in failed})
    if not 0 < len(files) <= _MOST_FILES:
        return 1
    print(f"once more, alone: {' '.join(files)}", flush=True)
    return subprocess.run([sys.executable, "-m", "pytest", *files], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
