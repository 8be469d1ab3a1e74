"""The generated reference has all names that the code defines, and says something about each."""

import re
from collections.abc import Iterator

import click
import pytest
import site_reference
from site_reference import PAGES, agent_options, metric_families, rows_of
from vscaf.agentlink import messages
from vscaf.cli.main import main
from vscaf.config import Config, DomainConfig, PolicyConfig
from vscaf.control.messages import ENDPOINTS
from vscaf.control.metrics import MetricsText
from vscaf.events import Kind
from vscaf.values import State
from vscaf_policies.registry import policy_names


def rows(page: str) -> dict[str, list[str]]:
    """The cells of all tables of a page, by the first name in backquotes in a row."""
    lines = [line.strip()[2:-2].split(" | ") for line in PAGES[page]().splitlines() if line.startswith("| ")]
    return {re.findall(r"`([^`]+)`", cells[0])[0]: cells for cells in lines if "`" in cells[0]}


def test_configuration() -> None:
    found = rows("configuration")
    keys = {*Config.__struct_fields__, *DomainConfig.__struct_fields__, *PolicyConfig.__struct_fields__}
    assert set(found) == keys - {"domains", "policy"}
    assert all(cells[-1] for cells in found.values())
    assert found["period_ms"][1:4] == ["whole number, 10 to 60000", "`250`", "at a reload"]
    assert found["uri"][3] == "by a restart"


def test_metadata() -> None:
    assert set(rows("metadata")) == {"min", "max", "weight", "priority", "rest"}


def commands(command: click.Command, name: str) -> Iterator[str]:
    yield name
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        yield from commands(below, f"{name} {below.name}")


def test_commands() -> None:
    page = PAGES["vscaf"]()
    assert set(re.findall(r"^## (.*)$", page, re.MULTILINE)) == set(commands(main, "vscaf"))
    assert "--help-config" in page and "--max" in page


def test_options_of_the_agent() -> None:
    found = agent_options()
    assert {"port", "standalone", "per-user", "version"} <= set(found)
    assert all(one["help"] for one in found.values())
    assert found["port"]["shown"] == "/dev/virtio-ports/org.vscaf.agent.0"
    source = site_reference.AGENT_OPTIONS.read_text(encoding="utf-8")
    assert len(found) == len(re.findall(r"\.name = ", source))


def test_policies() -> None:
    ours = set(rows_of(site_reference.POLICIES, "The policies"))
    assert ours <= set(rows("policies")) and ours <= set(policy_names())
    assert rows("policies")["gang"][2].startswith("`slice_s`") and "ignores weights" in rows("policies")["gang"][3]


def test_states_and_events() -> None:
    assert set(rows("states")) == set(State)
    found = rows("events")
    assert set(Kind) <= set(found)
    assert all(found[kind][2] for kind in Kind)
    assert found["fault"][1] == "warning" and found["started"][1] == ""


def test_metrics() -> None:
    """Those of the page are those that a scrape shows."""
    families = {family.name: family for family in metric_families()}
    assert all(family.documentation and family.samples for family in families.values())
    _, definitions = site_reference.msgspec.json.schema_components([site_reference.control.Status])
    status = site_reference.sample(definitions["Status"], definitions)
    scrape = MetricsText(lambda: status, dict)().decode()
    served = {name for name in re.findall(r"^# TYPE (\S+)", scrape, re.MULTILINE) if "_process_" not in name}
    assert set(rows("metrics")) == served
    assert rows("metrics")["vscaf_domain_state"][2] == "`domain`, `state`, `uuid`"


def test_endpoints_and_messages() -> None:
    page = PAGES["control-api"]()
    for one in ENDPOINTS:
        assert f"| {one.method} `{one.path}` | {one.access.name.lower()} |" in page
    wire = PAGES["wire"]()
    for kind in (messages.GuestHello, messages.Report, messages.Ack, messages.HostHello, messages.Allocate):
        section = wire.partition(f"\n## {kind.__name__}\n")[2].partition("\n## ")[0]
        assert set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE)) == {"type", *kind.__struct_fields__}


@pytest.mark.parametrize("page", PAGES)
def test_links_to_sections_of_the_page_are_there(page: str) -> None:
    text = PAGES[page]()
    titles = {title.lower().replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) <= titles
