"""SVG elements, scales and the stacked bar chart with one bar per day.

A chart is as wide as the page: horizontal positions are in per cent, vertical ones in pixels, so text keeps its size on
a phone. The labels of the ticks are left of the drawing, where the style sheet leaves room.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from markupsafe import Markup, escape

Scale = Callable[[float], float]


def nice_ticks(maximum: float, *, at_most: int = 5) -> list[float]:
    """Return round numbers for an axis, from 0 to the first that is not below `maximum`."""
    if not (maximum > 0 and math.isfinite(maximum)):
        return [0.0, 1.0]
    rough = maximum / at_most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(nice * power for nice in (1.0, 2.0, 2.5, 5.0, 10.0) if nice * power >= rough * (1 - 1e-9))
    steps = math.ceil(maximum / step - 1e-9)
    return [number * step for number in range(steps + 1)]


def linear(domain: tuple[float, float], span: tuple[float, float]) -> Scale:
    """Map `domain` linearly to `span`; a domain without width maps to the start of the span."""
    (low, high), (first, last) = domain, span
    factor = (last - first) / (high - low) if high != low else 0.0
    return lambda value: first + (value - low) * factor


def element(name: str, /, *inside: str, **attributes: str | float | None) -> Markup:
    """Write an element. `class_` and `data_model` become `class` and `data-model`; None is omitted; text is escaped."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    content = "".join(map(escape, inside))
    # Markup.format would take five times as long, and a chart has hundreds of elements.
    return Markup(f"<{name}{written}>{content}</{name}>")  # noqa: S704 - all parts are escaped above


def drawing(height: int, *inside: str, title: str, description: str, name: str, class_: str) -> Markup:
    """Write a whole chart. A screen reader reads `title` and `description`; `name` is unique on the page."""
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", description, id=f"{name}-desc"),
        *inside,
        width="100%",
        height=height,
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        class_=class_,
    )


def _value(value: str | float) -> str:
    """Format a number with one decimal."""
    return value if isinstance(value, str) else f"{value:.1f}".rstrip("0").rstrip(".")


_HEIGHT, _TOP, _BOTTOM = 220, 10, 24
_MAX_LABELS = 7
_GAP = 0.25
"""Share of the width of one bar that stays empty."""


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    values: Sequence[float]
    """One value per day."""


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    svg: Markup
    names: Sequence[str]
    """Names of the parts of a bar, from bottom to top."""


def bars(
    name: str, title: str, dates: Sequence[str], series: Sequence[Series], written: Callable[[float], str]
) -> Chart:
    """Draw stacked bars. `written` formats an amount."""
    heights = [sum(values) for values in zip(*(each.values for each in series), strict=True)]
    ticks = nice_ticks(max(heights, default=0.0))
    up = linear((0.0, ticks[-1]), (_HEIGHT - _BOTTOM, _TOP))
    along = linear((0.0, len(dates)), (0.0, 100.0))
    svg = drawing(
        _HEIGHT,
        *_grid(ticks, up, written),
        *_days(dates, along),
        *_parts(dates, series, up, along, written),
        title=title,
        description=_description(dates, series, heights, written),
        name=name,
        class_="chart",
    )
    return Chart(title, svg, [each.name for each in series])


def _grid(ticks: Sequence[float], up: Scale, written: Callable[[float], str]) -> Iterator[Markup]:
    for tick in ticks:
        y = up(tick)
        yield element("line", x1="0", x2="100%", y1=y, y2=y, class_="grid")
        yield element("text", written(tick), x=-8, y=y + 4, text_anchor="end")


def _days(dates: Sequence[str], along: Scale) -> Iterator[Markup]:
    """Label as many days as fit, always including the last; a phone shows every second label."""
    every = max(1, -(-len(dates) // _MAX_LABELS))
    for nth, number in enumerate(range(len(dates) - 1, -1, -every)):
        x = along(number + 0.5)
        text = f"{date.fromisoformat(dates[number]):%d %b}".lstrip("0")
        anchor, x = ("end", 100.0) if nth == 0 and len(dates) > _MAX_LABELS else ("middle", x)
        class_ = "optional-label" if nth % 2 else None
        yield element("text", text, x=_per_cent(x), y=_HEIGHT - 6, text_anchor=anchor, class_=class_)


def _parts(
    dates: Sequence[str],
    series: Sequence[Series],
    up: Scale,
    along: Scale,
    written: Callable[[float], str],
) -> Iterator[Markup]:
    room = along(1.0) - along(0.0)
    for day, when in enumerate(dates):
        base = 0.0
        for number, each in enumerate(series, start=1):
            value = each.values[day]
            if value <= 0:
                continue
            yield element(
                "rect",
                element("title", f"{when}, {each.name}: {written(value)}"),
                x=_per_cent(along(float(day)) + room * _GAP / 2),
                y=up(base + value),
                width=_per_cent(room * (1 - _GAP)),
                height=max(up(base) - up(base + value), 0.5),
                class_=f"part-{number}",
            )
            base += value


def _per_cent(share: float) -> str:
    return f"{share:.2f}%"


def _description(
    dates: Sequence[str],
    series: Sequence[Series],
    heights: Sequence[float],
    written: Callable[[float], str],
) -> str:
    highest = max(range(len(heights)), key=lambda day: heights[day])
    sums = "; ".join(f"{each.name} {written(sum(each.values))}" for each in series)
    return (
        f"Bars from {dates[0]} to {dates[-1]}. The highest is {written(heights[highest])} on {dates[highest]}. "
        f"In all: {sums}. The tables below have every figure."
    )
