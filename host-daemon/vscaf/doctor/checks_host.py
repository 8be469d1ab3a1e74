"""Checks of the host: the hypervisor, the configuration and the pool. All are pure functions of facts."""

import shlex
from collections.abc import Iterable

from vscaf.core.place.topology import SmtMode, pool_topology
from vscaf.cpulist import format_cpu_list
from vscaf.doctor import commands
from vscaf.doctor.facts import HostFacts, NoLibvirt
from vscaf.doctor.finding import Check, Severity, Unknown, Verdict, known, note, problem, ready, unknown
from vscaf.domains.rules import DomainRules
from vscaf.errors import UsageError
from vscaf.values import HostCpus

LEAST_LIBVIRT = 9_000_000
QEMU = "QEMU"
KVM_MODULES = {"vmx": "kvm_intel", "svm": "kvm_amd"}
NEEDED_CONTROLLERS = {"cpu": "weights have no effect", "cpuset": "libvirt pins only by the threads' affinity"}


def _version(number: int) -> str:
    """libvirt's form of a version as text: 9,000,001 is 9.0.1."""
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"


def config(host: HostFacts) -> Iterable[Verdict]:
    if not isinstance(host.config, Unknown):
        yield ready(f"{host.config_file}: pool {host.config.pool}")
    elif host.config_found:
        yield problem(host.config.why, commands.edit_config(host))
    else:
        no_cpus = isinstance(host.libvirt, NoLibvirt)
        yield problem(
            f"{host.config_file} is not there, so no pool is named",
            commands.edit_config(host) if no_cpus else commands.write_config(host, suggested_pool(host.virt.cpus)),
        )


def suggested_pool(cpus: HostCpus) -> frozenset[int]:
    """All cores but the first, which is left to the host. All CPUs if there is only one core."""
    first = min(cpus.cores, key=min, default=frozenset[int]())
    return cpus.online - first or cpus.online


def daemon(host: HostFacts) -> Iterable[Verdict]:
    status = known(host.status)
    if status is None:
        yield note(
            "no daemon runs: what only it knows, such as the agents' answers, is unknown", "systemctl start vscaf"
        )
    elif status["violations"]:
        yield problem(f"the partition breaks a law of vscaf: {status['violations'][0]}", "systemctl restart vscaf")
    else:
        yield ready(f"runs, policy {status['policy']}")


def libvirt(host: HostFacts) -> Iterable[Verdict]:
    if isinstance(host.libvirt, NoLibvirt):
        fix = "sudo vscaf doctor" if host.libvirt.denied else commands.libvirtd(host, "start")
        yield problem(f"{host.rules_config.uri}: {host.libvirt.why}", fix)
        return
    version = _version(host.libvirt.version)
    if host.libvirt.version < LEAST_LIBVIRT:
        yield problem(
            f"version {version} is older than {_version(LEAST_LIBVIRT)}, which vscaf needs",
            "apt-get update && apt-get install libvirt-daemon-system",
        )
    else:
        yield ready(f"{version} at {host.rules_config.uri}")


def qemu(host: HostFacts) -> Iterable[Verdict]:
    virt = host.virt
    if virt.driver != QEMU:
        yield note(f"libvirt's driver here is {virt.driver}: vscaf is made for QEMU")
    elif not virt.guest_types:
        yield problem(
            "libvirt finds no QEMU", f"apt-get install qemu-system-x86 && {commands.libvirtd(host, 'restart')}"
        )
    elif virt.driver_version == 0:
        yield unknown("libvirt does not tell its version")
    else:
        yield ready(_version(virt.driver_version))


def kvm(host: HostFacts) -> Iterable[Verdict]:
    flags = known(host.system.cpu_flags)
    module = next((module for flag, module in KVM_MODULES.items() if flag in (flags or ())), None)
    if not host.system.kvm_device:
        if module is not None:
            yield problem("there is no /dev/kvm: guests are emulated", f"modprobe {module}")
        else:
            yield note(
                "there is no /dev/kvm, and the CPU shows neither vmx nor svm: guests are emulated, and their vCPUs are "
                "never unplugged. Switch virtualization on in the firmware, or in the machine around this one"
            )
    elif flags is not None and module is None:
        yield note("/dev/kvm is there, but the CPU shows neither vmx nor svm: guests may not boot under KVM")
    elif not isinstance(host.libvirt, NoLibvirt) and _lacks_kvm(host):
        yield problem("/dev/kvm is there, but libvirt does not offer KVM", commands.libvirtd(host, "restart"))
    else:
        yield ready("/dev/kvm")


def _lacks_kvm(host: HostFacts) -> bool:
    virt = host.virt
    return virt.driver == QEMU and bool(virt.guest_types) and "kvm" not in virt.guest_types


