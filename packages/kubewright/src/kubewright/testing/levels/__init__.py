"""Capability levels of the Operator Framework, measured: an experiment for each claim, with its evidence.

measure_project     carries out the experiments with the operator of a project, and returns a Report
measure             the same for any operator
Operator, Process   what is measured: a Manager, or any program, with the documents of its bundle and its samples
Declaration         what the suite cannot know: versions, changes, backups, experiments
Change, Upgrade, Scaling, Backup, Experiment, Reading    parts of a Declaration
Lab                 what an experiment gets: the client, the namespace, the samples, and functions to wait
Report, Claim, Evidence, Level, Outcome                  the result
CLAIMS              what the levels ask

    report = await measure(Operator.from_bundle(Path("bundle"), Process(["./manager"])), cluster.config)
    report.require(Level.SEAMLESS_UPGRADES)

Guarantees
    A claim is held only if its experiment showed it in this measurement, on this cluster.
    A claim that is declared and cannot be shown fails.
    The order of two states is that of the API server's revisions, not that in which watches delivered them.
Not guaranteed
    That a claim holds for objects other than the samples, or on other clusters.

Source: https://sdk.operatorframework.io/docs/overview/operator-capabilities/
"""

from kubewright.testing.levels._catalog import CLAIMS as CLAIMS
from kubewright.testing.levels._catalog import Asked as Asked
from kubewright.testing.levels._declaration import Backup as Backup
from kubewright.testing.levels._declaration import Change as Change
from kubewright.testing.levels._declaration import Declaration as Declaration
from kubewright.testing.levels._declaration import Experiment as Experiment
from kubewright.testing.levels._declaration import Reading as Reading
from kubewright.testing.levels._declaration import Scaling as Scaling
from kubewright.testing.levels._declaration import Upgrade as Upgrade
from kubewright.testing.levels._lab import Lab as Lab
from kubewright.testing.levels._measure import measure as measure
from kubewright.testing.levels._measure import measure_project as measure_project
from kubewright.testing.levels._operator import Operator as Operator
from kubewright.testing.levels._operator import Process as Process
from kubewright.testing.levels._operator import Program as Program
from kubewright.testing.levels._operator import python_module as python_module
from kubewright.testing.levels._report import Claim as Claim
from kubewright.testing.levels._report import Evidence as Evidence
from kubewright.testing.levels._report import Level as Level
from kubewright.testing.levels._report import Outcome as Outcome
from kubewright.testing.levels._report import Report as Report
