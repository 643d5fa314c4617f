"""What a certificate says, and whether an API server trusts it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from kubewright.certificates import hosts_of, is_signed_by, read_certificates

if TYPE_CHECKING:
    from cryptography import x509


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """The certificate of a server, and the intermediate ones that the server sends with it."""

    chain: tuple[x509.Certificate, ...]

    @classmethod
    def read(cls, pem: bytes) -> ServingCertificate:
        """Read a chain in PEM. Raises ValueError if there is no certificate."""
        return cls(tuple(read_certificates(pem)))

    @property
    def ends(self) -> datetime:
        """The end of its validity, or that of an intermediate one."""
        return min(each.not_valid_after_utc for each in self.chain)

    def is_for(self, host: str) -> bool:
        """Return whether a server of that name may use it."""
        found = hosts_of(self.chain[0])
        return host in found or f"*.{host.partition('.')[2]}" in found

    def is_trusted_by(self, bundle: bytes) -> bool:
        """Return whether a client that knows the CAs in `bundle`, in PEM, trusts it."""
        try:
            authorities = read_certificates(bundle)
        except ValueError:
            return False
        last = self.chain[0]
        for each in (*self.chain[1:], None):
            if any(last == ca or is_signed_by(last, ca) for ca in authorities):
                return True
            if each is None or not is_signed_by(last, each):
                return False
            last = each
        return False
