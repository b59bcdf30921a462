"""Rows of the table: what was measured, against what, the ratio, the target and the verdict."""

from dataclasses import asdict, dataclass


@dataclass
class Row:
    case: str
    what: str
    base: str = ""
    value: str = ""
    ratio: float | None = None
    spread: tuple | None = None
    target: str = "report"
    verdict: str = ""

    def cells(self):
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        if self.spread and self.spread[0] != self.spread[1]:
            ratio += f" ({self.spread[0]:.2f}–{self.spread[1]:.2f})"
        return [self.case, self.what, self.base, self.value, ratio, self.target, self.verdict]


def judge(holds):
    return "met" if holds else "**missed**"


def at_least(row, wanted, note=""):
    row.target = f"≥ {wanted:g}{note}"
    row.verdict = judge(row.ratio >= wanted)
    return row


def at_most(row, wanted):
    row.target = f"≤ {wanted:g}"
    row.verdict = judge(row.ratio <= wanted)
    return row


def markdown(rows):
    lines = ["| case | what | against | rialto | ratio | target | verdict |", "|---|---|---|---|---|---|---|"]
    lines += ["| " + " | ".join(row.cells()) + " |" for row in rows]
    return "\n".join(lines)


def plain(rows):
    return [asdict(row) for row in rows]
