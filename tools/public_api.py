#!/usr/bin/env python3
"""List the public interface of the crates, from the pages that `make docs-rust` builds.

`tools/public_api.py` writes crates/*/API.txt; with --check it compares them instead, and exits with 1 if they differ.
"""

import difflib
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES = ("robust-ot", "robust-ot-learn", "robust-ot-cuda")
#: Pages of items, by the beginning of their names.
KINDS = ("struct.", "enum.", "trait.", "fn.", "type.", "constant.", "macro.")
#: Anchors of the parts of an item that its declaration does not show.
PARTS = ("method.", "tymethod.", "associatedconstant.", "associatedtype.")
#: Words of the page that are not code.
BUTTONS = re.compile(r"^(Source|§)|Show \d+ (variants|fields|methods)")
VOID = {"br", "hr", "img", "input", "link", "meta", "wbr"}


class Page(HTMLParser):
    """The declaration of an item, and its own parts."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.open: list[tuple[str, bool]] = []
        self.text: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in VOID:
            return
        attributes = {name: value or "" for name, value in attrs}
        classes, anchor = attributes.get("class", "").split(), attributes.get("id", "")
        part = tag == "section" and anchor.startswith(PARTS) and "trait-impl" not in classes
        part |= anchor.startswith("reexport.")
        declared = tag == "pre" and "item-decl" in classes
        starts = self.text is None and (part or declared)
        if starts:
            self.text = []
        self.open.append((tag, starts))

    def handle_endtag(self, tag: str) -> None:
        while self.open:
            name, started = self.open.pop()
            if started and self.text is not None:
                self.lines.append(" ".join("".join(self.text).split()))
                self.text = None
            if name == tag:
                return

    def handle_data(self, data: str) -> None:
        if self.text is not None:
            self.text.append(data)


def listing(crate: str) -> str:
    """Return one line per item and per part of an item."""
    folder = ROOT / "target/doc" / crate.replace("-", "_")
    if not folder.is_dir():
        sys.exit(f"{folder}: the pages must exist, but do not; run `make docs-rust` first")
    found = set()
    for page in folder.rglob("*.html"):
        if not page.name.startswith((*KINDS, "index.html")) or "src" in page.relative_to(folder).parts:
            continue
        modules = page.relative_to(folder).parent.parts
        name = () if page.name == "index.html" else (page.name.split(".")[1],)
        path = "::".join((crate.replace("-", "_"), *modules, *name))
        parser = Page()
        parser.feed(page.read_text())
        found.update(f"{path}: {BUTTONS.sub('', line).strip()}" for line in parser.lines if line)
    return "".join(f"{line}\n" for line in sorted(found))


def main() -> int:
    check, different = "--check" in sys.argv[1:], False
    for crate in CRATES:
        path, now = ROOT / "crates" / crate / "API.txt", listing(crate)
        if not check:
            path.write_text(now)
            continue
        before = path.read_text() if path.exists() else ""
        names = (f"crates/{crate}/API.txt", "the documentation")
        lines = difflib.unified_diff(before.splitlines(), now.splitlines(), *names, lineterm="", n=0)
        shown = list(lines)
        different |= bool(shown)
        print("\n".join(shown), end="\n" if shown else "")
    if different:
        print("The public interface has changed: `make api` records it.", file=sys.stderr)
    return int(different)


if __name__ == "__main__":
    sys.exit(main())
