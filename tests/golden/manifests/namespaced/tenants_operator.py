"""An operator for some namespaces, which needs something that belongs to none as well."""

from kubewright import Context, CustomResource, Manager, controller
from kubewright.apis.core.v1 import ConfigMap, Node
from kubewright.models import PolicyRule
from kubewright.policies import ApplyConfiguration, Binding, MutatingPolicy, ParamRef, ValidatingPolicy, Validation
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


names = ValidatingPolicy(
    "tenant-names",
    Tenant,
    params=ConfigMap,
    validations=[Validation("!(object.metadata.name in params.data)", message="the name is reserved")],
    bindings=[Binding(params=ParamRef(name="reserved-names", namespace="tenants-system"))],
)
labels = MutatingPolicy(
    "tenant-labels",
    Tenant,
    mutations=[ApplyConfiguration("Object{metadata: Object.metadata{labels: {'tenant': object.metadata.name}}}")],
)

manager = Manager(
    [reconcile],
    name="tenants",
    webhooks=[check],
    webhook_certificate=ManagedCertificate(),
    policies=[names, labels],
)
