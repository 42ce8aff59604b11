"""Draw the pictures of the guide that explain shapes: python docs/pictures/drawings.py.

It writes docs/guide/images/{chain,product,shapes,window,folds}.svg. They are drawn on white, which
the pages dim on dark screens.
"""

from __future__ import annotations

from pathlib import Path

IMAGES = Path(__file__).parents[1] / "guide" / "images"
# Texts are large enough for a phone, where a drawing is half as wide.
WIDTH = 660
FONT_SIZE = 18
MINUS = "\N{MINUS SIGN}"
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
            f'font-size="{FONT_SIZE}" fill="{INK}">',
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
    centers = [125 + 150 * k for k in range(4)]
    for k, x in enumerate(centers):
        parts += [
            text(x, 26, f"day {k + 1}", fill=GRAY),
            f'<circle cx="{x}" cy="75" r="30" fill="{BLUE[0]}" stroke="{BLUE[1]}" '
            'stroke-width="2"/>',
            text(x, 81, labels[k]),
            box(x - 48, 158, 96, 40, LIGHT, GRAY, rx=5),
            text(x, 184, inputs[k]),
            arrow(x, 158, x, 107),
        ]
    parts += [arrow(x + 30, 75, x + 118, 75) for x in centers[:-1]]
    parts += [text(24, 82, "⊥", font_size=20), arrow(38, 75, 93, 75)]
    below = "A score depends on a label, the label before it, and the input of its day."
    return picture(250, *parts, text(WIDTH / 2, 236, below, fill=GRAY))


def product() -> str:
    """Examples as positions times contexts, which a tree cuts into rectangles."""
    left, top, width, height = 150, 76, 120, 46
    values = {(0, 0): "1/2", (1, 1): "3/4", (1, 2): MINUS + "1/4"}
    values |= {(day, context): MINUS + "1/4" for day in (2, 3) for context in (1, 2)}
    parts = [text(left - 70, top - 12, "context", fill=GRAY)]
    for day in range(4):
        x = left + width * (day + 0.5)
        seen = "umbrella" if day < 2 else "none"
        parts += [text(x, 26, f"day {day + 1}", fill=GRAY), text(x, 54, seen)]
        for context in range(3):
            leaf = YELLOW if day >= 2 else RED if context == 2 else GREEN
            value = values.get((day, context))
            y = top + height * context
            parts += [
                box(x - width / 2, y, width, height, leaf[0] if value else LIGHT),
                text(x, y + height / 2 + 6, value or "\N{EN DASH}", fill=INK if value else GRAY),
            ]
    for context, name in enumerate(("⊥", "rain", "sun")):
        parts.append(text(left - 70, top + height * (context + 0.5) + 6, name))
    # The lines of the leaves differ, for those who see no colors.
    leaves = (
        (0, 2, 0, 2, GREEN, "none", "umbrella, not after sun: +5/8"),
        (0, 2, 2, 3, RED, "8 4", f"umbrella, after sun: {MINUS}1/4"),
        (2, 4, 0, 3, YELLOW, "2 3", f"no umbrella: {MINUS}1/4"),
    )
    y = top + 3 * height + 36
    for first, last, above, below, leaf, dashes, words in leaves:
        frame = (left + width * first + 3, top + height * above + 3)
        size = (width * (last - first) - 6, height * (below - above) - 6)
        style = {"stroke_width": 3.5, "stroke_dasharray": dashes}
        parts += [
            box(*frame, *size, "none", leaf[1], **style),
            box(left + 3, y - 16, 34, 18, leaf[0], leaf[1], **style),
            text(left + 52, y, words, "start"),
        ]
        y += 30
    return picture(y - 14, *parts)


