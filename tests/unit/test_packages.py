"""The Debian packages agree with the rest of the repository: versions, manual pages, documentation, the example."""

import configparser
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click import Command, Group
from msgspec.inspect import DataclassType, StructType, type_info
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from vscaf import __version__
from vscaf.bench.accept import part
from vscaf.bench.barriers import BarrierFigures
from vscaf.bench.figures import ArrangementFigures, Comparison, Figures, GroupFigures, WorkloadFigures
from vscaf.bench.intervals import Figure
from vscaf.bench.report.context import ReportContext
from vscaf.bench.report.files import Results
from vscaf.bench.report.recommendation import Recommendation
from vscaf.bench.samples import Execution, ProgramSample, RunKey, Sample
from vscaf.cli.main import main
from vscaf.config import Config, DomainConfig, load_config
from vscaf.record.lines import Decided, Result, State
from vscaf_policies import DomainState, PoolState, SpeedupPoint

main.load_all()  # else `commands` has those that were used
ROOT = Path(__file__).parents[2]
MANUAL = ROOT / "host-daemon" / "man"


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def version_in(path: str) -> str:
    parser = configparser.ConfigParser()
    parser.read_string(text(path))
    return parser["metadata"]["version"]


def test_there_is_one_version() -> None:
    meson = re.search(r"^ *version: '([^']*)'", text("meson.build"), re.MULTILINE)
    debian = re.match(r"vscaf \(([^)]*)\) ", text("debian/changelog"))
    assert meson and debian
    found = {path: version_in(path) for path in ("setup.cfg", "policies/setup.cfg", "tests/lab/setup.cfg")}
    found |= {"meson.build": meson[1], "debian/changelog": debian[1].split("-")[0]}
    found["ansible/galaxy.yml"] = re.findall(r"^version: (\S+)$", text("ansible/galaxy.yml"), re.MULTILINE)[0]
    assert found == dict.fromkeys(found, __version__)
    assert __version__ in re.findall(r"^  (\S+):$", text("ansible/changelogs/changelog.yaml"), re.MULTILINE)


def requirements() -> dict[str, SpecifierSet]:
    """What setup.cfg asks for, with `vscaf top` and pictures."""
    parser = configparser.ConfigParser()
    parser.read_string(text("setup.cfg"))
    extras = parser["options.extras_require"]
    lines = [*parser["options"]["install_requires"].splitlines(), extras["top"], extras["pictures"]]
    return {one.name: one.specifier for one in map(Requirement, filter(None, lines))}


def test_debian_asks_for_the_same_versions() -> None:
    bounds = dict(re.findall(r"([\w-]+) \(>= ([\d.]+)\)", text("debian/control")))
    for name in ("aiohttp", "msgspec", "textual", "matplotlib"):
        assert f">={bounds[f'python3-{name}']}" in str(requirements()[name]).split(","), name
    assert f"meson_version: '>={bounds['meson']}'" in text("meson.build")
    assert f"dependency('jansson', version: '>={bounds['libjansson-dev']}')" in text("guest-agent/meson.build")


def test_the_private_environment_has_what_the_requirements_allow() -> None:
    wanted = requirements()
    pinned = dict(re.findall(r"^([\w-]+)==(\S+) ", text("debian/private-python.txt"), re.MULTILINE))
    assert {"aiohttp", "msgspec", "textual"} <= set(pinned)
    assert [name for name in pinned if name in wanted and pinned[name] not in wanted[name]] == []
    # What is in there is no package of the distribution's that vscaf-host depends on there.
    left_out = re.search(r"python3-\(([^)]*)\)", text("debian/rules"))
    assert left_out and set(left_out[1].split("|")) == (set(pinned) & set(wanted)) - {"textual"}


def stanzas() -> dict[str, dict[str, str]]:
    """The binary packages of debian/control, with their fields."""
    found = {}
    for stanza in text("debian/control").split("\n\n")[1:]:
        fields = dict(re.findall(r"^([A-Z][\w-]*):[ \n]?((?:.*\n?)(?:^[ ].*\n?)*)", stanza, re.MULTILINE))
        found[fields["Package"].strip()] = fields
    return found


def test_every_package_is_in_the_documentation() -> None:
    rows = set(re.findall(r"^\| `([\w-]+)` \|", text("docs/packages.md"), re.MULTILINE))
    assert rows == set(stanzas())


