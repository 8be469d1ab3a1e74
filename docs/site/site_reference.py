"""The pages of the reference, made from the code: what a page says about a name comes from the place that defines it.

Needs vscaf, but not MkDocs, so that tests can make the pages as well.
"""

import ast
import inspect
import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click
import msgspec
import site_commands
from prometheus_client.core import Metric
from vscaf.agentlink import messages as wire
from vscaf.cli.main import main
from vscaf.config import HELP, Config, DomainConfig
from vscaf.control import messages as control
from vscaf.control.metric_families import StatusCollector
from vscaf.daemon.config_changes import RESTART_KEYS
from vscaf.events import WARNINGS, Event, Kind
from vscaf.hypervisor.libvirt import metadata
from vscaf.values import State
from vscaf_policies.registry import GROUP, load_policy, policy_names

ROOT = Path(__file__).parents[2]
AGENT = ROOT / "guest-agent"
AGENT_OPTIONS = AGENT / "src" / "system" / "options.c"
OPERATOR = ROOT / "host-daemon" / "README.md"
POLICIES = ROOT / "policies" / "README.md"
SHOWN_WIDTH = 100

Row = tuple[str, ...]


def table(heads: Row, rows: Iterable[Row]) -> str:
    """A table of Markdown. Line breaks and bars in cells are made harmless."""

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(heads), "|---" * len(heads) + "|", *map(line, rows)]) + "\n"


def rows_of(page: Path, section: str, cell: int = 1) -> dict[str, str]:
    """The tables of a section: one cell of each row, by each name in backquotes in its first cell."""
    text = page.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
            found |= dict.fromkeys(re.findall(r"`([^`]+)`", cells[0]), cells[cell])
    return found


# Types


