"""The built-in policies, and how a policy is found by name."""

import ast
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import vscaf_policies
from pools import domain, pool
from vscaf_policies import PolicyError, load_policy, policy_names
from vscaf_policies.equipartition import equipartition
from vscaf_policies.max_speedup import max_speedup
from vscaf_policies.pool_states import pool_states
from vscaf_policies.static import static
from vscaf_policies.unmanaged import unmanaged

FOO, BAZ = 7 / math.log(12), 0.5 / math.log(4)
"""C of the thesis's example: E = 2/3 on 12 threads, E = 3/8 on 4."""


def test_max_speedup_gives_the_worked_example_of_the_thesis():
    state = pool(16, domain("foo", scaf_weight=FOO), domain("baz", scaf_weight=BAZ))
    assert max_speedup(state, {}) == {"foo": 14, "baz": 2}


def test_max_speedup_is_the_best_integer_split_under_its_model():
    """The thesis's CG + LU on 36 cores. All splits are compared under the model, not only that of eq. 4.9."""
    weights = {"cg": (17.0 - 1) / math.log(18), "lu": (12.0 - 1) / math.log(18)}
    split = max_speedup(pool(36, *(domain(n, scaf_weight=w) for n, w in weights.items())), {})

    def total(cg_cpus):
        return weights["cg"] * math.log(cg_cpus) + weights["lu"] * math.log(36 - cg_cpus)

    assert split["cg"] == max(range(1, 36), key=total) > 18


def test_max_speedup_with_nobody_known_is_equipartition():
    state = pool(17, domain("a"), domain("b"), domain("c", newcomer=True, scaf_weight=9.0))
    assert max_speedup(state, {}) == equipartition(state, {}) == {"a": 6, "b": 6, "c": 5}


def test_max_speedup_gives_unknown_and_newcomers_the_equal_share_and_splits_the_rest():
    state = pool(
        16,
        domain("known", scaf_weight=3.0),
        domain("slow", scaf_weight=1.0),
        domain("new", scaf_weight=50.0, newcomer=True),
        domain("unknown"),
    )
    assert max_speedup(state, {}) == {"known": 6, "slow": 2, "new": 4, "unknown": 4}


def test_equipartition_gives_what_one_cannot_use_to_the_others_and_nothing_to_those_that_rest():
    state = pool(8, domain("small", demand=1), domain("a"), domain("b"), domain("idle", demand=0))
    assert equipartition(state, {}) == {"small": 1, "a": 4, "b": 3, "idle": 0}


def test_equipartition_keeps_whole_chunks():
    assert equipartition(pool(12, domain("a"), domain("b", maximum=3), chunk=2), {}) == {"a": 8, "b": 4}


def test_static_gives_what_is_set_and_leaves_others():
    state = pool(8, domain("a"), domain("b", allocation=3), domain("c", allocation=0, minimum=2))
    assert static(state, {"allocations": {"a": 5, "gone": 2}}) == {"a": 5, "b": 3, "c": 2}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "allocations"),
        ({"allocations": [1]}, "allocations"),
        ({"allocations": {"a": 0}}, "'a'"),
        ({"allocations": {"a": True}}, "'a'"),
        ({"allocations": {"a": "2"}}, "'a'"),
        ({"allocations": {}, "allocation": {}}, "'allocation'"),
    ],
)
def test_static_refuses_options_by_name(options, named):
    with pytest.raises(PolicyError, match=re.escape(named)):
        static(pool(2, domain("a")), options)


OURS = [name for name in policy_names() if load_policy(name).__module__.startswith("vscaf_policies.")]


@pytest.mark.parametrize("name", OURS)
def test_a_policy_declares_truly_whether_it_ignores_weights(name):
    policy = load_policy(name)
    options = {"allocations": {"vm-00": 2, "vm-01": 1}} if name == "static" else {}
    differs = False
    for given in pool_states(7):
        state = given
        if 1 < len(state.domains) <= min(12, state.cpus // state.chunk):
            if name == "max-ipc":  # it refuses a domain without
                domains = [replace(one, ipc=0.5 + 0.1 * index) for index, one in enumerate(state.domains)]
                state = replace(state, domains=tuple(domains))
            others = [replace(one, weight=0.25 + index) for index, one in enumerate(state.domains)]
            differs |= policy(state, options) != policy(replace(state, domains=tuple(others)), options)
    assert differs is not getattr(policy, "ignores_weights", False)


@pytest.mark.parametrize("policy", [unmanaged, equipartition, max_speedup])
def test_policies_without_options_refuse_any(policy):
    with pytest.raises(PolicyError, match="'speed'"):
        policy(pool(2, domain("a")), {"speed": 1})


def test_every_policy_accepts_an_empty_pool():
    assert unmanaged(pool(2), {}) is None
    assert equipartition(pool(2), {}) == max_speedup(pool(2), {}) == static(pool(2), {"allocations": {}}) == {}


def test_policies_are_found_by_name():
    assert {"unmanaged", "static", "equipartition", "max-speedup"} <= set(policy_names())
    assert load_policy("max-speedup") is max_speedup
    assert load_policy("unmanaged") is unmanaged


def test_an_unknown_policy_is_refused_with_those_there_are():
    with pytest.raises(PolicyError, match=r"'max-sped'.*equipartition.*max-speedup"):
        load_policy("max-sped")


def test_the_package_imports_nothing_but_itself_numpy_and_the_standard_library():
    for source in Path(vscaf_policies.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                top = str(name).split(".")[0]
                known = top in {"vscaf_policies", "numpy"} or top in sys.stdlib_module_names
                assert known, f"{source.name} imports {name}"
