"""The cells of `vscaf top`, its orders and its filter."""

from dataclasses import replace

import msgspec
import pytest
from top_states import DOMAINS, HOST, domain, program, state
from vscaf.control.messages import DomainStatus
from vscaf.top.columns import BY_NAME, COLUMNS, Order, fitted, ordered, row
from vscaf.top.domains import Domain, figures, speedup


def shown(one: DomainStatus) -> Domain:
    return state([one]).domains[0]


def cell(one: DomainStatus, column: str) -> str:
    return row(shown(one), HOST.node_of)[list(BY_NAME).index(column)]


def names(order: Order) -> list[str]:
    return [one.name for one in ordered(state().domains, order)]


def test_parts_are_means_by_team_size() -> None:
    measured = [(2, 1.5)]
    programs = [
        program("a", 3, measured, steal=0.1, idle_rate=0.2, inflation=0.0),
        program("b", 1, measured, steal=0.5, idle_rate=0.6),
    ]
    known = figures(shown(domain("x", "0-3", processes=programs)))
    assert known.steal == pytest.approx(0.2) and known.idle_rate == pytest.approx(0.3)
    assert known.inflation == 0.0, "a known 0 is not unknown"


def test_a_program_that_reports_no_parts_does_not_count_as_one_without_losses() -> None:
    programs = [program("a", 3, steal=0.4), program("b", 9)]
    assert figures(shown(domain("x", "0-3", processes=programs))).steal == pytest.approx(0.4)


def test_programs_that_do_not_run_do_not_count() -> None:
    waits = msgspec.structs.replace(program("a", 9, steal=0.9), running=False)
    assert figures(shown(domain("x", "0-3", processes=[waits]))).programs == ()


@pytest.mark.parametrize("column", ["steal", "idle", "inflation", "speedup"])
def test_unknown_is_no_number(column: str) -> None:
    assert cell(domain("x", "0-3", processes=[program("a", 4)]), column) == "?"
    assert cell(domain("x", "0-3"), column) == "-", "no program runs"
    assert cell(domain("x", "0-3", report_age_s=None), column) == "?", "nobody knows whether a program runs"
    assert cell(DomainStatus(name="x", state="not running"), column) == "-"


def test_an_inflation_of_0_without_a_speedup_is_unknown() -> None:
    assert cell(domain("x", "0-3", processes=[program("a", 4, [(1, 1.0)], inflation=0.0)]), "inflation") == "?"
    assert cell(domain("x", "0-3", processes=[program("a", 4, [(2, 1.5)], inflation=0.0)]), "inflation") == "0%"
    assert cell(domain("x", "0-3", processes=[program("a", 4, inflation=0.3)]), "inflation") == "30%"
    mixed = [program("a", 4, steal=0.1, inflation=0.0), program("b", 1, [(2, 1.5)], steal=0.1, inflation=0.2)]
    assert cell(domain("x", "0-3", processes=mixed), "inflation") == "20%"


@pytest.mark.parametrize("column", ["CPUs", "node:pCPUs"])
def test_pcpus_of_a_domain_that_is_not_known_are_unknown(column: str) -> None:
    assert cell(DomainStatus(name="x", state="unknown"), column) == "?"
    assert cell(DomainStatus(name="x", state="unmanaged"), column) == "-"
    assert cell(DomainStatus(name="x", state="not running"), column) == "-"
    assert cell(domain("x", "2-3", state="unknown"), column) in ("2", "0:2-3"), "it was adopted before"


@pytest.mark.parametrize("column", ["demand", "busy"])
def test_what_the_daemon_does_not_say_is_unknown(column: str) -> None:
    assert cell(DomainStatus(name="x", state="unknown"), column) == "?"
    assert cell(DomainStatus(name="x", state="not running"), column) == "-"
    assert cell(domain("x", demand=0, busy_cpus=0.0), column) in ("0", "0.00")


def test_pcpus_are_shown_by_node() -> None:
    assert cell(domain("x", "2,6-9"), "node:pCPUs") == "0:2,6-7 1:8-9"
    assert cell(domain("x", "6-7,99"), "node:pCPUs") == "?:99 0:6-7", "a pCPU that is offline has no node"
    assert cell(domain("x", ""), "node:pCPUs") == "-"


def test_the_speedup_is_that_of_the_largest_team_at_its_size_or_the_next_smaller() -> None:
    large, small = program("a", 5, [(1, 1.0), (2, 1.9), (4, 3.0), (8, 7.0)]), program("b", 2, [(2, 1.1)])
    assert cell(domain("x", "0-7", processes=[small, large]), "speedup") == "3.00 on 4 ▁▂▃█"
    only_larger = speedup(program("c", 1, [(4, 2.5)]))
    assert only_larger is not None and only_larger.p == 4


def test_a_guests_text_cannot_reach_the_terminal() -> None:
    assert cell(domain("a\x1b[2J"), "domain") == "a\N{REPLACEMENT CHARACTER}[2J"


def test_orders() -> None:
    assert names(Order()) == ["cfd", "chemistry", "idle", "off", "weather"]
    assert names(Order("domain", turned=True)) == ["weather", "off", "idle", "chemistry", "cfd"]
    assert names(Order("CPUs")) == ["cfd", "chemistry", "weather", "idle", "off"], "the largest first, unknown last"
    assert names(Order("CPUs", turned=True)) == ["idle", "weather", "chemistry", "cfd", "off"], "unknown is never first"
    assert names(Order("steal")) == ["weather", "cfd", "chemistry", "idle", "off"]
    assert names(Order("speedup")) == ["cfd", "weather", "chemistry", "idle", "off"]


@pytest.mark.parametrize("column", BY_NAME)
def test_rows_can_be_sorted_by_every_column(column: str) -> None:
    assert sorted(names(Order(column))) == sorted(one.name for one in DOMAINS)


def test_the_next_column_after_the_last_is_the_first() -> None:
    order, seen = Order(turned=True), []
    for _ in COLUMNS:
        seen.append(order.column)
        order = order.by_next_column()
    assert seen == list(BY_NAME) and order == Order()


def test_the_filter_wants_all_words_in_name_state_or_agent() -> None:
    assert names(replace(Order(), words="CF")) == ["cfd"]
    assert names(replace(Order(), words="contained stale")) == ["weather"]
    assert names(replace(Order(), words="cfd stale")) == []
    assert names(replace(Order(), words=" ")) == names(Order())


def test_a_cell_that_is_too_long_is_cut() -> None:
    cells = row(shown(domain("a" * 99)), {})
    assert fitted(cells, [column.width for column in COLUMNS])[0] == "a" * (COLUMNS[0].width - 1) + "…"
