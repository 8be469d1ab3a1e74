"""The report of a bench: its page, tables and numbers, from made-up samples."""

import builtins
import csv
import io
import re
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bench_places import plain_place
from click.testing import CliRunner
from made_samples import CONTEXT, alone, run
from rich.console import Console
from vscaf.bench.figures import ArrangementFigures, Figures, GroupFigures, figures
from vscaf.bench.intervals import figure
from vscaf.bench.machine import ABSENT, first_line, machine, versions
from vscaf.bench.places.place import BASELINES
from vscaf.bench.report.context import ReportContext, baseline_commands, load_context, save_context
from vscaf.bench.report.files import Results, inline_svg, print_report, write_report
from vscaf.bench.report.recommendation import recommend
from vscaf.bench.report.table import rows
from vscaf.bench.samples import Sample, SampleFile
from vscaf.cli.main import main

PAIR = ("cg.W", "lu.W")
EVIL = "<script>alert('$1$')</script>"

VOID = {"meta", "path", "use", "rect", "image", "br", "stop"}


@dataclass
class Page(HTMLParser):
    """A page's tables by id, as texts of cells, its headings, its ids, and its tags with their attributes."""

    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    headings: list[str] = field(default_factory=list)
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    answer: list[str] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self._open: list[str] = []
        self._table = ""
        self._answer = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        match tag:
            case "table":
                self._table = dict(attrs)["id"] or ""
                self.tables[self._table] = []
            case "tr":
                self.tables[self._table].append([])
            case "td" | "th":
                self.tables[self._table][-1].append("")
            case "h2":
                self.headings.append("")
            case "p" if self._answer:
                self.answer.append("")
            case "div":
                self._answer = dict(attrs).get("class") == "answer"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"{tag} is closed and was not open last"
        if tag == "div":
            self._answer = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if "td" in self._open or "th" in self._open:
            self.tables[self._table][-1][-1] += f"|{data}" if "small" in self._open else data
        elif "h2" in self._open:
            self.headings[-1] += data
        elif "p" in self._open and self._answer:
            self.answer[-1] += data


def some_samples() -> list[Sample]:
    """Three rounds; static of lu.W+lu.W is disturbed in each, and one result of cg.W+cg.W is wrong."""
    samples = []
    for number, factor in ((1, 1.0), (2, 1.1), (3, 0.9)):
        samples += [*alone(number, "cg.W", 1.0, 1.5), *alone(number, "lu.W", 2.0, 1.75)]
        for group in (("cg.W", "cg.W"), PAIR, ("lu.W", "lu.W")):
            base = [1.0 if name == "cg.W" else 2.0 for name in group]
            wrong = group == ("cg.W", "cg.W") and number == 3
            disturbed = group == ("lu.W", "lu.W")
            samples += [
                run(number, group, "unmanaged", [0.25 * one * factor for one in base]),
                run(number, group, "static", base, allocations=(1, 1), disturbed=disturbed),
                run(number, group, "max-speedup", [one * factor for one in base], verified=not wrong),
            ]
    return samples


def written(directory: Path, samples: list[Sample], context: ReportContext = CONTEXT) -> Page:
    write_report(directory, samples, figures(samples, BASELINES), context)
    return read_page(directory)


