"""The models of a process, each with its engine; finds the engine of a session and the files a name may mean."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from runtime.adapters import AdapterInfo
from runtime.commands import Delivery, deliver_now
from runtime.engine import Engine, EngineOptions
from runtime.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, PermissionDenied
from runtime.model import Model, ModelOptions

MODEL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,63}")


class ModelRegistry:
    """Loads models from `model_directories` and adapters from `adapter_directories`, and from nowhere else."""

    def __init__(
        self,
        model_directories: Sequence[Path] = (),
        adapter_directories: Sequence[Path] = (),
        model_options: ModelOptions | None = None,
        engine_options: EngineOptions | None = None,
        deliver: Callable[[list[Delivery]], None] = deliver_now,
        on_session_end: Callable[[str, str], None] | None = None,
    ) -> None:
        self._model_directories = list(model_directories)
        self._adapter_directories = list(adapter_directories)
        self._model_options = model_options
        self._engine_options = engine_options
        self._deliver = deliver
        self._on_session_end = on_session_end
        self._engines: dict[str, Engine] = {}
        self._loading = threading.Lock()

    @property
    def default_model(self) -> str:
        """The first one loaded: what is meant where no model is named. Empty where there is none."""
        return next(iter(self._engines), "")

    def engines(self) -> list[Engine]:
        """In order of loading."""
        return list(self._engines.values())

    def load(self, name: str, path: str = "") -> Engine:
        """Loads a folder below the model directories (`path`, or else `name`) and starts its engine.

        Raises InvalidArgument, AlreadyExists, NotFound, PermissionDenied, FailedPrecondition (MODEL_INVALID, ...).
        """
        self._check_name(name)
        return self.open(name, find_below(self._model_directories, path or name, "model"))

    def open(self, name: str, folder: Path) -> Engine:
        """Loads a folder from anywhere, for whoever may name any: the server's own configuration. Raises as `load`."""
        with self._loading:
            self._check_name(name)
            return self._start(Model.load(folder, name, self._model_options))

    def add(self, model: Model) -> Engine:
        """Starts the engine of a model that is loaded already. Raises InvalidArgument and AlreadyExists."""
        with self._loading:
            self._check_name(model.name)
            return self._start(model)

    def _start(self, model: Model) -> Engine:
        engine = Engine(model, self._engine_options, self._deliver, self._on_session_end)
        engine.start()
        self._engines[model.name] = engine
        return engine

    def _check_name(self, name: str) -> None:
        if not MODEL_NAME.fullmatch(name):
            raise InvalidArgument("model", name, "1 to 63 of a-z, A-Z, 0-9, '.', '_' and '-'")
        if name in self._engines:
            raise AlreadyExists("model", name)

    def unload(self, name: str) -> None:
        """Raises NotFound, and FailedPrecondition with reason MODEL_IN_USE."""
        with self._loading:
            engine = self.engine(name)
            sessions = engine.stats().sessions
            if sessions:
                raise FailedPrecondition("MODEL_IN_USE", f"model {name!r} has {sessions} sessions", sessions=sessions)
            del self._engines[engine.model.name]
        engine.stop()

    def engine(self, name: str = "") -> Engine:
        """The engine of a model, of the default one where the name is empty. Raises NotFound listing the loaded."""
        found = self._engines.get(name or self.default_model)
        if found is None:
            raise NotFound("model", name or "default", self._engines)
        return found

    def engine_of(self, session_id: str) -> Engine:
        """The engine that has a session. Raises NotFound (SESSION_NOT_FOUND, or SESSION_EXPIRED if it idled out)."""
        for engine in self._engines.values():
            if engine.has_session(session_id):
                return engine
        expired = any(engine.is_expired(session_id) for engine in self._engines.values())
        raise NotFound(
            "session",
            session_id,
            reason="SESSION_EXPIRED" if expired else "SESSION_NOT_FOUND",
            message=f"session {session_id!r} {'was idle too long and is closed' if expired else 'does not exist'}",
        )

    def load_adapter(self, model: str, name: str, path: str) -> AdapterInfo:
        """Loads a file below the adapter directories. Raises what `AdapterSet.load` raises, and PermissionDenied."""
        engine = self.engine(model)
        return engine.load_adapter(name, find_below(self._adapter_directories, path, "adapter"))

    def stop(self, grace: float = 0.0) -> None:
        """Stops all engines, at the same time."""
        threads = [threading.Thread(target=engine.stop, args=(grace,)) for engine in self._engines.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def find_below(directories: Sequence[Path], path: str, kind: str) -> Path:
    """The first existing `directory / path`. Raises NotFound, and PermissionDenied for a path that leaves it."""
    if not path:
        raise InvalidArgument("path", path, "a path below one of the configured directories")
    for directory in directories:
        root = directory.resolve()
        try:
            found = (root / path).resolve()
            exists = found.exists()
        except (OSError, ValueError) as error:
            raise InvalidArgument("path", path, f"a path this system can have ({error})") from error
        if not found.is_relative_to(root):
            raise PermissionDenied(f"path {path!r} leaves the {kind} directories", path=path)
        if exists:
            return found
    known = [entry.name for directory in directories if directory.is_dir() for entry in directory.iterdir()]
    raise NotFound(kind, path, known)
