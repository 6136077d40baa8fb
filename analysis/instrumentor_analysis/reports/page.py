"""A template of this folder to a page: one file, opened offline, every text escaped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from instrumentor_analysis.reports import words
from instrumentor_analysis.reports.drawing import COLOURS, svg


def render(template: str, *, visible: bool = False, **context: Any) -> str:
    """The page.

    Args:
        visible: control characters of every text are shown, not obeyed; not for source code,
            whose tabs they are.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def shown(value: Any) -> Any:
        foreign = isinstance(value, str) and not isinstance(value, Markup)
        return words.visible(value) if foreign else value

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=shown if visible else None,
    )
    environment.globals["colours"] = COLOURS
    environment.filters["svg"] = lambda drawing, more="": Markup(svg(drawing, attributes=more))
    return environment.get_template(template).render(context)
