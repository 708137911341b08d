"""`python -m certs issue`: files for a Secret, and the caBundle on standard output."""

import base64

import pytest

from certs.__main__ import main
from certs.pem import read_certificates


def test_it_prints_the_bundle_and_keeps_it_at_the_next_call(tmp_path, capsys):
    arguments = ["issue", "--dir", str(tmp_path), "--service", "s", "--namespace", "n"]
    main([*arguments, "--name", "10.0.0.7", "--name", "s.example"])
    first = capsys.readouterr()
    assert base64.b64decode(first.out) == (tmp_path / "ca.crt").read_bytes()
    assert "authority-issued" in first.err
    main(arguments)
    second = capsys.readouterr()
    assert second.out == first.out
    assert "kept" in second.err


def test_nothing_renews_it_so_it_lives_for_a_year_and_its_authority_for_ten(tmp_path):
    main(["issue", "--dir", str(tmp_path)])
    for name, days in (("tls.crt", 365), ("ca.crt", 3650)):
        (one,) = read_certificates((tmp_path / name).read_bytes())
        life = one.not_valid_after_utc - one.not_valid_before_utc
        assert life.days == days


def test_what_cannot_be_issued_is_said_and_fails(tmp_path):
    with pytest.raises(SystemExit, match=r"^certs: "):
        main(["issue", "--dir", str(tmp_path), "--name", "no name"])
