"""The webhooks of Cruiser, which the API server calls before it stores a Cruiser.

While no replica of the operator answers, the API server refuses these requests. `failure_policy="Ignore"` in a
decorator lets them pass instead.
"""

from kubewright.webhooks import AdmissionContext, FieldError, validator

from fleet.api.ship.v1.cruiser import Cruiser


@validator(Cruiser, path="/cruisers")
def validate(ctx: AdmissionContext[Cruiser]) -> list[FieldError]:
    """Return what is wrong with `ctx.object`, by field: on creates and updates.

    Rules that depend on other objects or on the user belong here. Other rules belong in the types, as markers. An
    update has the stored object in `ctx.old_object`. `operations=["CREATE", "UPDATE", "DELETE"]` adds deletes.
    """
    errors: list[FieldError] = []
    # The functions of kubewright.machinery.fields return errors in the API server's words:
    # errors.append(fields.invalid("spec.host", ctx.object.spec.host, "must end with .example.com"))
    return errors
