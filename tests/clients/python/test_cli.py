"""The command line as people and scripts use it: real processes, a real terminal."""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import subprocess
import sys
from typing import Any

import pytest

import tokenloom
from service.cli import main
from tokenloom import errors

COMMANDS = [
    [],
    ["serve"],
    ["chat"],
    ["generate"],
    ["health"],
    ["demo"],
    ["models", "list"],
    ["models", "get"],
    ["models", "build"],
    ["sessions", "list"],
    ["sessions", "close"],
]
ENDLESS = ["--temperature", "100", "--seed", "5"]
"""Settings with which the tiny model says hundreds of tokens."""


@pytest.fixture
def cli(server: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command line in this process, which saves the time of its start."""

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        monkeypatch.setenv("TOKENLOOM_TARGET", server.target)
        monkeypatch.setattr(sys, "argv", ["tokenloom", *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, ended.value.code or 0, said.out, said.err)

    return run


@pytest.fixture
def process(run_program: Any) -> Any:
    """Runs the command line as a program of its own."""
    return lambda *arguments, **named: run_program("-m", "service.cli", *arguments, **named)


@pytest.fixture
def client(server: Any) -> Any:
    with tokenloom.Client(server.target) as connected:
        yield connected


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_teaches_with_examples(cli: Any, command: list[str]) -> None:
    finished = cli(*command, "--help")
    assert finished.returncode == 0
    assert finished.stdout.count("tokenloom " + " ".join(command)) >= 2


# --- generate --------------------------------------------------------------------------------------------------------


def test_generate_prints_what_the_client_gets(process: Any, client: tokenloom.Client) -> None:
    finished = process("generate", "def main(", "--max-new-tokens", "8")
    assert finished.returncode == 0, finished.stderr
    (expected,) = client.generate("def main(", max_new_tokens=8).results()
    assert finished.stdout == expected.text + "\n"


def test_generate_reads_a_prompt_from_stdin(cli: Any) -> None:
    by_argument = cli("generate", "--chat", "--max-new-tokens", "8", "hi")
    by_stdin = cli("generate", "--chat", "--max-new-tokens", "8", "-", stdin="hi")
    assert by_stdin.stdout == by_argument.stdout != "\n"


def test_an_error_of_the_server_is_one_line_and_exit_code_1(process: Any) -> None:
    finished = process("generate", "hi", "--top-p", "3")
    assert finished.returncode == 1
    assert finished.stdout == ""
    (line,) = finished.stderr.splitlines()
    assert line.startswith("error: generation_config.top_p:")


@pytest.mark.parametrize("command", [["generate", "hi"], ["chat"], ["sessions", "list"], ["health"]], ids=" ".join)
def test_no_server_is_told_in_a_friendly_way(cli: Any, command: list[str]) -> None:
    finished = cli(*command, "--target", "127.0.0.1:1")
    assert finished.returncode == 1
    assert finished.stderr.splitlines() == [
        "error: no server answers; start one with `tokenloom serve`, or name another with --target"
    ]


# --- chat ------------------------------------------------------------------------------------------------------------


def test_a_chat_over_a_pipe_prints_one_answer_per_line_of_input(process: Any, client: tokenloom.Client) -> None:
    finished = process("chat", "--max-new-tokens", "4", stdin="hi\nhi\n/reset\nhi\n")
    assert finished.returncode == 0, finished.stderr
    first = "".join(client.chat([{"role": "user", "content": "hi"}], max_new_tokens=4))
    assert finished.stdout.startswith(first + "\n")
    assert finished.stdout.endswith("\n" + first + "\n")


def test_a_chat_knows_what_was_said_before(cli: Any, client: tokenloom.Client) -> None:
    first = "".join(client.chat([{"role": "user", "content": "hi"}], max_new_tokens=4))
    messages = [("user", "hi"), ("assistant", first), ("user", "and?")]
    second = "".join(client.chat([{"role": role, "content": text} for role, text in messages], max_new_tokens=4))
    assert cli("chat", "--max-new-tokens", "4", stdin="hi\nand?\n").stdout == f"{first}\n{second}\n"


def test_rewinding_forgets_the_last_question(cli: Any) -> None:
    plain = cli("chat", "--max-new-tokens", "4", stdin="hi\nand?\n").stdout
    rewound = cli("chat", "--max-new-tokens", "4", stdin="hi\nsomething else\n/rewind\nand?\n").stdout
    first, second = plain.splitlines()[0], plain.splitlines()[-1]
    assert rewound.splitlines()[0] == first and rewound.splitlines()[-1] == second


def test_a_fork_leaves_the_original_as_it_was(cli: Any) -> None:
    plain = cli("chat", "--max-new-tokens", "4", stdin="hi\nand?\n").stdout
    forked = cli("chat", "--max-new-tokens", "4", stdin="hi\n/fork\nsomething else\n/switch 0\nand?\n")
    assert forked.returncode == 0, forked.stderr
    assert forked.stdout.splitlines()[-1] == plain.splitlines()[-1]


def test_commands_are_explained_and_unknown_ones_named(cli: Any) -> None:
    finished = cli("chat", stdin="/help\n/nonsense\n/quit\nnever asked\n")
    assert finished.returncode == 0
    assert all(command in finished.stderr for command in ("/rewind", "/fork", "/switch", "/reset", "/quit"))
    assert "there is no /nonsense" in finished.stderr
    assert finished.stdout == ""


def test_a_chat_closes_its_sessions(cli: Any, client: tokenloom.Client) -> None:
    before = {state.session_id for state in client.list_sessions()}
    cli("chat", "--max-new-tokens", "2", stdin="hi\n/fork\nhi\n")
    assert {state.session_id for state in client.list_sessions()} == before


def test_ctrl_c_stops_the_answer_and_not_the_session(server: Any) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "service.cli", "chat", "--target", server.target, *ENDLESS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout
    process.stdin.write("hi\n")
    process.stdin.flush()
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate("/rewind\n/quit\n", timeout=30)
    assert process.returncode == 0, stderr
    assert "(stopped)" in stderr
    assert "forgot 1; 0 left" in stderr
    assert stdout.endswith("\n")


class Terminal:
    """A chat in a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self._controller, terminal = pty.openpty()
        command = [sys.executable, "-m", "service.cli", "chat", *arguments]
        self.process = subprocess.Popen(
            command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True, preexec_fn=_take_terminal
        )
        os.close(terminal)
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._controller, text.encode())

    def type_until(self, key: str, text: str) -> None:
        """Press a key until something is shown: a key that comes while the prompt is being drawn goes unnoticed."""
        while text not in self.shown:
            self.type(key)
            self.wait_for_more(1.0)

    def wait_for(self, text: str) -> None:
        while text not in self.shown:
            assert self.wait_for_more(30.0), f"{text!r} did not come; shown so far: {self.shown!r}"

    def wait_for_prompt(self) -> None:
        while not self.shown.endswith("> "):
            assert self.wait_for_more(30.0), f"no prompt; shown so far: {self.shown!r}"

    def wait_for_more(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._controller], [], [], seconds)
        if ready:
            self.shown += os.read(self._controller, 4096).decode(errors="replace")
        return bool(ready)

    def close(self) -> None:
        os.close(self._controller)


