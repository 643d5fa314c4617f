"""The webhooks of Deployment, which the API server calls before it stores a Deployment.

While no replica of the operator answers, the API server refuses these requests. `failure_policy="Ignore"` in a
decorator lets them pass instead.
"""

from kubewright.apis.apps.v1 import Deployment
from kubewright.webhooks import AdmissionContext, defaulter


@defaulter(Deployment)
def set_defaults(ctx: AdmissionContext[Deployment]) -> None:
    """Change `ctx.object` before it is checked and stored: on creates and updates.

    It is called for every Deployment. `namespace_selector`, `object_selector` and `match_conditions` select fewer.
    """
    # ctx.object.metadata.labels.setdefault("created-by", ctx.user.name)
