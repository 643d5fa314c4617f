"""The webhooks of Frigate, which the API server calls before it stores a Frigate.

While no replica of the operator answers, the API server refuses these requests. `failure_policy="Ignore"` in a
decorator lets them pass instead.
"""

from kubewright.webhooks import AdmissionContext, FieldError, defaulter, validator

from fleet.api.ship.v1beta1.frigate import Frigate


@defaulter(Frigate)
def set_defaults(ctx: AdmissionContext[Frigate]) -> None:
    """Change `ctx.object` before it is checked and stored: on creates and updates.

    Defaults that depend on other fields, the user or the namespace belong here. Other defaults belong in the types.
    """
    # ctx.object.metadata.labels.setdefault("created-by", ctx.user.name)


@validator(Frigate)
def validate(ctx: AdmissionContext[Frigate]) -> list[FieldError]:
    """Return what is wrong with `ctx.object`, by field: on creates and updates.

    Rules that depend on other objects or on the user belong here. Other rules belong in the types, as markers. An
    update has the stored object in `ctx.old_object`. `operations=["CREATE", "UPDATE", "DELETE"]` adds deletes.
    """
    errors: list[FieldError] = []
    # The functions of kubewright.machinery.fields return errors in the API server's words:
    # errors.append(fields.invalid("spec.host", ctx.object.spec.host, "must end with .example.com"))
    return errors
