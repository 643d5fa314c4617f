"""An operator that never stops writing: it writes its process id to the ConfigMap of each Beacon repeatedly.

On SIGUSR1 it suspends itself when its socket has sent all data: no client can cancel requests on the network.
"""

import asyncio
import os
import signal
from datetime import timedelta
from time import monotonic_ns

from kubewright import Context, CustomResource, LeaderElection, Manager, ObjectMeta, Result, controller
from kubewright.apis.core.v1 import ConfigMap

ELECTION = LeaderElection(
    lease_duration=timedelta(seconds=8), renew_deadline=timedelta(seconds=6), retry_period=timedelta(seconds=0.5)
)

halting = asyncio.Event()


class Beacon(CustomResource, group="robustness.test", version="v1"):
    """Beacon is written by the leader."""


@controller(Beacon, owns=[ConfigMap], workers=4)
async def reconcile(ctx: Context[Beacon]) -> Result:
    if halting.is_set():
        halting.clear()
        # A timer (0 would not be one) runs at the beginning of a turn of the loop; what it wrote is sent at the end.
        asyncio.get_running_loop().call_later(0.001, os.kill, os.getpid(), signal.SIGSTOP)
    said = {"process": str(os.getpid()), "moment": str(monotonic_ns())}
    await ctx.apply(ConfigMap(metadata=ObjectMeta(name=ctx.object.metadata.name), data=said))
    return Result(requeue_after=timedelta(milliseconds=20))


manager = Manager([reconcile], name="beacon-operator", leader_election=ELECTION)

if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, lambda *_: halting.set())
    manager.main()
