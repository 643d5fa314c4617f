"""Similar documents use little memory, and every document is unpacked unchanged."""

import random

import pytest
from tests.unit.scripted import Server, Widget, added, bookmark, modified, settle, widget

from kubewright.cache import Informer, ObjectKey
from kubewright.cache._packing import Packed, Packer, Template
from kubewright.client import Client
from kubewright.machinery.json import JSONObject

MANY = 1500


def document(family: int, number: int, size: int = 2000) -> bytes:
    """Return a document that is similar only to documents of the same family."""
    same = random.Random(family).randbytes(size // 2).hex()
    return f'{{"metadata":{{"name":"{family}-{number}","resourceVersion":"{number}"}},"spec":"{same}"}}'.encode()


def unpacked(packed: Packed) -> bytes:
    data, reference = packed
    return data if reference is None else reference.unpack(data)


def test_similar_documents_are_packed_small_and_unpacked_unchanged() -> None:
    packer = Packer()
    documents = [document(family, number) for family in range(5) for number in range(100)]
    packed = [packer.pack(each) for each in documents]
    assert list(map(unpacked, packed)) == documents
    small = [data for data, reference in packed if reference is not None]
    assert len(small) >= 490, "the first document of each family is the reference of the others"
    assert sum(map(len, small)) < 60 * len(small)


def test_dissimilar_documents_are_kept_unpacked_and_packing_is_soon_tried_rarely() -> None:
    packer = Packer()
    for number in range(500):
        assert packer.pack(document(number, number)) == (document(number, number), None)
    packed = [packer.pack(document(1000, number)) for number in range(200)]
    first = next(number for number, (_, reference) in enumerate(packed) if reference is not None)
    assert 2 < first <= 2 * 64, "packing is tried only occasionally"
    assert all(reference is not None for _, reference in packed[first:])


@pytest.mark.parametrize(
    ("size", "shrinks"), [(0, True), (500, True), (30_000, True), (31_900, True), (40_000, False), (1_000_000, False)]
)
def test_documents_of_any_size_are_unpacked_unchanged(size: int, shrinks: bool) -> None:
    packer = Packer()
    documents = [document(1, number, size) for number in range(5)]
    packed = [packer.pack(each) for each in documents]
    assert list(map(unpacked, packed)) == documents
    assert (packed[-1][1] is not None) == shrinks


def test_a_changed_document_is_packed_like_its_previous_version() -> None:
    packer = Packer()
    for number in range(3):
        packer.pack(document(1, number))
    _, reference = packer.pack(document(1, 4))
    for number in range(3):
        packer.pack(document(2, number))
    data, same = packer.pack(document(1, 5), reference)
    assert same is reference
    assert len(data) < 60


def replica(workload: int, number: int, *, restarted: bool = False, size: int = 40) -> bytes:
    """Return a document like a Pod of a workload: some values differ, and some only in a few replicas."""
    same, own = random.Random(workload), random.Random(f"{workload} {number}")
    state = '"lastState":{"exitCode":1},' if restarted else ""
    labels = ",".join(f'"label-{index}":"{same.randbytes(12).hex()}"' for index in range(size))
    return (
        f'{{"metadata":{{"name":"w{workload}-{own.randrange(10**6)}","labels":{{{labels}}},"resourceVersion":"{number}"}},'
        f'"status":{{{state}"node":"node \\"{number // 4}\\" é","ip":"10.0.0.{own.randrange(256)}","n":{number % 3}}}}}'
    ).encode()


def test_only_the_values_in_which_replicas_differ_are_kept() -> None:
    packer = Packer()
    documents = [replica(workload, number, restarted=number % 7 == 5) for workload in range(30) for number in range(20)]
    packed = [packer.pack(each) for each in documents]
    assert list(map(unpacked, packed)) == documents
    kept = sum(len(data) for data, _ in packed)
    shared = {id(part): len(part) for _, unpacker in packed if unpacker is not None for part in unpacker.parts}
    assert kept + sum(shared.values()) < sum(map(len, documents)) / 5
    assert sum(isinstance(unpacker, Template) for _, unpacker in packed) > len(documents) / 2


def test_a_new_version_is_packed_with_the_template_of_the_last_one() -> None:
    packer = Packer()
    for number in range(3):
        packer.pack(replica(1, number))
    _, template = packer.pack(replica(1, 3))
    assert isinstance(template, Template)
    for number in range(3):
        packer.pack(replica(2, number))
    for changed in (replica(1, 1), replica(1, 3), replica(1, 3).replace(b"10.0.", b"110.0.110.")):
        data, same = packer.pack(changed, template)
        assert same is template
        assert template.unpack(data) == changed
    for changed in (replica(1, 4), replica(1, 3, restarted=True), replica(3, 1), replica(1, 3) + b" ", b"{}"):
        assert unpacked(packer.pack(changed, template)) == changed


async def test_an_informer_of_many_objects_holds_them_packed(server: Server, client: Client) -> None:
    def large(number: int, version: int, size: int = 0) -> JSONObject:
        return widget(f"w{number}", version, size=size, annotations={"about": "much the same in each " * 100})

    informer = Informer(client, Widget)
    informer.start()
    stream = (await server.call()).stream()
    stream.send(*(added(large(number, number + 1)) for number in range(MANY)), bookmark(MANY, ends_list=True))
    await informer.wait_synced()
    whole = informer.size
    stream.send(*(modified(large(number, MANY + number + 1, number)) for number in range(MANY)))
    await settle()
    assert [each.spec.size for each in informer.lister.list()] == [
        int(entry.key.name[1:]) for entry in informer.lister.entries()
    ]
    assert informer.size < 400 * MANY < 1000 * 1200 < whole
    entry = informer.lister.entry(ObjectKey("d", f"w{MANY - 1}"))
    assert entry is not None
    assert entry.annotations["about"].startswith("much the same")
    await informer.stop()


async def test_a_small_object_that_arrives_alone_is_not_packed(server: Server, client: Client) -> None:
    informer = Informer(client, Widget)
    informer.start()
    stream = (await server.call()).stream()
    stream.send(*(added(widget(f"w{each}", each + 1)) for each in range(MANY)), bookmark(MANY, ends_list=True))
    await informer.wait_synced()
    listed = informer.lister.entry(ObjectKey("d", f"w{MANY - 1}"))
    assert listed is not None
    assert listed.reference is not None
    stream.send(modified(widget(f"w{MANY - 1}", MANY + 1)))
    await settle()
    alone = informer.lister.entry(ObjectKey("d", f"w{MANY - 1}"))
    assert alone is not None
    assert alone.reference is None
    await informer.stop()
