"""Every command and code block of the README and of the pages runs, and what they show is what comes out.

| a block of | is |
|---|---|
| ``sh`` | run as one script |
| ``console`` | run command by command; what follows a command is what it prints |
| ``python`` | run, with the names of the blocks before it; ``expression  # literal`` shows a value |
| ``pycon`` | run by doctest, with the same names |
| ``text`` | what the block before it prints |
| ``rust`` | compiled and run with the documentation of a crate |
| ``toml`` | names folders that exist |

Numbers agree to the digits that are shown, times are masked, and ``…`` stands for anything. Lines that install or build are
not run; what they name exists. A block that cannot run everywhere begins with a comment ``# Needs …``, for one of the reasons
in ``NOT_RUN``.
"""

import ast
import contextlib
import doctest
import gzip
import io
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
#: Pages that `make site` copies from elsewhere have no blocks.
PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md") if "benchmarks" not in page.name)]
#: How many blocks are not run, and why.
NOT_RUN = {"an NVIDIA GPU": 2, "a Ray cluster": 4, "the data of the paper": 2}

NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
TIME = re.compile(r"\d+(?:\.\d+)? (?:µs|ms|s|min)\b")


@dataclass
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self):
        return f"{self.page}:{self.line}"

    @property
    def needs(self):
        """What this block needs that this machine may not have."""
        first = re.match(r"# Needs (.+?)\.?\n", self.text)
        return first and first[1]


