"""Which credentials a configuration names."""

from __future__ import annotations

import base64

from kubewright._runtime.clock import Clock
from kubewright.client._config import Config
from kubewright.client._credentials import Credential, Credentials, Static, TokenFile, bearer
from kubewright.client._tls import KeyPair
from kubewright.machinery.errors import ConfigError


def credentials_of(config: Config, pair: KeyPair | None, clock: Clock) -> Credentials:
    """The source that `config` names. `pair` is its client certificate."""
    if config.exec is not None:
        from kubewright.client._auth_exec import ExecCredentials  # rare, and it loads asyncio's subprocesses

        return ExecCredentials(config.exec, pair, clock)
    if config.token_file is not None:
        return TokenFile(config.token_file, pair, clock)
    if config.token is not None:
        return Static(Credential(bearer(config.token), pair))
    if config.username is not None:
        both = f"{config.username}:{config.password or ''}".encode()
        return Static(Credential(f"Basic {base64.b64encode(both).decode()}", pair))
    return Static(Credential(pair=pair))


def pair_of(config: Config) -> KeyPair | None:
    """The client certificate that `config` itself names."""
    if config.client_cert is None and config.client_key is None:
        return None
    if config.client_cert is None or config.client_key is None:
        raise ConfigError("client_cert and client_key come together; one of them is None")
    return config.client_cert, config.client_key
