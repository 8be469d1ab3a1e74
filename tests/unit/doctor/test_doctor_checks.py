"""Each check on facts that are good, bad and not known."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from doctor_facts import CPUS, DOMAIN, SYSTEM, domain, host, status
from hypothesis import given
from hypothesis import strategies as st
from vscaf.doctor import checks_domain, checks_host, checks_rivals
from vscaf.doctor.examination import examine
from vscaf.doctor.facts import HostFacts, Irq, NoLibvirt, Process
from vscaf.doctor.finding import HOST, Finding, Severity, Unknown

HOST_CHECKS = {check.name for check in (*checks_host.CHECKS, *checks_rivals.CHECKS)}
DOMAIN_CHECKS = {check.name for check in checks_domain.CHECKS}
PROBLEM, NOTE, UNKNOWN, READY = Severity.PROBLEM, Severity.NOTE, Severity.UNKNOWN, Severity.READY
HALF_CORES = replace(CPUS, cores=(frozenset({0}), frozenset({1, 2}), *(frozenset({cpu}) for cpu in range(3, 8))))
PAIRS = replace(CPUS, cores=tuple(frozenset({cpu, cpu + 1}) for cpu in range(0, 8, 2)))


class Case(NamedTuple):
    """Facts for which a check has a finding of this severity, with these words in its text and in its fix."""

    check: str
    severity: Severity
    facts: HostFacts
    text: str
    fix: str = ""


def xml(*changes: tuple[str, str], base: str = DOMAIN) -> str:
    for old, new in changes:
        assert old in base, old
        base = base.replace(old, new)
    return base


def bad(*changes: tuple[str, str], **others: Any) -> HostFacts:
    """The good host with a domain of which this is different, now and at its next start."""
    return host(domain(xml=xml(*changes)), **others)


NO_METADATA = xml(("<metadata>", "<!--"), ("</metadata>", "-->"))
PINNED = xml(("<os>", "<cputune><emulatorpin cpuset='3'/></cputune><os>"))
EVERYWHERE = xml(
    ("<os>", "<cputune><vcpupin vcpu='1' cpuset='0-7'/><emulatorpin cpuset='0-63'/></cputune><os>"),
    ("placement='static'", "placement='static' cpuset='0-7'"),
)
NO_CHANNEL = ("org.vscaf.agent.0", "org.qemu.guest_agent.0")
THREE = [domain(name, xml(('max="4"', 'min="3"'))) for name in "abc"]
PROCESSES = SYSTEM.processes
assert not isinstance(PROCESSES, Unknown)


def with_process(name: str, cpus: set[int], pid: int = 5) -> dict[str, Any]:
    assert not isinstance(PROCESSES, Unknown)
    return {"processes": (*PROCESSES, Process(pid, name, frozenset(cpus)))}


CASES = [
    Case("config", PROBLEM, host(settings=Unknown("gone"), config_found=False), "no pool", """'pool = "1-7"' >"""),
    Case("config", PROBLEM, host(settings=Unknown("config: colour: unknown")), "colour", "vscaf check-config"),
    Case("libvirt", PROBLEM, host(virt=NoLibvirt("refused")), "refused", "systemctl start libvirtd"),
    Case(
        "libvirt",
        PROBLEM,
        host(virt=NoLibvirt("no socket"), system={"libvirt_daemons": ()}),
        "no socket",
        "apt-get install libvirt-daemon-system",
    ),
    Case("libvirt", PROBLEM, host(virt=NoLibvirt("polkit", denied=True)), "polkit", "sudo vscaf doctor"),
    Case("libvirt", PROBLEM, host(virt={"version": 8_010_000}), "8.10.0 is older than 9.0.0", "apt-get install"),
    Case("qemu", PROBLEM, host(virt={"guest_types": frozenset()}), "no QEMU", "qemu-system-x86"),
    Case("qemu", NOTE, host(virt={"driver": "TEST"}), "TEST"),
    Case("qemu", UNKNOWN, host(virt={"driver_version": 0}), "version"),
    Case("kvm", PROBLEM, host(system={"kvm_device": False}), "/dev/kvm", "modprobe kvm_intel"),
    Case("kvm", PROBLEM, host(virt={"guest_types": frozenset({"qemu"})}), "offer KVM", "restart libvirtd"),
    Case("kvm", NOTE, host(system={"cpu_flags": frozenset({"fpu"})}), "may not boot"),
    Case("kvm", NOTE, host(system={"cpu_flags": frozenset(), "kvm_device": False}), "firmware"),
    Case("cgroups", PROBLEM, host(system={"controllers": frozenset()}), "no cgroup", "mount -t cgroup2"),
    Case("cgroups", PROBLEM, host(system={"controllers": frozenset({"cpu"})}), "cpuset", "cgroup_disable"),
    Case("pool", PROBLEM, host(settings={"pool": "2-9"}), "8-9 is not online", 'pool = "2-7"'),
    Case("pool", PROBLEM, host(virt={"cpus": HALF_CORES}), "shares a core", 'pool = "3-7"'),
    Case("domains", PROBLEM, host(settings={"domains": {"gone": {}}}), "[domains.gone]", "define gone.xml"),
    Case("oversubscribed", PROBLEM, host(*THREE), "add up to 9 CPUs, the pool has 6", 'min="2"'),
    Case(
        "oversubscribed",
        PROBLEM,
        host(*THREE, settings={"metadata": False, "domains": {name: {"minimum": 3} for name in "abc"}}),
        "add up to 9 CPUs, the pool has 6",
        'vi}" /etc/vscaf/vscaf.toml && vscaf check-config',
    ),
    Case(
        "oversubscribed",
        UNKNOWN,
        host(domain("a"), replace(domain("b"), now=Unknown("too long"))),
        "1 running domains, 6 chunks; this is incomplete, because b could not be read",
    ),
    Case(
        "oversubscribed",
        PROBLEM,
        host(*THREE, replace(domain("d"), now=Unknown("too long")), replace(domain("e"), now=Unknown("too long"))),
        "they are cut; this is incomplete, because d, e could not be read",
        'min="2"',
    ),
    Case("oversubscribed", NOTE, host(*THREE, settings={"pool": "6-7"}), "3 domains run, and the pool has 2 chunks"),
    Case(
        "oversubscribed",
        NOTE,
        host(*(domain(name, running=False) for name in "abc"), settings={"pool": "6-7"}),
        "3 domains are managed",
    ),
    Case("daemon", NOTE, host(status=None), "no daemon runs", "systemctl start vscaf"),
    Case("daemon", PROBLEM, host(status={**status(), "violations": ["overlap"]}), "overlap", "restart"),
    Case("isolcpus", PROBLEM, host(system={"isolated": frozenset({3})}), "CPU 3 of the pool", "/etc/default/grub"),
    Case("isolcpus", PROBLEM, host(system={"isolated": frozenset({1})}), "CPU 1 of the reserve", 'reserve = "0"'),
    Case("isolcpus", PROBLEM, host(system={"isolated": frozenset({0, 1})}), "CPU 0-1 of the reserve", "isolcpus="),
    Case("nohz-full", NOTE, host(system={"nohz_full": frozenset({1, 2})}), "CPU 2", "nohz_full="),
    Case(
        "irqs",
        NOTE,
        host(system={"irqs": (Irq(7, frozenset({0})), Irq(9, frozenset({1, 2})))}),
        "1 interrupt on CPUs of the pool",
        "for irq in 9; do echo 0-1 >",
    ),
    Case(
        "irqs",
        NOTE,
        host(system={"irqs": (Irq(9, frozenset({2})),), **with_process("irqbalance", {0})}),
        "irqbalance",
        "IRQBALANCE_BANNED_CPULIST=2-7",
    ),
    Case("services", PROBLEM, host(system=with_process("cron", {3})), "cron (5)", "for pid in 5; do taskset -acp 0-1"),
    Case("services", NOTE, host(system=with_process("cron", {1, 3})), "1 process of", "AllowedCPUs=0-1"),
    Case("services", NOTE, host(settings={"pool": "0-7"}), "whole host"),
    Case(
        "numad",
        PROBLEM,
        host(system=with_process("numad", {0})),
        "pid 5",
        'systemctl disable --now "$(ps -o unit= -p 5)"',
    ),
    Case(
        "mom",
        PROBLEM,
        host(system=with_process("momd", {0})),
        "quotas",
        'systemctl disable --now "$(ps -o unit= -p 5)"',
    ),
    Case(
        "tuned",
        PROBLEM,
        host(system={"tuned_profile": "cpu-partitioning", **with_process("tuned", {0})}),
        "cpu-partitioning",
        "tuned-adm profile virtual-host",
    ),
    Case("hooks", PROBLEM, host(system={"pinning_hooks": ("/etc/q q",)}), "/etc/q q", "chmod a-x '/etc/q q'"),
    Case("pacemaker", PROBLEM, host(system={"pacemaker": ("vm-1",)}), "vm-1", "--resource vm-1 --set-parameter"),
    Case("managed", PROBLEM, host(domain(xml=NO_METADATA)), "CPU 2-7 of the pool", "for vcpu in 0 1; do virsh"),
    Case("managed", PROBLEM, host(domain(xml=NO_METADATA), settings={"pool": "0-7"}), "whole host", "<partition/>"),
    Case(
        "managed",
        PROBLEM,
        host(domain(xml=NO_METADATA), settings={"pool": "0-7", "metadata": False}),
        "whole host: manage it by the configuration",
        'vi}" /etc/vscaf/vscaf.toml && vscaf check-config /etc/vscaf/vscaf.toml && vscaf reload',
    ),
    Case(
        "managed",
        PROBLEM,
        host(domain(), settings={"pool": "0-7", "domains": {"cfd": {"managed": False}}}),
        "whole host: manage it by the configuration",
        'vi}" /etc/vscaf/vscaf.toml',
    ),
    Case(
        "managed",
        NOTE,
        host(domain(running=False), settings={"metadata": False}, named=frozenset({"cfd"}), status=None),
        "not managed",
        'vi}" /etc/vscaf/vscaf.toml && vscaf check-config /etc/vscaf/vscaf.toml',
    ),
    Case("managed", NOTE, host(domain(xml=NO_METADATA, running=False)), "not managed"),
    Case(
        "managed",
        NOTE,
        bad(("<metadata>", "<!--"), ("</metadata>", "-->"), ("'static' cur", "'static' cpuset='0-1' cur")),
        "not on the pool",
    ),
    Case("managed", UNKNOWN, host(replace(domain(), now=Unknown("too long"))), "too long"),
    Case("managed", PROBLEM, bad(('max="4"', 'maximum="4"')), "maximum", "<partition/>"),
    Case(
        "managed",
        NOTE,
        host(domain(xml=NO_METADATA, running=False), named=frozenset({"cfd"})),
        "not managed",
        "vscaf prepare cfd",
    ),
    Case("vcpus", PROBLEM, bad((">4</vcpu>", ">3</vcpu>")), "at most 3 vCPUs", "vscaf prepare cfd --maximum 4"),
    Case(
        "vcpus",
        PROBLEM,
        host(domain(xml=xml((">4</vcpu>", ">3</vcpu>")), later=DOMAIN)),
        "at most 3 vCPUs",
        "shutdown cfd && timeout 120 sh -c 'until virsh -c qemu:///system start cfd",
    ),
    Case(
        "vcpus",
        PROBLEM,
        bad((' max="4"', ""), (" current='2'>4</vcpu>", ">1</vcpu>")),
        "at most 1 vCPU, so it cannot use 6 CPUs",
        "vscaf prepare cfd --maximum 6",
    ),
    *(
        Case(
            "vcpus",
            PROBLEM,
            bad((">4</vcpu>", ">3</vcpu>"), change),
            "cannot plug vCPUs",
            "virsh -c qemu:///system edit cfd",
        )
        for change in (("pc-q35-7.2", "microvm"), ("x86_64", "aarch64"), ("<acpi/>", ""))
    ),
    Case(
        "hotplug",
        PROBLEM,
        bad(("'1' enabled='yes' hotpluggable='yes'", "'1' enabled='yes' hotpluggable='no'")),
        "vCPU 1 cannot be unplugged",
        "vscaf prepare cfd",
    ),
    Case(
        "hotplug",
        NOTE,
        bad(("'1' enabled='yes' hotpluggable='yes'", "'1' enabled='yes' hotpluggable='no'"), ("pc-q35-7.2", "microvm")),
        "cannot plug",
    ),
    Case("vcpus", NOTE, bad((' max="4"', "")), "cannot use 6 CPUs", "--maximum 6"),
    Case("channel", PROBLEM, bad(NO_CHANNEL), "cannot be reached", "vscaf prepare cfd"),
    Case(
        "channel", PROBLEM, bad(("mode='bind'", "mode='connect'")), "does not listen", "edit cfd && vscaf prepare cfd"
    ),
    Case(
        "channel",
        PROBLEM,
        host(domain(xml=xml(NO_CHANNEL), persistent=False), settings={"uri": "qemu:///other"}),
        "no channel",
        "> cfd.xml && virsh -c qemu:///other define cfd.xml && vscaf prepare cfd --uri qemu:///other",
    ),
    Case("channel", PROBLEM, host(domain(xml=xml(NO_CHANNEL), later=DOMAIN)), "no channel", "virsh -c qemu:///system"),
    Case("agent", PROBLEM, host(status=status(agent="stale")), "stale", "systemctl enable --now vscaf-agent"),
    Case("agent", UNKNOWN, host(status=status(agent="stale", paused=True)), "is paused"),
    Case("agent", PROBLEM, host(status=status(agent="not reachable: Permission denied")), "denied", "restart vscaf"),
    Case("agent", PROBLEM, bad(("'connected'", "'disconnected'"), status=None), "opened the channel", "(in the guest)"),
    Case("agent", NOTE, host(status=status(agent_version="vscaf-agent 0.0.9")), "0.0.9", "0.1.0"),
    Case("agent", NOTE, host(status=status(agent_version="vscaf-agent 0.1.0-rc1")), "0.1.0-rc1", "0.1.0"),
    Case("agent", UNKNOWN, host(status=None), "only a daemon"),
    Case("agent", UNKNOWN, bad((" state='connected'", ""), status=None), "no daemon has asked"),
    Case("agent", UNKNOWN, bad(NO_CHANNEL), "no channel"),
    Case("agent", UNKNOWN, host(domain(running=False)), "does not run"),
    Case("machine", PROBLEM, bad(("pc-q35-7.2", "microvm")), "cannot be plugged", r"machine=\1q35/"),
    Case("machine", PROBLEM, bad(("pc-q35-7.2", "pc-i440fx-2.6")), "2.6", r"machine=\1pc/"),
    Case("machine", PROBLEM, bad(("<acpi/>", "")), "without ACPI", "<acpi/>"),
    Case("machine", NOTE, bad(("x86_64", "aarch64"), ("pc-q35-7.2", "virt-7.2")), "as many as it will ever use"),
    Case("machine", UNKNOWN, bad((" arch='x86_64' machine='pc-q35-7.2'", "")), "no machine type"),
    Case(
        "topology",
        PROBLEM,
        bad(("cores='4' threads='1'", "cores='2' threads='2'")),
        "2 threads a core, the pool has 1",
        "edit cfd",
    ),
    Case("topology", NOTE, host(virt={"cpus": PAIRS}), "the pool has 2", "edit cfd"),
    Case("accelerator", NOTE, bad(("'kvm'", "'qemu'")), "although this host has KVM", "edit cfd"),
    Case("accelerator", NOTE, bad(("'kvm'", "'qemu'"), system={"kvm_device": False}), "slow"),
    Case("pmu", NOTE, bad(("state='on'", "state='off'")), "no virtual PMU", "edit cfd"),
    Case("pmu", NOTE, bad(("<pmu state='on'/>", ""), ("host-passthrough", "custom")), "no virtual PMU", "edit cfd"),
    Case(
        "pmu",
        PROBLEM,
        bad(("state='on'", "state='off'"), settings={"policy": {"name": "max-ipc"}}),
        "max-ipc",
        "edit cfd",
    ),
    Case("pins", PROBLEM, bad(("'static'", "'auto'")), "numad", "edit cfd"),
    Case(
        "pins",
        PROBLEM,
        host(status=status(state="unmanaged", why="somebody changed pins")),
        "somebody changed pins",
        "vscaf manage cfd",
    ),
    Case("pins", NOTE, host(status=status(state="released", why="by request")), "by request", "vscaf manage cfd"),
    Case(
        "pins",
        NOTE,
        bad(("<os>", "<cputune><vcpupin vcpu='1' cpuset='3'/></cputune><os>")),
        "its definition has pins",
        "for vcpu in 1; do virsh -c qemu:///system vcpupin cfd $vcpu r --config",
    ),
    Case("pins", NOTE, host(domain(xml=PINNED, later=DOMAIN), status=None), "a daemon left them", "vscaf off"),
    Case("pins", NOTE, host(domain(xml=PINNED, persistent=False), status=None), "a daemon left them", "vscaf off"),
    Case("pins", UNKNOWN, host(status=Unknown("no answer")), "no answer"),
    Case(
        "numa",
        PROBLEM,
        bad(("<os>", "<numatune><memory mode='strict' nodeset='0'/></numatune><os>"), settings={"pool": "4-7"}),
        "on node 0, the pool is on node 1",
        "numatune cfd --nodeset 1 --config && virsh",
    ),
    Case(
        "hugepages",
        PROBLEM,
        bad(
            ("<os>", "<memoryBacking><hugepages/></memoryBacking><os>"),
            settings={"pool": "4-7"},
            system={"hugepages": {0: {2048: 9999}, 1: {2048: 48}}},
        ),
        "2048 pages of 2048 KiB, the nodes of the pool have 48",
        "echo 2048 > /sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages",
    ),
    Case("steal-governor", NOTE, host(status=status(steal_governor=True)), "is on", "modprobe -r steal_governor"),
    Case("steal-governor", UNKNOWN, host(status=status(steal_governor=None)), "has told", "(in the guest) ls -d /sys/"),
    Case("steal-governor", UNKNOWN, host(status=None), "has told"),
]


FIXED_VCPU = ("'1' enabled='yes' hotpluggable='yes'", "'1' enabled='yes' hotpluggable='no'")
FINE = {
    "kvm: an architecture without flags": host(system={"cpu_flags": None}),
    "oversubscribed: as many domains as chunks": host(domain("a"), domain("b"), settings={"pool": "6-7"}),
    "tuned: it does not run": host(system={"tuned_profile": "cpu-partitioning"}),
    "irqs: next to the pool": host(system={"irqs": (Irq(7, frozenset({0, 1})),)}),
    "managed: wrong metadata that are ignored": bad(
        ('max="4"', 'maximum="4"'), settings={"metadata": False, "domains": {"cfd": {}}}
    ),
    "vcpus: a rule above the pool": bad(('max="4"', 'max="8"'), settings={"pool": "4-7"}),
    "hotplug: nothing is unplugged": bad(FIXED_VCPU, settings={"unplug": False}),
    "hotplug: emulated": bad(FIXED_VCPU, ("type='kvm'", "type='qemu'")),
    "numa: memory on a node of the pool and another": bad(
        ("<os>", "<numatune><memory mode='strict' nodeset='0-1'/></numatune><os>"), settings={"pool": "4-7"}
    ),
    "hugepages: enough": bad(
        ("<os>", "<memoryBacking><hugepages/></memoryBacking><os>"), system={"hugepages": {0: {2048: 2048}, 1: {}}}
    ),
    "agent: it does not tell its version": host(status=status(agent_version=None)),
    "machine: the newest of its type": bad(("pc-q35-7.2", "q35")),
    "machine: the first that can": bad(("pc-q35-7.2", "pc-i440fx-2.7")),
    "machine: Ubuntu's": bad(("pc-q35-7.2", "pc-q35-noble")),
    "machine: Red Hat's": bad(("pc-q35-7.2", "pc-i440fx-rhel7.6.0")),
    "pmu: by the CPU mode": bad(("<pmu state='on'/>", "")),
    "pins: only those of vscaf": host(domain(xml=PINNED, later=DOMAIN)),
    "pins: those of vscaf, at a transient domain": host(domain(xml=PINNED, persistent=False)),
    "pins: those that were removed, which libvirt keeps as pins to all CPUs": host(domain(xml=EVERYWHERE)),
    "pins: those that a daemon has put back": host(domain(xml=EVERYWHERE, later=DOMAIN), status=None),
    "pins: not managed yet": host(status=status(state="unmanaged")),
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_fine_is_ready(name: str) -> None:
    check, _, _ = name.partition(":")
    assert [one.severity for one in of(examine(FINE[name]), check)] == [READY], of(examine(FINE[name]), check)


def test_minima_are_lowered_only_where_they_are_too_large_and_other_rules_stay() -> None:
    large = domain("large", xml(('max="4"', 'min="5" max="6" weight="2.5" priority="-3" rest="keep"')))
    (finding,) = of(examine(host(large, domain("small"), virt={"cpus": PAIRS})), "oversubscribed")
    assert finding.text.startswith("the minima of the running domains add up to 8 CPUs, the pool has 6")
    element = '<partition min="2" max="6" weight="2.5" priority="-3" rest="keep"/>'
    assert finding.fix == (
        "virsh -c qemu:///system metadata large https://vscaf.org/xmlns/partition/1 --key vscaf "
        f"--set '{element}' --live --config"
    )


def test_pins_that_only_the_next_start_has() -> None:
    (finding,) = of(examine(host(domain(later=PINNED))), "pins")
    assert finding.severity is NOTE and "vcpupin cfd $vcpu r --config" in (finding.fix or "")


@pytest.mark.parametrize(
    "changes",
    [
        [("<topology sockets='1' dies='1' cores='4' threads='1'/>", "")],
        [(">4</vcpu>", ">5</vcpu>"), ("cores='4'", "cores='5'")],
    ],
)
def test_a_topology_that_no_command_can_make_has_no_fix(changes: list[tuple[str, str]]) -> None:
    (finding,) = of(examine(bad(*changes, virt={"cpus": PAIRS})), "topology")
    assert (finding.severity, finding.fix) == (NOTE, None)


def test_a_transient_domain_that_is_not_in_order() -> None:
    stranger = domain(xml=NO_METADATA, persistent=False)
    (finding,) = of(examine(host(stranger)), "managed")
    assert finding.fix is not None and "--live" in finding.fix and "--config" not in finding.fix


def of(findings: list[Finding], check: str) -> list[Finding]:
    return [one for one in findings if one.check == check]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.check}-{case.severity}")
def test_what_is_bad_is_found(case: Case) -> None:
    (finding,) = of(examine(case.facts), case.check)
    assert finding.severity is case.severity, finding
    assert case.text in finding.text and case.fix in (finding.fix or ""), finding


def test_every_check_has_a_bad_case() -> None:
    assert {case.check for case in CASES} == HOST_CHECKS | DOMAIN_CHECKS
    assert HOST_CHECKS.isdisjoint(DOMAIN_CHECKS)


def test_all_is_ready_on_a_good_host() -> None:
    findings = examine(host())
    assert [one for one in findings if one.severity is not READY] == []
    assert {one.check for one in findings} == HOST_CHECKS | DOMAIN_CHECKS
    assert {one.subject for one in findings} == {HOST, "domain cfd"}


@st.composite
def good_hosts(draw: st.DrawFn) -> HostFacts:
    """Hosts of any size and topology whose pool is all cores but the first, with domains that fit."""
    cores, threads = draw(st.integers(2, 12)), draw(st.integers(1, 2))
    every = [frozenset(range(core * threads, (core + 1) * threads)) for core in range(cores)]
    online = frozenset(range(cores * threads))
    cpus = replace(CPUS, online=online, cores=tuple(every), node_of=dict.fromkeys(online, 0))
    pool = online - every[0]
    shape = xml(
        ("cores='4' threads='1'", f"cores='{4 // threads}' threads='{threads}'"),
        ('max="4"', f'max="{draw(st.integers(1, 4))}"'),
    )
    names = draw(st.lists(st.text("abc", min_size=1), unique=True, min_size=1, max_size=cores - 1))
    domains = [domain(name, shape, running=draw(st.booleans())) for name in names]
    return host(
        *domains,
        settings={"pool": ",".join(map(str, sorted(pool)))},
        virt={"cpus": cpus, "domains": {one.name: one for one in domains}},
        system={
            "irqs": (Irq(1, every[0]),),
            "processes": (Process(1, "init", every[0]), Process(2, "qemu-kvm", online)),
        },
        status=draw(st.sampled_from([status(), None])),
    )


@given(good_hosts())
def test_a_good_host_has_no_problem(facts: HostFacts) -> None:
    assert [one for one in examine(facts) if one.severity is PROBLEM] == []


FACTS: dict[str, tuple[str, ...]] = {
    "cpu_flags": ("kvm",),
    "controllers": ("cgroups",),
    "isolated": ("isolcpus",),
    "nohz_full": ("nohz-full",),
    "irqs": ("irqs",),
    "processes": ("services", "numad", "mom"),
    "tuned_profile": ("tuned",),
    "pinning_hooks": ("hooks",),
    "pacemaker": ("pacemaker",),
    "hugepages": ("hugepages",),
    "default_hugepage_kib": ("hugepages",),
}


@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_that_could_not_be_read_is_unknown_and_never_fine(fact: str) -> None:
    pages = ("<os>", "<memoryBacking><hugepages/></memoryBacking><os>")
    findings = examine(bad(pages, system={"hugepages": {0: {2048: 2048}}, fact: Unknown("may not be read")}))
    for check in FACTS[fact]:
        assert [(one.severity, one.text) for one in of(findings, check)] == [(UNKNOWN, "may not be read")]


def test_without_libvirt_or_a_configuration_nothing_about_them_is_fine() -> None:
    without = examine(host(virt=NoLibvirt("refused")))
    needs_libvirt = {"qemu", "pool", "domains", "oversubscribed", "isolcpus", "nohz-full", "irqs", "services"}
    assert {one.check for one in without if one.severity is UNKNOWN} == needs_libvirt
    assert {one.subject for one in without} == {HOST}
    findings = examine(host(settings=Unknown("no file")))
    assert {one.check for one in findings if one.severity is UNKNOWN and one.subject == HOST} == needs_libvirt - {
        "qemu"
    }


@given(
    st.dictionaries(st.sampled_from(sorted(FACTS)), st.just(Unknown("may not be read"))),
    st.sampled_from(CASES),
    st.sampled_from(CASES),
)
def test_every_problem_has_a_fix_and_no_check_is_silent(system: dict[str, Any], one: Case, other: Case) -> None:
    facts = replace(one.facts, system=replace(other.facts.system, **system), status=other.facts.status)
    findings = examine(facts)
    assert all(finding.fix for finding in findings if finding.severity is PROBLEM)
    assert all(finding.text for finding in findings)
    assert {finding.check for finding in findings if finding.subject == HOST} >= HOST_CHECKS


def test_domains_that_are_not_managed_are_checked_only_for_being_in_the_way() -> None:
    stranger = domain("other", xml(NO_CHANNEL, base=NO_METADATA), running=False)
    assert [one.check for one in examine(host(domain(), stranger)) if one.subject == "domain other"] == ["managed"]
    named = examine(host(domain(), stranger, named=frozenset({"other"})))
    assert {one.check for one in named if one.subject == "domain other"} == DOMAIN_CHECKS
    assert {one.subject for one in named} == {HOST, "domain other"}
    assert of(named, "channel")[0].severity is PROBLEM


def test_what_a_guest_says_cannot_change_a_terminal() -> None:
    (finding,) = of(examine(host(status=status(agent_version="\x1b]0;x\x07" + 2000 * "y"))), "agent")
    assert "\x1b" not in finding.text and len(finding.text) < 200
