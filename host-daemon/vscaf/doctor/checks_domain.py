"""Checks of one domain, running or not. All are pure functions of facts."""

from collections.abc import Callable, Iterable

from vscaf import __version__
from vscaf.agentlink.link import CONNECTED, NO_CHANNEL
from vscaf.cpulist import format_cpu_list
from vscaf.doctor import commands
from vscaf.doctor.facts import Definition, DomainFacts
from vscaf.doctor.finding import Check, Verdict, known, note, problem, ready, unknown
from vscaf.hypervisor.libvirt.domain_xml import AGENT_PORT
from vscaf.hypervisor.libvirt.machine_types import PLUGGING_ARCHES, plugs_vcpus
from vscaf.terminal import printable
from vscaf.values import State

SHOWN_VERSION = 64


def managed(facts: DomainFacts) -> Iterable[Verdict]:
    host, domain = facts.host, facts.domain
    found, error = host.rules_of(domain), facts.now.description.rules_error
    if error is not None and host.rules_config.metadata:
        where = {"running": domain.running, "persistent": domain.persistent}
        yield problem(error, commands.set_metadata(host, facts.name, "<partition/>", **where))
    elif found is not None:
        yield ready(found.summary())
    elif domain.running:
        yield _in_the_way(facts)
    else:
        yield note("not managed", _manage(facts) if facts.name in host.named else None)


def _in_the_way(facts: DomainFacts) -> Verdict:
    """About a domain that runs and is not managed."""
    host, on_pool = facts.host, _may_run_on(facts) & facts.host.pool
    where = {"running": True, "persistent": facts.domain.persistent}
    if not on_pool:
        return note("not managed, and not on the pool", _manage(facts) if facts.name in host.named else None)
    if host.others:
        return problem(
            f"not managed, but its vCPUs may run on CPU {format_cpu_list(on_pool)} of the pool",
            commands.pin_all(host, facts.name, facts.now.plugged, format_cpu_list(host.others), **where),
        )
    text = "not managed, but its vCPUs may run on the pool, which is the whole host"
    if _metadata_count(facts):
        return problem(text, commands.set_metadata(host, facts.name, "<partition/>", **where))
    return problem(
        f"{text}: manage it by the configuration, or leave CPUs out of the pool there", commands.edit_config(host)
    )


def _metadata_count(facts: DomainFacts) -> bool:
    """Whether metadata would make a domain managed that is not: the configuration may say otherwise."""
    config = facts.host.rules_config
    return config.metadata and facts.name not in config.domains


def _manage(facts: DomainFacts) -> str:
    return _prepare(facts) if _metadata_count(facts) else commands.edit_config(facts.host)


def _may_run_on(facts: DomainFacts) -> frozenset[int]:
    """The online pCPUs that plugged vCPUs may run on."""
    now, online = facts.now, facts.host.virt.cpus.online
    everywhere = now.description.cpuset or online
    return online & frozenset[int]().union(
        *(now.description.vcpu_pins.get(vcpu, everywhere) for vcpu in sorted(now.plugged))
    )


def _prepare(facts: DomainFacts, maximum: int | None = None) -> str:
    return commands.prepare(facts.host, facts.domain, maximum)


def _unless_done(facts: DomainFacts, done: Callable[[Definition], bool], command: str) -> str:
    """*command*, which changes the next start. A restart, if the next start is as wanted already."""
    later = facts.domain.next_start
    return commands.restart(facts.host, facts.name) if later is not None and done(later) else command


def vcpus(facts: DomainFacts) -> Iterable[Verdict]:
    now, found, pool = facts.now, facts.host.rules_of(facts.domain), len(facts.host.pool)
    rule = found.maximum if found is not None else None
    wanted = pool if rule is None else min(rule, pool)
    if now.maximum >= wanted:
        yield ready(f"{now.vcpus} of {now.maximum}")
        return
    text = f"at most {now.maximum} vCPU{'s' * (now.maximum > 1)}, so it cannot use {wanted} CPUs"
    defined = facts.domain.defined or now
    by_hand = bool(now.description.topology.cells)  # nobody but the operator knows the cells of new vCPUs
    if defined.machine is not None and not _can_plug(defined):
        text += "; its machine cannot plug vCPUs, so all that it will ever use must be there at its start"
        by_hand = True
    change = commands.virsh(facts.host, "edit", facts.name) if by_hand else _prepare(facts, wanted)
    fix = _unless_done(facts, lambda later: later.maximum >= wanted, change)
    yield problem(text, fix) if rule is not None or now.maximum == 1 else note(text, fix)


