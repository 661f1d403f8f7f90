"""What is told of a cell, and of all of them."""

import re

import defects

# How an error may speak of a party.
_NAMES = {
    "passive-1": re.compile(r"`passive-1`"),
    "coordinator": re.compile(r"coordinator|\bledger\b"),
    "active": re.compile(r"`active`|our own service|active party"),
}


def speaks_of(words, party):
    """Whether an error says that it is about this party; about any, if it is `None`. A path says so by accident alone."""
    words = re.sub(r'"/[^"]*"', "", words)
    return any(_NAMES[name].search(words) for name in ([party] if party else _NAMES))


def owner_of_path(words):
    """Whose file an error tells the whole path of; `None` if it tells none."""
    found = re.search(r'"/[^"]*/([a-z0-9-]+)/state/', words)
    return found.group(1) if found else None


def general(words):
    """The words without what is another number each time."""
    words = re.sub(r"\bstep \d+", "step N", words)
    words = re.sub(r"\b[0-9a-f]{16,}\b", "…", words)
    words = re.sub(r"verification time \d+", "verification time N", re.sub(r"before \d+ \(\d+", "before N (N", words))
    return re.sub(r'"/[^"]*/(?=[a-z0-9-]+/state/)([^"]*)/\.tmp-\w+"', r'"/…/\1/.tmp-…"', words)


def line(cell):
    """A cell in a line, for whoever watches."""
    took = "more than its deadline" if cell["seconds"] is None else f"{cell['seconds']:.1f} s"
    what = "answer" if cell["answered"] else f"error: {cell['words']}"
    back = "" if cell["recovered"] is None else f"; next call after {cell['recovered']:.1f} s"
    wrong = "".join(f"\n    KNOWN DEFECT: {letter}" for letter in cell["known"])
    wrong += "".join(f"\n    WRONG: {reason}" for reason in cell["wrong"])
    return f"{cell['fault']:22} {cell['call']:8} {took:>7}  {what}{back}{wrong}"


def _numbered(cells):
    """A letter for each error, in the order in which they come."""
    words = list(dict.fromkeys(cell["words"] for cell in cells if not cell["answered"] and cell["words"]))
    return {text: f"E{number}" for number, text in enumerate(words, 1)}


def _aligned(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(text.ljust(width) for text, width in zip(row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def markdown(cells, faults, columns, peaks):
    """The table, the words of the errors, what is wrong, and the peaks of memory."""
    errors = _numbered(cells)
    by_place = {(cell["fault"], cell["call"]): cell for cell in cells}
    rows = [["fault", *columns]]
    for fault in faults:
        if not any((fault.name, call) in by_place for call in columns):
            continue
        row = [fault.words]
        for call in columns:
            cell = by_place.get((fault.name, call))
            row.append("" if cell is None else _cell(cell, errors))
        rows.append(row)
    parts = [_aligned(rows)]
    if errors:
        parts.append(_aligned([["error", "words"], *([letter, f"`` {words} ``"] for words, letter in errors.items())]))
    shown = {letter for cell in cells for letter in cell["known"]}
    if shown:
        lines = [f"- **{letter}**: {what}." for letter, _, _, what in defects.KNOWN if letter in shown]
        parts.append("Known defects:\n\n" + "\n".join(lines))
    wrong = [f"- {cell['fault']}, {cell['call']}: {reason}" for cell in cells for reason in cell["wrong"]]
    if wrong:
        parts.append("Wrong:\n\n" + "\n".join(wrong))
    parts.append(_aligned([["party", "peak memory (MiB)"], *([name, f"{peak:.0f}"] for name, peak in peaks.items())]))
    return "\n\n".join(parts) + "\n"


def _cell(cell, errors):
    if cell["seconds"] is None:
        text = "**no end**"
    else:
        text = f"{'answer' if cell['answered'] else errors.get(cell['words'], 'error')}, {cell['seconds']:.1f} s"
    if cell["recovered"] is not None and cell["recovered"] >= 5:
        text += f"; next after {cell['recovered']:.0f} s"
    text += "".join(f" **{letter}**" for letter in cell["known"])
    return text + (" **(wrong)**" if cell["wrong"] else "")