def test_what_is_there_once_for_all_architectures_is_in_no_package_of_several() -> None:
    same = [name for name, fields in stanzas().items() if fields.get("Multi-Arch", "").strip() == "same"]
    assert same == ["libvscaf-gomp"]
    assert text("debian/libvscaf-gomp.install").split() == ["usr/lib/*/vscaf/libvscaf-gomp.so"]


def test_what_users_run_is_in_their_path() -> None:
    installed = {path for file in (ROOT / "debian").glob("*.install") for path in file.read_text("utf-8").split()}
    assert {"usr/bin/vscaf-agent", "usr/bin/vscaf-run"} <= installed


def test_the_example_is_a_good_configuration() -> None:
    config = load_config(ROOT / "host-daemon" / "service" / "vscaf.toml")
    assert config.domains == {"cfd": DomainConfig(), "chemistry": DomainConfig(maximum=4)}
    groups = {config.control_read_group, config.control_write_group}
    assert groups == set(re.findall(r"^g (\S+)", text("host-daemon/service/vscaf.sysusers"), re.MULTILINE))


def test_the_directories_are_those_of_the_configuration() -> None:
    made = set(re.findall(r"^d (\S+)", text("host-daemon/service/vscaf.tmpfiles"), re.MULTILINE))
    default = Config(pool="0")
    assert made == {default.state_directory, str(Path(default.control_socket).parent)}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("click_man", reason="click-man is not installed: the manual pages cannot be made")
    directory = tmp_path_factory.mktemp("manual")
    subprocess.run([sys.executable, MANUAL / "make_pages.py", directory], check=True)
    return directory


def commands(command: Command, name: str) -> Iterator[str]:
    yield name
    for below in command.commands.values() if isinstance(command, Group) else ():
        yield from commands(below, f"{name}-{below.name}")


def test_every_command_and_every_file_has_a_page(pages: Path) -> None:
    wanted = {f"{name}.1" for name in commands(main, "vscaf")} | {one.stem for one in MANUAL.glob("*.in")}
    assert {one.name for one in pages.iterdir()} == wanted
    assert {"vscaf-policy-set.1", "vscaf-daemon.1", "vscaf.toml.5", "vscaf-metadata.7"} <= wanted


def test_the_page_of_the_configuration_has_every_key(pages: Path) -> None:
    page = (pages / "vscaf.toml.5").read_text(encoding="utf-8")
    for key in (*Config.__struct_fields__, *DomainConfig.__struct_fields__):
        assert re.search(rf"^(\[{key}|{key} = )", page, re.MULTILINE), key


RECORDED = (State, Decided, Result, PoolState, DomainState, SpeedupPoint)
BENCHED = (RunKey, Execution, ProgramSample, Sample, Results, ReportContext, Recommendation, Figures, Figure)
BENCHED += (WorkloadFigures, GroupFigures, ArrangementFigures, Comparison, BarrierFigures, part.Result)


def fields_of(one: type) -> list[str]:
    info = type_info(one)
    assert isinstance(info, DataclassType | StructType)
    return [field.name for field in info.fields]


@pytest.mark.parametrize(("page", "types"), [("vscaf-recording.5", RECORDED), ("vscaf-bench.5", BENCHED)])
def test_the_pages_of_files_have_every_field(page: str, types: tuple[type, ...]) -> None:
    lines = re.findall(r"^\.(?:It )?Li (.*)$", (MANUAL / f"{page}.in").read_text(encoding="utf-8"), re.MULTILINE)
    named = set(re.findall(r"\w+", " ".join(lines)))
    fields = {(one.__name__, name) for one in types for name in fields_of(one)}
    assert {f"{owner}.{name}" for owner, name in fields if name not in named} == set()


def test_the_pages_name_only_pages_that_exist(pages: Path) -> None:
    ours = {one.name for one in pages.iterdir()} | {"vscaf-agent.8", "vscaf-run.1", "vscaf-gomp.7"}
    for page in MANUAL.glob("*.in"):
        named = re.findall(r"^\.Xr (\S+) (\d)", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert named and {f"{name}.{section}" for name, section in named if name.startswith("vscaf")} <= ours, page
    unit = text("host-daemon/service/vscaf.service")
    assert {f"{name}.{section}" for name, section in re.findall(r"man:(\S+)\((\d)\)", unit)} <= ours


def test_the_pages_are_sound(pages: Path) -> None:
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed: the pages are not checked")
    command = ["mandoc", "-Tlint", "-Wwarning", *sorted(pages.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""
