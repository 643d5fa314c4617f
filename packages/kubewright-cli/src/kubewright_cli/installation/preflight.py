"""What prevents the installation of a bundle. Everything is checked before the first write."""

from __future__ import annotations

from collections.abc import Sequence

from kubewright.apis.core.v1 import Namespace
from kubewright.client import Client, Unstructured
from kubewright.machinery.errors import ConfigError, NotFound
from kubewright.machinery.json import JSONObject
from kubewright.models import APIResource
from kubewright_cli.deployment import crds
from kubewright_cli.deployment.objects import Objects
from kubewright_cli.installation.crdchecks import upgrade_problems
from kubewright_cli.installation.dependencies import missing_requirements
from kubewright_cli.installation.inventory import Entry, Inventory, foreign_objects
from kubewright_cli.installation.render import Rendered
from kubewright_cli.installation.source import InstallableBundle
from kubewright_cli.olm.parts import items, mapping, text

_CONDITION = APIResource("operators.coreos.com", "v2", "OperatorCondition", "operatorconditions")
_UPGRADEABLE = "Upgradeable"
_NOTHING = "Nothing was changed"


async def require_namespaces(client: Client, targets: Sequence[str], namespace: str) -> None:
    """Raise ConfigError for namespaces to watch that do not exist."""
    for each in targets:
        if each != namespace and await client.get_or_none(Namespace, each) is None:
            raise ConfigError(
                f"namespace {each}, which the operator is to watch, does not exist. {_NOTHING}; create it, or name "
                "another one with --watch-namespace"
            )


async def require_requirements(client: Client, bundle: InstallableBundle) -> None:
    """Raise ConfigError for what the bundle needs and the cluster lacks."""
    if missing := await missing_requirements(client, bundle):
        raise ConfigError(f"{bundle.name} cannot be installed. {_NOTHING}:\n  " + "\n  ".join(missing))


async def require_served(objects: Objects, documents: Sequence[JSONObject]) -> None:
    """Raise ConfigError for a kind that the cluster does not serve."""
    for document in documents:
        try:
            await objects.kind(document)
        except ConfigError as error:
            name = document["metadata"]["name"]
            raise ConfigError(
                f"{document['kind']} {name} of the bundle: {error} {_NOTHING}; install what provides this kind"
            ) from None


async def require_own(objects: Objects, owner: str, rendered: Rendered, extra: Sequence[Entry]) -> None:
    """Raise ConfigError for objects that exist, and that this installation has not made."""
    entries = [*map(Entry.of, rendered.documents), *extra]
    if found := await foreign_objects(objects, owner, entries):
        raise ConfigError(
            f"these objects exist, and are not of this installation ({owner}). {_NOTHING}; delete them, or remove what "
            "installed them (`kubewright bundle cleanup`, `kubewright undeploy`, OLM):\n  " + "\n  ".join(found)
        )


async def require_upgradeable_crds(client: Client, definitions: Sequence[JSONObject], *, unsafe: bool) -> None:
    """Raise ConfigError for CRDs that cannot replace those in the cluster: see `crdchecks`.

    `unsafe` allows what only may break users. A version in which objects are stored is needed in any case.
    """
    await crds.require_not_terminating(client, definitions)
    await crds.require_installable(client, definitions)
    problems = [] if unsafe else [problem for each in definitions for problem in await upgrade_problems(client, each)]
    if problems:
        raise ConfigError(
            f"the CRDs of the bundle are not compatible with those in the cluster. {_NOTHING}; correct the bundle, or "
            "apply them nevertheless with --unsafe-crds:\n  " + "\n  ".join(problems)
        )


async def require_upgradeable(client: Client, installed: Inventory) -> None:
    """Raise ConfigError if an OperatorCondition says that the installed operator cannot be upgraded now."""
    kind = Unstructured.of(_CONDITION)
    try:
        found = await client.get_or_none(kind, installed.bundle, namespace=installed.namespace)
    except NotFound:  # the cluster does not serve the kind
        return
    if found is None or not (reason := _why_not_upgradeable(found)):
        return
    where = f"{installed.namespace}/{installed.bundle}"
    raise ConfigError(
        f"OperatorCondition {where}: {reason}. {_NOTHING}; wait until the operator allows the upgrade, or set the "
        f"condition {_UPGRADEABLE} to True in its spec.overrides"
    )


def _why_not_upgradeable(condition: Unstructured) -> str:
    spec, status = mapping(condition.content.get("spec")), mapping(condition.content.get("status"))
    for each in items(spec.get("overrides")):
        if each.get("type") == _UPGRADEABLE:
            return "" if each.get("status") == "True" else f"overridden as not upgradeable: {text(each.get('message'))}"
    for each in items(status.get("conditions")):
        if each.get("type") == _UPGRADEABLE:
            if each.get("observedGeneration", 0) != (condition.metadata.generation or 0):
                return f"the condition {_UPGRADEABLE} is of an older generation of the object"
            return "" if each.get("status") != "False" else f"not upgradeable: {text(each.get('message'))}"
    return ""
