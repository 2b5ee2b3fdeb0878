"""`tokenloom serve`: the settings of a server as flags. The flags are made from ServerConfig."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from service.cli.common import errors
from service.cli.models import fetch
from service.config import ServerConfig

if TYPE_CHECKING:
    from runtime.model import Model

FLAGS = {
    "config_file": "--config",
    "models": "--load",
    "adapters": "--load-adapter",
    "model_directories": "--model-directory",
    "adapter_directories": "--adapter-directory",
}
"""Flags whose name is not that of their setting: those that are given once per entry."""

HELP = {
    "models": "Model to load at start, as NAME=FOLDER below a model directory. May be given again.",
    "adapters": "Adapter to load at start, as MODEL/NAME=FILE below an adapter directory. May be given again.",
}


def serve(served: list[str] | None, **settings: Any) -> None:
    """Serve models over gRPC.

    MODEL is a model of the store (`tokenloom models list`), which is got first where it is missing, or a folder. With
    none, and none in the configuration, the store's default model is served.

    Examples:

      tokenloom serve

      tokenloom serve ./my-model --port 8001 --slots 32

      tokenloom serve --model-directory /models --load chat=llama-3 --load draft=llama-tiny

      tokenloom serve --config tokenloom.toml --log-level debug

    Every setting can also be given as an environment variable (--max-sessions is TOKENLOOM_MAX_SESSIONS) or in the TOML
    file; flags win over the environment, and that over the file.

    SIGTERM or Ctrl-C drains: health says NOT_SERVING, running operations may finish, then the server ends. A second one
    ends it at once.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    for name, read in {"models": _name_to_folder, "adapters": _model_to_adapters}.items():
        if name in given:
            given[name] = read(given[name])
    config, loaded = prepare(served or [], given)
    from service import server

    try:
        asyncio.run(server.serve(config, loaded))
    except OSError as error:
        errors.print(f"[red]error:[/] {error}", markup=True)
        raise typer.Exit(1) from None


def prepare(models: list[str], settings: dict[str, Any]) -> tuple[ServerConfig, list[Model]]:
    """The configuration, and the models of it that lie in folders of their own, loaded.

    Checking and loading them takes as long as importing the server does, and a processor of its own: so that is done
    meanwhile.
    """
    import runtime.model_store  # noqa: F401  # Before the threads, which would wait for each other's imports.

    with ThreadPoolExecutor(1) as pool:
        preparing = pool.submit(_prepare, models, settings)
        import service.server  # noqa: F401
    return preparing.result()


def _prepare(models: list[str], settings: dict[str, Any]) -> tuple[ServerConfig, list[Model]]:
    from runtime.model import Model
    from service.options import model_options

    config = _configure(models, settings)
    options = model_options(config)
    folders = {name: Path(path) for name, path in config.models.items() if Path(path).is_absolute()}
    return config, [Model.load(folder, name, options) for name, folder in folders.items()]


def _configure(models: list[str], given: dict[str, Any]) -> ServerConfig:
    """The configuration, with the models that were named as arguments added to it."""
    try:
        config = ServerConfig(**given)
        if not models and not config.models:
            models = [""]
        folders = [Path(model) if model and Path(model).is_dir() else fetch(model) for model in models]
        if not folders:
            return config
        given["models"] = {folder.resolve().name: str(folder.resolve()) for folder in folders} | config.models
        return ServerConfig(**given)
    except ValidationError as error:
        details = [(".".join(map(str, each["loc"])) or "settings", each["msg"]) for each in error.errors()]
        raise typer.BadParameter("; ".join(f"{name}: {message}" for name, message in details)) from None
    except FileNotFoundError as error:
        raise typer.BadParameter(str(error)) from None


def _name_to_folder(entries: list[str]) -> dict[str, str]:
    return dict(_split(entry, "NAME=FOLDER") for entry in entries)


def _model_to_adapters(entries: list[str]) -> dict[str, dict[str, str]]:
    adapters: dict[str, dict[str, str]] = {}
    for entry in entries:
        name, file = _split(entry, "MODEL/NAME=FILE")
        model, slash, adapter = name.partition("/")
        if not slash:
            raise typer.BadParameter(f"{entry!r} is not MODEL/NAME=FILE")
        adapters.setdefault(model, {})[adapter] = file
    return adapters


def _split(entry: str, form: str) -> tuple[str, str]:
    name, equals, value = entry.partition("=")
    if not equals:
        raise typer.BadParameter(f"{entry!r} is not {form}")
    return name, value


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an argument for models and a flag for each setting."""
    served = Annotated[list[str] | None, typer.Argument(metavar="MODEL", help="Models to serve.")]
    parameters = [inspect.Parameter("served", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=served)]
    parameters += [_parameter(name, field) for name, field in ServerConfig.model_fields.items()]
    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    """The flag of one setting. Flags that are not given leave the setting to the environment, the file and defaults."""
    flag = FLAGS.get(name, "--" + name.replace("_", "-"))
    kind = _kind(field.annotation)
    if kind is bool:
        flag += "/--no-" + name.replace("_", "-")
    default = field.get_default(call_default_factory=True, validated_data={})
    text = HELP.get(name, field.description or "")
    if default not in (None, "", (), {}):
        text += f" Default: {default}."
    option = typer.Option(flag, help=text)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def _kind(annotation: Any) -> Any:
    """The type of a setting's flag."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is None or origin is Literal:
        return annotation
    if origin is dict:
        return list[str]
    if origin is tuple:
        return list[inner[0]]  # type: ignore[valid-type]
    return _kind(inner[0])  # Annotated, or a setting that may be unset.
