"""The bundle of a program and its settings, beyond the golden projects."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import pytest
from click.testing import CliRunner, Result

from kubewright import Context, CustomResource, Manager, Model, controller, field
from kubewright import markers as m
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import PodTemplateSpec, ResourceRequirements
from kubewright.machinery import yaml
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject
from kubewright_cli.main import cli
from kubewright_cli.manifests import Manifests, Settings
from kubewright_cli.manifests.olmsettings import BundleSettings, InstallMode
from kubewright_cli.manifests.program import Program
from kubewright_cli.olm.serviceversion import service_version


class Storage(Model):
    """Where data is kept."""

    size: str = "1Gi"
    """How much fits."""


class ShipSpec(Model):
    crew: int = 1
    loaded: bool = False
    rig: Annotated[str, m.Enum("sloop", "brig")] = "sloop"
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    storage: Storage = field(default_factory=Storage)
    template: PodTemplateSpec | None = None


class ShipStatus(Model):
    phase: str = ""
    aboard: int = 0


class Ship(CustomResource, group="fleet.test", version="v1"):
    """A ship.

    It sails.
    """

    spec: ShipSpec = field(default_factory=ShipSpec)
    status: ShipStatus = field(default_factory=ShipStatus)


class Port(CustomResource, group="fleet.test", version="v1", namespaced=False): ...


class Certificate(CustomResource, group="certificates.test", version="v1"):
    """A third-party kind."""


@controller(Ship, owns=[Deployment], cached=[Certificate])
async def sail(ctx: Context[Ship]) -> None: ...


@controller(Port)
async def moor(ctx: Context[Port]) -> None: ...


def version(manager: Manager, *, bundle: BundleSettings | None = None, **settings: Any) -> JSONObject:
    """Return the ClusterServiceVersion of a program with the kinds Ship and Port."""
    chosen = Settings(name="fleet", version="1.2.0", manager="fleet", bundle=bundle or BundleSettings(), **settings)
    return service_version(Manifests(Program.of(manager, [Ship, Port]), chosen), Path(), [])


def supported(document: JSONObject) -> list[str]:
    return [each["type"] for each in document["spec"]["installModes"] if each["supported"]]


def test_install_modes_are_those_in_which_the_program_works() -> None:
    assert supported(version(Manager([sail]))) == ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"]
    assert supported(version(Manager([sail, moor]))) == ["AllNamespaces"]
    assert supported(version(Manager([sail]), watch_namespaces="own")) == ["OwnNamespace", "SingleNamespace"]
    assert supported(version(Manager([sail]), watch_namespaces=("red",))) == [
        "OwnNamespace",
        "SingleNamespace",
        "MultiNamespace",
    ]
    chosen: tuple[InstallMode, ...] = ("OwnNamespace",)
    assert supported(version(Manager([sail]), bundle=BundleSettings(install_modes=chosen))) == ["OwnNamespace"]


def test_permissions_are_split_by_the_scope_of_their_resources() -> None:
    strategy = version(Manager([sail, moor]))["spec"]["install"]["spec"]
    within = {each for rule in strategy["permissions"][0]["rules"] for each in rule["resources"]}
    cluster = {each for rule in strategy["clusterPermissions"][0]["rules"] for each in rule["resources"]}
    assert {"ships", "deployments", "leases"} <= within
    assert {"ports", "tokenreviews"} <= cluster
    assert "ports" not in within
    assert "ships" not in cluster


def test_fields_are_described_by_their_docstrings_and_types() -> None:
    owned = version(Manager([sail]))["spec"]["customresourcedefinitions"]["owned"]
    ship = next(each for each in owned if each["kind"] == "Ship")
    assert ship["description"] == "A ship. It sails."
    assert ship["resources"] == [{"kind": "Deployment", "name": "", "version": "apps/v1"}]
    found = {each["path"]: each for each in ship["specDescriptors"]}
    ui = "urn:alm:descriptor:com.tectonic.ui:"
    assert found["crew"]["x-descriptors"] == [f"{ui}number"]
    assert found["loaded"]["x-descriptors"] == [f"{ui}booleanSwitch"]
    assert found["rig"]["x-descriptors"] == [f"{ui}select:sloop", f"{ui}select:brig"]
    assert found["resources"]["x-descriptors"] == [f"{ui}resourceRequirements"]
    assert found["storage"]["description"] == "Where data is kept."
    assert found["storage.size"]["description"] == "How much fits."
    assert not [path for path in found if path.startswith("template.")]
    phase = next(each for each in ship["statusDescriptors"] if each["path"] == "phase")
    assert phase["x-descriptors"] == ["urn:alm:descriptor:io.kubernetes.phase"]


def test_third_party_kinds_are_required_unless_they_are_optional() -> None:
    def required(bundle: BundleSettings) -> list[str]:
        definitions = version(Manager([sail]), bundle=bundle)["spec"]["customresourcedefinitions"]
        return [each["name"] for each in definitions.get("required", ())]

    assert required(BundleSettings()) == ["certificates.certificates.test"]
    assert required(BundleSettings(optional_kinds=("certificates.certificates.test",))) == []


def test_images_come_from_the_settings_and_from_variables() -> None:
    bundle = BundleSettings(related_images={"sail": "example.com/sail:1"})
    document = version(
        Manager([sail]),
        bundle=bundle,
        image="example.com/fleet:1",
        env={"RELATED_IMAGE_SHIP_HULL": "example.com/hull:2"},
    )
    assert document["spec"]["relatedImages"] == [
        {"name": "manager", "image": "example.com/fleet:1"},
        {"name": "ship-hull", "image": "example.com/hull:2"},
        {"name": "sail", "image": "example.com/sail:1"},
    ]


PROGRAM = """
from kubewright import Context, CustomResource, Manager, controller
class Thing(CustomResource, group="thing.test", version="v1"): ...
@controller(Thing)
async def reconcile(ctx: Context[Thing]) -> None: ...
manager = Manager([reconcile])
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, which is the current folder."""
    module = f"thing_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(PROGRAM)
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "thing"\nversion = "1.0.0"\nkeywords = ["things"]\n'
        'authors = [{ name = "Somebody", email = "some@example.com" }]\n'
        f'[tool.kubewright]\nmanager = "{module}:manager"\n[tool.kubewright.bundle]\n'
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def setting(project: Path, text: str) -> None:
    path = project / "pyproject.toml"
    path.write_text(f"{path.read_text()}{text}\n")


def release(project: Path, version: str) -> None:
    """Keep the bundle of the current version, and begin the next one."""
    (project / "bundle").rename(project / "bundles" / version)


def test_a_changed_setting_makes_the_bundle_stale(project: Path) -> None:
    assert run("generate", "bundle").exit_code == 0
    assert run("generate", "bundle", "--check").exit_code == 0
    written = yaml.load((project / "bundle/manifests/thing.clusterserviceversion.yaml").read_text())
    assert written["spec"]["keywords"] == ["things"]
    assert written["spec"]["maintainers"] == [{"name": "Somebody", "email": "some@example.com"}]
    assert written["spec"]["provider"] == {"name": "Somebody"}
    setting(project, 'channels = ["fast"]')
    stale = run("generate", "bundle", "--check")
    assert stale.exit_code == 1
    assert (
        "not up to date: bundle/metadata/annotations.yaml, bundle.Dockerfile; run this without --check" in stale.output
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('icon = "icon.webp"', 'icon: "icon.webp" is not an image of a known type: .gif, .jpeg, .jpg, .png, .svg'),
        ('icon = "icon.png"', "bundle.icon: "),
        ('manifests = ["more/*.yaml"]', 'there is no file "more/*.yaml"; write its path'),
        ('manifests = ["job.yaml"]', "job.yaml: OLM does not install a Job; a bundle may contain: ClusterRole, "),
        ('chanels = ["fast"]', 'tool.kubewright.bundle: unknown setting "chanels"; did you mean "channels"?'),
        (
            'capabilities = "Auto Pilot"',
            "tool.kubewright.bundle.capabilities: the capability level is measured",
        ),
    ],
)
def test_wrong_settings_are_named(project: Path, text: str, said: str) -> None:
    (project / "job.yaml").write_text(json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}}))
    setting(project, text)
    done = run("generate", "bundle")
    assert done.exit_code == 1
    assert said in done.output


def next_version(project: Path, old: str, new: str) -> None:
    path = project / "pyproject.toml"
    path.write_text(path.read_text().replace(f'version = "{old}"', f'version = "{new}"'))
    assert run("generate", "bundle").exit_code == 0


def test_a_catalog_has_the_upgrades_of_released_bundles(project: Path) -> None:
    (project / "bundles").mkdir()
    assert run("generate", "bundle").exit_code == 0
    for old, new in (("1.0.0", "1.1.0"), ("1.1.0", "1.2.0")):
        release(project, old)
        next_version(project, old, new)
    release(project, "1.2.0")
    setting(project, 'skips = ["thing.v1.2.0"]\nskip-range = ">=1.0.0 <1.3.0"')
    next_version(project, "1.2.0", "1.3.0")
    assert run("generate", "catalog").exit_code == 0
    assert run("catalog", "validate").output == "catalog is valid.\n"
    documents = list(yaml.load_all((project / "catalog/thing/catalog.yaml").read_text()))
    channel = next(each for each in documents if each["schema"] == "olm.channel")
    assert channel["entries"] == [
        {"name": "thing.v1.0.0"},
        {"name": "thing.v1.1.0", "replaces": "thing.v1.0.0"},
        {"name": "thing.v1.2.0", "replaces": "thing.v1.1.0"},
        {
            "name": "thing.v1.3.0",
            "replaces": "thing.v1.1.0",
            "skips": ["thing.v1.2.0"],
            "skipRange": ">=1.0.0 <1.3.0",
        },
    ]
    images = [each["image"] for each in documents if each["schema"] == "olm.bundle"]
    assert images[0] == "thing-bundle:v1.0.0"


def test_a_catalog_that_would_strand_a_version_is_not_written(project: Path) -> None:
    (project / "bundles").mkdir()
    assert run("generate", "bundle").exit_code == 0
    release(project, "1.0.0")
    setting(project, 'replaces = "thing.v0.9.0"')
    next_version(project, "1.0.0", "1.1.0")
    done = run("generate", "catalog")
    assert done.exit_code == 1
    assert "several entries are the newest" in done.output
    assert not (project / "catalog").exists()


def test_two_bundles_of_one_version_are_named(project: Path) -> None:
    (project / "bundles").mkdir()
    assert run("generate", "bundle").exit_code == 0
    release(project, "first")
    assert run("generate", "bundle").exit_code == 0
    done = run("generate", "catalog")
    assert done.exit_code == 1
    assert "bundle: bundles/first has version 1.0.0, too; raise the version of the project" in done.output


@pytest.mark.parametrize(
    ("bundle", "said"),
    [
        (BundleSettings(replaces="fleet.v1.2.0"), 'replaces: "fleet.v1.2.0" is this version itself'),
        (BundleSettings(skips=("fleet.v1.1.0", "fleet.v1.2.0")), 'skips: "fleet.v1.2.0" is this version itself'),
        (BundleSettings(skip_range="<1.2"), 'skip-range: "1.2" is not a semantic version'),
        (BundleSettings(skip_range=">>1.1.0"), 'write a range such as ">=1.0.0 <1.2.0"'),
    ],
)
def test_impossible_upgrades_are_refused(bundle: BundleSettings, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        version(Manager([sail]), bundle=bundle)
