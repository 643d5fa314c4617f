"""Controllers and webhooks are added to main.py, however its author has changed the file."""

from __future__ import annotations

import pytest

from kubewright_cli.scaffold.program import ModuleImport, with_controller, with_registration, with_webhook
from kubewright_cli.scaffold.sources import with_import

CAPTAIN = ModuleImport("fleet.controller", "captain")

FRESH = '''\
"""The operator."""

from kubewright import Manager

manager = Manager(
    controllers=[],
    name="fleet",
)
'''


def test_an_import_after_the_last_line_begins_a_line() -> None:
    added = "from kubewright import Manager\nfrom kubewright.webhooks import ManagedCertificate\n"
    assert with_import("from kubewright import Manager", "kubewright.webhooks", "ManagedCertificate") == added


def test_the_first_controller_gets_a_section_of_imports_and_a_line() -> None:
    assert (
        with_controller(FRESH, "manager", CAPTAIN)
        == '''\
"""The operator."""

from kubewright import Manager

from fleet.controller import captain

manager = Manager(
    controllers=[
        captain.reconcile,
    ],
    name="fleet",
)
'''
    )


def test_later_controllers_are_imported_in_order_and_appended_to_the_list() -> None:
    source = FRESH
    for module in ("frigate", "captain", "sailor"):
        edited = with_controller(source, "manager", ModuleImport("fleet.controller", module))
        assert edited is not None
        source = edited
    assert "from fleet.controller import captain, frigate, sailor\n" in source
    assert "        frigate.reconcile,\n        captain.reconcile,\n        sailor.reconcile,\n    ]" in source


def test_an_import_that_grows_too_long_is_broken_into_lines() -> None:
    source = FRESH
    for letter in "abc":
        edited = with_controller(source, "manager", ModuleImport("fleet.controller", letter * 40))
        assert edited is not None
        source = edited
    assert f"import (\n    {'a' * 40},\n    {'b' * 40},\n    {'c' * 40},\n)\n" in source


def test_controllers_of_several_groups_have_different_names() -> None:
    crew = ModuleImport("fleet.controller.crew", "captain", "crew_captain")
    ship = ModuleImport("fleet.controller.ship", "captain", "ship_captain")
    first = with_controller(FRESH, "manager", ship)
    assert first is not None
    both = with_controller(first, "manager", crew)
    assert both is not None
    assert (
        "from fleet.controller.crew import captain as crew_captain\n"
        "from fleet.controller.ship import captain as ship_captain\n"
    ) in both
    assert "        ship_captain.reconcile,\n        crew_captain.reconcile,\n" in both


def test_an_existing_controller_changes_nothing() -> None:
    once = with_controller(FRESH, "manager", CAPTAIN)
    assert once is not None
    assert with_controller(once, "manager", CAPTAIN) == once


@pytest.mark.parametrize(
    ("controllers", "expected"),
    [
        pytest.param("[ship]", "[ship, captain.reconcile]", id="one line"),
        pytest.param("[ship, ]", "[ship, captain.reconcile, ]", id="one line with a comma at its end"),
        pytest.param("[]", "[captain.reconcile]", id="empty"),
        pytest.param("[\n    ship\n]", "[\n    ship,\n    captain.reconcile,\n]", id="lines, no comma"),
        pytest.param("[\n    ship,  # é, ]\n]", "[\n    ship,  # é, ]\n    captain.reconcile,\n]", id="comment"),
        pytest.param("[\n    ship  # old\n]", "[\n    ship,  # old\n    captain.reconcile,\n]", id="comment, no comma"),
        pytest.param("[\n  ship(1,\n    2),\n]", "[\n  ship(1,\n    2),\n  captain.reconcile,\n]", id="two lines"),
    ],
)
@pytest.mark.parametrize(
    "call",
    ["Manager({}, name='é')", "Manager(name='é', controllers={})", "kubewright.Manager(controllers={})"],
)
def test_the_list_may_have_any_layout(call: str, controllers: str, expected: str) -> None:
    source = "import kubewright\nfrom fleet.controller import captain\nmanager = {}\n"
    edited = with_controller(source.format(call.format(controllers)), "manager", CAPTAIN)
    assert edited == source.format(call.format(expected))


