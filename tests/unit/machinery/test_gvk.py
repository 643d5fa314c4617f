from __future__ import annotations

from kubewright.machinery.gvk import version_order


def test_versions_are_preferred_by_stability_then_number() -> None:
    names = ["v1alpha1", "foo1", "v2beta1", "foo", "v1", "v10", "v1beta10", "v1beta2", "v2", "v11alpha2", "v1alpha2"]
    assert sorted(names, key=version_order) == [
        "v10",
        "v2",
        "v1",
        "v2beta1",
        "v1beta10",
        "v1beta2",
        "v11alpha2",
        "v1alpha2",
        "v1alpha1",
        "foo",
        "foo1",
    ]
