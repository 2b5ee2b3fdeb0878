"""`tokenloom chat`: a conversation in the terminal. What is typed and said is here; what it does is in
`service.cli.conversation`."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli import common

if TYPE_CHECKING:
    from service.cli.conversation import Branches, Conversation

COMMANDS = """\
/rewind [N]   forget the last N questions and their answers (1)
/fork         go on in a copy; the original stays as it is
/switch [N]   list the copies, or go to one
/reset        forget everything but the system message
/help         this
/quit         end (also Ctrl-D)
Ctrl-C while an answer comes stops the answer; what was said so far stays."""


def chat(
    target: common.Target = common.DEFAULT_TARGET,
    model: common.ModelName = "",
    adapter: common.Adapter = "",
    system: Annotated[str, typer.Option(help="System message the conversation starts with.")] = "",
    max_new_tokens: common.MaxNewTokens = None,
    temperature: common.Temperature = None,
    top_p: common.TopP = None,
    top_k: common.TopK = None,
    seed: common.Seed = None,
    stop: common.Stop = None,
) -> None:
    """Chat with a model.

    The conversation is a session in the server: only what is new is computed. Commands, while chatting: /rewind, /fork,
    /switch, /reset, /help, /quit. Ctrl-C stops an answer and keeps the conversation.

    Examples:

      tokenloom chat

      tokenloom chat --system "You answer in French." --temperature 0.7

      printf 'What is 2+2?\\nAnd twice that?\\n' | tokenloom chat
    """
    from service.cli.conversation import Branches, Conversation
    from tokenloom import TokenloomError

    config = common.generation_config(max_new_tokens, temperature, top_p, top_k, seed, stop)
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        import readline  # noqa: F401  Gives input() line editing and a history.
    with common.connect(target) as client:
        session = client.create_session(model=model, adapter=adapter, **config)
        with Branches(Conversation(client, session, system)) as branches:
            if is_terminal:
                common.errors.print(f"[dim]{session.model} at {target}; /help for commands[/]")
            while (line := _read(is_terminal)) is not None:
                try:
                    if line.startswith("/"):
                        if not _command(line, branches):
                            break
                    elif line:
                        _answer(branches.current, line, is_terminal)
                except TokenloomError as error:
                    if not is_terminal:
                        raise
                    common.errors.print(f"[red]error:[/] {common.one_line(error)}", soft_wrap=True)


def _read(is_terminal: bool) -> str | None:
    """The next line; None at the end of input."""
    while True:
        try:
            return input("> " if is_terminal else "").strip()
        except EOFError:
            return None
        except KeyboardInterrupt:
            common.errors.print("\n[dim]/quit or Ctrl-D to end[/]")


def _answer(conversation: Conversation, question: str, is_terminal: bool) -> None:
    started, pieces = time.monotonic(), 0
    try:
        with closing(conversation.ask(question)) as answer:
            for piece in answer:
                print(piece, end="", flush=True)
                pieces += 1
    except KeyboardInterrupt:
        common.errors.print(" [dim](stopped)[/]", end="")
    print(flush=True)
    if is_terminal:
        tokens = conversation.answered_tokens
        rate = tokens / (time.monotonic() - started)
        common.errors.print(f"[dim]{tokens} tokens, {rate:.0f}/s[/]")


def _command(line: str, branches: Branches) -> bool:
    """Do what a command says. Returns whether the chat goes on."""
    name, *arguments = line.split()
    number = int(arguments[0]) if arguments and arguments[0].isdecimal() else None
    said = common.errors.print
    match name:
        case "/quit":
            return False
        case "/help":
            said(COMMANDS, markup=False)
        case "/rewind":
            forgotten = branches.current.rewind(number or 1)
            said(f"[dim]forgot {forgotten}; {branches.current.turns} left[/]")
        case "/reset":
            branches.current.rewind(branches.current.turns)
            said("[dim]forgot everything[/]")
        case "/fork":
            said(f"[dim]now in copy {branches.fork()}; /switch goes back[/]")
        case "/switch" if number is not None:
            branches.switch(number)
            said(f"[dim]now in {number}, after {branches.current.turns} questions[/]")
        case "/switch":
            for index, each in enumerate(branches.all):
                here = " (here)" if each is branches.current else ""
                said(f"[dim]{index}: {each.turns} questions, {each.last_question!r}{here}[/]", soft_wrap=True)
        case _:
            said(f"[dim]there is no {name}; /help lists the commands[/]")
    return True
