"""The screen of a textual app as plain text."""

import html
import re

from textual.app import App


def screen_text(app: App[None]) -> str:
    """The lines of the screen, without colours, from textual's own picture of it."""
    picture = app.export_screenshot()
    width = float(re.search(r"font-size: (\d+)px", picture)[1]) * 0.61  # type: ignore[index]  # rich's ratio
    lines: dict[int, str] = {}
    for x, number, text in re.findall(
        r'<text[^>]* x="([\d.]+)"[^>]*clip-path="url\(#[^)]*-line-(\d+)\)">([^<]*)<', picture
    ):
        before = lines.get(int(number), "")
        lines[int(number)] = before.ljust(round(float(x) / width)) + html.unescape(text).replace("\xa0", " ")
    return "\n".join(lines.get(number, "").rstrip() for number in range(max(lines, default=-1) + 1)) + "\n"
