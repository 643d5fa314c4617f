"""Admission handlers on Kopf, as in the admission example of its documentation: `kopf run admission.py`.

Kopf serves them itself, and registers them in configurations named doors.example.com. Its server's certificate is in
`CERTIFICATE` and `KEY`: Kopf makes one itself only with packages that are not installed here.
"""

import os

import kopf


@kopf.on.startup()
def configure(settings, **_):
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1", certfile=os.environ["CERTIFICATE"], pkeyfile=os.environ["KEY"]
    )
    settings.admission.managed = "doors.example.com"


@kopf.on.mutate("configmaps", labels={"door": kopf.PRESENT})
def fill(body, patch, warnings, dryrun, **_):
    if "color" not in body.get("data", {}):
        patch["data"] = {"color": "white"}
        warnings.append("white is the default color")
    if dryrun:
        patch.metadata.labels["tried"] = "yes"


@kopf.on.validate("configmaps", labels={"door": kopf.PRESENT}, operation="CREATE", id="colors")
def check_color(body, **_):
    if body.get("data", {}).get("color") == "black":
        raise kopf.AdmissionError("no black doors", code=422)


@kopf.on.validate("configmaps", labels={"door": kopf.PRESENT}, operation="UPDATE", id="changes")
def check_change(body, old, **_):
    if old and old["data"]["color"] != body["data"]["color"]:
        raise kopf.AdmissionError("doors are not painted")


@kopf.on.validate("configmaps", labels={"door": "kept"}, operation="DELETE", id="removals")
def check_removal(name, userinfo, **_):
    raise kopf.AdmissionError(f"{name} is kept from {userinfo['username']}", code=409)
