"""Changes single elements of an XML text, and keeps all other text as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.parsers import expat
from xml.sax.saxutils import escape

from vscaf.errors import HypervisorError

TAG = re.compile(rb"""<(?:[^"'>]|"[^"]*"|'[^']*')*>""")


@dataclass(slots=True, eq=False)
class Element:
    """An element, and where it is in the document (`start` and `end` in bytes; `close`: its end tag, or `end`).

    In `name`, the namespace comes first: "{namespace}name".
    """

    name: str
    attributes: dict[str, str]
    start: int
    close: int = 0
    end: int = 0
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def all(self, *names: str) -> list[Element]:
        """The children named names[0], then their children named names[1], and so on."""
        found = [self]
        for name in names:
            found = [child for one in found for child in one.children if child.name == name]
        return found

    def first(self, *names: str) -> Element | None:
        """The first of `all`."""
        return next(iter(self.all(*names)), None)

    def descendants(self, name: str) -> Iterator[Element]:
        """The elements of this name below this one."""
        for child in self.children:
            if child.name == name:
                yield child
            yield from child.descendants(name)


class Document:
    """An XML text. Changes are collected; `edited` makes them. HypervisorError if the text cannot be read.

    A document type, which libvirt never writes, is refused, so that no entity is expanded.
    """

    def __init__(self, xml: str) -> None:
        self._data = xml.encode()
        self._edits: list[tuple[int, int, bytes]] = []
        self.root = _parsed(self._data)

    def source(self, element: Element) -> str:
        """The text of the element."""
        return self._data[element.start : element.end].decode()

    def indented(self, text: str, element: Element) -> str:
        """*text* with its further lines indented as *element* is; on one line if *element* does not begin a line."""
        before = self._space_before(element.start)
        return text.replace("\n", before[before.rfind("\n") :] if "\n" in before else "")

    def replace(self, element: Element, text: str) -> None:
        """Puts *text* in place of the element."""
        self._edits.append((element.start, element.end, text.encode()))

    def remove(self, element: Element) -> None:
        """Removes the element and the white space before it."""
        self._edits.append((element.start - len(self._space_before(element.start)), element.end, b""))

    def insert_after(self, sibling: Element, text: str) -> None:
        """Inserts *text* after *sibling*, with the white space that *sibling* has before it."""
        inserted = self._space_before(sibling.start) + self.indented(text, sibling)
        self._edits.append((sibling.end, sibling.end, inserted.encode()))

    def append(self, parent: Element, *texts: str) -> None:
        """Inserts *texts* as the last children of *parent*."""
        if parent.children:
            for text in texts:
                self.insert_after(parent.children[-1], text)
            return
        space = self._space_before(parent.start)
        deeper = [self.indented(text.replace("\n", "\n  "), parent) for text in texts]
        inside = "".join(f"{space}  {text}" if space else text for text in deeper)
        if parent.close < parent.end:
            place = parent.close - len(self._space_before(parent.close))
            self._edits.append((place, place, inside.encode()))
        else:
            tag = self.source(parent)
            name = re.split(r"[\s/>]", tag[1:], maxsplit=1)[0]
            self.replace(parent, f"{tag[:-2].rstrip()}>{inside}{space}</{name}>")

    def edited(self) -> str:
        """The text with all changes."""
        parts, position = [], 0
        for start, end, text in sorted(self._edits, key=lambda edit: edit[:2]):
            parts += [self._data[position:start], text]
            position = end
        return b"".join([*parts, self._data[position:]]).decode()

    def _space_before(self, position: int) -> str:
        before = self._data[:position]
        return before[len(before.rstrip()) :].decode()


def element_text(name: str, attributes: Mapping[str, object], text: str = "") -> str:
    """An element as libvirt writes it. Line ends in *text* become character references."""
    references = {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
    written = "".join(
        f" {key}='{escape(str(value), {**references, chr(39): '&apos;'})}'" for key, value in attributes.items()
    )
    return f"<{name}{written}>{escape(text, references)}</{name}>" if text else f"<{name}{written}/>"


def _parsed(data: bytes) -> Element:
    parser = expat.ParserCreate("utf-8", namespace_separator="}")
    parser.buffer_text = True
    document = Element("", {}, 0)
    opened = [document]

    def qualified(name: str) -> str:
        return f"{{{name}" if "}" in name else name

    def tag_end(start: int) -> int:
        tag = TAG.match(data, start)
        assert tag is not None  # expat has just read it
        return tag.end()

    def on_start(name: str, attributes: dict[str, str]) -> None:
        named = {qualified(key): value for key, value in attributes.items()}
        element = Element(qualified(name), named, parser.CurrentByteIndex)
        opened[-1].children.append(element)
        opened.append(element)

    def on_end(_name: str) -> None:
        element = opened.pop()
        element.end = element.close = tag_end(element.start)
        if data[element.end - 2] != ord("/"):
            element.close = parser.CurrentByteIndex
            element.end = tag_end(element.close)

    def on_text(text: str) -> None:
        opened[-1].text += text

    def on_doctype(*_: object) -> None:
        raise HypervisorError("the domain's XML declares a document type: look at `virsh dumpxml`")

    parser.StartElementHandler = on_start
    parser.EndElementHandler = on_end
    parser.CharacterDataHandler = on_text
    parser.StartDoctypeDeclHandler = on_doctype
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise HypervisorError(f"the domain's XML cannot be read ({error}): look at `virsh dumpxml`") from error
    return document.children[0]
