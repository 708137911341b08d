"""Debian's packages of an image, out of its dpkg status file."""

from pathlib import Path

from cyclonedx.model.component import ComponentType

from tools.image_sbom import debian

STATUS = Path(__file__).with_name("dpkg_status").read_text()


def test_each_installed_package_is_a_component_and_what_was_removed_is_none() -> None:
    found = debian(STATUS, "12")
    assert [str(one.purl) for one in found] == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u14?arch=amd64&distro=debian-12",
        "pkg:deb/debian/tzdata@1:2026b-0?arch=all&distro=debian-12",
    ]
    assert {one.type for one in found} == {ComponentType.LIBRARY}
