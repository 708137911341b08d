"""A container without a container: `Sandbox(environment).command("genguard", "serve")`.

bubblewrap makes what a pod of manifests/base/server has: a root file system that cannot be written,
a user that is not root and has no capability, and nothing but /tmp to write in. What is there is
the system's Python with its libraries, and the environment that is tried: no repository.

`python -m tests.supply.sandbox` finds the program: on PATH, else out of Debian's package. It needs
unprivileged user namespaces, or root; where neither is, it says so and the test fails.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.debian import Packages

PACKAGES = Packages(
    "sandbox",
    {"bwrap": ("bwrap",)},
    (("bubblewrap",),),
    "https://github.com/containers/bubblewrap",
    libraries=True,
)
USER = 65532
"""As in the Dockerfile and in the Deployment."""
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", sys.base_prefix)
C_LIBRARY = ("/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64")
"""What an empty container has: no shell, no Python."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A virtual environment in which programs run; `certs` outside is /tmp/certs within.

    system     the folders of this machine that are there, too
    folder     where the programs are started
    variables  more variables of their environment
    """

    environment: Path
    certs: Path
    system: tuple[str, ...] = _SYSTEM
    folder: str = "/tmp"
    variables: Mapping[str, str] = field(default_factory=dict)

    def command(self, program: str, *arguments: str) -> list[str]:
        """The command line that runs a program of the environment."""
        system = [word for path in self.system for word in ("--ro-bind-try", path, path)]
        env = {
            "HOME": "/tmp",
            "PATH": f"{self.environment}/bin:/usr/bin:/bin",
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.variables,
        }
        return [
            str(PACKAGES.binary("bwrap")),
            *("--unshare-all", "--share-net", "--die-with-parent", "--new-session"),
            *("--uid", str(USER), "--gid", str(USER), "--cap-drop", "ALL"),
            *("--clearenv", *(word for pair in env.items() for word in ("--setenv", *pair))),
            *system,
            *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
            *("--ro-bind", str(self.environment), str(self.environment)),
            *("--bind", str(self.certs), "/tmp/certs"),
            *("--remount-ro", "/", "--chdir", self.folder),
            f"{self.environment}/bin/{program}",
            *arguments,
        ]

    def env(self) -> dict[str, str]:
        """What bubblewrap itself needs to find its libraries."""
        return {**os.environ, **PACKAGES.environment("bwrap")}


if __name__ == "__main__":
    PACKAGES.main()
