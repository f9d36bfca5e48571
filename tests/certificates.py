"""Certificates for tests: an authority, certificates that are wrong in one way each, and stores for Java."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

STORE_PASSWORD = "store-secret"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM files."""

    certfile: str
    keyfile: str


class Authority:
    """A CA of its own; everything it makes goes into ``folder``."""

    def __init__(self, folder: Path, name: str = "Test CA") -> None:
        self._folder = folder / name.replace(" ", "-")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self._name, self._key, days=(-1, 30))
        self._certificate = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        ).sign(self._key, hashes.SHA256())
        self.cafile = self._write("ca.pem", self._certificate.public_bytes(Encoding.PEM))

    def pair(
        self,
        name: str,
        hosts: Sequence[str] = LOOPBACK,
        *,
        days: tuple[int, int] = (-1, 30),
        password: str | None = None,
    ) -> Pair:
        """A certificate for ``hosts``, valid in this range of days; the key is encrypted if there is a password."""
        key, certificate = self._issue(name, hosts, days)
        encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        return Pair(
            self._write(f"{name}.pem", certificate.public_bytes(Encoding.PEM)),
            self._write(f"{name}.key", pem),
        )

    def keystore(self, name: str, hosts: Sequence[str] = LOOPBACK, days: tuple[int, int] = (-1, 30)) -> str:
        """A PKCS#12 file with a key and its certificate, as a node wants it."""
        key, certificate = self._issue(name, hosts, days)
        encryption = BestAvailableEncryption(STORE_PASSWORD.encode())
        data = pkcs12.serialize_key_and_certificates(
            name.encode(), key, certificate, [self._certificate], encryption
        )
        return self._write(f"{name}.p12", data)

    def truststore(self) -> str:
        """A PKCS#12 file from which a node knows whom to trust."""
        encryption = BestAvailableEncryption(STORE_PASSWORD.encode())
        entry = pkcs12.PKCS12Certificate(self._certificate, b"ca")
        return self._write("trust.p12", pkcs12.serialize_java_truststore([entry], encryption))

    def _issue(
        self, name: str, hosts: Sequence[str], days: tuple[int, int]
    ) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            self._builder(subject, key, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        )
        if hosts:
            names = [_general_name(host) for host in hosts]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return key, builder.sign(self._key, hashes.SHA256())

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: tuple[int, int]
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + datetime.timedelta(days=days[0]))
            .not_valid_after(now + datetime.timedelta(days=days[1]))
        )

    def _write(self, name: str, data: bytes) -> str:
        path = self._folder / name
        path.write_bytes(data)
        return str(path)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
