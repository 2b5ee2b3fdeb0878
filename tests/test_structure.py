"""The tree is the architecture: what may import what."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ORT_MODULES = {"device.py", "model.py", "adapters.py", "slots.py", "concatenating.py"}
"""The only modules that know ONNX Runtime."""


def imports(path: Path) -> set[str]:
    """Top-level packages a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", sources("runtime"), ids=lambda path: str(path.relative_to(ROOT)))
def test_runtime_knows_neither_service_nor_grpc(path: Path) -> None:
    assert not imports(path) & {"service", "tokenloom", "grpc", "asyncio"}


@pytest.mark.parametrize("folder", ["runtime", "service", "clients/python/src"])
def test_onnxruntime_is_imported_in_the_device_and_model_modules_only(folder: str) -> None:
    users = {path.name for path in sources(folder) if "onnxruntime" in imports(path)}
    assert users == (ORT_MODULES if folder == "runtime" else set())


def test_the_client_needs_nothing_of_the_server() -> None:
    for path in sources("clients/python/src"):
        assert not imports(path) & {"runtime", "service"}, path
