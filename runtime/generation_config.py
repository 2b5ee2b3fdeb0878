"""How tokens are chosen: the settings a caller gives, and the resolved form the engine uses.

Names are those of transformers' GenerationConfig. `GenerationConfig` is partial (None means "not said"); merging
request over session over model and filling defaults gives `SamplingParameters`, which is complete and validated.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from runtime.errors import InvalidArgument

MAX_STOP_STRINGS = 16
MAX_STOP_STRING_BYTES = 256
DEFAULT_TOP_K = 50
"""transformers' default where do_sample is on and no top_k is given."""


@dataclass(frozen=True, slots=True)
class GenerationConfig:
    """Settings as given. None (empty for eos_token_id and stop_strings) leaves the choice to the default."""

    max_length: int | None = None
    max_new_tokens: int | None = None
    min_new_tokens: int | None = None
    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    eos_token_id: tuple[int, ...] = ()
    pad_token_id: int | None = None
    stop_strings: tuple[str, ...] = ()

    def merged_over(self, base: GenerationConfig) -> GenerationConfig:
        """These settings where given, else those of `base`."""
        given = {
            field.name: value
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) is not None and value != ()
        }
        return dataclasses.replace(base, **given)

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> GenerationConfig:
        """From names and values, as set_search_options of onnxruntime-genai takes them.

        Raises InvalidArgument for a name that is not known, naming the nearest one.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        arguments = dict(values)
        for name in arguments:
            if name not in known:
                close = get_close_matches(name, known, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known))}"
                raise InvalidArgument(name, arguments[name], f"no such setting; {hint}")
        for name in ("eos_token_id", "stop_strings"):
            value = arguments.get(name)
            if isinstance(value, int | str):
                arguments[name] = (value,)
            elif isinstance(value, list):
                arguments[name] = tuple(value)
        return cls(**arguments)  # type: ignore[arg-type]  # resolve() checks every value


@dataclass(frozen=True, slots=True)
class SamplingParameters:
    """Complete, validated settings of a session."""

    max_length: int
    max_new_tokens: int | None
    min_new_tokens: int
    do_sample: bool
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    seed: int
    eos_token_id: tuple[int, ...]
    pad_token_id: int
    stop_strings: tuple[str, ...]

    def as_config(self) -> GenerationConfig:
        """The settings in force, as a caller would have to give them to get the same."""
        return GenerationConfig(**{field.name: getattr(self, field.name) for field in dataclasses.fields(self)})


def resolve(config: GenerationConfig, *, vocab_size: int, max_length: int) -> SamplingParameters:
    """Checks every setting and fills what is left open.

    `max_length` is the longest sequence the cache holds. Raises InvalidArgument naming the field and its range.
    """
    do_sample = bool(config.do_sample)
    parameters = SamplingParameters(
        max_length=_integer("max_length", config.max_length, max_length, 1, max_length),
        max_new_tokens=None
        if config.max_new_tokens is None
        else _integer("max_new_tokens", config.max_new_tokens, 0, 1, 2**31 - 1),
        min_new_tokens=_integer("min_new_tokens", config.min_new_tokens, 0, 0, 2**31 - 1),
        do_sample=do_sample,
        temperature=_number("temperature", config.temperature, 1.0, 0.0, 100.0, open_low=True),
        top_k=_integer("top_k", config.top_k, DEFAULT_TOP_K if do_sample else 0, 0, 2**31 - 1),
        top_p=_number("top_p", config.top_p, 1.0, 0.0, 1.0, open_low=True),
        min_p=_number("min_p", config.min_p, 0.0, 0.0, 1.0),
        repetition_penalty=_number("repetition_penalty", config.repetition_penalty, 1.0, 0.0, 100.0, open_low=True),
        seed=_integer("seed", config.seed, secrets.randbits(63), 0, 2**64 - 1),
        eos_token_id=tuple(
            _integer(f"eos_token_id[{index}]", token, 0, 0, vocab_size - 1)
            for index, token in enumerate(config.eos_token_id)
        ),
        pad_token_id=_integer("pad_token_id", config.pad_token_id, 0, 0, vocab_size - 1),
        stop_strings=_stop_strings(config.stop_strings),
    )
    if parameters.max_new_tokens is not None and parameters.min_new_tokens > parameters.max_new_tokens:
        raise InvalidArgument(
            "min_new_tokens", parameters.min_new_tokens, f"at most max_new_tokens ({parameters.max_new_tokens})"
        )
    return parameters


def _integer(field: str, value: object, default: int, low: int, high: int) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidArgument(field, value, f"an integer in [{low}, {high}]")
    return value


def _number(field: str, value: object, default: float, low: float, high: float, *, open_low: bool = False) -> float:
    if value is None:
        return default
    allowed = f"a number in {'(' if open_low else '['}{low:g}, {high:g}]"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgument(field, value, allowed)
    # A comparison with NaN is false: it is refused here too.
    if not (low < value if open_low else low <= value) or not value <= high:
        raise InvalidArgument(field, value, allowed)
    return float(value)


def _stop_strings(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(values) > MAX_STOP_STRINGS:
        raise InvalidArgument("stop_strings", len(values), f"at most {MAX_STOP_STRINGS} strings")
    for index, value in enumerate(values):
        field = f"stop_strings[{index}]"
        if not isinstance(value, str) or not value:
            raise InvalidArgument(field, value, "a string that is not empty")
        if len(value.encode("utf-8", "surrogatepass")) > MAX_STOP_STRING_BYTES:
            raise InvalidArgument(field, value, f"at most {MAX_STOP_STRING_BYTES} bytes")
    return values
