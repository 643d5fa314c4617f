"""The webhooks of Pod, which the API server calls before it stores a Pod.

While no replica of the operator answers, the API server refuses these requests. `failure_policy="Ignore"` in a
decorator lets them pass instead.
"""

from kubewright.apis.core.v1 import Pod
from kubewright.webhooks import AdmissionContext, FieldError, validator


@validator(Pod)
def validate(ctx: AdmissionContext[Pod]) -> list[FieldError]:
    """Return what is wrong with `ctx.object`, by field: on creates and updates.

    It is called for every Pod. `namespace_selector`, `object_selector` and `match_conditions` select fewer.
    An update has the stored object in `ctx.old_object`. `operations=["CREATE", "UPDATE", "DELETE"]` adds deletes.
    """
    errors: list[FieldError] = []
    # The functions of kubewright.machinery.fields return errors in the API server's words:
    # errors.append(fields.invalid("spec.host", ctx.object.spec.host, "must end with .example.com"))
    return errors
