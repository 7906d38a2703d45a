"""The repository keeps its own rules: layers, pins, pages whose code runs."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "pulab"

# A module imports only from rows above its own; those that need no torch never load it at the top of a file.
LAYERS = [
    ["errors", "summary"],
    ["_files", "_validation", "_parameters", "_scaling", "_torch", "_threads"],
    ["cluster"],
    ["losses", "nets", "metrics", "datasets"],
    ["model_selection"],
    ["priors"],
    ["calibration"],
    ["_packing"],
    ["training"],
    ["augment"],
    ["estimators", "text"],
    ["methods"],
    ["persistence"],
    ["bench"],
    ["report"],
    ["review"],
    ["tables"],
    ["cli"],
]
WITHOUT_TORCH = (
    "errors",
    "summary",
    "_files",
    "_threads",
    "_parameters",
    "_validation",
    "_scaling",
    "cluster",
    "metrics",
    "model_selection",
    "priors",
    "calibration",
    "_packing",
    "datasets",
    "methods",
    "persistence",
    "report",
    "review",
    "tables",
    "cli",
)


def imports(path: Path, everywhere: bool) -> set[str]:
    """Modules that a file imports: anywhere in it, or only when it is imported itself."""
    modules = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree) if everywhere else tree.body:
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return modules


def layer_of(dotted: str) -> str:
    return dotted.split(".")[1] if dotted.startswith("pulab.") else ""


def test_layers() -> None:
    level = {name: i for i, row in enumerate(LAYERS) for name in row}
    files = [path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or not path.stem.startswith("__")]
    assert {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in files} == set(level)
    for path in files:
        own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for imported in imports(path, everywhere=True):
            above = layer_of(imported)
            if above in level:
                assert level[above] <= level[own], f"{path.name} ({own}) imports {imported}"
                assert above == own or level[above] < level[own], (
                    f"{path.name} ({own}) imports its neighbour {imported}"
                )
        if own in WITHOUT_TORCH:
            loaded = {imported.split(".")[0] for imported in imports(path, everywhere=False)}
            assert "torch" not in loaded, f"{path.name} imports torch"


def test_files_are_short() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCE.rglob("*.py")}
    assert max(lengths.values()) <= 600
    assert sorted(lengths.values())[len(lengths) // 2] <= 200


def test_every_direct_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = list(project["project"]["dependencies"]) + list(project["build-system"]["requires"])
    for group in (*project["project"]["optional-dependencies"].values(), *project["dependency-groups"].values()):
        wanted += group
    names = {re.split(r"[<>=!~ ]", requirement)[0] for requirement in wanted}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line.split("==")[0] for line in lines if "==" in line}
    assert names <= pinned
    assert pinned - names == {"pip"}


def test_import_is_light_and_the_names_are_there() -> None:
    code = "import sys, pulab; assert not {'torch', 'sklearn', 'numpy'} & set(sys.modules); print(*pulab.__all__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    import pulab

    for name in done.stdout.split():
        assert getattr(pulab, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pulab.nothing  # noqa: B018


def python_blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


PAGES = [path for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")) if python_blocks(path.read_text("utf-8"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_the_python_of_a_page_runs_as_printed(page: Path, tmp_path: Path) -> None:
    for block in python_blocks(page.read_text("utf-8")):
        subprocess.run([sys.executable, "-c", block], cwd=tmp_path, check=True, capture_output=True)
