"""`kubewright bundle validate`: check bundles for OLM."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from kubewright_cli import console
from kubewright_cli.olm.validation import SUITES, Finding, validate_bundle


@click.command("validate", short_help="Check a bundle by the rules of OLM and OperatorHub.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default="bundle")
@click.option(
    "--suite",
    "suites",
    type=click.Choice(list(SUITES)),
    multiple=True,
    help="Optional rules to check in addition. Can be repeated.",
)
@click.option("--kubernetes", metavar="VERSION", default="", help="Version for which removed APIs are errors.")
@console.output_option
def command(folder: Path, suites: tuple[str, ...], kubernetes: str, output: str) -> None:
    """Check the bundle in FOLDER [default: bundle] by the rules of OLM's own validators, without a cluster.

    Without --suite, checks what every bundle must fulfill: the ClusterServiceVersion, the CRDs, the kinds that OLM
    installs, annotations, dependencies and size. Prints each finding with its file, field and value, and what to do.
    Exit status 1 if there is an error; warnings do not fail.

    \b
    Optional suites:
      operatorhub             what OperatorHub requires: the next three
      operatorhubv2           provider, maintainers, links, version, icon, removed APIs
      capabilities            the capability level
      categories              the categories, or those in the file $OPERATOR_BUNDLE_CATEGORIES
      good-practices          resource requests, descriptions, names of channels and of the bundle
      alpha-deprecated-apis   APIs that newer versions of Kubernetes no longer serve
      bundle-objects          PodDisruptionBudgets, PriorityClasses and roles
      all                     all of them

    \b
    Examples:
      kubewright bundle validate
      kubewright bundle validate --suite operatorhub --suite good-practices
      kubewright bundle validate operators/my-operator/1.0.0 --suite all --output json
    """
    report(folder, validate_bundle(folder, suites, kubernetes=kubernetes), output)


def report(folder: Path, findings: Sequence[Finding], output: str) -> None:
    """Print the findings, and exit with status 1 if there is an error."""
    errors = sum(each.level == "error" for each in findings)
    if output == "json":
        listed = [asdict(each) for each in findings]
        console.document({"folder": str(folder), "valid": not errors, "findings": listed})
    else:
        for each in findings:
            console.say(f"{console.bad('Error') if each.level == 'error' else 'Warning'}: {each}")
        if not findings:
            console.say(console.good(f"{folder} is valid."))
    sys.exit(1 if errors else 0)
