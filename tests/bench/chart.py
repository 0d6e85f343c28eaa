"""Charts as SVG that needs nothing else and is readable on a light and on a dark page."""

import math
from html import escape

from report import BROKERS, figure

WIDTH = 860
STYLE = """<style>
svg { --ink: #1f2430; --quiet: #6a7080; --line: #d5d8e0; --page: #ffffff; --grey: #8a94a6; --orange: #d08a2e; --blue: #2563c9; --green: #3f8f5f; }
@media (prefers-color-scheme: dark) {
  svg { --ink: #e6e8ee; --quiet: #9aa1b2; --line: #3a4050; --page: #14171e; --grey: #7d879b; --orange: #e0a04a; --blue: #6ea3f5; --green: #6cc28f; }
}
text { font: 12px system-ui, sans-serif; fill: var(--ink); } .quiet { fill: var(--quiet); } .head { font-weight: 600; font-size: 14px; }
.line { stroke: var(--line); } .target { stroke: var(--ink); stroke-width: 2; }
.Mosquitto { fill: var(--grey); } .RabbitMQ { fill: var(--orange); } .vowmq { fill: var(--blue); }
.s0 { color: var(--blue); } .s1 { color: var(--orange); } .s2 { color: var(--green); } .s3 { color: var(--grey); }
polyline { stroke: currentColor; stroke-width: 2; fill: none; } circle, text.s0, text.s1, text.s2, text.s3 { fill: currentColor; }
</style>"""


def document(height, title, parts):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
    page = f'<rect width="{WIDTH}" height="{height}" style="fill: var(--page)"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", STYLE, page, *parts, "</svg>", ""])


def label(x, y, content, style="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}">{escape(content)}</text>'


def tick_text(tick):
    return f"{tick:,.0f}" if tick >= 1 else f"{tick:g}"


class Scale:
    """Logarithmic, from `low` to `high` over `begin` to `end`."""

    def __init__(self, values, begin, end):
        self.low = 10 ** math.floor(math.log10(min(values)))
        self.high = max(10 ** math.ceil(math.log10(max(values))), 10 * self.low)
        self.begin, self.end = begin, end

    def __call__(self, value):
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self):
        tick = self.low
        while tick <= self.high * 1.001:
            yield tick
            tick *= 10


def bars(rows, machine):
    """The rows of the comparison that have a group, a panel for each: bars on a logarithmic scale, targets as strokes."""
    parts = [label(20, 28, "MQTT brokers on one machine", "head"), label(20, 46, machine, "quiet")]
    x = 20
    for name in BROKERS:
        parts += [f'<rect x="{x}" y="58" width="12" height="12" class="{name}"/>', label(x + 18, 68, name)]
        x += 110
    parts += [f'<line x1="{x + 6}" x2="{x + 6}" y1="57" y2="71" class="target"/>', label(x + 18, 68, "target")]
    y = 100
    for group in dict.fromkeys(row.group for row in rows if row.group):
        panel = [row for row in rows if row.group == group and any(row.figures.values())]
        if panel:
            y = bar_panel(parts, y, panel) + 30
    return document(y, "MQTT brokers compared", parts)


def bar_panel(parts, y, panel):
    values = [value for row in panel for value in [*row.figures.values(), row.target] if value and value > 0]
    scale = Scale(values, 20, WIDTH - 90)
    better = "more is better" if panel[0].more_is_better else "less is better"
    parts += [label(20, y, panel[0].group, "head"), label(WIDTH - 20, y, f"{better}; logarithmic", "quiet", "end")]
    y += 14
    top = len(parts)
    begin = y
    for row in panel:
        y += 18
        parts.append(label(20, y, row.work))
        first = y + 4
        for name in (name for name in BROKERS if row.figures.get(name)):
            value = row.figures[name]
            length = max(scale(value) - 20, 1)
            parts.append(f'<rect x="20" y="{y + 5}" width="{length:.1f}" height="13" class="{name}"/>')
            parts.append(label(26 + length, y + 16, figure(value)))
            y += 15
        if row.target:
            parts.append(f'<line x1="{scale(row.target):.1f}" x2="{scale(row.target):.1f}" y1="{first}" y2="{y + 5}" class="target"/>')
        y += 8
    for tick in scale.ticks():
        at = scale(tick)
        parts.insert(top, f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{begin}" y2="{y}" class="line"/>')
        parts.append(label(at, y + 14, tick_text(tick), "quiet", "start" if tick == scale.low else "middle"))
    return y + 14


def lines(points, machine):
    """What grows with N: for each thing a panel with its bytes and one with the cost of its operations."""
    parts = [label(20, 28, "Memory and cost per operation as numbers grow", "head"), label(20, 46, machine, "quiet")]
    y = 66
    for what in dict.fromkeys(point["what"] for point in points):
        same = [point for point in points if point["what"] == what]
        numbers = [point["n"] for point in same]
        memory = {"bytes each": [point["bytes_each"] for point in same]}
        costs = {name: [point["cost_us"][name] for point in same] for name in same[0]["cost_us"]}
        line_panel(parts, 20, y, f"{what}: bytes each", numbers, memory)
        line_panel(parts, 440, y, f"{what}: µs an operation", numbers, costs)
        y += 250
    return document(y, "Large numbers", parts)


def line_panel(parts, x, y, title, numbers, series):
    left, right, top, bottom = x + 50, x + 390, y + 24, y + 170
    across = Scale(numbers, left, right)
    up = Scale([value for values in series.values() for value in values if value > 0] or [1], bottom, top)
    parts.append(label(x, y + 10, title, "head"))
    for tick in up.ticks():
        parts.append(f'<line x1="{left}" x2="{right}" y1="{up(tick):.1f}" y2="{up(tick):.1f}" class="line"/>')
        parts.append(label(left - 6, up(tick) + 4, tick_text(tick), "quiet", "end"))
    for tick in across.ticks():
        parts.append(label(across(tick), bottom + 16, tick_text(tick), "quiet", "middle"))
    for index, (name, values) in enumerate(series.items()):
        drawn = [(across(n), up(value)) for n, value in zip(numbers, values) if value > 0]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in drawn)
        parts.append(f'<polyline points="{path}" class="s{index}"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" class="s{index}"/>' for a, b in drawn]
        parts.append(label(left, bottom + 34 + 14 * index, f"{name}: {figure(values[-1])} at {numbers[-1]:,}", f"s{index}"))