def hotplug(facts: DomainFacts) -> Iterable[Verdict]:
    now = facts.now
    if not now.fixed_vcpus:
        yield ready("all vCPUs but the first")
    elif not now.description.accelerated:
        yield ready("emulated: vCPUs are only plugged, never unplugged")
    elif not facts.host.rules_config.unplug:
        yield ready("unplugging is switched off in the configuration")
    elif now.machine is not None and not _can_plug(now):
        yield note("its machine cannot plug and unplug vCPUs")
    else:
        yield problem(
            f"vCPU {format_cpu_list(now.fixed_vcpus)} cannot be unplugged",
            _unless_done(facts, lambda later: not later.fixed_vcpus, _prepare(facts)),
        )


def channel(facts: DomainFacts) -> Iterable[Verdict]:
    now = facts.now
    if now.channel:
        yield ready(AGENT_PORT)
        return
    change = _prepare(facts)
    text = f"no channel {AGENT_PORT}: its agent cannot be reached"
    if now.wrong_channel:
        text = (
            f"QEMU does not listen on its channel {AGENT_PORT} (type='unix', mode='bind'): remove it, then prepare it"
        )
        change = f"{commands.virsh(facts.host, 'edit', facts.name)} && {change}"
    yield problem(text, _unless_done(facts, lambda later: later.channel, change))


START_AGENT = "(in the guest) vscaf-agent --check && systemctl enable --now vscaf-agent"


def agent(facts: DomainFacts) -> Iterable[Verdict]:
    if not facts.now.channel:
        yield unknown("there is no channel to it")
        return
    if not facts.domain.running:
        yield unknown("the domain does not run")
        return
    status = facts.status
    condition = status.get("agent") if status is not None else None
    if status is None or condition in (None, NO_CHANNEL):
        yield from _agent_without_status(facts)
    elif condition == CONNECTED:
        yield _agent_version(str(status.get("agent_version") or ""))
    elif condition.startswith("not reachable"):
        why = printable(condition)
        yield problem(
            f"the daemon cannot open the channel: {why}", "systemctl restart vscaf && journalctl -u vscaf -n 20"
        )
    elif status.get("paused"):
        yield unknown("the domain is paused")
    else:
        yield problem(f"the agent does not answer as it should: {condition}", START_AGENT)


def _agent_without_status(facts: DomainFacts) -> Iterable[Verdict]:
    """No daemon has asked the agent, and doctor does not: it would take the channel from a daemon that starts."""
    if facts.now.channel_opened is False:
        yield problem("no program in the guest has opened the channel", START_AGENT)
    elif facts.now.channel_opened:
        yield unknown("a program in the guest has opened the channel; whether it answers, only a daemon can tell")
    else:
        yield unknown("no daemon has asked it")


def _agent_version(version: str) -> Verdict:
    """The guest chooses this text."""
    shown = printable(version[:SHOWN_VERSION]) or "an unknown version"
    if version and __version__ not in version.split():
        return note(
            f"{shown} answers, this host has {__version__}", f"(in the guest) install vscaf-agent {__version__}"
        )
    return ready(shown)


def machine(facts: DomainFacts) -> Iterable[Verdict]:
    now = facts.now
    if now.arch is None or now.machine is None:
        yield unknown("its XML names no machine type")
        return
    name = f"{now.arch}, {now.machine}"
    if now.arch not in PLUGGING_ARCHES:
        yield note(f"{name}: its vCPUs cannot be plugged, so it needs as many as it will ever use")
    elif not _plugging_machine(now):
        newer = "pc" if now.machine.startswith("pc-i440fx") else "q35"  # libvirt takes the newest version of it
        fix = commands.edit(facts.host, facts.name, rf"s/machine=\(.\)[-._a-z0-9]*/machine=\1{newer}/")
        yield problem(f"{name}: vCPUs cannot be plugged", _unless_done(facts, _plugging_machine, fix))
    elif not _can_plug(now):
        fix = commands.edit(facts.host, facts.name, _add_feature(now, "<acpi/>"))
        yield problem(
            f"{name}: without ACPI, its guest does not notice plugged vCPUs", _unless_done(facts, _can_plug, fix)
        )
    else:
        yield ready(name)


