"""What the demo prints: chapters, commands, checks, a table and two plots.

Everything goes to the terminal as it happens; `close` also writes it to a file.
"""

from __future__ import annotations

import html
import pathlib
import sys
import textwrap

WIDTH = 79


def mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB"


def rate(size_bytes: int, seconds: float) -> str:
    return f"{size_bytes / 1e6 / seconds:.0f} MB/s" if seconds > 0 else "-"


class Report:
    """One thread at a time."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.chapters = 0
        self.checks: list[tuple[str, bool]] = []
        self.colour = sys.stdout.isatty()

    def put(self, line: str, style: str = "") -> None:
        self.lines.append(line)
        if self.colour and style:
            line = f"\033[{style}m{line}\033[0m"
        # Names are bytes; what is not text must not end the demo.
        print(line.encode(errors="backslashreplace").decode(), flush=True)

    def chapter(self, title: str, about: str) -> None:
        self.chapters += 1
        self.put("")
        self.put(f"=== {self.chapters}. {title} ", "1")
        self.say(about)

    def say(self, text: str) -> None:
        for line in textwrap.wrap(text, WIDTH, break_long_words=False):
            self.put(line)

    def loud(self, *lines: str) -> None:
        self.put("*" * WIDTH, "1;33")
        for line in lines:
            self.put(f"***  {line}", "1;33")
        self.put("*" * WIDTH, "1;33")

    def command(self, command: str, answer: str) -> None:
        self.put(f"  $ {command}", "36")
        self.block(answer)

    def block(self, text: str) -> None:
        for line in text.splitlines():
            self.put(f"    {line}")

    def check(self, what: str, holds: bool) -> bool:
        self.checks.append((what, holds))
        if holds:
            self.put(f"  [ok] {what}", "32")
        else:
            self.put(f"  [NOT TRUE] {what}", "1;31")
        return holds

    def all_true(self) -> bool:
        return bool(self.checks) and all(holds for _, holds in self.checks)

    def table(self, rows: list[list[str]]) -> None:
        widths = [
            max(len(cell) for cell in column)
            for column in zip(*rows, strict=True)
        ]
        for number, row in enumerate(rows):
            cells = zip(row, widths, strict=True)
            self.put("  " + "  ".join(c.ljust(w) for c, w in cells).rstrip())
            if number == 0:
                self.put("  " + "  ".join("-" * width for width in widths))

    def close(self, path: pathlib.Path) -> None:
        """The verdict; then everything so far into the file."""
        wrong = [what for what, holds in self.checks if not holds]
        self.put("")
        if wrong:
            self.put(f"{len(wrong)} of {len(self.checks)} checks failed:", "31")
            for what in wrong:
                self.put(f"  {what}", "31")
        else:
            self.put(f"All {len(self.checks)} checks hold.", "1;32")
        text = "\n".join(self.lines) + "\n"
        path.write_text(text, errors="backslashreplace")


def plot_text(
    title: str,
    reference: dict[int, float],
    real: dict[int, float],
    kill: int,
    rows: int = 12,
) -> str:
    """Both curves in characters: o where they are equal, x where not."""
    low, high = min(reference.values()), max(reference.values())
    scale = (rows - 1) / ((high - low) or 1.0)
    steps = sorted(reference)
    grid = [[" "] * len(steps) for _ in range(rows)]

    def mark(column: int, loss: float, letter: str) -> None:
        row = round((high - loss) * scale)
        grid[min(max(row, 0), rows - 1)][column] = letter

    for column, step in enumerate(steps):
        mark(column, reference[step], ".")
        if step in real:
            same = real[step] == reference[step]
            mark(column, real[step], "o" if same else "x")
    lines = [f"{title} (o: both runs equal, .: reference only, x: differ)"]
    for number, line in enumerate(grid):
        label = f"{high - number / scale:6.2f} |" if number % 3 == 0 else "|"
        lines.append(label.rjust(8) + "".join(line).rstrip())
    lines.append("+".rjust(8) + "-" * len(steps))
    lines.append(" " * (8 + steps.index(kill)) + "^ killed, wiped, resumed")
    return "\n".join(lines)


def plot_svg(
    title: str,
    reference: dict[int, float],
    real: dict[int, float],
    kill: int,
) -> str:
    """The reference as a line, the real run as dots upon it."""
    width, height, margin = 640, 360, 44
    low, high = min(reference.values()), max(reference.values())
    first, last = min(reference), max(reference)

    def x(step: int) -> float:
        share = (step - first) / max(last - first, 1)
        return margin + share * (width - 2 * margin)

    def y(loss: float) -> float:
        share = (high - loss) / ((high - low) or 1.0)
        return margin + share * (height - 2 * margin)

    line = " ".join(
        f"{x(step):.1f},{y(loss):.1f}" for step, loss in reference.items()
    )
    dots = "\n".join(
        f'<circle cx="{x(step):.1f}" cy="{y(loss):.1f}" r="3" fill="'
        f'{"#1b9e77" if loss == reference.get(step) else "#d7301f"}"/>'
        for step, loss in sorted(real.items())
    )
    bottom = height - margin
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width}" \
height="{height}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="white"/>
<text x="{margin}" y="20" font-size="14">{html.escape(title)}</text>
<text x="{margin}" y="36" fill="#666">line: uninterrupted; dots: killed, wiped,\
 restored, resumed (red where they differ)</text>
<path d="M{margin} {margin}V{bottom}H{width - margin}" fill="none" \
stroke="#999"/>
<text x="6" y="{margin + 4}">{high:.2f}</text>
<text x="6" y="{bottom}">{low:.2f}</text>
<text x="{margin}" y="{bottom + 18}">step {first}</text>
<text x="{width - margin}" y="{bottom + 18}" text-anchor="end">{last}</text>
<line x1="{x(kill):.1f}" x2="{x(kill):.1f}" y1="{margin}" y2="{bottom}" \
stroke="#d7301f" stroke-dasharray="4 3"/>
<text x="{x(kill) + 4:.1f}" y="{margin + 12}" fill="#d7301f">SIGKILL</text>
<polyline points="{line}" fill="none" stroke="#555" stroke-width="1.5"/>
{dots}
</svg>
"""
