"""Single elements are changed, and every other byte stays."""

import pytest
from vscaf.prepare.xml_edit import Document, element_text

TEXT = """<?xml version='1.0'?>
<a x="1 > 0" y='"'>
  <!-- <b/> --><b q='é'/>
  <n:c xmlns:n="urn:n"><![CDATA[<b/>]]></n:c>
  <d>text</d>
</a>
"""


def test_elements_are_found_with_their_text() -> None:
    document = Document(TEXT)
    assert document.root.attributes == {"x": "1 > 0", "y": '"'}
    assert [document.source(child) for child in document.root.children] == [
        "<b q='é'/>",
        '<n:c xmlns:n="urn:n"><![CDATA[<b/>]]></n:c>',
        "<d>text</d>",
    ]
    assert [child.name for child in document.root.children] == ["b", "{urn:n}c", "d"]
    assert document.root.all("d")[0].text == "text"
    assert document.source(document.root) + "\n" == TEXT.partition("\n")[2]


def test_changes_are_made_where_they_belong() -> None:
    document = Document(TEXT)
    b, c, d = document.root.children
    document.remove(c)
    document.insert_after(b, "<e/>")
    document.replace(d, "<f/>")
    document.append(document.root, "<g>\n  <h/>\n</g>")
    assert document.edited() == (
        TEXT.replace('\n  <n:c xmlns:n="urn:n"><![CDATA[<b/>]]></n:c>', "")
        .replace("<b q='é'/>", "<b q='é'/><e/>")
        .replace("<d>text</d>", "<f/>\n  <g>\n    <h/>\n  </g>")
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<a>\n  <b/>\n</a>", "<a>\n  <b>\n    <c/>\n    <d/>\n  </b>\n</a>"),
        ("<a>\n  <b>\n  </b>\n</a>", "<a>\n  <b>\n    <c/>\n    <d/>\n  </b>\n</a>"),
        ("<a>\n  <b x='>' />\n</a>", "<a>\n  <b x='>'>\n    <c/>\n    <d/>\n  </b>\n</a>"),
        ("<a><b/></a>", "<a><b><c/><d/></b></a>"),
        ("<a><b><!-- --></b></a>", "<a><b><!-- --><c/><d/></b></a>"),
    ],
)
def test_children_of_an_empty_element(text: str, expected: str) -> None:
    document = Document(text)
    document.append(document.root.children[0], "<c/>", "<d/>")
    assert document.edited() == expected


def test_an_element_is_read_as_it_was_written() -> None:
    value = "a\n<b c='d'>&\t\"</b>"
    element = Document(element_text("e", {"f": value}, value)).root
    assert (element.attributes["f"], element.text) == (value, value)
    assert "\n" not in element_text("e", {"f": value}, value)