def _plugging_machine(definition: Definition) -> bool:
    return plugs_vcpus(definition.arch or "", definition.machine or "")


def _can_plug(definition: Definition) -> bool:
    return _plugging_machine(definition) and "acpi" in (definition.features or ())


def _add_feature(definition: Definition, element: str) -> str:
    """A script for sed that adds an element to <features>."""
    if definition.features is None:
        return f"s|</os>|&<features>{element}</features>|"
    return f"s|<features>|&{element}|"


def topology(facts: DomainFacts) -> Iterable[Verdict]:
    now = facts.now
    guest = now.description.topology.threads
    host = max((len(core & facts.host.pool) for core in facts.host.virt.cpus.cores), default=1)
    if guest == host:
        yield ready(f"{guest} thread{'s' * (guest > 1)} a core, as in the pool")
        return
    fits = now.topology_named and now.maximum % host == 0
    counts = {"sockets": 1, "dies": 1, "cores": now.maximum // host, "threads": host}
    attributes = " ".join(rf"{name}=\1{count}\1" for name, count in counts.items())
    change = commands.edit(facts.host, facts.name, rf"s|<topology sockets=\(.\)[^/]*|<topology {attributes}|")
    fix = _unless_done(facts, lambda later: later.description.topology.threads == host, change)
    if guest == 1:
        yield note(
            f"the guest sees 1 thread a core, the pool has {host}: it takes threads for cores", fix if fits else None
        )
    else:
        text = f"the guest sees {guest} threads a core, the pool has {host}: siblings are not pinned to siblings"
        yield problem(text, fix if fits else commands.virsh(facts.host, "edit", facts.name))


def accelerator(facts: DomainFacts) -> Iterable[Verdict]:
    types = facts.host.virt.guest_types
    if facts.now.description.accelerated:
        yield ready("not emulated")
    elif facts.host.system.kvm_device and "kvm" in types:
        fix = commands.edit(facts.host, facts.name, r"s/<domain type=\(.\)qemu/<domain type=\1kvm/")
        yield note(
            "emulated, although this host has KVM",
            _unless_done(facts, lambda later: later.description.accelerated, fix),
        )
    else:
        yield note("emulated: slow, and its vCPUs are never unplugged")


def pmu(facts: DomainFacts) -> Iterable[Verdict]:
    now = facts.now
    if not now.description.accelerated:
        yield note("emulated: its programs have no counters")
    elif _has_pmu(now):
        yield ready("on")
    else:
        switch = r"s/<pmu state=\(.\)off/<pmu state=\1on/"
        script = switch if now.pmu is False else _add_feature(now, "<pmu/>")
        fix = _unless_done(facts, _has_pmu, commands.edit(facts.host, facts.name, script))
        text = "no virtual PMU: programs cannot measure by the metric ipc"
        if facts.host.rules_config.policy.name == "max-ipc":
            yield problem(f"{text}, which the policy max-ipc needs", fix)
        else:
            yield note(text, fix)


def _has_pmu(definition: Definition) -> bool:
    if definition.pmu is None:
        return definition.cpu_mode in ("host-passthrough", "maximum")
    return definition.pmu


def pins(facts: DomainFacts) -> Iterable[Verdict]:
    host, name, now, later = facts.host, facts.name, facts.now, facts.domain.defined
    auto, online = (later or now).placement_auto, host.virt.cpus.online
    if auto:
        yield problem(
            "placement='auto': numad chooses its CPUs at each start",
            # libvirt makes the vCPUs' placement automatic again as long as that of the memory is.
            commands.edit(host, name, r"/<memory .*placement=.auto/d; s/placement=\(.\)auto/placement=\1static/"),
        )
    defined = later is not None and later.pinned(online)
    if later is not None and defined:
        vcpus = sorted(later.description.vcpu_pins or later.plugged)
        yield note(
            "its definition has pins: vscaf moves them while it manages the domain, and puts them back",
            commands.pin_all(host, name, vcpus, "r", running=False, persistent=True),
        )
    alone = known(host.status) is None and not defined and now.pinned(online)
    if alone:
        yield note(
            "it runs with pins that no definition has, and no daemon runs: a daemon left them, or another program",
            commands.put_back(host),
        )
    status = facts.status or {}
    state, why = status.get("state"), printable(str(status.get("why") or "by request"))
    if state == State.UNMANAGED and status["why"]:
        yield problem(f"the daemon leaves it alone: {why}", commands.manage(host, name))
    elif state == State.RELEASED:
        yield note(f"released: {why}", commands.manage(host, name))
    elif not auto and not defined and not alone:
        yield ready("none of others")


def numa(facts: DomainFacts) -> Iterable[Verdict]:
    home, nodes = facts.now.description.home_nodes, facts.host.pool_nodes
    if home and not home & nodes:
        pool = format_cpu_list(nodes)
        fix = commands.virsh(facts.host, "numatune", facts.name, "--nodeset", pool, "--config")
        if facts.domain.running:
            fix = f"{fix} && {commands.restart(facts.host, facts.name)}"
        yield problem(f"its memory is on node {format_cpu_list(home)}, the pool is on node {pool}", fix)
    else:
        yield ready(f"memory on node {format_cpu_list(home)}" if home else "memory on any node")


def hugepages(facts: DomainFacts) -> Iterable[Verdict]:
    now, nodes = facts.now, facts.host.pool_nodes
    if not now.hugepages_kib:
        yield ready("none")
        return
    there = known(facts.host.system.hugepages)
    short = False
    for size in sorted(one or known(facts.host.system.default_hugepage_kib) for one in now.hugepages_kib):
        needed = -(-now.memory_kib // size)
        on_pool = sum(there.get(node, {}).get(size, 0) for node in nodes)
        if on_pool < needed:
            short = True
            node = min(nodes)
            total = there.get(node, {}).get(size, 0) + needed - on_pool
            yield problem(
                f"its memory is {needed} pages of {size} KiB, the nodes of the pool have {on_pool}",
                f"echo {total} > /sys/devices/system/node/node{node}/hugepages/hugepages-{size}kB/nr_hugepages",
            )
    if not short:
        yield ready("enough on the nodes of the pool")


def steal_governor(facts: DomainFacts) -> Iterable[Verdict]:
    status = facts.status
    told = status.get("steal_governor") if status is not None else None
    if told is None:
        yield unknown(
            "no agent has told the daemon whether Linux's steal governor takes CPUs from the programs too",
            "(in the guest) ls -d /sys/module/steal_governor",
        )
    elif told:
        yield note(
            "Linux's steal governor is on: it takes CPUs from the programs too, and does not resize their teams",
            "(in the guest) modprobe -r steal_governor",
        )
    else:
        yield ready("off, or the guest's kernel has none")


MANAGED: Check[DomainFacts] = Check(
    "managed",
    "whether it is managed, and its metadata",
    "its metadata are wrong, or it is not managed and may run on the pool",
    managed,
)

CHECKS: tuple[Check[DomainFacts], ...] = (
    MANAGED,
    Check(
        "vcpus",
        "its maximum of vCPUs",
        "it is below the `maximum` of its rules, or 1; a note if it is below the pool",
        vcpus,
    ),
    Check("hotplug", "which vCPUs can be unplugged", "some cannot, and it runs under KVM", hotplug),
    Check("channel", "the channel of the agent", "there is none that the daemon can use", channel),
    Check("agent", "the agent, as the daemon's status shows it", "it does not answer", agent),
    Check("machine", "its machine type and ACPI", "vCPUs cannot be plugged on x86", machine),
    Check(
        "topology",
        "threads of a core in the guest and in the pool",
        "they differ, and the guest has more than one",
        topology,
    ),
    Check("accelerator", "KVM or emulation", "never: a note if it is emulated", accelerator),
    Check("pmu", "its virtual PMU", "it has none, and the policy is max-ipc; else a note", pmu),
    Check(
        "pins",
        "pins and placement by others",
        "numad places it, or the daemon leaves it alone because of others; pins in its definition are a note. "
        "A pin to all online CPUs is none",
        pins,
    ),
    Check("numa", "the nodes that its memory is bound to", "none of them is a node of the pool", numa),
    Check("hugepages", "hugepages of its memory", "the pool's nodes have too few", hugepages),
    Check(
        "steal-governor",
        "Linux's steal governor in the guest, as its agent tells",
        "never: a note if it is on",
        steal_governor,
    ),
)
