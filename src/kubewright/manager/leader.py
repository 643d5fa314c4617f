"""Leader election: of several processes of one operator, one works.

Guarantees
    Work begins after the Lease was won, and has stopped before anybody else can win it, as long as this machine's
    monotonic clock runs at the rate of the others' (a tenth of drift is allowed for).
    Clocks are never compared: another's lease has run out when it was not seen to change for its duration.
    On a graceful stop the Lease is released after the workers have stopped, so that the next leader need not wait.
Not guaranteed
    That a write sent just before the stop has not still to arrive: no client can call one back.

Follows client-go's tools/leaderelection; the fence in front of the workers is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """How to elect. Durations are controller-runtime's."""

    name: str = ""
    """Of the Lease; the Manager's own name when empty."""
    namespace: str = ""
    """Of the Lease; the namespace of the Pod, or of the kubeconfig's context, when empty."""
    lease_duration: timedelta = timedelta(seconds=15)
    renew_deadline: timedelta = timedelta(seconds=10)
    retry_period: timedelta = timedelta(seconds=2)
    release_on_stop: bool = True
