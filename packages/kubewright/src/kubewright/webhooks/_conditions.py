"""Match conditions are compiled as the API server does, so that a mistake is found where the webhook is declared.

The compiler is in `kubewright_controlplane`, which an operator's image does not contain.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubewright.machinery.errors import ConfigError
from kubewright_controlplane.policies import condition_errors


def compile_conditions(where: str, conditions: Mapping[str, str]) -> None:
    """Raise ConfigError for an expression that the API server would reject."""
    for error in condition_errors(conditions):
        raise ConfigError(f"{where}: match_conditions: {error.field!r}: {error.expression}: {error.message}")
