"""Declares that the policies of a process outside of the cluster are registered while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from kubewright.client._config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPolicies:
    """Registers the policies of a manager while it runs: of `kubewright run`, and of tests.

    The names of the policies and bindings begin with `<manager>.local-`. Those of a deployed operator have other names
    and stay in use. When the manager stops, they are deleted. Those of a killed process stay in use until the next run
    replaces them.

    The manager is ready once the API server evaluates the policies.
    """

    config: Config | None = None
    """Credentials that may write policies, and read their parameters. Default: those of the manager."""
