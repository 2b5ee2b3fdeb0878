"""A model is in the store whole, or not at all; what is in it is what was built."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from tiny_gguf import LAYERS, draw_weights, write_gguf

from runtime import Model
from runtime.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from runtime.model_store import ModelStore

ROOT = Path(__file__).parents[3]
TIMEOUT = 60
BUILDER = """
import sys
from pathlib import Path
from runtime.model_store import ModelStore

def progress(*step):
    print("step", *step, flush=True)
    assert sys.stdin.readline()

print("asks", flush=True)
print(ModelStore(Path(sys.argv[1])).build(Path(sys.argv[2]), "tiny", "fp32", progress), flush=True)
"""
"""Tells each step and waits for a line before it goes on."""


@contextmanager
def building(store: ModelStore, gguf: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that builds "tiny", and is killed in the end."""
    command = [sys.executable, "-c", BUILDER, str(store.directory), str(gguf)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert output(process).readline() == "asks\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def output(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def check_nothing_is_there(store: ModelStore) -> None:
    assert store.list() == []
    with pytest.raises(NotFound):
        store.path("tiny")


# --- what is there ---------------------------------------------------------------------------------------------------


def test_a_built_model_is_listed_and_found(store: ModelStore, tiny_gguf: Path) -> None:
    folder = store.build(tiny_gguf, "tiny", "uint4")
    (model,) = store.list()
    assert (model.name, model.path, model.precision, model.source) == ("tiny", folder, "uint4", "tiny.gguf")
    assert model.size_bytes == sum(path.stat().st_size for path in folder.iterdir() if path.name != "manifest.json")
    assert store.path("tiny") == folder


def test_the_manifest_has_size_and_digest_of_every_file(store: ModelStore, tiny_gguf: Path) -> None:
    folder = store.build(tiny_gguf, "tiny", "fp32")
    manifest = json.loads((folder / "manifest.json").read_text())
    files = {path.name for path in folder.iterdir()}
    assert files >= {"model.onnx", "model.onnx.data", "genai_config.json", "tokenizer.json", "MODEL_CARD.md"}
    assert manifest["files"].keys() == files - {"manifest.json"}
    for name, facts in manifest["files"].items():
        content = (folder / name).read_bytes()
        assert facts == {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    assert manifest["source_sha256"] == hashlib.sha256(tiny_gguf.read_bytes()).hexdigest()


def test_the_model_card_says_what_the_model_is_and_what_was_done_to_it(store: ModelStore, tiny_gguf: Path) -> None:
    card = (store.build(tiny_gguf, "tiny", "uint4") / "MODEL_CARD.md").read_text()
    for fact in ("# tiny", "Tiny", "Somebody", "mit", "tiny.gguf (F32)", "uint4", "quantised anew", "128 tokens"):
        assert fact in card, fact


def test_a_file_that_names_no_licence_gets_a_card_that_says_so(store: ModelStore, tmp_path: Path) -> None:
    gguf = write_gguf(tmp_path / "bare.gguf", draw_weights(), general__license=None)
    assert "unknown: see the source" in (store.build(gguf, "bare", "fp32") / "MODEL_CARD.md").read_text()


def test_progress_goes_to_the_end_of_every_step(store: ModelStore, tiny_gguf: Path) -> None:
    seen: dict[str, list[tuple[float, float | None]]] = {}
    store.build(tiny_gguf, "tiny", "fp32", lambda step, done, total: seen.setdefault(step, []).append((done, total)))
    assert seen["Building tiny"] == [(done, LAYERS + 1) for done in range(LAYERS + 2)]
    for steps in seen.values():
        assert [done for done, _ in steps] == sorted(done for done, _ in steps)
        assert steps[-1][0] == steps[-1][1]


def test_the_same_build_again_keeps_what_is_there(store: ModelStore, tiny_gguf: Path) -> None:
    folder = store.build(tiny_gguf, "tiny", "fp32")
    before = (folder / "model.onnx").stat()
    assert store.build(tiny_gguf, "tiny", "fp32") == folder
    assert (folder / "model.onnx").stat() == before


def test_a_name_is_never_given_to_another_model(store: ModelStore, tiny_gguf: Path, tmp_path: Path) -> None:
    folder = store.build(tiny_gguf, "tiny", "fp32")
    other = write_gguf(tmp_path / "tiny.gguf", draw_weights(seed=1))
    for gguf, precision in ((other, "fp32"), (tiny_gguf, "uint4")):
        with pytest.raises(AlreadyExists):
            store.build(gguf, "tiny", precision)
    assert store.build(tiny_gguf, "tiny", "fp32") == folder


def test_builds_of_one_file_are_equal_to_the_byte(tmp_path: Path, tiny_gguf: Path) -> None:
    folders = [ModelStore(tmp_path / place).build(tiny_gguf, "tiny", "uint4") for place in "ab"]
    first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert first == second


# --- interrupted and simultaneous builds -----------------------------------------------------------------------------


@pytest.mark.parametrize("step", range(1, 8))
def test_a_build_that_fails_at_any_step_leaves_nothing(store: ModelStore, tiny_gguf: Path, step: int) -> None:
    calls = 0

    def fail(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.build(tiny_gguf, "tiny", "fp32", fail)
    check_nothing_is_there(store)
    assert not [path for path in store.directory.iterdir() if path.is_dir()]
    assert Model.load(store.build(tiny_gguf, "tiny", "fp32"))


@pytest.mark.parametrize("steps", [1, 3, 6])
def test_a_build_that_is_killed_leaves_nothing_that_counts(store: ModelStore, tiny_gguf: Path, steps: int) -> None:
    with building(store, tiny_gguf) as process:
        for step in range(steps):
            assert output(process).readline().startswith("step"), step
            if step < steps - 1:
                print(file=process.stdin, flush=True)
    assert any(path.is_dir() for path in store.directory.iterdir()), "it was killed while it built"
    check_nothing_is_there(store)
    assert Model.load(store.build(tiny_gguf, "tiny", "fp32"))
    assert [path.name for path in store.directory.iterdir() if path.is_dir()] == ["tiny"]


def test_of_two_processes_that_build_one_model_one_builds_and_both_have_it(store: ModelStore, tiny_gguf: Path) -> None:
    with building(store, tiny_gguf) as first:
        assert output(first).readline().startswith("step")
        with building(store, tiny_gguf) as second:
            told, _ = first.communicate("\n" * 100, TIMEOUT)
            also_told, _ = second.communicate("\n" * 100, TIMEOUT)
    folder = str(store.path("tiny"))
    assert told.splitlines()[-1] == folder
    assert also_told.splitlines() == [folder], "the second one waited, and built nothing"


# --- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model.onnx", "model.onnx.data", "tokenizer.json", "genai_config.json"])
@pytest.mark.parametrize("damage", ["flipped bit", "truncated", "longer", "missing"])
def test_damage_to_any_file_is_noticed(store: ModelStore, tiny_gguf: Path, name: str, damage: str) -> None:
    file = store.build(tiny_gguf, "tiny", "fp32") / name
    content = file.read_bytes()
    middle = len(content) // 2
    match damage:
        case "flipped bit":
            file.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        case "truncated":
            file.write_bytes(content[:middle])
        case "longer":
            file.write_bytes(content + b"\0")
        case "missing":
            file.unlink()
    check_it_is_damaged(store, tiny_gguf, name)


def test_a_damaged_manifest_is_noticed(store: ModelStore, tiny_gguf: Path) -> None:
    manifest = store.build(tiny_gguf, "tiny", "fp32") / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:100])
    check_it_is_damaged(store, tiny_gguf, "manifest.json")


def test_a_folder_that_is_no_model_is_never_built_over(store: ModelStore, tiny_gguf: Path) -> None:
    (store.directory / "tiny").mkdir(parents=True)
    (store.directory / "tiny" / "letter.txt").write_text("mine")
    check_nothing_is_there(store)
    with pytest.raises(FailedPrecondition, match=r"manifest\.json") as caught:
        store.build(tiny_gguf, "tiny", "fp32")
    assert caught.value.reason == "MODEL_DAMAGED"
    assert (store.directory / "tiny" / "letter.txt").read_text() == "mine"


def check_it_is_damaged(store: ModelStore, gguf: Path, name: str) -> None:
    """Neither finding it nor building it again gives it; both say which file is wrong and what to do."""
    for attempt in (lambda: store.path("tiny"), lambda: store.build(gguf, "tiny", "fp32")):
        with pytest.raises(FailedPrecondition, match=name) as caught:
            attempt()
        assert caught.value.reason == "MODEL_DAMAGED"
        assert "remove the folder" in caught.value.message


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "Tiny", "../tiny", "a/b", ".partial-tiny", "-x", "x" * 64, "tiny\n"])
def test_names_that_could_be_paths_are_refused(store: ModelStore, tiny_gguf: Path, name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^name: "):
        store.build(tiny_gguf, name, "fp32")
    with pytest.raises(NotFound):
        store.path(name)


def test_an_unknown_precision_is_refused_with_the_known_ones(store: ModelStore, tiny_gguf: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"^precision: 'int3'.*fp32, uint4, uint4-lm-head"):
        store.build(tiny_gguf, "tiny", "int3")


def test_getting_an_unknown_model_names_the_packaged_ones(store: ModelStore) -> None:
    with pytest.raises(NotFound, match="did you mean 'smollm2-135m-instruct'"):
        store.get("smollm2-135m-instuct")


def test_a_missing_file_is_refused(store: ModelStore, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"^gguf: "):
        store.build(tmp_path / "missing.gguf", "tiny", "fp32")
