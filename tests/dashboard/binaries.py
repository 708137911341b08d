"""Finds Chromium: `python -m tests.dashboard.binaries`.

On PATH first, elsewhere out of Debian's package. What is unpacked needs two things to run from
anywhere: the browser itself in place of Debian's script, which knows the installed paths alone, and
a list of fonts that does not name them either.
"""

import os
from pathlib import Path

from tests.debian import Packages

_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir prefix="relative">../../usr/share/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
  <alias><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
  <alias><family>system-ui</family><prefer><family>DejaVu Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""


def relocate(unpacked: Path) -> None:
    """Makes the browser and its fonts be found where they are."""
    script = unpacked / "usr" / "bin" / "chromium"
    script.unlink()
    script.symlink_to("../lib/chromium/chromium")
    fonts = unpacked / "etc" / "fonts" / "genguard.conf"
    fonts.parent.mkdir(parents=True, exist_ok=True)
    fonts.write_text(_FONTS)


PACKAGES = Packages(
    "browser",
    {"chromium": ("chromium", "chromium-browser")},
    (("chromium", "fonts-dejavu-core"),),
    "https://www.chromium.org/getting-involved/download-chromium/",
    libraries=True,
    prepare=relocate,
)
binary = PACKAGES.binary


def environment() -> dict[str, str]:
    """What Chromium needs to find libraries and fonts; nothing where it is installed."""
    if not binary("chromium").is_relative_to(PACKAGES.folder):
        return {}
    fonts = PACKAGES.folder / "etc" / "fonts" / "genguard.conf"
    folders = *_folders("usr/lib/*-linux-*"), *_folders("usr/lib/*-linux-*/pulseaudio")
    return {"FONTCONFIG_FILE": str(fonts), "LD_LIBRARY_PATH": os.pathsep.join(folders)}


def _folders(pattern: str) -> list[str]:
    return sorted(map(str, PACKAGES.folder.glob(pattern)))


if __name__ == "__main__":
    PACKAGES.main()
