"""Checks of what else decides where things run on the host's CPUs. All are pure functions of facts."""

import shlex
from collections.abc import Callable, Iterable, Sequence

from vscaf.cpulist import format_cpu_list
from vscaf.doctor import commands
from vscaf.doctor.facts import HostFacts
from vscaf.doctor.finding import Check, Verdict, known, note, problem, ready

TUNED_PROFILES = ("cpu-partitioning", "realtime")
"""Beginnings of the names of tuned's profiles that take CPUs from the scheduler."""

EMULATORS = "qemu"
SHOWN = 3


def isolcpus(host: HostFacts) -> Iterable[Verdict]:
    isolated, pool = known(host.system.isolated), host.pool
    settings = known(host.config)
    if both := isolated & pool:
        yield problem(
            f"CPU {format_cpu_list(both)} of the pool is isolated (isolcpus): the kernel does not balance there, so a "
            "domain that floats over its partition stays on one CPU",
            commands.remove_kernel_option("isolcpus"),
        )
    if both := isolated & host.reserve:
        left = host.reserve - isolated
        yield problem(
            f"CPU {format_cpu_list(both)} of the reserve is isolated (isolcpus): all that rests there stays on one CPU",
            commands.set_key(host, "reserve", format_cpu_list(left), present=settings.reserve is not None)
            if left
            else commands.remove_kernel_option("isolcpus"),
        )
    if not isolated & (pool | host.reserve):
        yield ready("no isolated CPU")


def nohz_full(host: HostFacts) -> Iterable[Verdict]:
    both = known(host.system.nohz_full) & host.pool
    if both:
        yield note(
            f"CPU {format_cpu_list(both)} of the pool is in nohz_full: each switch between host and guest costs more",
            commands.remove_kernel_option("nohz_full"),
        )
    else:
        yield ready("no CPU of the pool")


def irqs(host: HostFacts) -> Iterable[Verdict]:
    pool, others = host.pool, host.others
    numbers = [irq.number for irq in known(host.system.irqs) if irq.cpus & pool]
    if not numbers:
        yield ready("none on the pool")
    elif not others:
        yield note(f"{_count(numbers, 'interrupt')} on the pool, which is the whole host")
    elif host.system.processes_named("irqbalance"):
        line = f"IRQBALANCE_BANNED_CPULIST={format_cpu_list(pool)}"
        yield note(
            f"{_count(numbers, 'interrupt')} on CPUs of the pool: irqbalance puts them there",
            f"echo {line} >> /etc/default/irqbalance && systemctl restart irqbalance",
        )
    else:
        yield note(
            f"{_count(numbers, 'interrupt')} on CPUs of the pool (the kernel may refuse to move some)",
            f"for irq in {' '.join(map(str, numbers))}; do echo {format_cpu_list(others)} > "
            "/proc/irq/$irq/smp_affinity_list; done",
        )


def services(host: HostFacts) -> Iterable[Verdict]:
    pool, others = host.pool, host.others
    processes = [one for one in known(host.system.processes) if not one.name.startswith(EMULATORS)]
    only = [one for one in processes if one.cpus and one.cpus <= pool]
    also = [one for one in processes if one.cpus & pool and one.cpus - pool]
    systemd = any(one.pid == 1 and one.name == "systemd" for one in processes)
    cpus = format_cpu_list(others)
    if not others:
        yield note("the pool is the whole host: processes of the host share it with the domains")
        return
    if only:
        names = ", ".join(f"{one.name} ({one.pid})" for one in only[:SHOWN]) + (", ..." if only[SHOWN:] else "")
        yield problem(
            f"{_count(only, 'process', 'processes')} of the host may run only on the pool: {names}",
            f"for pid in {' '.join(str(one.pid) for one in only)}; do taskset -acp {cpus} $pid; done",
        )
    if also:
        slices = "system.slice user.slice init.scope"
        yield note(
            f"{_count(also, 'process', 'processes')} of the host may also run on the pool",
            f"for unit in {slices}; do systemctl set-property $unit AllowedCPUs={cpus}; done"
            if systemd
            else f"for pid in {' '.join(str(one.pid) for one in also)}; do taskset -acp {cpus} $pid; done",
        )
    if not only and not also:
        yield ready("none on the pool")


def _count(things: Sequence[object], one: str, many: str | None = None) -> str:
    return f"{len(things)} {one if len(things) == 1 else many or f'{one}s'}"


def _service(name: str, does: str) -> Callable[[HostFacts], Iterable[Verdict]]:
    def judge(host: HostFacts) -> Iterable[Verdict]:
        if found := host.system.processes_named(name):
            pid = found[0].pid
            yield problem(f"{name} runs (pid {pid}): {does}", f'systemctl disable --now "$(ps -o unit= -p {pid})"')
        else:
            yield ready("does not run")

    return judge


def tuned(host: HostFacts) -> Iterable[Verdict]:
    profiles = known(host.system.tuned_profile).split()
    pinning = [name for name in profiles if name.startswith(TUNED_PROFILES)]
    if pinning and host.system.processes_named("tuned"):
        yield problem(
            f"tuned's profile {pinning[0]} moves processes and interrupts and isolates CPUs",
            "tuned-adm profile virtual-host",
        )
    else:
        yield ready(f"profile {' '.join(profiles)}" if profiles else "no profile")


def hooks(host: HostFacts) -> Iterable[Verdict]:
    scripts = known(host.system.pinning_hooks)
    for script in scripts:
        yield problem(
            f"{script} sets CPUs of domains when they start",
            f"chmod a-x {shlex.quote(script)} && {commands.libvirtd(host, 'restart')}",
        )
    if not scripts:
        yield ready("none that sets CPUs")


def pacemaker(host: HostFacts) -> Iterable[Verdict]:
    resources = known(host.system.pacemaker)
    for name in resources:
        words = ["crm_resource", "--resource", name, "--set-parameter", "autoset_utilization_cpu"]
        yield problem(
            f"{name}: autoset_utilization_cpu is on, so each plug and unplug changes where Pacemaker may place domains",
            shlex.join([*words, "--parameter-value", "false"]),
        )
    if not resources:
        yield ready("no VirtualDomain that counts vCPUs")


CHECKS: tuple[Check[HostFacts], ...] = (
    Check("isolcpus", "the kernel's option isolcpus", "a CPU of the pool or of the reserve is isolated", isolcpus),
    Check("nohz-full", "the kernel's option nohz_full", "never: a note if it has CPUs of the pool", nohz_full),
    Check("irqs", "interrupts with a handler", "never: a note if some are served on the pool", irqs),
    Check(
        "services",
        "processes of the host, without QEMU",
        "one may run only on the pool; a note if some may also run there",
        services,
    ),
    Check(
        "numad",
        "whether numad runs",
        "it runs",
        _service("numad", "it moves and pins domains as vscaf does"),
    ),
    Check(
        "mom",
        "whether oVirt's MOM runs",
        "it runs",
        _service("momd", "it sets CPU quotas of domains while vscaf sizes them"),
    ),
    Check("tuned", "tuned's active profile", "tuned runs with cpu-partitioning or a realtime profile", tuned),
    Check("hooks", "libvirt's hook scripts for QEMU", "one names vcpupin, taskset, cpuset or the like", hooks),
    Check(
        "pacemaker",
        "Pacemaker's VirtualDomain resources",
        "autoset_utilization_cpu is not switched off",
        pacemaker,
    ),
)