def cgroups(host: HostFacts) -> Iterable[Verdict]:
    controllers = known(host.system.controllers)
    missing = {name: what for name, what in NEEDED_CONTROLLERS.items() if name not in controllers}
    if not controllers:
        yield problem("no cgroup hierarchy is mounted", "mount -t cgroup2 cgroup2 /sys/fs/cgroup")
    elif missing:
        what = ", ".join(f"{name} ({effect})" for name, effect in missing.items())
        yield problem(f"controllers are missing: {what}", commands.remove_kernel_option("cgroup_disable"))
    else:
        yield ready("cpu and cpuset")


def pool(host: HostFacts) -> Iterable[Verdict]:
    settings, cpus = known(host.config), host.virt.cpus
    try:
        topology = pool_topology(settings.pool_cpus, cpus, SmtMode(settings.smt))
    except UsageError as error:
        usable = format_cpu_list(host.topology.cpus or suggested_pool(cpus))
        yield problem(str(error), commands.set_key(host, "pool", usable, present=True))
        return
    yield ready(f"{settings.pool}: {len(topology.chunks)} x {topology.chunk} CPUs")


def domains(host: HostFacts) -> Iterable[Verdict]:
    missing = sorted(known(host.config).domains.keys() - host.virt.domains.keys())
    for name in missing:
        heading = f"[domains.{name}]"
        text = f"the configuration has {heading}, but libvirt has no such domain: the daemon refuses to start"
        yield problem(text, f"{commands.virsh(host, 'define', f'{name}.xml')}  # or remove {shlex.quote(heading)}")
    if not missing:
        yield ready(f"{len(host.managed())} managed of {len(host.virt.domains)}")


def oversubscribed(host: HostFacts) -> Iterable[Verdict]:
    """A domain that could not be read may be managed, and its minimum is not known. So the sum is incomplete."""
    unread = sorted(name for name, domain in host.virt.domains.items() if isinstance(domain.now, Unknown))
    for verdict in _minima(host):
        if not unread:
            yield verdict
            continue
        severity = Severity.UNKNOWN if verdict.severity is Severity.READY else verdict.severity
        text = f"{verdict.text}; this is incomplete, because {', '.join(unread)} could not be read"
        yield verdict._replace(severity=severity, text=text)


def _minima(host: HostFacts) -> Iterable[Verdict]:
    topology = host.topology
    chunk, chunks = topology.chunk, len(topology.chunks)
    managed = host.managed()
    running = {name: (domain, rules) for name, (domain, rules) in managed.items() if domain.running}
    wanted = {name: -(-rules.minimum // chunk) for name, (_domain, rules) in running.items()}
    if len(running) > chunks:
        yield note(
            f"{len(running)} domains run, and the pool has {chunks} chunks: if more compute, they share one by time"
        )
    elif sum(wanted.values()) > chunks:
        fair = chunks // len(running)
        changed = {name: rules for name, (_domain, rules) in running.items() if wanted[name] > fair}
        change_metadata = "; ".join(
            commands.set_metadata(
                host,
                name,
                partition_element(rules, fair * chunk),
                running=True,
                persistent=running[name][0].persistent,
            )
            for name, rules in sorted(changed.items())
        )
        yield problem(
            f"the minima of the running domains add up to {sum(wanted.values()) * chunk} CPUs, the pool has "
            f"{chunks * chunk}: they are cut",
            change_metadata if host.rules_config.metadata else commands.edit_config(host),
        )
    elif len(managed) > chunks:
        yield note(
            f"{len(managed)} domains are managed, and the pool has {chunks} chunks: if more compute, they share one"
        )
    else:
        yield ready(f"{len(running)} running domains, {chunks} chunks")


def partition_element(rules: DomainRules, minimum: int) -> str:
    """The metadata that give a domain these rules with another minimum."""
    values = {
        "min": minimum,
        "max": rules.maximum,
        "weight": f"{rules.weight:.9f}".rstrip("0").rstrip(".") if rules.weight != 1.0 else None,
        "priority": rules.priority or None,
        "rest": rules.rest,
    }
    attributes = [f'{key}="{value}"' for key, value in values.items() if value is not None]
    return f"<partition {' '.join(attributes)}/>"


CHECKS: tuple[Check[HostFacts], ...] = (
    Check("config", "the configuration file", "it is not there, or it is wrong", config),
    Check("libvirt", "libvirt's version, and whether it answers", "it does not answer, or is older than 9.0", libvirt),
    Check("qemu", "QEMU's version, as libvirt tells it", "libvirt finds no QEMU", qemu),
    Check(
        "kvm", "/dev/kvm, and KVM in libvirt's capabilities", "the CPU has virtualization, but KVM is not offered", kvm
    ),
    Check("cgroups", "the cgroup controllers cpu and cpuset", "one of them is not mounted", cgroups),
    Check("pool", "the pool's CPUs on this host", "one is not online, or a core is cut in two", pool),
    Check("domains", "the domains that the configuration names", "libvirt has no such domain", domains),
    Check("oversubscribed", "the minima of the running domains", "they do not fit into the pool", oversubscribed),
    Check("daemon", "whether the daemon answers, and keeps its laws", "its partition breaks a law", daemon),
)