def shapes() -> str:
    """The same two sequences as a list of tables, and as one long table with groups."""
    parts = [
        text(165, 28, "a list of sequences", font_weight="bold"),
        text(505, 28, "one long table with groups", font_weight="bold"),
    ]
    cell, height = 66, 28
    rows = {"mo": 3, "tu": 4}
    top = 50
    for (name, n), color in zip(rows.items(), (BLUE, GREEN), strict=True):
        parts.append(
            text(56, top + n * height / 2 + 6, f"X[{list(rows).index(name)}]", "end", fill=GRAY)
        )
        for row in range(n):
            for column in range(2):
                parts.append(box(68 + cell * column, top + height * row, cell, height, color[0]))
            parts.append(box(218, top + height * row, cell, height, LIGHT))
        parts.append(box(68, top, 2 * cell, n * height, "none", color[1], stroke_width=2))
        top += n * height + 22
    y = 296
    parts += [text(134, y, "features", fill=GRAY), text(251, y, "labels y", fill=GRAY)]
    top = 50
    for (name, n), color in zip(rows.items(), (BLUE, GREEN), strict=True):
        for row in range(n):
            y_row = top + height * row
            parts += [box(366, y_row, cell, height, color[0], color[1])]
            parts += [text(399, y_row + 20, name)]
            for column in range(2):
                parts.append(box(366 + cell * (column + 1), y_row, cell, height, color[0]))
            parts.append(box(582, y_row, cell, height, LIGHT))
        parts.append(box(366, top, 3 * cell, n * height, "none", color[1], stroke_width=2))
        top += n * height
    parts += [
        text(399, y, "groups", fill=GRAY),
        text(498, y, "features", fill=GRAY),
        text(615, y, "labels y", fill=GRAY),
    ]
    return picture(312, *parts)


def window() -> str:
    """The rows that trees may test for the label of one position."""
    parts = [ARROW]
    cell, left = 70, 90
    for t in range(8):
        x = left + cell * t
        is_seen = 2 <= t <= 5
        fill, line = BLUE if is_seen else (LIGHT, LINE)
        parts += [
            box(x, 120, cell - 6, 42, fill, line, stroke_width=2.5 if is_seen else 1),
            text(x + 32, 147, f"x{t}", fill=INK if is_seen else GRAY),
        ]
        if is_seen:
            name = f"{t - 4:+d}".replace("-", MINUS) if t != 4 else "0"
            parts.append(text(x + 32, 190, name, fill=BLUE[1]))
    x = left + cell * 4
    parts += [
        box(x, 28, cell - 6, 42, GREEN[0], GREEN[1], stroke_width=2.5),
        text(x + 32, 55, "y4"),
        arrow(x + 32, 118, x + 32, 74),
        box(x - 2 * cell, 28, cell - 6, 42, LIGHT, GRAY),
        text(x - 2 * cell + 32, 55, "y3"),
        arrow(x - cell - 4, 49, x - 4, 49),
        text(left - 14, 147, "input", "end", fill=GRAY),
        text(left - 14, 55, "labels", "end", fill=GRAY),
        text(left - 14, 190, "offset", "end", fill=GRAY),
    ]
    return picture(208, *parts)


def folds() -> str:
    """Persons whose sequences are held out, one division after another; narrow, for phones."""
    parts = []
    left, cell = 80, 64
    for fold in range(3):
        y = 14 + 44 * fold
        parts.append(text(left - 12, y + 22, f"fold {fold + 1}", "end", fill=GRAY))
        for k, name in enumerate("ABCDE"):
            is_out = k in ((0, 3), (1, 4), (2,))[fold]
            fill, line = YELLOW if is_out else (LIGHT, LINE)
            weight, edge = ("bold", 3) if is_out else ("normal", 1)
            parts += [
                box(left + cell * k, y, cell - 10, 32, fill, line, rx=4, stroke_width=edge),
                text(left + cell * k + 27, y + 22, name, font_weight=weight),
            ]
    below = "bold: all sequences of this person are held out"
    return picture(178, *parts, text(205, 164, below, fill=GRAY), width=410)


def main() -> None:
    for draw in (chain, product, shapes, window, folds):
        (IMAGES / f"{draw.__name__}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