@pytest.mark.parametrize("annotation", ["", ": Manager"])
def test_the_rest_of_the_file_is_not_changed(annotation: str) -> None:
    source = f"#!/usr/bin/env python\n# ours\nimport os\n\nx = 'ü'; manager{annotation} = Manager([])  # é\n"
    assert with_controller(source, "manager", CAPTAIN) == (
        "#!/usr/bin/env python\n# ours\nimport os\n\nfrom fleet.controller import captain\n\n"
        f"x = 'ü'; manager{annotation} = Manager([captain.reconcile])  # é\n"
    )


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("", id="empty"),
        pytest.param("manager = (", id="no Python"),
        pytest.param("manager = make()", id="made elsewhere without a list"),
        pytest.param("manager = Manager(name='x')", id="no controllers"),
        pytest.param("manager = Manager(controllers=CONTROLLERS)", id="a list elsewhere"),
        pytest.param("def main():\n    manager = Manager([])", id="in a function"),
        pytest.param("captain = 1\nmanager = Manager([])", id="the name is another thing's"),
        pytest.param("from pirates import captain\nmanager = Manager([])", id="the name is another import's"),
    ],
)
def test_an_unknown_program_is_not_changed(source: str) -> None:
    assert with_controller(source, "manager", CAPTAIN) is None


WEBHOOKS = ModuleImport("fleet.webhook", "captain_v1")


def test_the_first_webhook_comes_with_a_certificate() -> None:
    edited = with_webhook(FRESH, "manager", WEBHOOKS, "validate")
    assert (
        edited
        == '''\
"""The operator."""

from kubewright import Manager
from kubewright.webhooks import ManagedCertificate

from fleet.webhook import captain_v1

manager = Manager(
    controllers=[],
    webhooks=[
        captain_v1.validate,
    ],
    webhook_certificate=ManagedCertificate(),
    name="fleet",
)
'''
    )
    assert with_webhook(edited, "manager", WEBHOOKS, "validate") == edited


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("Manager([a], name='é')", "Manager([a], webhooks=[w], webhook_certificate=c, name='é')"),
        ("Manager([a])", "Manager([a], webhooks=[w], webhook_certificate=c)"),
        ("Manager(name='x')", "Manager(name='x', webhooks=[w], webhook_certificate=c)"),
        ("Manager(webhooks=[x], name='x')", "Manager(webhooks=[x, w], webhook_certificate=c, name='x')"),
        ("Manager(webhooks=[x], webhook_certificate=y)", "Manager(webhooks=[x, w], webhook_certificate=y)"),
        (
            "Manager(\n    [\n        a,\n    ],  # ours\n    # é\n    name='x',\n)",
            "Manager(\n    [\n        a,\n    ],  # ours\n    webhooks=[\n        w,\n    ],\n"
            "    webhook_certificate=c,\n    # é\n    name='x',\n)",
        ),
        (
            "Manager(\n    name='x'\n)",
            "Manager(\n    name='x',\n    webhooks=[w],\n    webhook_certificate=c,\n)",
        ),
    ],
)
def test_a_webhook_is_added_to_any_layout(call: str, expected: str) -> None:
    edited = with_webhook(f"manager = {call}\n", "manager", WEBHOOKS, "validate")
    assert edited is not None
    short = edited.replace("captain_v1.validate", "w").replace("ManagedCertificate()", "c")
    assert short.endswith(f"manager = {expected}\n")


@pytest.mark.parametrize("call", ["make()", "Manager(webhooks=WEBHOOKS)", "Manager(webhooks=[*a()]) or 1"])
def test_a_program_without_a_list_of_webhooks_is_not_changed(call: str) -> None:
    assert with_webhook(f"manager = {call}\n", "manager", WEBHOOKS, "validate") is None


def test_tests_register_webhooks_only_where_the_manager_runs_with_its_own_permissions() -> None:
    source = "import pytest\nasync with manager.replace(config=account) as operator:\n    pass\n"
    edited = with_registration(source)
    assert edited is not None
    assert "manager.replace(config=account, webhook_registration=LocalWebhooks(config=cluster.config)) as" in edited
    assert "from kubewright.webhooks import LocalWebhooks\n" in edited
    assert with_registration(edited) == edited
    assert with_registration("async with manager.replace(config=cluster.config) as operator: ...\n") is None
