"""The configuration of the admission plugin PodSecurity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kubewright.machinery import names
from kubewright.machinery.errors import ConfigError
from kubewright_controlplane.apiserver.admission.podsecurity.levels import (
    LATEST,
    PRIVILEGED,
    LevelVersion,
    Policy,
    error_of_level,
    error_of_version,
)


@dataclass(frozen=True, kw_only=True)
class PodSecurity:
    """What Pod security is in namespaces without labels, and what is exempt from it.

    The fields are those of kube-apiserver's PodSecurityConfiguration. Levels are `privileged`, `baseline` and
    `restricted`; versions are `latest` or like `v1.30`.

    Raises ConfigError for a field with an invalid value.
    """

    enforce: str = PRIVILEGED
    enforce_version: str = LATEST
    audit: str = PRIVILEGED
    audit_version: str = LATEST
    warn: str = PRIVILEGED
    warn_version: str = LATEST
    exempt_namespaces: Sequence[str] = ()
    exempt_users: Sequence[str] = ()
    """Names of users. Exempt the users that create Pods for others, such as controllers, with care."""
    exempt_runtime_classes: Sequence[str] = ()

    def __post_init__(self) -> None:
        errors = [*self._level_errors(), *self._exemption_errors()]
        if errors:
            raise ConfigError(f"pod security: {'; '.join(errors)}")

    @property
    def defaults(self) -> Policy:
        """What namespaces without labels enforce, audit and warn of."""
        return Policy(
            LevelVersion(self.enforce, self.enforce_version),
            LevelVersion(self.audit, self.audit_version),
            LevelVersion(self.warn, self.warn_version),
        )

    def _level_errors(self) -> Iterator[str]:
        for mode in ("enforce", "audit", "warn"):
            for field, error_of in ((mode, error_of_level), (f"{mode}_version", error_of_version)):
                value: str = getattr(self, field)
                why = error_of(value)
                if why:
                    yield f'{field}: "{value}" {why}'

    def _exemption_errors(self) -> Iterator[str]:
        checks: dict[str, Callable[[str], Sequence[str]]] = {
            "exempt_namespaces": names.dns1123_label,
            "exempt_users": lambda name: () if name else ("must not be empty",),
            "exempt_runtime_classes": names.dns1123_subdomain,
        }
        for field, errors_of in checks.items():
            for position, name in enumerate(getattr(self, field)):
                for why in errors_of(name):
                    yield f'{field}[{position}]: "{name}" {why}'
