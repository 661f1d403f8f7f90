"""Identities in certificates."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import cloison
from cloison._channel import Credentials, Peer
from cloison._identity import Identity, IdentityError


def made(tmp_path: Path, *names: str) -> Path:
    """A self-signed certificate with these alternative names, made by OpenSSL."""
    key, certificate = tmp_path / "one.key", tmp_path / "one.pem"
    extension = ["-addext", f"subjectAltName={','.join(names)}"] if names else []
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        "/CN=one",
    ]
    command += ["-days", "2", "-keyout", str(key), "-out", str(certificate), *extension]
    subprocess.run(command, check=True, capture_output=True)
    key.chmod(0o600)
    return certificate


def test_a_certificate_of_openssl_is_read(tmp_path: Path) -> None:
    pem = made(tmp_path, "DNS:host.example", "URI:spiffe://demo/passive-party/bank-a", "IP:127.0.0.1").read_bytes()
    found = Identity.of_pem(pem)
    assert found == Identity("demo", "passive-party", "bank-a")
    assert found.uri == "spiffe://demo/passive-party/bank-a"


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "0 URI names"),
        (("DNS:host.example",), "0 URI names"),
        (("URI:spiffe://demo/auditor/a", "URI:spiffe://demo/auditor/b"), "2 URI names"),
        (("URI:https://demo/auditor/a",), "not of the form"),
        (("URI:spiffe://demo/operator/a",), "not of the form"),
        (("URI:spiffe://demo/auditor/a/b",), "not of the form"),
        (("URI:spiffe:///auditor/a",), "not of the form"),
    ],
)
def test_a_certificate_without_one_identity_is_refused(tmp_path: Path, names: tuple[str, ...], said: str) -> None:
    certificate = made(tmp_path, *names)
    with pytest.raises(IdentityError, match=said):
        Identity.of_pem(certificate.read_bytes())
    with pytest.raises(cloison.CertificateError, match=said):
        Credentials.read(certificate, certificate, tmp_path / "one.key")


def test_a_certificate_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    import base64

    lines = made(tmp_path, "URI:spiffe://demo/auditor/a").read_text().splitlines()[1:-1]
    der = base64.b64decode("".join(lines))
    assert Identity.of_der(der).name == "a"
    for end in range(len(der)):
        with pytest.raises(IdentityError):
            Identity.of_der(der[:end])
    for text in (b"", b"no PEM", b"-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----"):
        with pytest.raises(IdentityError):
            Identity.of_pem(text)


def test_files_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    name = "URI:spiffe://demo/active-party/a"
    certificate, other = made(tmp_path, name), made(tmp_path / "other", name)
    Credentials.read(certificate, certificate, tmp_path / "one.key")
    with pytest.raises(cloison.CertificateError, match="do not go together"):
        Credentials.read(certificate, certificate, other.with_suffix(".key"))
    with pytest.raises(cloison.CertificateError, match=r"cannot read the certificate .*missing.pem"):
        Credentials.read(certificate, tmp_path / "missing.pem", tmp_path / "one.key")
    (tmp_path / "one.key").chmod(0o640)
    with pytest.raises(cloison.CertificateError, match="mode 640"):
        Credentials.read(certificate, certificate, tmp_path / "one.key")


def test_a_key_is_not_shown(tmp_path: Path) -> None:
    certificate = made(tmp_path, "URI:spiffe://demo/active-party/a")
    found = Credentials.read(certificate, certificate, tmp_path / "one.key")
    assert "PRIVATE" not in repr(found)


@pytest.mark.parametrize("address", ["host", ":7100", "host:", "host:0", "host:70000", "host:http"])
def test_an_address_is_host_and_port(address: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        Peer(address, Identity("demo", "auditor", "a")).host_and_port()
    assert Peer("[::1]:7100", Identity("demo", "auditor", "a")).host_and_port() == ("::1", 7100)
