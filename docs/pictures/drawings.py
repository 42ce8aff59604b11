"""Draw the pictures of the guide that explain shapes: python docs/pictures/drawings.py.

It writes docs/guide/images/{chain,product,shapes,window,folds}.svg. They are drawn on white, which
the pages dim on dark screens.
"""

from __future__ import annotations

from pathlib import Path

IMAGES = Path(__file__).parents[1] / "guide" / "images"
WIDTH = 740
INK = "#1f2328"
GRAY = "#57606a"
LIGHT = "#f6f8fa"
LINE = "#d0d7de"
BLUE = ("#ddf4ff", "#0969da")
RED = ("#ffebe9", "#cf222e")
GREEN = ("#dafbe1", "#1a7f37")
YELLOW = ("#fff8c5", "#9a6700")
ARROW = (
    '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
    f'markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" fill="{GRAY}"/></marker></defs>'
)


def text(x: float, y: float, words: str, anchor: str = "middle", **style: object) -> str:
    named = " ".join(f'{name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" {named}>{words}</text>'


def box(
    x: float, y: float, width: float, height: float, fill: str, line: str = LINE, **style
) -> str:
    named = " ".join(f'{name.replace("_", "-")}="{value}"' for name, value in style.items())
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" '
        f'stroke="{line}" {named}/>'
    )


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return (
        f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{GRAY}" '
        'stroke-width="1.8" marker-end="url(#tip)"/>'
    )


def picture(height: float, *parts: str, width: float = WIDTH) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'width="{width:g}" height="{height:g}" font-family="Helvetica, Arial, sans-serif" '
            f'font-size="15" fill="{INK}">',
            box(0, 0, width, height, "#ffffff", "none"),
            *parts,
            "</svg>\n",
        ]
    )


def chain() -> str:
    """Labels that depend on the label before and on the input of their position."""
    parts = [ARROW]
    labels = ("rain", "rain", "sun", "sun")
    inputs = ("umbrella", "umbrella", "none", "none")
    centers = [130 + 160 * k for k in range(4)]
    for k, x in enumerate(centers):
        parts += [
            text(x, 24, f"day {k + 1}", fill=GRAY),
            f'<circle cx="{x}" cy="75" r="30" fill="{BLUE[0]}" stroke="{BLUE[1]}" '
            'stroke-width="2"/>',
            text(x, 80, labels[k]),
            box(x - 43, 160, 86, 38, LIGHT, GRAY, rx=5),
            text(x, 184, inputs[k]),
            arrow(x, 160, x, 107),
        ]
    parts += [arrow(x + 30, 75, x + 128, 75) for x in centers[:-1]]
    parts += [text(34, 80, "⊥", font_size=18), arrow(46, 75, 98, 75)]
    below = "A score depends on the label, on the label before it, and on the input of its day."
    return picture(252, *parts, text(370, 238, below, fill=GRAY))


def product() -> str:
    """Examples as positions times contexts, which a tree cuts into rectangles."""
    left, top, width, height = 190, 70, 110, 46
    values = {(0, 0): "1/2", (1, 1): "3/4", (1, 2): "-1/4"}
    values |= {(day, context): "-1/4" for day in (2, 3) for context in (1, 2)}
    parts = [
        text(left + 2 * width, 22, "day", fill=GRAY),
        text(left - 60, top - 12, "context", fill=GRAY),
    ]
    for day in range(4):
        x = left + width * (day + 0.5)
        seen = "umbrella" if day < 2 else "none"
        parts += [text(x, 48, str(day + 1)), text(x, 64, seen, font_size=12, fill=GRAY)]
        for context in range(3):
            leaf = YELLOW if day >= 2 else RED if context == 2 else GREEN
            value = values.get((day, context))
            y = top + height * context
            parts += [
                box(x - width / 2, y, width, height, leaf[0] if value else LIGHT),
                text(
                    x, y + height / 2 + 6, value or "\N{EN DASH}", fill=INK if value else "#8c959f"
                ),
            ]
    for context, name in enumerate(("⊥", "rain", "sun")):
        parts.append(text(left - 60, top + height * (context + 0.5) + 6, name))
    for first, last, above, below, leaf in (
        (0, 2, 0, 2, GREEN),
        (0, 2, 2, 3, RED),
        (2, 4, 0, 3, YELLOW),
    ):
        frame = (left + width * first + 2, top + height * above + 2)
        size = (width * (last - first) - 4, height * (below - above) - 4)
        parts.append(box(*frame, *size, "none", leaf[1], stroke_width=3))
    y = top + 3 * height + 34
    for x, words, leaf in (
        (140, "umbrella, not after sun: +5/8", GREEN),
        (370, "umbrella, after sun: -1/4", RED),
        (590, "no umbrella: -1/4", YELLOW),
    ):
        parts.append(text(x, y, words, fill=leaf[1], font_weight="bold", font_size=14))
    return picture(y + 18, *parts)


