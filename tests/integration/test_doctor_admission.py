"""What doctor finds about webhook configurations and policies, in one process."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import pytest

from kubewright import Client, Context, Manager, ObjectMeta, controller
from kubewright.apis.admissionregistration.v1 import (
    ValidatingAdmissionPolicy,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
)
from kubewright.apis.core.v1 import ConfigMap
from kubewright.client._patch import MergePatch
from kubewright.policies import Policy, ValidatingPolicy, Validation
from kubewright.testing import Cluster
from kubewright.webhooks import AdmissionContext, ManagedCertificate, Webhook, validator
from kubewright.webhooks._local_objects import of_run
from kubewright_cli.deployment.apply import deploy, undeploy
from kubewright_cli.deployment.policies import policy_problems
from kubewright_cli.deployment.rollout import wait_for_webhooks
from kubewright_cli.deployment.webhooks import webhook_problems
from kubewright_cli.manifests import Manifests, Settings, render
from kubewright_cli.manifests.workload import own_labels


@controller(ConfigMap)
async def reconcile(ctx: Context[ConfigMap]) -> None: ...


@validator(ConfigMap)
def check(ctx: AdmissionContext[ConfigMap]) -> None: ...


def manifests(*policies: Policy, webhooks: Sequence[Webhook] = ()) -> Manifests:
    name = f"doctor-{secrets.token_hex(3)}"
    options = {"webhook_certificate": ManagedCertificate()} if webhooks else {}
    manager = Manager([reconcile], name=name, policies=policies, webhooks=webhooks, **options)
    return render(manager, [], Settings(name=name, manager="m:manager"))


async def test_configurations_of_a_deployment_with_another_prefix_are_not_left_over(cluster: Cluster) -> None:
    made = manifests()
    own, other = f"{made.settings.name_prefix}validating", f"staging-{made.settings.name_prefix}validating"
    for name in (own, other):
        metadata = ObjectMeta(name=name, labels=own_labels(made.settings))
        await cluster.client.create(ValidatingWebhookConfiguration(metadata=metadata))
    try:
        found = [each.subject async for each in webhook_problems(cluster.client, made, deployed=True)]
    finally:
        for name in (own, other):
            await cluster.client.delete(ValidatingWebhookConfiguration, name)
    assert [each for each in found if made.settings.name in each] == [f"validatingwebhookconfiguration/{own}"]


@pytest.mark.parametrize("is_here", [True, False])
async def test_what_a_run_on_another_host_registered_is_not_left_over(cluster: Cluster, is_here: bool) -> None:
    made = manifests()
    name = f"{made.settings.name}.local-validating-webhook-configuration"
    hook = ValidatingWebhook(
        name="v.example.com",
        admission_review_versions=["v1"],
        client_config=WebhookClientConfig(url="https://127.0.0.1:1/"),
        failure_policy="Ignore",
        side_effects="None",
    )
    annotations = of_run("1") if is_here else {"kubewright.dev/local-process": "elsewhere/1"}
    metadata = ObjectMeta(name=name, annotations=annotations)
    await cluster.client.create(ValidatingWebhookConfiguration(metadata=metadata, webhooks=[hook]))
    try:
        found = [each.problem async for each in webhook_problems(cluster.client, made, deployed=False)]
    finally:
        await cluster.client.delete(ValidatingWebhookConfiguration, name)
    assert bool([each for each in found if "was left by `kubewright run`" in each]) == is_here


async def test_a_policy_that_differs_from_the_program_is_found(cluster: Cluster) -> None:
    made = manifests(ValidatingPolicy("names", ConfigMap, validations=[Validation("object.metadata.name != 'bad'")]))
    name = f"{made.settings.name_prefix}names"
    async for _ in deploy(cluster.client, made.settings, made.objects()):
        pass
    try:
        assert [each async for each in policy_problems(cluster.client, made)] == []
        patch = MergePatch({"spec": {"failurePolicy": "Ignore"}})
        await cluster.client.patch(ValidatingAdmissionPolicy, patch, name=name)
        [found] = [each async for each in policy_problems(cluster.client, made)]
        assert (found.subject, found.problem) == (f"validatingadmissionpolicy/{name}", "differs from the program's")
    finally:
        async for _ in undeploy(cluster.client, made, keep_crds=False, timeout=20):
            pass


async def test_webhooks_that_an_account_may_not_read_are_not_checked(cluster: Cluster, namespace: str) -> None:
    made = manifests(webhooks=[check])
    async with cluster.service_account([], namespace=namespace) as account, Client(account) as client:
        why = await wait_for_webhooks(client, made, timeout=60, report=lambda _: None)
    assert "cannot " in why
