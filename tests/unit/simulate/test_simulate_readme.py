"""host-daemon/vscaf/simulate/README.md lists all keys, options and formulas that exist, and no others."""

import re
from pathlib import Path

import msgspec
import pytest
import vscaf.simulate
from simulated_runs import outcomes
from vscaf.simulate.command import simulate
from vscaf.simulate.report.document import document
from vscaf.simulate.scenarios import curves, scenario
from vscaf.simulate.scenarios.expansion import expanded
from vscaf.simulate.scenarios.files import load_scenario

README = (Path(vscaf.simulate.__file__).parent / "README.md").read_text(encoding="utf-8")


def table_after(heading: str) -> dict[str, str]:
    """The table whose header row starts with *heading*. Its rows are keyed by the text in backquotes in the first
    cell."""
    lines = README.split(f"\n| {heading} |")[1].split("\n\n")[0].splitlines()[2:]
    found = {}
    for line in lines:
        first, rest = line.strip("| ").split("|", 1)
        for number, key in enumerate(re.findall(r"`([^`]+)`", first)):
            default = [one.strip() for one in rest.split("|")[0].split(",")]
            found[key] = default[min(number, len(default) - 1)] if default else ""
    return found


def fields(struct: type[msgspec.Struct]) -> dict[str, object]:
    return {one.encode_name: one.default for one in msgspec.structs.fields(struct)}


@pytest.mark.parametrize(
    ("heading", "struct"),
    [
        ("key", scenario.Scenario),
        ("key of `[host]`", scenario.Host),
        ("key of `[noise]`", scenario.Noise),
        ("key of `[latencies]`", scenario.LatencySeconds),
        ("key of `[[guest]]`", scenario.Guest),
        ("key of `phases`", scenario.Phase),
        ("key of `[[arrivals]]`", scenario.Arrivals),
        ("key of `[pairs]`", scenario.Pairs),
    ],
)
def test_every_key_of_a_scenario_with_its_default(heading: str, struct: type[msgspec.Struct]) -> None:
    listed, there = table_after(heading), fields(struct)
    assert set(listed) == set(there)
    for key, default in there.items():
        if default is msgspec.NODEFAULT and key not in ("guest", "arrivals", "host", "noise", "latencies"):
            assert listed[key] in ("required", "none"), key
        elif isinstance(default, bool):
            assert listed[key] == str(default).lower(), key
        elif isinstance(default, int | float):
            assert float(listed[key]) == default, key
        elif isinstance(default, str) and default:
            assert listed[key].strip('`"') == default, key


def test_every_key_of_a_curve_file() -> None:
    section = "\n## Curves\n" + README.split("\n## Curves\n")[1]
    listed = set(re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", section, re.MULTILINE))
    names = {name for cell in listed for name in re.findall(r"`(\w+)`", cell)}
    assert names == set(fields(curves._CurveFile))


def test_every_formula_with_its_parameters() -> None:
    shown = dict(re.findall(r"^\| `\{ model = \"(\w+)\", ([^}]+)\}`", README, re.MULTILINE))
    formulas = {str(one.__struct_config__.tag): one for one in curves.Formula.__args__}  # type: ignore[attr-defined]
    assert set(shown) == set(formulas)
    for tag, formula in formulas.items():
        assert set(re.findall(r"(\w+) =", shown[tag])) == set(fields(formula)) - {"ipc"}


def test_every_option_of_the_command() -> None:
    listed = table_after("option")
    options = {option for one in simulate.params for option in (*one.opts, *one.secondary_opts) if option[:2] == "--"}
    assert options <= {name.split()[0] for name in listed}


def test_every_key_of_the_document() -> None:
    content = document([outcomes()])
    one = content["scenarios"][0]
    section = README.split("\n## The JSON document\n")[1].split("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", section))
    run = one["runs"][1]
    for keys in (content["together"][0], one, one["oracles"][0], run, run["guests"][0], run["moments"][0]):
        assert set(keys) <= named, set(keys) - named
    assert set(one["failures"][0]) <= named


def test_the_example_can_be_used(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.*?)```", README, re.DOTALL)
    assert example is not None
    (tmp_path / "two.toml").write_text(example.group(1), encoding="utf-8")
    assert [plan.name for plan in expanded(load_scenario(tmp_path / "two.toml"))] == ["good", "poor"]