def _take_terminal() -> None:
    """Make the terminal on stdin the one of this process, so that Ctrl-C typed into it is a signal."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_terminal_has_prompts_and_ctrl_c_works_by_the_key(server: Any) -> None:
    terminal = Terminal("--target", server.target, *ENDLESS)
    try:
        terminal.wait_for("> ")
        terminal.type_until("\x03", "/quit or Ctrl-D to end")
        terminal.wait_for_prompt()
        terminal.type("hi\n")
        terminal.wait_for("hi\r\n")
        while terminal.shown.endswith("hi\r\n"):
            terminal.wait_for_more(30.0)
        terminal.type("\x03")
        terminal.wait_for("(stopped)")
        terminal.wait_for("tokens, ")
        terminal.wait_for_prompt()
        terminal.type("/rewind\n")
        terminal.wait_for("forgot 1; 0 left")
        terminal.wait_for_prompt()
        terminal.type("/quit\n")
        assert terminal.process.wait(30) == 0
    finally:
        terminal.close()


# --- sessions, health, models ----------------------------------------------------------------------------------------


def test_sessions_are_listed_and_closed(cli: Any, client: tokenloom.Client) -> None:
    session = client.create_session("def main(", model="gpt2", session_id="listed")
    listed = cli("sessions", "list", "--model", "gpt2")
    assert listed.returncode == 0, listed.stderr
    assert "listed" in listed.stdout and "gpt2" in listed.stdout
    closed = cli("sessions", "close", "listed")
    assert closed.stdout == "closed listed\n"
    with pytest.raises(errors.NotFound):
        session.refresh()
    again = cli("sessions", "close", "listed")
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)


def test_all_sessions_of_a_model_are_closed_at_once(cli: Any, client: tokenloom.Client) -> None:
    for _ in range(3):
        client.create_session("def", model="gpt2")
    assert cli("sessions", "close", "--all", "--model", "gpt2").stdout.count("closed") == 3
    assert cli("sessions", "list", "--model", "gpt2").stdout == "no sessions\n"


def test_closing_needs_names_or_all(cli: Any) -> None:
    assert cli("sessions", "close").returncode == 2


def test_health_is_told_by_the_exit_code(cli: Any) -> None:
    finished = cli("health", "--service", "tokenloom.v1.Generator")
    assert (finished.returncode, finished.stdout) == (0, "SERVING\n")


def test_the_command_line_starts_without_what_few_commands_need(run_program: Any) -> None:
    program = "import sys, service.cli; print(sorted({'runtime', 'onnx', 'grpc', 'tokenloom'} & set(sys.modules)))"
    assert run_program("-c", program).stdout == "[]\n"


def test_settings_that_make_no_sense_are_refused_before_anything_starts(cli: Any) -> None:
    for flags, said in [
        (["--slots", "0"], "slots"),
        (["--load", "nonsense"], "NAME=FOLDER"),
        (["--config", "no-such-file.toml"], "no-such-file.toml"),
        (["--device", "abacus"], "abacus"),
    ]:
        finished = cli("serve", *flags)
        assert finished.returncode == 2
        assert said in finished.stderr


def test_a_model_that_is_not_there_is_one_line(cli: Any) -> None:
    finished = cli("serve", "no-such-model")
    assert finished.returncode == 1
    (line,) = finished.stderr.splitlines()
    assert line.startswith("error: model 'no-such-model' does not exist")


@pytest.mark.model
def test_the_demo_gives_an_answer(process: Any) -> None:
    finished = process("demo", timeout=900)
    assert finished.returncode == 0, finished.stderr
    assert "Paris" in finished.stdout
    assert "first text" in finished.stderr
