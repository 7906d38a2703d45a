"""The site: make docs."""

import base64
import json
from pathlib import Path
from typing import Any

from docutils.nodes import Text, document, entry
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

from pulab import __version__

project = "pulab"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
exclude_patterns = ["_templates"]
templates_path = ["_templates"]
highlight_language = "none"
myst_heading_anchors = 3

autodoc_typehints = "none"  # the docstrings say it, in words
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
autosummary_ignore_module_all = False
napoleon_google_docstring = False
napoleon_use_rtype = False
# As a list of names: as objects of their own, or as "variables", they would lose the underscore they end with.
napoleon_custom_sections = [("Attributes", "params_style")]
nitpicky = True
nitpick_ignore_regex = [("py:class", ".*")]  # types are words here: "array of shape (n,)"

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"pulab {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False


def skip(app: Sphinx, what: str, name: str, member: Any, skipped: bool, options: Any) -> bool | None:
    """Leave out what a class has from scikit-learn, torch or tuple."""
    function = getattr(member, "fget", member)
    ours = str(getattr(function, "__module__", None)).startswith("pulab")
    return None if ours or what == "module" else True


def unlink_folders(app: Sphinx, page: document) -> None:
    """A link to a folder of the repository becomes its text: the site has no page for it."""
    for link in list(page.findall(pending_xref)):
        leads_to_no_page = link["reftype"] == "myst" and link["refdomain"] is None
        if leads_to_no_page and (Path(page["source"]).parent / link["reftarget"]).is_dir():
            link.replace_self(link.children)


def keep_figures_whole(app: Sphinx, page: document) -> None:
    """A mean and its deviation stay on one line, however narrow the table."""
    for cell in page.findall(entry):
        for text in list(cell.findall(Text)):
            text.parent.replace(text, Text(text.replace(" ± ", "\u00a0±\u00a0")))


def write_notebooks(app: Sphinx) -> None:
    """A page for each notebook, made anew each time: its words, its code and what it showed when it was last run."""
    folder = Path(app.srcdir) / "notebooks"
    folder.mkdir(exist_ok=True)
    for path in sorted((Path(app.srcdir).parent / "examples" / "notebooks").glob("*.ipynb")):
        parts = []
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
            for output in cell.get("outputs", []):
                data = output.get("data", {"text/plain": output.get("text")})
                if "image/png" in data:
                    picture = folder / f"{path.stem}-{len(parts)}.png"
                    picture.write_bytes(base64.b64decode(data["image/png"]))
                    parts.append(f"![What the cell above shows]({picture.name})")
                else:
                    parts.append("```\n" + "".join(data["text/plain"]).rstrip("\n") + "\n```")
        text = "\n\n".join(parts).replace("](../../docs/", "](../")
        (folder / f"{path.stem}.md").write_text(text + "\n", encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("builder-inited", write_notebooks)
    app.connect("autodoc-skip-member", skip)
    app.connect("doctree-read", unlink_folders)
    app.connect("doctree-read", keep_figures_whole)
