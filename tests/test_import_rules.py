"""Imports that no contract in pyproject.toml can judge, and what simulation leaves unloaded."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("harness", "systems", "workloads", "reports")

TRAINING = ("torch", "torchvision", "transformers")
SIMULATION = (
    "harness",
    "reports",
    "systems/schedulers",
    "systems/placements",
    "systems/backends",
    "systems/launchers",
)
"""Folders whose modules must load without a training library."""


def modules(folder):
    """The modules below a folder, without those that are copied into folders of users."""
    template = ROOT / "harness" / "program" / "template"
    found = sorted((ROOT / folder).rglob("*.py"))
    return [path for path in found if not path.is_relative_to(template)]


def dotted(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree, path):
    """Absolute names a tree imports, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = path.relative_to(ROOT).parent.parts
                base = ".".join((*package[: len(package) - node.level + 1], base)).strip(".")
            yield base, node.lineno
            yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)


def loaded_at_import(tree):
    """The statements that run when a module is imported, outside ``if TYPE_CHECKING``."""
    body = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        body.append(node)
    return ast.Module(body=body, type_ignores=[])


def within(name, packages):
    return any(name == package or name.startswith(package + ".") for package in packages)


def violations(folder, packages, narrow=lambda tree: tree, skip=()):
    return [
        f"{path.relative_to(ROOT)}:{line}: imports {name}"
        for path in modules(folder)
        if path.relative_to(ROOT).as_posix() not in skip
        for name, line in imported(narrow(ast.parse(path.read_text())), path)
        if within(name, packages)
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_imports_a_test(room):
    assert modules(room)
    assert not violations(room, ("tests",))


@pytest.mark.parametrize("folder", SIMULATION)
def test_simulation_imports_no_training_library(folder):
    assert not violations(folder, TRAINING, loaded_at_import)


def test_the_plain_script_stands_alone():
    """What the runtime is compared with shares no line with it."""
    folder = ROOT / "systems" / "peers" / "plain_ddp"
    own = ".".join(folder.relative_to(ROOT).parts)
    names = {
        name
        for path in folder.glob("*.py")
        for name, _ in imported(ast.parse(path.read_text()), path)
    }
    assert "torch" in names
    assert f"{own}.training" in names
    assert not [n for n in names if within(n, (*ROOMS, "tests")) and not within(n, (own,))]
    for package in (folder, folder.parent, folder.parent.parent):  # loaded on the way to it
        assert not list(imported(ast.parse((package / "__init__.py").read_text()), package))


def test_only_tracking_imports_mlflow():
    found = [
        line
        for room in ROOMS
        for line in violations(room, ("mlflow",), skip=("harness/tracking/mirror.py",))
    ]
    assert not found


def test_harness_names_no_part_in_its_code():
    """Parts are named by the ``_target_`` strings of configurations alone."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for path in modules("harness")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith(("systems.", "workloads.", "reports."))
        and " " not in node.value
    ]
    assert not found


def test_the_rules_catch_an_offender():
    """The reading of imports sees every spelling."""
    source = (
        "import torch.nn\nfrom systems.backends import static\n"
        "def late():\n    import mlflow\n    from ..runtime import worker\n"
        "if TYPE_CHECKING:\n    import transformers\n"
    )
    path, tree = ROOT / "harness" / "engines" / "x.py", ast.parse(source)
    names = {name for name, _ in imported(tree, path)}
    assert {"torch.nn", "systems.backends", "mlflow", "harness.runtime", "transformers"} <= names
    at_import = {name for name, _ in imported(loaded_at_import(tree), path)}
    assert "torch.nn" in at_import
    assert not {"mlflow", "transformers"} & at_import


def test_simulation_leaves_training_libraries_and_mlflow_unloaded():
    names = [
        name
        for folder in ("systems/schedulers", "systems/placements", "systems/backends")
        for name in map(dotted, modules(folder))
    ]
    names += map(dotted, modules("systems/launchers"))
    names += [
        "harness.replay",
        "harness.run.plan",
        "harness.engines.simulated.options",
        "harness.profiles",
    ]
    program = (
        "import importlib, sys\n"
        f"for name in {names!r}:\n"
        "    importlib.import_module(name)\n"
        f"heavy = [name for name in {(*TRAINING, 'mlflow')!r} if name in sys.modules]\n"
        "sys.exit(', '.join(heavy) or 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
