"""`tokenloom generate`: one prompt, one answer."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from service.cli import common


def generate(
    prompt: Annotated[str, typer.Argument(help='Text to go on from, or a question with --chat. "-" reads stdin.')],
    chat: Annotated[bool, typer.Option("--chat", help="Ask through the model's chat template.")] = False,
    system: Annotated[str, typer.Option(help="System message for --chat.")] = "",
    target: common.Target = common.DEFAULT_TARGET,
    model: common.ModelName = "",
    adapter: common.Adapter = "",
    max_new_tokens: common.MaxNewTokens = 256,
    temperature: common.Temperature = None,
    top_p: common.TopP = None,
    top_k: common.TopK = None,
    seed: common.Seed = None,
    stop: common.Stop = None,
) -> None:
    """Generate text for one prompt, printed as it comes.

    Examples:

      tokenloom generate "The first four digits of pi are"

      tokenloom generate --chat "What is the capital of France?"

      tokenloom generate --temperature 0.8 --seed 1 --stop "." "Once upon a time"

      cat question.txt | tokenloom generate --chat - > answer.txt
    """
    if system and not chat:
        raise typer.BadParameter("needs --chat", param_hint="--system")
    text = sys.stdin.read() if prompt == "-" else prompt
    config = common.generation_config(max_new_tokens, temperature, top_p, top_k, seed, stop)
    with common.connect(target) as client:
        if chat:
            messages = [{"role": "system", "content": system}] if system else []
            pieces = client.chat([*messages, {"role": "user", "content": text}], model=model, adapter=adapter, **config)
        else:
            tokens = client.generate(text, model=model, adapter=adapter, **config)
            pieces = (token.text for token in tokens)
        for piece in pieces:
            print(piece, end="", flush=True)
        print()
