"""The generator and its runner: can they find what is wrong?"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from attempt import Manner, Tools, attempt
from program import generate
from run import shrink
from templates import FILES, NUMBERS, numbers, templates

LAWLESS = Manner(all_free=True, growth=False, hang_s=3.0)
# Programs with sections that count threads, divide by a number, or keep data.
SEEDS = range(1, 13)


@pytest.fixture(scope="session")
def tools() -> Tools:
    return Tools.of(Path(os.environ["VSCAF_BUILD"]))


def test_the_same_seed_gives_the_same_program() -> None:
    for seed in SEEDS:
        one, other = generate(seed), generate(seed)
        assert [source.text for source in one.sources] == [source.text for source in other.sources]
    assert len({generate(seed).main.text for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("language", FILES)
def test_every_kind_comes_in_some_program(language: str) -> None:
    wanted = {template.kind for template in templates(language) + numbers(language)}
    assert language in NUMBERS
    found: set[str] = set()
    for seed in range(4000):
        found |= {piece.kind for block in generate(seed, language=language).blocks for piece in block.own}
        if found == wanted:
            return
    assert found == wanted


def test_lines_belong_to_their_kinds() -> None:
    for seed in SEEDS:
        for source in generate(seed).sources:
            for number, line in enumerate(source.text.splitlines(), 1):
                if (match := re.match(r"u64 (kind_(\w+)_\d+)\(unsigned round\)$", line)) is not None:
                    assert source.kind_of(number) == match[2]


def test_a_dropped_block_leaves_the_others_as_they_were() -> None:
    for seed in SEEDS:
        whole, less = generate(seed), generate(seed, frozenset({0}))
        pieces = [piece.text for block in whole.blocks[1:] for piece in block.own]
        texts = [source.text for source in less.sources]
        assert all(any(piece in text for text in texts) for piece in pieces)
        assert not any(f" {whole.blocks[0].name}(" in text for text in texts)


def test_programs_are_wrong_if_all_sections_count_as_free(tools: Tools, tmp_path: Path) -> None:
    results = []
    changes = 0
    for seed in SEEDS:
        place = tmp_path / str(seed)
        place.mkdir()
        outcome = attempt(seed, tools, place, LAWLESS)
        assert outcome.result in ("right", "wrong", "hung"), outcome.told
        assert outcome.report["joined"]
        changes += outcome.report["changes"]  # some programs crash before their first change
        results.append(outcome.result)
    assert changes > 0
    assert results.count("right") <= len(results) // 2, results


def test_a_failing_program_shrinks(tools: Tools, tmp_path: Path) -> None:
    for seed in SEEDS:
        outcome = attempt(seed, tools, tmp_path, LAWLESS)
        if outcome.result == "wrong" and len(generate(seed).blocks) > 3:
            dropped = shrink(seed, tools, tmp_path, LAWLESS)
            assert dropped
            assert attempt(seed, tools, tmp_path, Manner(True, False, times=5), dropped).result == "wrong"
            return
    pytest.fail("no program failed")
