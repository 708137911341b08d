"""Finds a Valkey or Redis server: `python -m tests.store.binaries`.

On PATH first, elsewhere out of Debian's packages: Valkey where the release has it.
"""

from tests.debian import Packages

PACKAGES = Packages(
    "store",
    {"valkey-server": ("valkey-server", "redis-server")},
    (("valkey-server",), ("redis-server",)),
    "https://valkey.io/download",
    libraries=True,
)

if __name__ == "__main__":
    PACKAGES.main()
