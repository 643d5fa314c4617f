"""The controller of MyWeb: applies the children and reports the status."""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from kubewright import APIError, Context, Forbidden, Invalid, Result, Watch, controller, set_condition
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import ConfigMap, Service
from kubewright.client import MergePatch
from kubewright.controllers import is_controlled_by
from kubewright.machinery.errors import AlreadyOwnedError
from kubewright.models import Object, codec

from myweb_operator.api.v1.myweb import MyWeb
from myweb_operator.controller.children import (
    PAGE,
    PAGE_HASH,
    config_map_for,
    deployment_for,
    hash_of,
    labels_for,
    service_for,
)
from myweb_operator.controller.ports import (
    is_about_node_port,
    keys_of_ports,
    node_ports_of,
    waiting_for_ports_of,
    wanted_port,
)
from myweb_operator.controller.state import Blocked, State, state_of

RETRY: Final = Result(requeue_after=5.0)

T = TypeVar("T", bound=Object)
Fields = Mapping[str, Callable[[T], object]]

PAGE_FIELDS: Final[Fields[ConfigMap]] = {
    f"data.{PAGE}": lambda it: hash_of(it.data.get(PAGE, ""))[:12],
}
SERVER_FIELDS: Final[Fields[Deployment]] = {
    "spec.replicas": lambda it: it.spec.replicas,
    "spec.template.spec.containers[0].image": lambda it: it.spec.template.spec.containers[0].image,
    f"annotation {PAGE_HASH}": lambda it: it.spec.template.metadata.annotations.get(PAGE_HASH, "")[:12],
}
PORT_FIELDS: Final[Fields[Service]] = {
    "spec.type": lambda it: it.spec.type,
    "spec.selector": lambda it: it.spec.selector,
    "spec.ports": lambda it: [(port.port, port.target_port, port.node_port) for port in it.spec.ports],
}
"""Fields whose changes are logged."""


@controller(
    MyWeb,
    owns=[ConfigMap, Deployment, Service],
    watches=[Watch.mapped(Service, waiting_for_ports_of)],
    indexers={"port": wanted_port},
    one_pass=True,
)
async def reconcile(ctx: Context[MyWeb]) -> Result | None:
    """Apply ConfigMap, Deployment and Service, and write the status.

    The ConfigMap comes first, so that new Pods find their page. The Service comes last, so that a taken node port blocks
    no other child.
    """
    web = ctx.object
    try:
        await apply_child(ctx, config_map_for(web), PAGE_FIELDS)
        deployment = await apply_child(ctx, deployment_for(web), SERVER_FIELDS)
        await apply_child(ctx, service_for(web), PORT_FIELDS)
    except Blocked as blocked:
        await report(ctx, blocked.state)
        return RETRY
    await report(ctx, state_of(web, deployment))
    return None


async def apply_child(ctx: Context[MyWeb], desired: T, fields: Fields[T]) -> T:
    """Apply a child, and log what that changed.

    Raises Blocked if the child's name is taken by another object, or if the API server rejects the child.
    """
    kind, name = desired.__api__.kind, desired.metadata.name
    existing = await ctx.get_or_none(type(desired), name)
    try:
        if isinstance(existing, Service) and isinstance(desired, Service) and is_controlled_by(existing, ctx.object):
            await remove_other_ports(ctx, existing, desired)
        applied = await ctx.apply(desired, adopt=existing is not None and was_ours(existing, ctx.object))
    except AlreadyOwnedError as error:
        raise Blocked("NameTaken", str(error)) from error
    except (Invalid, Forbidden) as error:
        if error.namespace_is_ending:
            raise
        raise await rejection(ctx, kind, error) from error
    log_changes(ctx, existing, desired, fields)
    return applied


async def remove_other_ports(ctx: Context[MyWeb], existing: Service, desired: Service) -> None:
    """Remove ports that other clients added, because an apply keeps them."""
    if keys_of_ports(existing) != keys_of_ports(desired):
        await ctx.patch(existing, MergePatch({"spec": {"ports": codec.to_dict(desired)["spec"]["ports"]}}))


async def rejection(ctx: Context[MyWeb], kind: str, error: APIError) -> Blocked:
    if not is_about_node_port(error):
        return Blocked(f"{kind}Refused", str(error))
    port = ctx.object.spec.node_port_number
    holder = next((each for each in await ctx.list(Service, namespace="") if port in node_ports_of(each)), None)
    if holder is None:
        return Blocked("NodePortRefused", str(error))
    await release_node_port(ctx)
    who = f'Service "{holder.metadata.namespace}/{holder.metadata.name}"'
    return Blocked("NodePortTaken", f"node port {port} is taken by {who}; the page moves there as soon as it is free")


async def release_node_port(ctx: Context[MyWeb]) -> None:
    """Release the current node port if another MyWeb wants it. Otherwise two MyWebs could not swap their ports."""
    existing = await ctx.get_or_none(Service, ctx.object.metadata.name)
    if existing is None:
        return
    for port in node_ports_of(existing):
        if await ctx.client.list(MyWeb, index=("port", str(port))):
            await ctx.patch(existing, MergePatch({"spec": {"type": "ClusterIP"}}))
            ctx.log.info("Node port released", object=existing.metadata.name, port=port)


def was_ours(child: Object, web: MyWeb) -> bool:
    """Return whether a child has the labels of `web`. Without an owner reference, such a child is adopted."""
    return labels_for(web).items() <= child.metadata.labels.items()


def log_changes(ctx: Context[MyWeb], before: T | None, after: T, fields: Fields[T]) -> None:
    """Log what changed: the object, the field, the old value and the new value."""
    kind, name = after.__api__.kind, after.metadata.name
    if before is None:
        ctx.log.info(f"{kind} created", object=name)
        return
    for path, value in fields.items():
        if value(before) != value(after):
            ctx.log.info(f"{kind} {path} change", object=name, before=value(before), after=value(after))


async def report(ctx: Context[MyWeb], state: State) -> None:
    """Write the status, and record an Event."""
    web, status = ctx.object, ctx.object.status
    status.completed = state.completed
    status.observed_generation = web.metadata.generation or 0
    has_changed = set_condition(
        status.conditions,
        "Ready",
        "True" if state.completed else "False",
        reason=state.reason,
        message=state.message,
        observed_generation=web.metadata.generation,
    )
    if has_changed and state.completed:
        ctx.events.normal(web, state.reason, state.message)
    if state.needs_help:
        ctx.events.warning(web, state.reason, state.message)
    if has_changed:
        ctx.log.info("MyWeb status change", reason=state.reason, message=state.message)
    await ctx.update_status(status)
