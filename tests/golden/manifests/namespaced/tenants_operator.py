"""An operator for some namespaces, which needs something that belongs to none as well."""

from kubewright import Context, CustomResource, Manager, controller
from kubewright.apis.core.v1 import ConfigMap, Node
from kubewright.models import PolicyRule


class Tenant(CustomResource, group="tenants.example.com", version="v1"):
    """Somebody in a namespace."""


RULES = [PolicyRule(api_groups=["", "storage.k8s.io"], resources=["secrets", "storageclasses"], verbs=["get"])]


@controller(Tenant, owns=[ConfigMap], cached=[Node], rules=RULES)
async def reconcile(ctx: Context[Tenant]) -> None:
    """What it does does not matter here, only what it declares."""


manager = Manager([reconcile])
