"""Waiting for CustomResourceDefinitions that were just applied."""

from __future__ import annotations

from typing import Final

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.client._client import Client
from kubewright.machinery.errors import ConfigError, DeadlineExceeded

_SERVED_WITHIN: Final = 30.0
_SETTLED_WITHIN: Final = 3.0
"""Seconds after which names that are not accepted are assumed to belong to another definition."""


async def until_established(client: Client, name: str) -> None:
    """Wait until the definition of that name is served.

    Raises ConfigError if another definition has its names, and DeadlineExceeded after the timeout.
    """
    try:
        await client.wait_for(CustomResourceDefinition, name, is_established, timeout=_SETTLED_WITHIN)
    except DeadlineExceeded:
        await _check_names(client, name)
        await client.wait_for(CustomResourceDefinition, name, is_established, timeout=_SERVED_WITHIN)


async def _check_names(client: Client, name: str) -> None:
    crd = await client.get(CustomResourceDefinition, name)
    refused = next((each for each in crd.status.conditions if each.type == "NamesAccepted"), None)
    if refused is None or refused.status != "False":
        return
    others = [
        each.metadata.name
        for each in await client.list(CustomResourceDefinition)
        if each.metadata.name != name and each.spec.group == crd.spec.group and _names(each) & _names(crd)
    ]
    raise ConfigError(
        f'CustomResourceDefinition "{name}" is not served: {refused.message or refused.reason}; '
        f"group {crd.spec.group} has these names in {', '.join(others) or 'another definition'} already. "
        "Delete that definition, or choose another kind, plural and short names"
    )


def _names(crd: CustomResourceDefinition) -> set[str]:
    """Return all names of the kind that a definition defines."""
    names = crd.spec.names
    return {each for each in (names.kind, names.list_kind, names.plural, names.singular, *names.short_names) if each}


def is_established(crd: CustomResourceDefinition) -> bool:
    return any(each.type == "Established" and each.status == "True" for each in crd.status.conditions)