def type_text(schema: dict[str, Any]) -> str:
    """A type of JSON Schema in words."""
    if "$ref" in schema:
        return f"[{schema['$ref'].rpartition('/')[2]}](#{schema['$ref'].rpartition('/')[2].lower()})"
    if "anyOf" in schema:
        return " or ".join(type_text(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind: str = schema.get("type", "any value")
    if kind == "array":
        most = f" of at most {schema['maxItems']}" if "maxItems" in schema else ""
        if "prefixItems" in schema:
            return f"list: {', '.join(map(type_text, schema['prefixItems']))}"
        return f"list{most}: {type_text(schema.get('items', {}))}"
    if kind == "string":
        if pattern := re.fullmatch(r"\^\((.*)\)\$", schema.get("pattern", "")):
            return " or ".join(f"`{word}`" for word in pattern[1].split("|"))
        return "text" + (f" of at most {schema['maxLength']} characters" if "maxLength" in schema else "")
    if kind in ("integer", "number"):
        return {"integer": "whole number", "number": "number"}[kind] + _range(schema)
    return {"boolean": "true or false", "object": "table", "null": "null"}.get(kind, kind)


def _range(schema: dict[str, Any]) -> str:
    if "minimum" in schema and "maximum" in schema:
        return f", {schema['minimum']} to {schema['maximum']}"
    limits = []
    if "minimum" in schema:
        limits.append(f"at least {schema['minimum']}")
    if "exclusiveMinimum" in schema:
        limits.append(f"above {schema['exclusiveMinimum']}")
    if "maximum" in schema:
        limits.append(f"at most {schema['maximum']}")
    if "exclusiveMaximum" in schema:
        limits.append(f"below {schema['exclusiveMaximum']}")
    return f", {', '.join(limits)}" if limits else ""


def attribute_texts(kind: type) -> dict[str, str]:
    """The strings that follow the attributes of a class in its source, by attribute."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for attribute, after in zip(body.body, body.body[1:], strict=False):
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if is_text and isinstance(attribute, ast.AnnAssign) and isinstance(attribute.target, ast.Name):
            found[attribute.target.id] = str(after.value.value)  # type: ignore[attr-defined]  # is_text
    return found


def struct_sections(kinds: Iterable[type[msgspec.Struct]], level: str = "##") -> str:
    """A section for each type, and for each type that these refer to: its docstring, and a table of its fields."""
    listed = list(dict.fromkeys(kinds))
    _, components = msgspec.json.schema_components(listed)
    known = {one.__name__: one for one in _with_all_inside(listed)}
    return "\n".join(_struct_section(name, schema, known[name], level) for name, schema in components.items())


def _with_all_inside(kinds: Iterable[type[msgspec.Struct]]) -> Iterator[type[msgspec.Struct]]:
    """The struct types, and those of their modules that a schema may refer to."""
    for kind in kinds:
        yield kind
        yield from (
            one
            for one in vars(inspect.getmodule(kind)).values()
            if isinstance(one, type) and issubclass(one, msgspec.Struct)
        )


def _struct_section(name: str, schema: dict[str, Any], kind: type[msgspec.Struct], level: str) -> str:
    texts = attribute_texts(kind)
    renamed = {field.encode_name: field.name for field in msgspec.structs.fields(kind)}
    rows = [
        (
            f"`{field}`",
            type_text(found),
            "yes" if field in schema.get("required", ()) else _default(found),
            texts.get(renamed.get(field, field), ""),
        )
        for field, found in schema["properties"].items()
    ]
    heads = ("field", "type", "required, or default", "")
    return f"{level} {name}\n\n{inspect.getdoc(kind) or ''}\n\n{table(heads, rows)}"


def _default(schema: dict[str, Any]) -> str:
    if "default" not in schema:
        return "absent"
    value = schema["default"]
    return "unset" if value is None else f"`{msgspec.json.encode(value).decode()}`"


# The pages


def configuration() -> str:
    """Every key of the configuration."""
    comments = dict(re.findall(r"^(\w+) = .*?  +# (.*)$", HELP.partition("[policy]")[0], re.MULTILINE))
    below = dict(re.findall(r"^(\w+) = .*?  +# (.*)$", HELP.partition("[domains.NAME]")[2], re.MULTILINE))
    policy = dict(
        re.findall(r"^(\w+) = .*?  +# (.*)$", HELP.partition("[policy]")[2].partition("\n[")[0], re.MULTILINE)
    )

    def rows(kind: type[msgspec.Struct], texts: dict[str, str]) -> Iterator[Row]:
        schema = msgspec.json.schema_components([kind])[1][kind.__name__]
        for key, found in schema["properties"].items():
            if "$ref" in found or found.get("type") == "object" or key == "domains":
                continue
            text = texts[key].removesuffix("; restart")
            default = "required" if key in schema.get("required", ()) else _default(found)
            yield (
                f"`{key}`",
                type_text(found).removesuffix(" or null"),
                default,
                "by a restart" if key in RESTART_KEYS else "at a reload",
                text,
            )

    heads = ("key", "type", "default", "changes", "")
    return (
        "# Configuration\n\nThe daemon reads `/etc/vscaf/vscaf.toml`, or the file after `--config`. "
        "`vscaf check-config FILE` checks a file.\nAn unknown key is refused. "
        "[What a reload does with each key](../../host-daemon/README.md#reload).\n\n"
        f"## The file\n\n{table(heads, rows(Config, comments))}\n"
        f"## `[policy]`\n\n{table(('key', ''), ((f'`{key}`', text) for key, text in policy.items()))}\n"
        "[The policies and their options](policies.md).\n\n"
        f"## `[domains.NAME]`\n\nOne table for each domain.\n\n{table(heads, rows(DomainConfig, below))}\n"
        f"## All of it, as an example\n\n```toml\n{HELP}```\n"
    )


def domain_metadata() -> str:
    """The attributes of a domain's metadata."""
    texts = rows_of(OPERATOR, "Which domains are managed")
    values = {
        "min": f"1 to {metadata.MOST_CPUS}",
        "max": f"1 to {metadata.MOST_CPUS}",
        "weight": f"above 0, at most {metadata.MOST_WEIGHT:g}",
        "priority": f"{-metadata.MOST_PRIORITY} to {metadata.MOST_PRIORITY}",
        "rest": " or ".join(f"`{one}`" for one in metadata.RESTS),
    }
    rows = ((f"`{name}`", value, f"`{texts[name].strip('`')}`") for name, value in values.items())
    return (
        "# A domain's metadata\n\nThe element `partition` of the namespace "
        f"`{metadata.NAMESPACE}` marks a domain as managed. Every attribute is optional.\n\n"
        f"{table(('attribute', 'value', 'key of the configuration'), rows)}\n"
        "[What they mean, and how `virsh metadata` sets them]"
        "(../../host-daemon/README.md#which-domains-are-managed).\n"
    )


def sample(schema: dict[str, Any], definitions: dict[str, Any]) -> Any:
    """Some value of a type of JSON Schema, with everything in it that is optional."""
    if "$ref" in schema:
        return sample(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        choices = [one for one in schema["anyOf"] if one.get("type") != "null"]
        return sample(choices[0], definitions)
    if "enum" in schema:
        return schema["enum"][0]
    if "properties" in schema:
        return {name: sample(one, definitions) for name, one in schema["properties"].items()}
    kinds = {"integer": 1, "number": 1.0, "boolean": True, "string": "0", "array": [], "object": {}, "null": None}
    if isinstance(values := schema.get("additionalProperties"), dict) and values:
        return defaultdict(lambda: sample(values, definitions))  # the schema does not name the keys
    if "prefixItems" in schema:
        return [sample(one, definitions) for one in schema["prefixItems"]]
    if schema.get("type") == "array" and "items" in schema:
        return [sample(schema["items"], definitions)]
    return kinds[schema["type"]]


def metric_families() -> list[Metric]:
    """All metrics that the daemon serves about itself and its domains, for a status that has a value everywhere."""
    _, definitions = msgspec.json.schema_components([control.Status])
    status = sample(definitions["Status"], definitions)
    for domain in status["domains"]:
        domain["state"] = State.COOPERATING
    return list(StatusCollector(lambda: status, lambda: {Kind.STARTED: 1}).collect())


def metrics() -> str:
    """Every metric."""
    rows = []
    for family in metric_families():
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        labels = sorted({label for one in family.samples for label in one.labels})
        rows.append(
            (f"`{family.name}{suffix}`", family.type, ", ".join(f"`{one}`" for one in labels), family.documentation)
        )
    return (
        "# Metrics\n\nPrometheus's text format, at `GET /metrics` of the control socket, and of `metrics_address` if "
        f"it is set.\n\n{table(('metric', 'type', 'labels', ''), rows)}\n"
        "`vscaf_daemon_process_...` are those of prometheus-client about the daemon's process.\n"
        "[When they are absent, and who may read them](../../host-daemon/README.md#metrics).\n"
    )


def events() -> str:
    """Every kind of event, and the fields of an event."""
    texts = rows_of(OPERATOR, "Events")
    rows = ((f"`{kind}`", "warning" if kind in WARNINGS else "", texts[kind]) for kind in Kind)
    return (
        f"# Events\n\n`vscaf events` prints them; [where they are kept](../../host-daemon/README.md#events).\n\n"
        f"{table(('kind', 'logged as', 'what happened'), rows)}\n{struct_sections([Event])}"
    )


def wire_messages() -> str:
    """Every message between daemon and agent."""
    guest = (wire.GuestHello, wire.Report, wire.Ack)
    host = (wire.HostHello, wire.Allocate)
    return (
        "# Messages between daemon and agent\n\nJSON lines of at most "
        f"{wire.LINE_LIMIT_BYTES:,} bytes on the virtio-serial port `org.vscaf.agent.0`, version {wire.WIRE_VERSION}. "
        "The messages of a guest come first.\n[The rules](../../guest-agent/wire/README.md).\n\n"
        f"{struct_sections((*guest, *host, wire.WireError))}"
    )


def control_api() -> str:
    """Every endpoint of the control API, and the types of its bodies and answers."""
    rows: list[Row] = []
    types: list[type[msgspec.Struct]] = [control.Failure]
    for one in control.ENDPOINTS:
        answer = one.answer[0] if isinstance(one.answer, tuple) else one.answer
        types += [kind for kind in (one.body, answer) if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
        query = ", ".join(f"`{name}`" for name in one.query)
        rows.append((f"{one.method} `{one.path}`", one.access.name.lower(), query, one.description))
    return (
        "# Control API\n\nHTTP over the UNIX socket `control_socket`. [How to use it]"
        f"(../../host-daemon/README.md#control-api).\n\n{table(('', 'access', 'query', ''), rows)}\n"
        f"{struct_sections(types)}"
    )


def command_line() -> str:
    """The help of every command of vscaf."""
    return "# vscaf\n\nEvery command, as its `--help` prints it.\n\n" + "\n".join(_command(main, "vscaf", None))


def _command(command: click.Command, name: str, above: click.Context | None) -> Iterator[str]:
    own_name = name.rpartition(" ")[2]
    context = command.make_context(own_name, [], above, resilient_parsing=True, terminal_width=SHOWN_WIDTH)
    yield f"## {name}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from _command(found, f"{name} {below}", context)


def agent_options() -> dict[str, dict[str, str]]:
    """The options of vscaf-agent as `guest-agent/src/system/options.c` lists them: the texts of each, by its name."""
    source = AGENT_OPTIONS.read_text(encoding="utf-8").partition("option_specs[] = {")[2].partition("\n};")[0]
    headers = "".join(one.read_text(encoding="utf-8") for one in sorted(AGENT.rglob("*.h")))
    texts = dict(re.findall(r'^#define (\w+) (".*?)(?: /\*.*)?$', headers, re.MULTILINE))
    for _ in range(2):  # a text may contain another one
        source = re.sub(r"\b[A-Z_]+\b", lambda name: texts.get(name[0], name[0]), source)
    found = {}
    for entry in re.split(r"\n    \{", source):
        fields_found = re.findall(r'\.(\w+) = ((?:"[^"]*"\s*)+)', entry)
        fields = {key: " ".join(re.sub(r'"\s*"|"', "", value).split()) for key, value in fields_found}
        if "name" in fields:
            found[fields["name"]] = fields
    return found


def agent() -> str:
    """Every option of vscaf-agent."""
    rows = (
        (
            f"`--{name}{' ' + one['value'] if 'value' in one else ''}`",
            one.get("shown", one.get("initial", "")),
            one["help"],
        )
        for name, one in agent_options().items()
    )
    return (
        f"# vscaf-agent\n\n{table(('option', 'default', ''), rows)}\n"
        "[How it runs in a guest and stand-alone](../../guest-agent/README.md). "
        "`man vscaf-agent` has files and signals.\n"
    )


def policies() -> str:
    """Every policy of vscaf-policies, with what its docstring says."""
    ours = {one.name for one in entry_points(group=GROUP) if one.value.startswith("vscaf_policies.")}
    gives, options = rows_of(POLICIES, "The policies"), rows_of(POLICIES, "The policies", 2)
    rows, sections = [], []
    for name in (one for one in policy_names() if one in ours):
        policy = load_policy(name)
        marks = {"explores": "explores", "ignores_weights": "ignores weights", "timeless": "timeless"}
        marked = ", ".join(text for mark, text in marks.items() if getattr(policy, mark, False))
        rows.append((f"[`{name}`](#{name})", gives[name], options[name], marked))
        text = re.sub(r"\n- ", "\n\n- ", inspect.getdoc(policy) or "", count=1)  # Markdown wants an empty line there
        sections.append(f"## {name}\n\n{text}\n")
    return (
        f"# Policies\n\n{table(('policy', 'what it gives', 'options', ''), rows)}\n"
        "[What the marks mean, and how to write your own](../../policies/README.md#the-contract).\n\n"
        + "\n".join(sections)
    )


def states() -> str:
    """Every state of a domain."""
    texts = rows_of(OPERATOR, "States")
    names: Iterable[StrEnum] = State
    rows = ((f"`{state}`", texts[state]) for state in names)
    return f"# States of a domain\n\nThe column of `vscaf status`.\n\n{table(('state', 'the domain'), rows)}"


PAGES: dict[str, Callable[[], str]] = {
    "configuration": configuration,
    "metadata": domain_metadata,
    "vscaf": command_line,
    "vscaf-agent": agent,
    "policies": policies,
    "states": states,
    "events": events,
    "metrics": metrics,
    "control-api": control_api,
    "wire": wire_messages,
    "commands": site_commands.summary,
}
"""The functions that make the pages, by the names of the files in docs/reference/."""


def index() -> str:
    """Links to all generated pages."""
    first = (page().partition("\n")[0].removeprefix("# ") for page in PAGES.values())
    return "\n".join(f"- [{title}]({name}.md)" for name, title in zip(PAGES, first, strict=True)) + "\n"
