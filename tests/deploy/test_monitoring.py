"""Prometheus and Grafana of the stack: their files are valid, and what they ask for is what servers say."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from stack import COMPOSE, ROOT, TIMEOUT, Replica, command_of, image_environment, read, wait_until, which

from tokenloom.v1 import generator_pb2 as pb
from tokenloom.v1 import types_pb2

DEPLOY = ROOT / "deploy"
SERVICES = COMPOSE["services"]
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana/dashboards/tokenloom.json").read_text())
EXPRESSIONS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
INPUTS = [types_pb2.RowInput(tokens=types_pb2.TokenIds(ids=[5, 9, 21, 33]))]

with_prometheus = pytest.mark.skipif(
    which("prometheus") is None or which("promtool") is None,
    reason="no prometheus and promtool on the path (Debian's package prometheus has both)",
)


def use(replica: Replica) -> None:
    """Something of everything that the dashboard shows."""
    request = pb.CreateSessionRequest(inputs=INPUTS, generation_config={"min_new_tokens": 100})
    session = replica.generator.CreateSession(request, timeout=TIMEOUT).state.session_id
    request = pb.GenerateTokensRequest(session_id=session, steps=20)
    replica.generator.GenerateTokens(request, timeout=TIMEOUT)
    with pytest.raises(grpc.RpcError):
        replica.generator.RewindTo(pb.RewindToRequest(session_id=session, length=999), timeout=TIMEOUT)
    replica.generator.CloseSession(pb.CloseSessionRequest(session_id=session), timeout=TIMEOUT)


# --- the files -------------------------------------------------------------------------------------------------------


def test_prometheus_scrapes_both_replicas_at_the_images_port() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    port = image_environment()["TOKENLOOM_METRICS_PORT"]
    assert job["static_configs"] == [{"targets": [f"cpu:{port}", f"replica:{port}"]}]
    assert {"cpu", "replica"} <= set(SERVICES)


def test_grafana_finds_its_datasource_and_its_dashboards() -> None:
    provisioning = DEPLOY / "grafana/provisioning"
    (datasource,) = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text())["datasources"]
    (port,) = SERVICES["prometheus"]["ports"]
    assert datasource["url"] == f"http://prometheus:{port.split(':')[2]}"
    used = {target["datasource"]["uid"] for panel in DASHBOARD["panels"] for target in panel["targets"]}
    used |= {variable["datasource"]["uid"] for variable in DASHBOARD["templating"]["list"]}
    assert used == {datasource["uid"]}
    (provider,) = yaml.safe_load((provisioning / "dashboards/tokenloom.yml").read_text())["providers"]
    mounts = dict(mount.split(":")[1::-1] for mount in SERVICES["grafana"]["volumes"])
    assert mounts[provider["options"]["path"]] == "./deploy/grafana/dashboards"
    assert mounts["/etc/grafana/provisioning"] == "./deploy/grafana/provisioning"
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{provider['options']['path']}/tokenloom.json"


def test_panels_have_names_and_places_of_their_own() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)


def test_the_dashboard_shows_metrics_that_servers_have(replicas: list[Replica]) -> None:
    use(replicas[0])
    text = read(f"http://127.0.0.1:{replicas[0].metrics_port}/metrics")
    series = {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}
    asked = {name for expression in EXPRESSIONS for name in re.findall(r"\b(?:tokenloom|process)_\w+", expression)}
    assert len(asked) > 20
    assert asked <= series


def test_the_documents_list_every_metric_with_its_type_and_labels(replicas: list[Replica]) -> None:
    use(replicas[0])
    text = read(f"http://127.0.0.1:{replicas[0].metrics_port}/metrics")
    found = {}
    for family in text_string_to_metric_families(text):
        if family.name.startswith("tokenloom_"):
            name = family.name + ("_total" if family.type == "counter" else "")
            labels = {label for sample in family.samples for label in sample.labels if label != "le"}
            found[name] = (family.type, labels)
    rows = re.findall(r"^\| `(tokenloom_\w+)` \| (\w+) \| ([^|]*) \|", (ROOT / "docs/operations.md").read_text(), re.M)
    assert {name: (kind, set(labels.split(", "))) for name, kind, labels in rows} == found


# --- the programs ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prometheus(replicas: list[Replica], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Prometheus with the compose file's command, and with deploy/prometheus.yml but for addresses. Its own address."""
    folder = tmp_path_factory.mktemp("prometheus")
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    config["global"]["scrape_interval"] = "1s"
    static = config["scrape_configs"][0]["static_configs"][0]
    static["targets"] = [f"127.0.0.1:{replica.metrics_port}" for replica in replicas]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    places = {"/etc/prometheus/prometheus.yml": folder / "prometheus.yml", "=/prometheus": Path(f"={folder}/data")}
    command = [which("prometheus") or "", *command_of("prometheus", places), "--web.listen-address=127.0.0.1:0"]
    log = folder / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(command, stderr=stream)
    try:
        listening = re.compile(r'msg="Listening on" address=(\S+)|address=(\S+) msg="Listening on"')
        wait_until(lambda: listening.search(log.read_text()) is not None, "Prometheus to listen")
        found = listening.search(log.read_text())
        assert found is not None
        yield f"http://{found[1] or found[2]}"
    finally:
        process.kill()
        process.wait()


@with_prometheus
def test_promtool_accepts_the_configuration() -> None:
    subprocess.run([which("promtool") or "", "check", "config", DEPLOY / "prometheus.yml"], check=True, timeout=60)


@with_prometheus
def test_prometheus_gets_an_answer_to_everything_the_dashboard_asks(prometheus: str, replicas: list[Replica]) -> None:
    def ask(expression: str) -> list[Any]:
        for variable, value in {"$instance": ".*", "$model": ".*", "$__rate_interval": "1m"}.items():
            expression = expression.replace(variable, value)
        reply = json.loads(read(f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': expression})}") or "{}")
        return list(reply.get("data", {}).get("result", []))

    wait_until(lambda: [each["value"][1] for each in ask("up")] == ["1", "1"], "both replicas to be scraped")

    def everything_is_answered() -> bool:
        for replica in replicas:
            use(replica)
        return all(ask(expression) for expression in EXPRESSIONS)

    wait_until(everything_is_answered, "an answer to every expression")
