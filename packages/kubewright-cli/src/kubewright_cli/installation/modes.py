"""Install modes: in which namespaces the operator of a bundle works.

Follows github.com/operator-framework/operator-controller: the default is all namespaces, if the bundle supports that.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubewright.machinery.errors import ConfigError
from kubewright_cli.installation.source import InstallableBundle
from kubewright_cli.olm.parts import items

ALL: tuple[str, ...] = ()
"""The target namespaces of an operator that works in all namespaces."""
_ALL, _OWN, _SINGLE, _MULTI = "AllNamespaces", "OwnNamespace", "SingleNamespace", "MultiNamespace"


def target_namespaces(bundle: InstallableBundle, namespace: str, requested: Sequence[str]) -> tuple[str, ...]:
    """Return the namespaces that the operator in `namespace` works in; none for all.

    `requested`: what the user asks for; if empty, what the bundle supports: all namespaces, or else its own. Raises
    ConfigError for what the bundle does not support.
    """
    supported = {str(each.get("type")) for each in items(bundle.spec.get("installModes")) if each.get("supported")}
    targets = tuple(dict.fromkeys(requested))
    if not targets:
        if _ALL in supported:
            return ALL
        if _OWN in supported:
            return (namespace,)
    needed = _needed(targets, namespace)
    if needed and needed <= supported:
        return targets
    raise ConfigError(
        f"{bundle.name} cannot be installed in namespace {namespace} to watch {_shown(targets)}: that needs the "
        f"install mode {' and '.join(sorted(needed)) or _ALL}, and the bundle supports {', '.join(sorted(supported))}. "
        f"{_way_out(supported, namespace)}"
    )


def _needed(targets: Sequence[str], namespace: str) -> set[str]:
    if len(targets) > 1:
        return {_MULTI, *({_OWN} if namespace in targets else ())}
    return {_OWN if each == namespace else _SINGLE for each in targets}


def _shown(targets: Sequence[str]) -> str:
    return f"namespace {', '.join(targets)}" if targets else "all namespaces"


def _way_out(supported: set[str], namespace: str) -> str:
    if _SINGLE in supported:
        return "Name one other namespace with --watch-namespace"
    if _MULTI in supported:
        return "Name the namespaces with --watch-namespace, once for each"
    if _OWN in supported:
        return f"Use --watch-namespace {namespace}"
    return "Omit --watch-namespace"
