"""A mounted Secret, as the kubelet keeps it (pkg/volume/util/atomic_writer.go)."""

from collections.abc import Mapping
from pathlib import Path


def mount_secret(folder: Path, contents: Mapping[str, bytes], generation: int) -> None:
    """Puts new contents in place: a new folder, then one rename of the `..data` symlink."""
    data = folder / f"..2026_{generation}"
    data.mkdir()
    for name, content in contents.items():
        (data / name).write_bytes(content)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    (folder / "..data_tmp").symlink_to(data.name)
    (folder / "..data_tmp").rename(folder / "..data")
