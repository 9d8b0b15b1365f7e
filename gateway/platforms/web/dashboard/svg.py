"""Pictures made by the server: scales, ticks, and elements whose every attribute and text is escaped."""

from __future__ import annotations

import math
from collections.abc import Callable

from markupsafe import Markup, escape

Scale = Callable[[float], float]


def nice_ticks(maximum: float, *, at_most: int = 5) -> list[float]:
    """Round numbers from 0 up to the first that is not below `maximum`: as people would write them on an axis."""
    if not (maximum > 0 and math.isfinite(maximum)):
        return [0.0, 1.0]
    rough = maximum / at_most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(nice * power for nice in (1.0, 2.0, 2.5, 5.0, 10.0) if nice * power >= rough * (1 - 1e-9))
    steps = math.ceil(maximum / step - 1e-9)
    return [number * step for number in range(steps + 1)]


def linear(domain: tuple[float, float], span: tuple[float, float]) -> Scale:
    """A line through both pairs. Where the domain has no width, everything is at the beginning of the span."""
    (low, high), (first, last) = domain, span
    factor = (last - first) / (high - low) if high != low else 0.0
    return lambda value: first + (value - low) * factor


def element(name: str, /, *inside: str, **attributes: str | float | None) -> Markup:
    """`class_` and `data_model` become `class` and `data-model`; what is None is left out. Plain text is escaped."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    content = "".join(map(escape, inside))
    # Not by Markup.format, which takes five times as long; a picture has hundreds of elements.
    return Markup(f"<{name}{written}>{content}</{name}>")  # noqa: S704 - what comes from elsewhere was escaped above


def picture(height: int, *inside: str, title: str, description: str, name: str) -> Markup:
    """The whole drawing, as wide as its place. A screen reader says `title` and `description`; `name` is unique on its
    page."""
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", description, id=f"{name}-desc"),
        *inside,
        width="100%",
        height=height,
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        class_="chart",
    )


def _value(value: str | float) -> str:
    """Numbers to a tenth: finer than anybody sees."""
    return value if isinstance(value, str) else f"{value:.1f}".rstrip("0").rstrip(".")
