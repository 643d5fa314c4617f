"""The certificate with which this server proves to extension servers that it speaks for its users.

Its authority is published in the ConfigMap `kube-system/extension-apiserver-authentication`. An extension server that
trusts it takes the user of a request from the headers `X-Remote-*`.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Final

from kubewright_controlplane.apiserver.pki import CertificateAuthority, KeyPair

_NAME: Final = "front-proxy-client"
_CA: Final = "front-proxy-ca"


class FrontProxy:
    """The client certificate for extension servers, and its authority, which is kept in the data folder if there is
    one.
    """

    def __init__(self, data: Path | None) -> None:
        self._data = data

    @cached_property
    def authority(self) -> CertificateAuthority:
        if self._data is None:
            return CertificateAuthority.create(_CA)
        return CertificateAuthority.kept_in(self._data, file=_CA, name=_CA)

    @cached_property
    def pair(self) -> KeyPair:
        return self.authority.issue_client(_NAME)

    def published(self) -> dict[str, str]:
        """Return what extension servers need to know, for the ConfigMap."""
        return {
            "requestheader-allowed-names": json.dumps([_NAME]),
            "requestheader-client-ca-file": self.authority.certificate.decode(),
            "requestheader-extra-headers-prefix": json.dumps(["X-Remote-Extra-"]),
            "requestheader-group-headers": json.dumps(["X-Remote-Group"]),
            "requestheader-uid-headers": json.dumps(["X-Remote-Uid"]),
            "requestheader-username-headers": json.dumps(["X-Remote-User"]),
        }
