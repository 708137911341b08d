"""Debian's packages of an image, out of its dpkg status file."""

from cyclonedx.model.component import ComponentType

from tools.image_sbom import debian

STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u14
Description: GNU C Library: Shared libraries
 Contains the standard libraries.
 .
 And a line after an empty one.

Package: old
Status: deinstall ok config-files
Architecture: all
Version: 1

Package: tzdata
Status: install ok installed
Architecture: all
Version: 1:2026b-0
"""


def test_each_installed_package_is_a_component_and_what_was_removed_is_none() -> None:
    found = debian(STATUS, "12")
    assert [str(one.purl) for one in found] == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u14?arch=amd64&distro=debian-12",
        "pkg:deb/debian/tzdata@1:2026b-0?arch=all&distro=debian-12",
    ]
    assert {one.type for one in found} == {ComponentType.LIBRARY}
