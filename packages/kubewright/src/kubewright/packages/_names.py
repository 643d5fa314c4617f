"""Labels, annotations and finalizers of KUDO."""

from __future__ import annotations

from typing import Final

OPERATOR_LABEL: Final = "kudo.dev/operator"
INSTANCE_LABEL: Final = "kudo.dev/instance"
HERITAGE_LABEL: Final = "heritage"
HERITAGE: Final = "kudo"

OPERATOR_VERSION_ANNOTATION: Final = "kudo.dev/operator-version"
PLAN_ANNOTATION: Final = "kudo.dev/plan"
PHASE_ANNOTATION: Final = "kudo.dev/phase"
STEP_ANNOTATION: Final = "kudo.dev/step"
PLAN_UID_ANNOTATION: Final = "kudo.dev/last-plan-execution-uid"
DEPENDENCIES_HASH_ANNOTATION: Final = "kudo.dev/dependencies-hash"
SKIP_HASH_ANNOTATION: Final = "kudo.dev/skip-hash-calculation"
LAST_APPLIED_ANNOTATION: Final = "kudo.dev/last-applied-configuration"
PIPE_POD_ANNOTATION: Final = "kudo.dev/pipepod"

CLEANUP_FINALIZER: Final = "kudo.dev.instance.cleanup"
