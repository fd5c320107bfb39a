"""The documentation site: ``make site``."""

import re
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path

import latex2mathml.converter
from docutils import nodes
from sphinx.application import Sphinx

project = "robust-ot"
version = release = version_of("robust-ot")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "numpydoc"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "robust-ot"
html_show_sphinx = False
html_show_copyright = False
templates_path = ["_templates"]
html_copy_source = False
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"source_edit_link": ""}
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
autodoc_typehints = "none"
# The site can be built without torch, which is large; its part of Ray Train is then mocked, too.
autodoc_mock_imports = [] if find_spec("torch") else ["torch", "ray.train.torch"]
autodoc_member_order = "bysource"
# Pages that are also read outside the site link to files of the repository.
suppress_warnings = ["myst.xref_missing"]

#: Files from elsewhere in the repository, and the pages of the site they become.
PAGES = {
    "benchmarks/RESULTS.md": "benchmarks.md",
    "benchmarks/LEARNING.md": "benchmarks-learning.md",
    "benchmarks/growth.svg": "growth.svg",
}


def mathml(self: object, node: nodes.Element) -> None:
    """Render a formula as MathML, which browsers draw without a script."""
    display = "block" if isinstance(node, nodes.math_block) else "inline"
    # In a display, limits are below and above.
    text = re.sub(r"\\(min|max)_", r"\\\1\\limits_", node.astext()) if display == "block" else node.astext()
    self.body.append(latex2mathml.converter.convert(text, display=display))  # type: ignore[attr-defined]
    raise nodes.SkipNode


def copy_pages(app: Sphinx) -> None:
    """Copy pages from elsewhere in the repository to the others."""
    root = Path(app.srcdir).parent
    for source, page in PAGES.items():
        target, text = Path(app.srcdir) / page, (root / source).read_text()
        if not target.exists() or target.read_text() != text:
            target.write_text(text)


def setup(app: Sphinx) -> None:
    """Register the formula renderer and the page copies with Sphinx."""
    app.add_html_math_renderer("mathml", (mathml, None), (mathml, None))
    app.connect("builder-inited", copy_pages)