def read_page(directory: Path) -> Page:
    page = Page()
    page.feed((directory / "report.html").read_text())
    page.close()
    assert page._open == []
    return page


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of some_samples."""
    path = tmp_path_factory.mktemp("report")
    written(path, some_samples())
    return path


@pytest.fixture(scope="module")
def page(directory: Path) -> Page:
    """The page of some_samples."""
    return read_page(directory)


def test_the_page_has_its_parts_in_order(page: Page) -> None:
    assert page.headings == ["Is it worth it?", "The figures", "Pictures", "The machine", "How it was measured"]
    assert page.answer == list(recommend(figures(some_samples(), BASELINES)).sentences)


def test_every_pair_and_arrangement_has_its_row(page: Page) -> None:
    table = page.tables["together"]
    assert table[0] == [
        "programs",
        "arrangement",
        "program 1",
        "program 2",
        "sum",
        "to static",
        "to unmanaged",
        "runs",
        "verification",
        "disturbed",
    ]
    rows = {(row[0], row[1]): row[2:] for row in table[1:]}
    assert len(table) == 10 and list(rows)[:3] == [
        ("cg.W+cg.W", "static 1+1"),
        ("cg.W+cg.W", "unmanaged"),
        ("cg.W+cg.W", "max-speedup"),
    ]
    assert rows["cg.W+lu.W", "max-speedup"] == [
        "1.00|0.90 to 1.10",
        "1.00|0.90 to 1.10",
        "2.00|1.80 to 2.20",
        "1.00 even|0.90 to 1.10",
        "4.00 win|4.00 to 4.00",
        "3",
        "successful",
        "",
    ]
    assert rows["cg.W+lu.W", "unmanaged"][3:5] == ["0.25 loss|0.23 to 0.28", ""]


def test_wrong_results_and_disturbed_runs_are_marked_and_not_compared(page: Page) -> None:
    rows = {(row[0], row[1]): row for row in page.tables["together"]}
    assert rows["cg.W+cg.W", "max-speedup"][8].strip() == "FAILED"
    static = rows["lu.W+lu.W", "static 1+1"]
    assert static[4] == "2.00 disturbed|2.00 to 2.00" and static[5:7] == ["", ""] and static[9] == "3"
    assert rows["lu.W+lu.W", "max-speedup"][5] == ""


def test_the_table_of_all_pairs_together(page: Page) -> None:
    table = page.tables["summary"]
    assert table[0] == ["compared with", "arrangement", "pairs", "mean ratio", "wins", "even", "losses"]
    assert [row[:3] for row in table[1:]] == [
        ["static", "max-speedup", "2"],
        ["unmanaged", "static", "2"],
        ["unmanaged", "max-speedup", "3"],
    ]
    assert table[3][3:] == ["4.00|4.00 to 4.00", "3 (100%), 4.00", "0 (0%)", "0 (0%)"]


def test_three_programs_are_called_a_group(tmp_path: Path) -> None:
    three = ("cg.W", "cg.W", "cg.W")
    samples = [*alone(1, "cg.W", 1.0, 1.5)]
    samples += [run(1, three, kind, speeds) for kind, speeds in (("unmanaged", (0.2,) * 3), ("fair", (0.3,) * 3))]
    page = written(tmp_path, samples)
    assert page.tables["together"][0][:2] == ["programs", "arrangement"]
    assert page.tables["summary"][0][2] == "groups"
    assert "Each group in each arrangement." in page.text and "All groups together" in page.text
    assert "no program of a group can have more than one" in page.text
    console = Console(file=io.StringIO(), width=120)
    print_report(figures(samples, BASELINES), tmp_path, console)
    for text in (page.text, console.file.getvalue()):  # type: ignore[attr-defined]
        assert not re.search(r"\bpairs?\b", text.replace(CONTEXT.command, "")), text


def test_long_names_of_programs_leave_room_for_the_figures(tmp_path: Path) -> None:
    three = ("uts-geometric.A", "uts-geometric.S", "uts-geometric.S")
    samples = [one for name in sorted(set(three)) for one in alone(1, name, 1.0, 1.5)]
    samples += [run(1, three, kind, (0.25,) * 3, disturbed=True) for kind in ("unmanaged", "max-speedup-fitted")]
    console = Console(file=io.StringIO(), width=120)
    print_report(figures(samples, BASELINES), tmp_path, console)
    lines = [line.split() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    first = next(line for line in lines if line[:1] == ["uts-geometric.A+"])
    assert first[1:] == ["unmanaged", *["0.25"] * 3, "0.75", "disturbed", "1", "1"]


def test_the_programs_alone(page: Page) -> None:
    table = page.tables["alone"]
    assert table[1:] == [
        ["cg.W", "1.00|1.00 to 1.00", "1.50|1.50 to 1.50", "successful", ""],
        ["lu.W", "0.50|0.50 to 0.50", "1.75|1.75 to 1.75", "successful", ""],
    ]


def test_the_page_needs_nothing_but_itself(page: Page) -> None:
    assert not {tag for tag, _ in page.tags} & {"script", "img", "link", "iframe", "object", "embed"}
    for _, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("src", "href", "xlink:href"):
                assert value is not None and value.startswith("#")
    assert "@import" not in page.text and "url(http" not in page.text
    assert len([tag for tag, _ in page.tags if tag == "svg"]) == 5


def test_every_id_of_the_page_is_there_once_and_every_reference_has_its_target(page: Page) -> None:
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    references = [one["xlink:href"] for _, one in page.tags if "xlink:href" in one]
    assert references and {str(one).removeprefix("#") for one in references} <= set(map(str, ids))


def test_an_inlined_picture_keeps_its_references() -> None:
    svg = '<?xml?>\n<svg><path id="p"/><use xlink:href="#p"/><g clip-path="url(#c)"/><clipPath id="c"/></svg>'
    assert inline_svg(svg, "x") == (
        '<svg><path id="x-p"/><use xlink:href="#x-p"/><g clip-path="url(#x-c)"/><clipPath id="x-c"/></svg>'
    )


def test_the_machine_the_command_and_the_baselines_are_told(page: Page) -> None:
    for told in (
        "A processor & more, 2 CPUs",
        "vscaf bench pairs --workloads 'a<b'",
        "2 guests of 2 vCPUs on 2 pCPUs, TCG",
        "vscaf: 0.1.0; libvirt: 9.0.0",
        "seconds: 10.0; rounds: 3",
        "virsh vcpupin first 0 0",
        "0.25 threads",
        "39 runs from 2026-11-24T10:01:00+00:00 to 2026-11-24T10:03:00+00:00",
        "3 of 39 runs were disturbed",
    ):
        assert told in page.text


def test_a_preview_is_called_a_preview(tmp_path: Path) -> None:
    for quick in (False, True):
        page = written(tmp_path, [], replace(CONTEXT, quick=quick))
        assert ("This is a preview" in page.text) is quick


def test_programs_that_were_executed_once_are_not_called_repeated(tmp_path: Path, page: Page) -> None:
    samples = [*alone(1, "cg.W", 1.0), *alone(1, "lu.W", 1.0), run(1, PAIR, "unmanaged", (0.5, 0.5))]
    once = [msgspec.structs.replace(one, once=one.key.workloads == PAIR) for one in samples]
    found = written(tmp_path, once)
    assert "each program is executed once" in found.text and "again and again" not in found.text
    assert "each program is executed once" not in page.text and page.text.count("again and again") == 2
    for some, said in ((once, "from the first start to the last end"), (samples, "while all compute")):
        console = Console(file=io.StringIO(), width=200)
        print_report(figures(some, BASELINES), tmp_path, console)
        assert f"Speedups {said}" in console.file.getvalue()  # type: ignore[attr-defined]


def test_names_of_programs_are_only_text(tmp_path: Path) -> None:
    samples = [*alone(1, EVIL, 1.0, 1.5), run(1, (EVIL, EVIL), "unmanaged", (1, 1)), run(1, (EVIL, EVIL), EVIL, (1, 1))]
    page = written(tmp_path, samples)
    assert "script" not in {tag for tag, _ in page.tags}
    assert page.tables["alone"][1][0] == EVIL


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_samples_csv_has_a_row_for_each_program_and_run(tmp_path: Path) -> None:
    samples = [
        *alone(1, "cg.W", 1.0),
        run(1, ("cg.W", "cg.W"), "static", (0.5, 0.25), allocations=(1, 1), disturbed=True, pace=0.5),
        run(1, ("cg.W", "cg.W"), "static", (0.5, 0.25), allocations=(1, 1), attempt=2),
        run(2, ("cg.W", "cg.W"), "static", (0.5, 0.25), allocations=(1, 1), disturbed=True),
    ]
    written(tmp_path, samples)
    rows = rows_of(tmp_path / "samples.csv")
    assert [(row["round"], row["arrangement"], row["attempt"], row["member"], row["counts"]) for row in rows] == [
        ("1", "alone", "1", "first", "True"),
        ("1", "static", "1", "first", "False"),
        ("1", "static", "1", "second", "False"),
        ("1", "static", "2", "first", "True"),
        ("1", "static", "2", "second", "True"),
        ("2", "static", "1", "first", "False"),
        ("2", "static", "1", "second", "False"),
    ]
    one = rows[2]
    assert float(one["executions"]) == pytest.approx(2.5) and float(one["seconds"]) == 10
    assert (one["steady_seconds"], one["allocations"], one["verified"], one["lost"]) == ("5.0", "1+1", "True", "0.2")
    assert rows[3]["steady_seconds"] == ""


def test_table_csv_has_the_numbers_of_the_table(directory: Path) -> None:
    rows = {(row["programs"], row["arrangement"]): row for row in rows_of(directory / "table.csv")}
    assert len(rows) == 9
    one = rows["cg.W+lu.W", "max-speedup"]
    assert [float(one[name]) for name in ("speedup_1", "speedup_2_low", "sum", "sum_high", "to_static")] == (
        pytest.approx([1.0, 0.9, 2.0, 2.2, 1.0])
    )
    assert (one["to_unmanaged_verdict"], one["to_unmanaged_n"], one["runs"], one["verified"]) == (
        "win",
        "3",
        "3",
        "True",
    )
    static = rows["lu.W+lu.W", "static"]
    assert (static["allocations"], static["only_disturbed"], static["disturbed_runs"]) == ("1+1", "True", "3")
    assert static["to_unmanaged"] == static["to_unmanaged_verdict"] == ""


def test_results_json_has_everything(directory: Path) -> None:
    samples = some_samples()
    found = figures(samples, BASELINES)
    results = msgspec.json.decode((directory / "results.json").read_bytes(), type=Results)
    assert results == Results(CONTEXT, recommend(found), found)


def test_a_report_of_an_unfinished_bench(tmp_path: Path) -> None:
    """lu.W was not measured alone, and static not with cg.W+cg.W."""
    samples = [
        *alone(1, "cg.W", 1.0),
        run(1, ("cg.W", "cg.W"), "unmanaged", (0.5, 0.5)),
        run(1, PAIR, "unmanaged", (0.5, 0.5)),
    ]
    page = written(tmp_path, samples)
    assert [row[:2] for row in page.tables["together"][1:]] == [["cg.W+cg.W", "unmanaged"]]
    assert page.tables["alone"][1][2] == "not measured yet" and "summary" not in page.tables
    assert page.answer[-1] == "Left out, because a program was not measured alone yet, or was wrong then: cg.W+lu.W."
    assert "to unmanaged" not in page.tables["together"][0]


def test_a_report_of_nothing(tmp_path: Path) -> None:
    page = written(tmp_path, [])
    assert page.tables == {} and "Nothing has been measured yet" in page.answer[0] and "nothing yet" in page.text
    assert (tmp_path / "samples.csv").read_text() == (tmp_path / "table.csv").read_text() == ""


def test_without_matplotlib_the_page_says_so_and_the_rest_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **named: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return real(name, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", without)
        missing = written(tmp_path / "missing", some_samples())
    monkeypatch.setattr("matplotlib.__version_info__", (3, 6, 3, "final", 0))
    old = written(tmp_path / "old", some_samples())
    for page, name in ((missing, "missing"), (old, "old")):
        assert "they need matplotlib 3.8 or later" in page.text and "pip install '.[pictures]'" in page.text
        assert not (tmp_path / name / "pictures").exists() and len(page.tables["together"]) == 10


def printed(found: Figures, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_report(found, Path("out"), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def test_the_terminal_shows_the_tables_and_the_recommendation() -> None:
    samples = [one for one in some_samples() if all(each.executions[0].verified for each in one.programs)]
    text = printed(figures(samples, BASELINES))
    lines = [line.split() for line in text.splitlines()]
    assert ["max-speedup", "1.00", "1.00", "2.00", "1.00", "even", "4.00", "win", "3"] in lines
    assert ["lu.W+lu.W", "static", "1+1", "1.00", "1.00", "2.00", "disturbed", "3", "3"] in lines
    assert "Use vscaf with the policy max-speedup on this machine:" in text and text.endswith(
        "The report is out/report.html\n"
    )
    assert "verification" not in text and "program 1" in text and "…" not in text
    narrow = printed(figures(samples, BASELINES), 80)
    assert "program 1" not in narrow and "…" not in narrow and "4.00 win" in narrow


def test_the_terminal_shows_a_failed_verification_and_no_control_characters() -> None:
    samples = [*alone(1, "a\x1b[1m", 1.0), run(1, ("a\x1b[1m",) * 2, "unmanaged", (1, 1), verified=False)]
    text = printed(figures(samples, BASELINES))
    assert "FAILED" in text and "\x1b" not in text


def test_a_bench_can_be_reported_again(tmp_path: Path) -> None:
    file = SampleFile(tmp_path / "samples.jsonl", {"seconds": 10})
    samples = [one for one in some_samples() if one.key.workloads != ("cg.W", "cg.W")]
    for sample in samples:
        file.add(sample)
    with file.path.open("a") as text:
        text.write('{"key": ')  # the bench is still writing
    save_context(CONTEXT, tmp_path)
    assert load_context(tmp_path) == CONTEXT
    before = file.path.read_bytes()
    done = CliRunner().invoke(main, ["bench", "report", str(tmp_path)])
    assert done.exit_code == 0 and "Use vscaf with the policy max-speedup" in done.output
    results = msgspec.json.decode((tmp_path / "results.json").read_bytes(), type=Results)
    assert results.figures == figures(samples, BASELINES) and file.path.read_bytes() == before


def test_reporting_again_fails_if_a_result_is_wrong(tmp_path: Path) -> None:
    file = SampleFile(tmp_path / "samples.jsonl", {})
    for sample in [*alone(1, "cg.W", 1.0), run(1, ("cg.W", "cg.W"), "static", (1, 1), verified=False)]:
        file.add(sample)
    save_context(CONTEXT, tmp_path)
    assert CliRunner().invoke(main, ["bench", "report", str(tmp_path)]).exit_code == 1


@pytest.mark.parametrize("kept", [[], ["context.json"], ["samples.jsonl"]])
def test_a_directory_without_a_bench_cannot_be_reported(tmp_path: Path, kept: list[str]) -> None:
    SampleFile(tmp_path / "samples.jsonl", {})
    save_context(CONTEXT, tmp_path)
    for name in {"context.json", "samples.jsonl"} - set(kept):
        (tmp_path / name).unlink()
    done = CliRunner().invoke(main, ["bench", "report", str(tmp_path)])
    assert done.exit_code == 2 and "name the --output directory" in done.output
    assert not (tmp_path / "report.html").exists()


def test_a_file_that_is_no_context_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "context.json").write_text('{"command": 3}')
    done = CliRunner().invoke(main, ["bench", "report", str(tmp_path)])
    assert done.exit_code == 2 and "context.json cannot be read" in done.output


def test_the_commands_of_baselines_are_those_of_the_place(tmp_path: Path) -> None:
    with plain_place(tmp_path) as place:
        found = baseline_commands(place, ("unmanaged", "pinned", "max-speedup"), (1, 1))
        assert found == {"unmanaged": [], "pinned": place.commands("pinned", (1, 1))}


def test_the_machine_has_what_figures_depend_on() -> None:
    assert set(machine()) == {
        *("cpu", "cpus", "cores", "numa_nodes", "memory_gib", "is_a_guest"),
        *("kernel", "system", "clocksource", "load_at_start"),
    }
    assert set(versions()) == {"vscaf", "python", "libvirt", "QEMU"}
    assert first_line(["sh", "-c", "echo; echo one; echo two"]) == "one"
    assert first_line(["true"]) == ABSENT and first_line(["/no/such/command"]) == ABSENT


def test_of_one_round_no_interval_is_shown_anywhere(tmp_path: Path) -> None:
    samples = [sample for sample in some_samples() if sample.key.round == 1 and not sample.disturbed]
    page = written(tmp_path, samples)
    assert not re.search(r"\d to \d", page.text.split("Pictures")[0]) and "95% interval 4" not in page.text
    assert "4.00 win" in page.tables["together"][3]
    assert page.tables["summary"][3][3] == "4.00"
    names = [name for name in rows_of(tmp_path / "table.csv")[0] if name.endswith(("_low", "_high"))]
    assert names and all(row[name] == "" for row in rows_of(tmp_path / "table.csv") for name in names)
    shown = printed(figures(samples, BASELINES))
    assert not re.search(r"\d to \d|95%", shown) and "4.00 win" in shown
    assert re.search(r"\d to \d", printed(figures(some_samples(), BASELINES)))


def test_passive_and_static_are_the_first_baselines(tmp_path: Path) -> None:
    samples = [
        *some_samples(),
        *(run(1, PAIR, name, (0.8, 1.6)) for name in ("passive", "pinned", "quota")),
    ]
    table = written(tmp_path, samples).tables["together"]
    assert table[0][5:10] == ["to passive", "to static", "to unmanaged", "to pinned", "to quota"]
    kinds = ["passive", "static 1+1", "unmanaged", "pinned", "quota", "max-speedup"]
    assert [row[1] for row in table if row[0] == "cg.W+lu.W"] == kinds
    lines = printed(figures(samples, BASELINES), 200).splitlines()
    (head,) = [line for line in lines if line.split()[:2] == ["programs", "arrangement"]]
    assert head.index("to passive") < head.index("to static") and "to unmanaged" not in head


def test_a_figure_of_one_round_has_no_interval() -> None:
    two, one = figure([1.0, 1.0]), figure([1.0])
    measured = ArrangementFigures("unmanaged", (), (two, one), one, {}, True, 0, False)
    (row,) = rows(Figures((), (GroupFigures(("a", "b"), (measured,)),), ()), [])
    assert [cell.interval for cell in row[2:5]] == ["1.00 to 1.00", "", ""]
