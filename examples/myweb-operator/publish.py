"""Publish an HTML file as a MyWeb, and wait until it is served.

    python publish.py page.html --name home --node-port 30081

A program of a user of the operator: it knows the generated client, in client/, and nothing of the operator.
"""

import argparse
import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from kubewright import KubewrightError, ObjectMeta
from kubewright.cache import Event

from myweb_client import Clientset, Informers
from myweb_client.operator_v1 import MyWeb, MyWebSpec


async def publish(spec: MyWebSpec, name: str, namespace: str, patience: float) -> int:
    """Create or update the MyWeb, print its progress and then all MyWebs. Returns the exit status."""
    async with Clientset() as clients:
        webs = clients.operator_v1.mywebs(namespace)
        informers = Informers(clients, namespace=namespace)
        informer = informers.operator_v1.mywebs
        lister = informer.lister
        async with informers:
            await informers.wait_synced(patience)
            existing = lister.get(name, namespace)
            if existing is None:
                wanted = await webs.create(MyWeb(metadata=ObjectMeta(name=name), spec=spec))
                print(f"{name} created")
            else:
                existing.spec = spec
                wanted = await webs.update(existing)
                print(f"{name} updated")

            def is_completed() -> bool:
                now = lister.get(name, namespace)
                return now is not None and is_up_to_date(now, wanted) and now.status.completed

            changed = asyncio.Event()

            def on_change(event: Event[MyWeb]) -> None:
                tell(event, wanted)
                changed.set()

            informer.add_handler(on_add=on_change, on_update=on_change)
            completed = is_completed()
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    while not completed:
                        await changed.wait()
                        changed.clear()
                        completed = is_completed()
            for each in await webs.list():
                state = "completed" if each.status.completed else "not completed"
                print(f"{each.metadata.name:<20} port {each.spec.node_port_number}  {each.spec.image:<20} {state}")
    return 0 if completed else 1


def is_up_to_date(web: MyWeb, wanted: MyWeb) -> bool:
    """Return whether the operator has seen the current spec."""
    return web.status.observed_generation >= (wanted.metadata.generation or 0)


def tell(event: Event[MyWeb], wanted: MyWeb) -> None:
    """Print whether the MyWeb is completed, or why not, if that changed."""
    if event.new is None or event.key.name != wanted.metadata.name:
        return
    before, now = event.old.decode().status.conditions if event.old else [], event.new.decode()
    if is_up_to_date(now, wanted) and now.status.conditions != before:
        for condition in now.status.conditions:
            print(f"{event.key.name}: {condition.message}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Publish an HTML file as a MyWeb, and wait until it is served.")
    parser.add_argument("file", type=Path, help="the page")
    parser.add_argument("--name", required=True, help="of the MyWeb")
    parser.add_argument("--node-port", type=int, required=True, help="where it is served")
    parser.add_argument("--image", default="nginx:1.23.1", help="of the web server")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--timeout", type=float, default=120, help="seconds to wait until it is served")
    given = parser.parse_args()
    page = given.file.read_text()
    spec = MyWebSpec(image=given.image, node_port_number=given.node_port, page_content_html=page)
    try:
        return asyncio.run(publish(spec, given.name, given.namespace, given.timeout))
    except KubewrightError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
