"""Who a certificate is: the one URI name in it, `spiffe://TRUST-DOMAIN/ROLE/NAME`.

The standard library reads this field only of a peer that it has verified by itself, and not of a file. The few lines of DER that it
takes are here.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final

ROLES: Final = ("coordinator", "active-party", "passive-party", "auditor")

_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_SUBJECT_ALT_NAME: Final = bytes.fromhex("551d11")  # 2.5.29.17
_SEQUENCE, _OBJECT_ID, _OCTETS, _EXTENSIONS, _URI = 0x30, 0x06, 0x04, 0xA3, 0x86
_LONG_FORM, _MOST_LENGTH_BYTES = 0x80, 4
_URI_PARTS: Final = 3


class IdentityError(ValueError):
    """Why a certificate is no identity."""


@dataclass(frozen=True)
class Identity:
    """A party, as its certificate names it."""

    trust_domain: str
    role: str
    name: str

    @property
    def uri(self) -> str:
        """The URI name of the certificate."""
        return f"spiffe://{self.trust_domain}/{self.role}/{self.name}"

    def __str__(self) -> str:
        """For messages."""
        return f"{self.role} `{self.name}` of {self.trust_domain}"

    @classmethod
    def of_uri(cls, uri: str) -> Identity:
        """Reads a URI name; `IdentityError` if it is not of the form."""
        scheme, _, rest = uri.partition("://")
        parts = rest.split("/")
        if scheme != "spiffe" or len(parts) != _URI_PARTS or not all(parts) or parts[1] not in ROLES:
            raise IdentityError("the URI name is not of the form spiffe://TRUST-DOMAIN/ROLE/NAME")
        return cls(*parts)

    @classmethod
    def of_der(cls, der: bytes) -> Identity:
        """Reads the identity of a certificate; does not verify it. `IdentityError` if there is not exactly one URI name."""
        try:
            uris = _uris(der)
        except (IndexError, UnicodeDecodeError) as error:
            raise IdentityError("the certificate cannot be read") from error
        if len(uris) != 1:
            raise IdentityError(f"the certificate has {len(uris)} URI names, an identity is exactly one")
        return cls.of_uri(uris[0])

    @classmethod
    def of_pem(cls, pem: bytes) -> Identity:
        """Reads the identity of the first certificate of a PEM text, as `of_der`."""
        found = _PEM.search(pem)
        if found is None:
            raise IdentityError("no certificate in PEM form")
        try:
            return cls.of_der(base64.b64decode(b"".join(found.group(1).split()), validate=True))
        except binascii.Error as error:
            raise IdentityError("the PEM text is not base64") from error


def _element(der: bytes, at: int) -> tuple[int, bytes, int]:
    """Tag and content of the element at a place, and where the next one begins. `IndexError` if it is cut off."""
    tag, length = der[at], der[at + 1]
    begin = at + 2
    if length >= _LONG_FORM:
        count = length - _LONG_FORM
        if not 1 <= count <= _MOST_LENGTH_BYTES or begin + count > len(der):
            raise IndexError("length")
        length = int.from_bytes(der[begin : begin + count], "big")
        begin += count
    if begin + length > len(der):
        raise IndexError("content")
    return tag, der[begin : begin + length], begin + length


def _elements(der: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at < len(der):
        tag, content, at = _element(der, at)
        found.append((tag, content))
    return found


def _uris(der: bytes) -> list[str]:
    _, certificate, _ = _element(der, 0)
    _, signed, _ = _element(certificate, 0)
    uris = []
    for tag, wrapped in _elements(signed):
        if tag != _EXTENSIONS:
            continue
        _, extensions, _ = _element(wrapped, 0)
        for _, extension in _elements(extensions):
            parts = _elements(extension)
            if parts[0] == (_OBJECT_ID, _SUBJECT_ALT_NAME) and parts[-1][0] == _OCTETS:
                _, names, _ = _element(parts[-1][1], 0)
                uris += [name.decode("ascii") for kind, name in _elements(names) if kind == _URI]
    return uris
