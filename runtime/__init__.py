"""Stateful token generation on ONNX Runtime. Usable in-process; knows nothing of gRPC."""

from runtime.engine import Engine, EngineOptions
from runtime.generation_config import GenerationConfig
from runtime.generator import Generator
from runtime.model import Model, ModelOptions
from runtime.registry import ModelRegistry
from runtime.statistics import EngineStats
from runtime.tokenizer import Tokenizer

__all__ = [
    "Engine",
    "EngineOptions",
    "EngineStats",
    "GenerationConfig",
    "Generator",
    "Model",
    "ModelOptions",
    "ModelRegistry",
    "Tokenizer",
]
