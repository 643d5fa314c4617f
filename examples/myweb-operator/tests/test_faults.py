"""Faults between the operator and the API server: the final state always matches the specs."""

import asyncio
import random

from kubewright import Config, ObjectMeta
from kubewright.apis.core.v1 import ConfigMap
from kubewright.testing import Faults, eventually, gone, killed_after_each_write

from mywebs import OTHER_IMAGE, OTHER_PAGE, PORT, MyWebs, NewOperator


async def test_a_myweb_is_created_wherever_the_operator_is_killed(
    webs: MyWebs, new_operator: NewOperator, account: Config
) -> None:
    async for faults in killed_after_each_write(account):
        await webs.create()
        async with new_operator(faults):
            await faults.died_or(webs.is_complete)
        async with new_operator(account):
            await webs.completes()
        await webs.remove()


async def test_a_myweb_is_changed_wherever_the_operator_is_killed(
    webs: MyWebs, new_operator: NewOperator, account: Config
) -> None:
    async for faults in killed_after_each_write(account):
        await webs.create()
        async with new_operator(account):
            await webs.completes()
        await webs.change(image=OTHER_IMAGE, pageContentHtml=OTHER_PAGE, nodePortNumber=PORT + 1)
        async with new_operator(faults):
            await faults.died_or(webs.is_complete, image=OTHER_IMAGE, page=OTHER_PAGE, port=PORT + 1)
        async with new_operator(account):
            await webs.completes(image=OTHER_IMAGE, page=OTHER_PAGE, port=PORT + 1)
        await webs.remove()


async def test_a_stale_cache_leads_to_no_wrong_status(webs: MyWebs, new_operator: NewOperator, account: Config) -> None:
    faults = Faults(account)
    faults.lag = 0.3
    async with new_operator(faults):
        await webs.create()
        for number in range(4):
            page = f"<h1>{number}</h1>"
            await webs.change(pageContentHtml=page)
            await eventually(is_right_whenever_it_is_completed, webs, page)


async def test_a_recreated_myweb_gets_children_of_its_own(
    webs: MyWebs, new_operator: NewOperator, account: Config
) -> None:
    faults = Faults(account)
    faults.lag = 0.3
    async with new_operator(faults):
        await webs.create()
        await webs.completes()
        await webs.delete()
        await gone(webs.get)
        web = await webs.create(page=OTHER_PAGE)
        await webs.completes(page=OTHER_PAGE)
        for child in (await webs.config_map(), await webs.deployment(), await webs.service()):
            assert [owner.uid for owner in child.metadata.owner_references] == [web.metadata.uid]


async def test_a_foreign_object_is_left_alone_with_a_stale_cache(
    webs: MyWebs, new_operator: NewOperator, account: Config
) -> None:
    faults = Faults(account)
    async with new_operator(faults):
        faults.lag = 5
        mine = ConfigMap(metadata=ObjectMeta(name="web", namespace=webs.namespace), data={"index.html": "mine"})
        await webs.client.create(mine)
        await asyncio.sleep(0.5)  # the delayed event is on its way
        faults.lag = 0
        await webs.create()
        await eventually(
            webs.is_held_up, "NameTaken", f'ConfigMap "{webs.namespace}/web" exists and has no controlling owner'
        )
        assert (await webs.config_map()).data == {"index.html": "mine"}


async def test_the_last_of_many_changes_is_served(webs: MyWebs, new_operator: NewOperator, account: Config) -> None:
    async with new_operator(account):
        await webs.create()
        for number in range(50):
            await webs.change(pageContentHtml=f"<h1>{number}</h1>")
        await webs.completes(page="<h1>49</h1>")


async def test_all_mywebs_are_completed_despite_random_faults(
    webs: MyWebs, new_operator: NewOperator, account: Config
) -> None:
    faults = Faults(account)
    names = [f"web-{number}" for number in range(10)]
    async with new_operator(faults):
        faults.storm(random.Random(4), share=0.2)
        for number, name in enumerate(names):
            await webs.create(name, port=PORT + number)
        for number, name in enumerate(names):
            await webs.change(name, pageContentHtml=f"<h1>{number}</h1>")
        for number, name in enumerate(names):
            await webs.completes(name, port=PORT + number, page=f"<h1>{number}</h1>")


async def is_right_whenever_it_is_completed(webs: MyWebs, page: str) -> None:
    web = await webs.get()
    assert web.status.completed
    assert web.status.observed_generation == web.metadata.generation
    try:
        await webs.is_complete(page=page)
    except AssertionError as error:
        raise RuntimeError("it says that it is completed, and is not") from error