def blocks_of(page):
    """Return the blocks of a page; those of Sphinx, ```` ```{name} ````, are not code."""
    lines = (ROOT / page).read_text().splitlines()
    found, start = [], None
    for at, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start = at
            continue
        language = lines[start][3:].strip()
        if not language.startswith("{"):
            found.append(Block(page, start + 2, language, "\n".join(lines[start + 1 : at]) + "\n"))
        start = None
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make the working directory of a reader: the data of the repository and small files with the names in the pages."""
    shutil.copytree(ROOT / "crates/rot-cli/assets", tmp_path / "crates/rot-cli/assets")
    (tmp_path / "docs").mkdir()
    demo = sorted((ROOT / "crates/rot-cli/assets/demo").glob("*.csv"))
    copies = {"before": 0, "january": 0, "reference": 0, "monday": 0, "tuesday": 1, "after": 3, "february": 3, "wednesday": 3}
    for name, day in copies.items():
        shutil.copy(demo[day], tmp_path / f"{name}.csv")
    shutil.copytree(demo[0].parent, tmp_path / "days")

    rng = np.random.default_rng(0)
    np.save(tmp_path / "a.npy", rng.normal(size=(20, 5)))
    np.save(tmp_path / "b.npy", rng.normal(size=(30, 5)) + 1)
    for name in ("big", "other"):
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(60, 20)))
    rows = [f"{at},{1 + at % 3},{'' if at == 7 else at % 5},{at % 4}" for at in range(30)]
    wine = "\n".join(["id,count,alcohol,hue", *rows]) + "\n"
    (tmp_path / "wine.csv.gz").write_bytes(gzip.compress(wine.encode()))
    (tmp_path / "other.csv").write_text(wine)

    words = ["beach", "sea", "forest", "tree", "city", "car"]
    vectors = rng.normal(size=(len(words), 300))
    lines = [f"{word} {' '.join(f'{x:.4f}' for x in vector)}" for word, vector in zip(words, vectors, strict=True)]
    (tmp_path / "words.vec").write_text("\n".join(lines) + "\n")
    (tmp_path / "new.vec").write_text("\n".join(line.replace(line.split()[0], f"new{line.split()[0]}") for line in lines[:2]))
    (tmp_path / "documents").mkdir()
    for name in ("one", "two", "documents/one", "documents/two"):
        (tmp_path / f"{name}.tsv").write_text(
            "".join(f"{word}\t{count}\n" for word, count in zip(words[::-1], [3, 1, 1, 2], strict=False))
        )
    (tmp_path / "tags.names").write_text("\n".join(words) + "\n")
    for rows, tags, count in (("x", "tags", 120), ("test_x", "test_tags", 40), ("new", "new_tags", 5)):
        y = np.arange(count) % len(words)
        np.save(
            tmp_path / f"{rows}.npy",
            (np.eye(len(words))[y] @ vectors[:, :8] + 0.3 * rng.normal(size=(count, 8))).astype(np.float32),
        )
        (tmp_path / f"{tags}.txt").write_text("".join(f"{words[tag]}\n" for tag in y))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    yield tmp_path
    # Blocks on Ray start a cluster on this machine, which other tests must not find.
    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        sys.modules["ray"].shutdown()


def check_same(shown, found, where):
    """Compare what a page shows with what comes out."""
    shown, found = (TIME.sub("a moment", text).strip() for text in (shown, found))
    pieces = re.split(rf"({NUMBER}|…|\s+)", shown)
    pattern = "".join(
        r".*?"
        if piece == "…"
        else r"\s+"
        if piece.isspace()
        else f"({NUMBER})"
        if re.fullmatch(NUMBER, piece)
        else re.escape(piece)
        for piece in pieces
    )
    match = re.fullmatch(pattern, found, re.DOTALL)
    assert match, f"{where} shows\n{shown}\nbut prints\n{found}"
    numbers = [piece for piece in pieces if re.fullmatch(NUMBER, piece)]
    for one, other in zip(numbers, match.groups(), strict=True):
        assert agree(one, other), f"{where} shows {one}, but prints {other}:\n{found}"


def agree(shown, found):
    """Whether a number is the one shown, up to a unit of the last decimal; numbers below 1e-6 are rounding errors."""
    x, y = Decimal(shown), Decimal(found)
    unit = Decimal(1).scaleb(x.as_tuple().exponent) if "." in shown else Decimal(0)
    return abs(x - y) <= unit or max(abs(x), abs(y)) < Decimal("1e-6")


def check_named(line):
    """Check what a command that installs or builds names."""
    tool, *words = shlex.split(line, comments=True)
    if tool == "make":
        subprocess.run(["make", "--dry-run", "--silent", *words], cwd=ROOT, check=True, capture_output=True)
    extras = [extra for word in words for group in re.findall(r"(?:^\.|robust-ot)\[(.+)\]", word) for extra in group.split(",")]
    known = (ROOT / "pyproject.toml").read_text()
    assert all(f"\n{extra} = [" in known for extra in extras), line
    options = dict(itertools.pairwise(words))
    assert "--path" not in options or (ROOT / options["--path"] / "Cargo.toml").exists(), line
    if "--example" in options:
        assert (ROOT / "crates" / options["-p"] / "examples" / f"{options['--example']}.rs").exists(), line


def run_shell(block, names):
    """Run a script, or the commands of a console with what they print; a failure must be followed by `echo $?`."""
    if block.language == "sh":
        lines = block.text.splitlines()
        built = re.compile(r"(pip|cargo|make) ")
        for line in filter(built.match, lines):
            check_named(line)
        commands, shown = ["\n".join(line for line in lines if not built.match(line))], [None]
    else:
        parts = re.split(r"^\$ ", block.text.replace("\\\n", ""), flags=re.MULTILINE)
        assert parts[0] == "", f"{block} does not begin with a command"
        commands, shown = zip(*(part.split("\n", 1) for part in parts[1:]), strict=True)
    script = "".join(f'{command}\nstatus=$?; echo; echo "END $status"; (exit $status)\n' for command in commands)
    options = ["-e", "-o", "pipefail"] if block.language == "sh" else []
    done = subprocess.run(
        ["bash", *options, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    printed = re.split(r"\nEND (\d+)\n", done.stdout)
    outputs, codes = printed[0::2], printed[1::2]
    assert len(codes) == len(commands), f"{block} fails:\n{done.stdout}"
    for at, (command, code) in enumerate(zip(commands, codes, strict=True)):
        asked = at + 1 < len(commands) and commands[at + 1] == "echo $?"
        assert code == "0" or asked, f"{block}: {command} ends with {code}:\n{outputs[at]}"
        if shown[at]:
            check_same(shown[at], outputs[at], block)
    return outputs[-1]


def run_python(block, names):
    """Run statements; the comment beside an expression is its value if it is a literal."""
    lines, printed = block.text.splitlines(), io.StringIO()
    with contextlib.redirect_stdout(printed):
        for statement in ast.parse(block.text, str(block)).body:
            code = ast.Module([statement], [])
            if not isinstance(statement, ast.Expr):
                exec(compile(code, str(block), "exec"), names)
                continue
            value = eval(compile(ast.Expression(statement.value), str(block), "eval"), names)
            comment = lines[statement.end_lineno - 1][statement.end_col_offset :].partition("#")[2].strip()
            with contextlib.suppress(ValueError, SyntaxError):
                ast.literal_eval(comment)
                check_same(comment, repr(value.item() if isinstance(value, np.generic) else value), block)
    return printed.getvalue()


class Checker(doctest.OutputChecker):
    """Compares as everything here is compared."""

    def check_output(self, want, got, optionflags):
        try:
            check_same(want, got, "")
        except AssertionError:
            return False
        return True


def run_session(block, names):
    """Run a session of the Python prompt."""
    test = doctest.DocTestParser().get_doctest(block.text, names, str(block), block.page, block.line)
    runner = doctest.DocTestRunner(Checker())
    test.globs = names
    printed = io.StringIO()
    runner.run(test, out=printed.write, clear_globs=False)
    assert runner.summarize(verbose=False).failed == 0, printed.getvalue()
    return ""


def check_rust(block, names):
    """Check that the documentation of a crate includes the page."""
    pages = [
        file.resolve()
        for crate in (ROOT / "crates").glob("*/src/lib.rs")
        for file in (crate.parent / name for name in re.findall(r'include_str!\("(.+\.md)"\)', crate.read_text()))
    ]
    assert (ROOT / block.page).resolve() in pages, f"{block}: no crate compiles the examples of this page"
    return ""


def check_toml(block, names):
    """Check that folders exist."""
    for path in re.findall(r'path = "(.+?)"', block.text):
        assert (ROOT / path / "Cargo.toml").exists(), f"{block}: {path}"
    return ""


KINDS = {
    "sh": run_shell,
    "console": run_shell,
    "python": run_python,
    "pycon": run_session,
    "rust": check_rust,
    "toml": check_toml,
}


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page)])
def test_a_page_shows_what_comes_out(page, folder):
    names, printed = {"__name__": "__main__"}, None
    for block in blocks_of(page):
        if block.language == "text":
            assert printed is not None, f"{block} is the output of nothing"
            check_same(block.text, printed, block)
            continue
        assert block.language in KINDS, f"{block} has the language {block.language!r}: one of {', '.join(KINDS)}, text"
        if block.needs:
            continue
        if "import torch" in block.text and not find_spec("torch"):
            pytest.skip(f"the blocks from line {block.line} of {page} need torch")
        printed = KINDS[block.language](block, names)


def test_blocks_that_are_not_run_are_few():
    marked = [block.needs for page in PAGES for block in blocks_of(page) if block.needs]
    assert {reason: marked.count(reason) for reason in marked} == NOT_RUN


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ("value 0.12", "value 0.14"),
        ("3 rows", "4 rows"),
        ("a\n…\nb", "a\nc"),
        ("a 1.5", "a -1.5"),
        ("a b", "a"),
        ("1e-3", "2e-3"),
    ],
)
def test_differences_are_found(shown, found):
    with pytest.raises(AssertionError):
        check_same(shown, found, "")


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ("value 0.12", "value   0.1234"),
        ("gap 3.9e-9, 0.2 s", "gap 4.2e-10, 1.7 s"),
        ("a\n…\nb", "a\nmuch\nmore\nb"),
        ("day/1-monday.csv: 2", "day/1-monday.csv: 2"),
    ],
)
def test_digits_that_are_shown_decide(shown, found):
    check_same(shown, found, "")
