"""Documents as one HTML file each, opened offline: no external resources, every text escaped.

Charts are SVG and tables made here; on a page with single ops, which stand as JSON in a script
element, a small script of ours sorts, filters and scrolls them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.document import COMMAND, NEXT, Document
from instrumentor_analysis.reports.drawing import COLOURS, Drawing, svg
from instrumentor_analysis.shared.caveats import by_weight
from instrumentor_analysis.shared.files import read_text

_TEMPLATE = "report.html.j2"
_SCRIPT = "report.js.j2"


def render(document: Document) -> str:
    """The page."""
    # Half of the time of a report on the terminal is imports, and it needs none of these.
    import base64
    import hashlib

    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    here = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(here),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Not in the macros, one by one: a text that is forgotten there is one too many.
        finalize=_visible,
    )
    environment.globals |= {"colours": COLOURS, "next": NEXT, "by_weight": by_weight}
    # In source code a tab is indentation, not a control character to be shown.
    environment.filters["code"] = escape
    environment.filters |= {"link": _link, "svg": _svg, "typed": _typed}
    ops = next((section.ops for section in document.sections if section.ops is not None), None)
    script = read_text(here / _SCRIPT).strip()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template(_TEMPLATE).render(
        document=document,
        script=None if ops is None else Markup(script),
        # The browser runs this script and no other, should a text ever get out of its place.
        script_source="'none'" if ops is None else f"'sha256-{digest}'",
        # Safe by construction: see ops_data.script_safe.
        data=None if ops is None else Markup(ops.for_script()),
    )


def _visible(value: Any) -> Any:
    """Control characters of foreign texts shown, not obeyed."""
    return formatting.visible(value) if type(value) is str else value


def _typed(text: str) -> Any:
    """A sentence in which what is to be typed stands apart: between backticks, or its last words.

    A command that ends it has a line of its own, and is broken nowhere.
    """
    from markupsafe import Markup, escape

    shown = formatting.visible(text)
    at = shown.find(COMMAND) + 1
    said, command = (shown[:at], shown[at + 1 :]) if at else (shown, "")
    parts = said.split("`")
    if len(parts) % 2 == 0:  # one has no end
        parts = [said]
    found = Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )
    return found + (Markup('<code class="command">{}</code>').format(command) if command else "")


def _svg(drawing: Drawing) -> Any:
    """A drawing as markup; one with an id takes the keyboard's focus.

    Where there are others for narrower pages, the style sheet shows the one that suits the page.
    """
    from markupsafe import Markup

    others = {"middle": drawing.middle, "narrow": drawing.narrow}
    classes = ["fits"] * drawing.fits
    classes += [f"not-{name}" for name, other in others.items() if other is not None]
    every = {" ".join(classes): drawing, **others}
    name, focus = (f' id="{drawing.id}"', ' tabindex="0"') if drawing.id else ("", "")
    shown = []
    for kind, each in every.items():
        said = " ".join(filter(None, (kind, drawing.id)))
        attributes = name * (each is drawing) + focus + (f' class="{said}"' if said else "")
        shown += [svg(each, attributes=attributes)] if each is not None else []
    return Markup("\n".join(shown))


def _link(path: str) -> str | None:
    """A relative address; None for what is not below the page."""
    if path.startswith(("/", "..")) or "\\" in path:
        return None
    from urllib.parse import quote

    return "./" + quote(os.fsencode(path))