def shapes() -> str:
    """The same two sequences as a list of tables, and as one long table with groups."""
    parts = [
        text(170, 26, "a list of sequences", font_weight="bold"),
        text(560, 26, "one long table with groups", font_weight="bold"),
    ]
    cell, height = 62, 26
    rows = {"mo": 3, "tu": 4}
    top = 50
    for (name, n), color in zip(rows.items(), (BLUE, GREEN), strict=True):
        parts.append(
            text(62, top + n * height / 2 + 5, f"X[{list(rows).index(name)}]", "end", fill=GRAY)
        )
        for row in range(n):
            for column in range(2):
                parts.append(box(76 + cell * column, top + height * row, cell, height, color[0]))
            parts.append(box(230, top + height * row, cell, height, LIGHT))
        top += n * height + 22
    parts += [text(138, 282, "features", fill=GRAY), text(261, 282, "labels y", fill=GRAY)]
    top = 50
    for (name, n), color in zip(rows.items(), (BLUE, GREEN), strict=True):
        for row in range(n):
            y = top + height * row
            parts += [box(440, y, cell, height, color[0], color[1]), text(471, y + 18, name)]
            for column in range(2):
                parts.append(box(440 + cell * (column + 1), y, cell, height, color[0]))
            parts.append(box(640, y, cell, height, LIGHT))
        top += n * height
    parts += [
        text(471, 282, "groups", fill=GRAY),
        text(564, 282, "features", fill=GRAY),
        text(671, 282, "labels y", fill=GRAY),
    ]
    return picture(300, *parts)


def window() -> str:
    """The rows that trees may test for the label of one position."""
    parts = [ARROW]
    cell, left = 66, 108
    for t in range(8):
        x = left + cell * t
        is_seen = 2 <= t <= 5
        fill, line = BLUE if is_seen else (LIGHT, LINE)
        parts += [box(x, 120, cell - 6, 40, fill, line), text(x + 30, 145, f"x{t}")]
        if is_seen:
            name = f"{t - 4:+d}" if t != 4 else "0"
            parts.append(text(x + 30, 186, name, fill=BLUE[1]))
    x = left + cell * 4
    parts += [
        box(x, 30, cell - 6, 40, GREEN[0], GREEN[1]),
        text(x + 30, 55, "y4"),
        arrow(x + 30, 118, x + 30, 74),
        box(x - 2 * cell, 30, cell - 6, 40, LIGHT, LINE),
        text(x - 2 * cell + 30, 55, "y3"),
        arrow(x - cell - 4, 50, x - 4, 50),
        text(left - 14, 145, "input", "end", fill=GRAY),
        text(left - 14, 55, "labels", "end", fill=GRAY),
        text(left - 14, 186, "offset", "end", fill=GRAY),
    ]
    return picture(206, *parts)


def folds() -> str:
    """Persons whose sequences are held out, one division after another; narrow, for phones."""
    parts = []
    left, cell = 74, 64
    for fold in range(3):
        y = 14 + 42 * fold
        parts.append(text(left - 12, y + 20, f"fold {fold + 1}", "end", fill=GRAY))
        for k, name in enumerate("ABCDE"):
            is_out = k in ((0, 3), (1, 4), (2,))[fold]
            fill, line = YELLOW if is_out else (LIGHT, LINE)
            parts += [
                box(left + cell * k, y, cell - 10, 30, fill, line, rx=4),
                text(left + cell * k + (cell - 10) / 2, y + 20, name),
            ]
    below = "yellow: all sequences of this person are held out"
    return picture(170, *parts, text(200, 156, below, fill=GRAY), width=400)


def main() -> None:
    for draw in (chain, product, shapes, window, folds):
        (IMAGES / f"{draw.__name__}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
