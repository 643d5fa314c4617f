"""The webhook that applies the rules for Instances."""

from __future__ import annotations

from kubewright.machinery.errors import BadRequest
from kubewright.packages._admission import admit_create, apply_update
from kubewright.packages._api import Instance, OperatorVersion
from kubewright.webhooks import AdmissionContext, defaulter


@defaulter(Instance, name="instance-admission.kudo.dev", path="/admit-kudo-dev-v1beta1-instance")
async def admit_instance(ctx: AdmissionContext[Instance]) -> None:
    """Schedule the plan that a new or changed Instance triggers, and refuse changes that KUDO refuses."""
    new, old = ctx.object, ctx.old_object
    if old is None:
        admit_create(new, await _version(ctx, new))
    elif old.spec != new.spec:
        version = await _version(ctx, new)
        is_upgrade = old.spec.operator_version != new.spec.operator_version
        apply_update(old, new, version, await _version(ctx, old) if is_upgrade else version)


async def _version(ctx: AdmissionContext[Instance], instance: Instance) -> OperatorVersion:
    """Return the version of an instance, as the API server has it: it may have just been created."""
    reference = instance.spec.operator_version
    name, namespace = reference.name or "", reference.namespace or ctx.namespace
    if not name:
        raise BadRequest("spec.operatorVersion.name is required: the OperatorVersion to install")
    found = await ctx.client.uncached.get_or_none(OperatorVersion, name, namespace=namespace)
    if found is None:
        raise BadRequest(
            f'spec.operatorVersion: there is no OperatorVersion "{name}" in namespace {namespace}; install the '
            "package, or check the name"
        )
    return found
