"""An operator for some namespaces, which needs something that belongs to none as well."""

from kubewright import Context, CustomResource, Manager, controller
from kubewright.apis.core.v1 import ConfigMap, Node
from kubewright.models import PolicyRule
from kubewright.webhooks import AdmissionContext, ManagedCertificate, validator


class Tenant(CustomResource, group="tenants.example.com", version="v1"):
    """A customer with a namespace."""


RULES = [PolicyRule(api_groups=["", "storage.k8s.io"], resources=["secrets", "storageclasses"], verbs=["get"])]


@controller(Tenant, owns=[ConfigMap], cached=[Node], rules=RULES)
async def reconcile(ctx: Context[Tenant]) -> None:
    """What it does does not matter here, only what it declares."""


@validator(Tenant)
def check(ctx: AdmissionContext[Tenant]) -> None:
    """Nor here."""


manager = Manager([reconcile], name="tenants", webhooks=[check], webhook_certificate=ManagedCertificate())
