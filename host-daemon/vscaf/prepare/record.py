"""The record of what `vscaf prepare` changed, in the domain's own metadata, and how it is put back.

The record is part of the persistent definition that it is about: one libvirt call writes both, and it goes where the
domain goes. For each element that prepare made it has the element that was there before, and a fingerprint of what
libvirt made of the new one. An element whose fingerprint differs was changed since, so it is left alone.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from xml.etree import ElementTree

from vscaf.errors import HypervisorError
from vscaf.hypervisor.libvirt.metadata import NAMESPACE
from vscaf.prepare.xml_edit import Document, Element, element_text

RECORD_NAMESPACE = "https://vscaf.org/xmlns/prepared/1"
RECORD_KEY = "vscaf-prepared"
RECORD = f"{{{RECORD_NAMESPACE}}}prepared"
PARTITION = f"{{{NAMESPACE}}}partition"
PARTITION_ELEMENT = f"<vscaf:partition xmlns:vscaf='{NAMESPACE}'/>"

# The elements that prepare changes, and libvirt with them: it adds controllers, and changes one that gets a neighbour.
PATHS = {
    "vcpu": ("vcpu",),
    "vcpus": ("vcpus",),
    "topology": ("cpu", "topology"),
    "controller": ("devices", "controller"),
    "channel": ("devices", "channel"),
}
SINGLE = {"vcpu", "vcpus", "topology"}  # their numbers must agree, so they are put back together or not at all


@dataclass(frozen=True, slots=True)
class Made:
    """An element that prepare made.

    `element`: a key of PATHS. `which`: tells elements of one kind apart. `fingerprint`: of the new element. `before`:
    the element that was there; empty: none.
    """

    element: str
    which: str
    fingerprint: str
    before: str = ""

    @property
    def label(self) -> str:
        """The element, for people."""
        return f"<{self.element}> {self.which}".rstrip()


@dataclass(frozen=True, slots=True)
class Record:
    """All that prepare made. `metadata`: whether it added the element <partition/> to the metadata."""

    made: tuple[Made, ...] = ()
    metadata: bool = False


@dataclass(frozen=True, slots=True)
class Reverted:
    """A definition without what prepare changed. `put_back`, `kept`: sentences about what was and was not put back."""

    xml: str
    put_back: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    metadata: bool = False  # whether the element <partition/> was removed


def revert(xml: str) -> Reverted:
    """Undoes what the record in *xml* says, where it was not changed since. HypervisorError if it cannot be read."""
    record = read_record(xml)
    document = Document(xml)
    there = {made: _find(document, made) for made in record.made}
    changed = [made for made in record.made if there[made] is None and not _as_before(document, made)]
    stay = {made.element for made in changed}
    if stay & SINGLE:
        stay |= SINGLE
    back = {made: element for made, element in there.items() if element is not None and made.element not in stay}
    in_use = _keep_used(document, back)
    for made, element in back.items():
        if made.before:
            document.replace(element, made.before)
        else:
            document.remove(element)
    kept = [f"{made.label} was changed since" for made in changed]
    kept += [f"{made.label} is in use" for made in in_use]
    kept += [
        f"{made.label} stays with it"
        for made, element in there.items()
        if element is not None and made.element in stay and made not in in_use
    ]
    text = document.edited()
    partition = _partitions(document)
    remove_partition = record.metadata and len(partition) == 1 and is_bare(partition[0])
    if remove_partition:
        text = with_metadata(text, PARTITION, None)
    elif record.metadata and partition:
        kept.append("the metadata were changed since")
    left = Record(
        tuple(made for made in record.made if made in changed or (there[made] is not None and made not in back)),
        record.metadata and bool(partition) and not remove_partition,
    )
    put_back = [made.label for made in back] + (["the metadata"] if remove_partition else [])
    return Reverted(with_record(text, left), tuple(put_back), tuple(kept), remove_partition)


def difference(before: str, after: str) -> Record:
    """The record of the way from one definition to another. Elements that prepare does not make are not compared."""
    old, new = Document(before), Document(after)
    found: list[Made] = []
    for name, path in PATHS.items():
        was = {_which(element): old.source(element) for element in old.root.all(*path)}
        for element in new.root.all(*path):
            which, mark = _which(element), fingerprint(new.source(element))
            before = was.get(which, "")
            if not before or (name != "channel" and fingerprint(before) != mark):
                found.append(Made(name, which, mark, before))
    return Record(tuple(found), bool(_partitions(new)) and not _partitions(old))


def read_record(xml: str) -> Record:
    """The record in the metadata of *xml*; an empty one if there is none.

    HypervisorError if it is damaged. Who may edit metadata may write anything there, so nothing but an element of the
    right kind is taken for the element that was there before.
    """
    element = Document(xml).root.first("metadata", RECORD)
    if element is None:
        return Record()
    made = []
    for one in element.all(f"{{{RECORD_NAMESPACE}}}made"):
        given = one.attributes
        entry = Made(given.get("element", ""), given.get("which", ""), given.get("fingerprint", ""), one.text)
        if entry.element not in PATHS or (entry.before and not _is_element(entry)):
            raise HypervisorError(
                f"the record of `vscaf prepare` in the domain's metadata is damaged ({entry.label}): remove it by "
                f"`virsh metadata DOMAIN {RECORD_NAMESPACE} --remove --config`, and put back by hand what you want back"
            )
        made.append(entry)
    return Record(tuple(made), element.attributes.get("metadata") == "added")


def with_record(xml: str, record: Record) -> str:
    """*xml* with this record in its metadata; an empty one is removed."""
    return with_metadata(xml, RECORD, record_element(record) if record.made or record.metadata else None)


def record_element(record: Record, prefix: str = f"{RECORD_KEY}:") -> str:
    """The record as XML, with this prefix of its namespace.

    Empty: for virDomainSetMetadata, which adds the prefix. libvirt then also breaks the lines.
    """
    lines = [
        element_text(
            f"{prefix}made",
            {"element": made.element, **({"which": made.which} if made.which else {}), "fingerprint": made.fingerprint},
            made.before,
        )
        for made in record.made
    ]
    attributes = {f"xmlns:{RECORD_KEY}": RECORD_NAMESPACE} if prefix else {}
    if record.metadata:
        attributes["metadata"] = "added"
    empty = element_text(f"{prefix}prepared", attributes)
    if not lines:
        return empty
    begin, end = f"{empty[:-2]}>", f"</{prefix}prepared>"
    return "\n".join([begin, *(f"  {line}" for line in lines), end]) if prefix else "".join([begin, *lines, end])


def with_metadata(xml: str, name: str, text: str | None) -> str:
    """*xml* with *text* as the child *name* of its <metadata>; None: without such children, and without an empty
    <metadata>."""
    document = Document(xml)
    metadata = document.root.first("metadata")
    present = metadata.all(name) if metadata is not None else []
    if text is None:
        if metadata is None or not present:
            return xml
        for element in [metadata] if len(present) == len(metadata.children) else present:
            document.remove(element)
    elif present:
        document.replace(present[0], document.indented(text, present[0]))
    elif metadata is not None:
        document.append(metadata, text)
    else:
        head = ("name", "uuid", "genid", "title", "description")  # libvirt writes <metadata> after these
        anchor = [child for child in document.root.children if child.name in head][-1]
        deeper = text.replace("\n", "\n  ")
        document.insert_after(anchor, f"<metadata>\n  {deeper}\n</metadata>")
    return document.edited()


def fingerprint(source: str) -> str:
    """A fingerprint of an element. White space between elements, quotes and the order of attributes do not count."""
    canonical = ElementTree.canonicalize(source, strip_text=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _partitions(document: Document) -> list[Element]:
    return document.root.all("metadata", PARTITION)


def is_bare(element: Element) -> bool:
    """Whether the element has neither attributes nor content."""
    return not element.attributes and not element.children and not element.text.strip()


def _which(element: Element) -> str:
    """What tells an element apart from others of its kind: a controller's type and index, a channel's name."""
    if element.name == "controller":
        return f"{element.attributes.get('type', '')} {element.attributes.get('index', '')}".strip()
    target = element.first("target")
    return target.attributes.get("name", "") if element.name == "channel" and target is not None else ""


def _find(document: Document, made: Made) -> Element | None:
    """The element that prepare made, if it is still as it was made."""
    for element in document.root.all(*PATHS[made.element]):
        if fingerprint(document.source(element)) == made.fingerprint:
            return element
    return None


def _as_before(document: Document, made: Made) -> bool:
    """Whether the element is as it was before prepare."""
    now = [element for element in document.root.all(*PATHS[made.element]) if _which(element) == made.which]
    if not made.before:
        return not now
    return bool(now) and fingerprint(document.source(now[0])) == fingerprint(made.before)


def _keep_used(document: Document, back: dict[Made, Element]) -> list[Made]:
    """Takes the controllers out of *back* whose devices stay, and those that changed for them. Returns them."""
    kept: list[Made] = []
    while True:
        going = set(map(id, back.values()))
        staying = [device for devices in document.root.all("devices") for device in devices.children]
        staying = [device for device in staying if id(device) not in going]
        used = [
            made
            for made, element in back.items()
            if made.element == "controller" and (kept if made.before else _uses(staying, element))
        ]
        if not used:
            return kept
        kept += used
        for made in used:
            del back[made]


def _uses(devices: Iterable[Element], controller: Element) -> bool:
    """Whether the address of one of *devices* is on *controller*."""
    kind, index = controller.attributes.get("type"), controller.attributes.get("index", "")
    for device in devices:
        for address in device.all("address"):
            given = address.attributes
            bus = given.get("bus", "") if kind == "pci" else given.get("controller", "")
            if given.get("type") == kind and bus and index and int(bus, 0) == int(index):
                return True
    return False


def _is_element(made: Made) -> bool:
    """Whether `before` is one element of the right kind, with nothing in it that does not belong there."""
    try:
        root = ElementTree.fromstring(made.before)
    except ElementTree.ParseError:
        return False
    inside = {"vcpus": {"vcpu"}, "controller": {"model", "target", "address", "master"}}.get(made.element, set())
    same = made.which == f"{root.get('type', '')} {root.get('index', '')}" if made.element == "controller" else True
    return (
        made.element != "channel"
        and root.tag == made.element
        and same
        and all(child.tag in inside and not len(child) for child in root)
    )
