"""A real guest in the lab: a transient domain made from the image, and commands in it."""

from __future__ import annotations

import logging
import re
import time
from functools import cached_property
from pathlib import Path
from types import TracebackType
from xml.sax.saxutils import escape, quoteattr

import libvirt
import libvirt_qemu

from vscaf.lab import accelerator, processes, time_stamp_counter
from vscaf.lab.errors import LabError
from vscaf.lab.polling import HANG_S
from vscaf.lab.private_libvirt import PrivateLibvirt
from vscaf.lab.runner import ClockOffset, Command, CommandResult, Runner
from vscaf.occupancy.qemu import vcpu_threads

AGENT_CHANNEL = "org.vscaf.agent.0"
LAB_CHANNEL = "org.vscaf.lab.0"
BOOT_DEADLINE_S = 300.0  # of an emulated guest, with others, on a busy machine
BOOT_CPU_S = 40.0  # ten times what a vCPU of an emulated guest computes before the guest answers
BOOT_IDLE_S, BOOT_IDLE_CPU_S = 60.0, 1.0  # a boot computes far more in this time, however busy the host is
MAX_RESTARTS = 3  # of a guest that hangs at boot: more than that is no bad luck
ASK_AGAIN_S = 5.0
ANSWER_DEADLINE_S = 20.0  # after an error: a guest that takes longer is described in a note on the error

log = logging.getLogger(__name__)


class Guest:
    """Context manager: a running guest that answers. It is ended at the end.

    `image`: directory with vmlinuz and initrd.img (build/image/current). `vcpus`: vCPUs at the start. `max_vcpus`: the
    most that it can have (default: vcpus). `cpuset`: host CPUs for the domain from the start, as libvirt writes them
    ("0-1"); default: all. `kernel_arguments`: additional ones, e.g. "vscaf.agent=off". `unpluggable`: whether the first
    vCPUs may be unplugged (default: only under KVM; under TCG an unplug never completes). `persistent`: libvirt keeps
    the domain while it does not run, and a reboot starts it again. `disk`: a qcow2 file, for snapshots. `elements`:
    additional XML of the domain, e.g. a <cputune>. `cpu`: the <cpu> element; default: the accelerator's best.
    Raises LabError if the image is missing, TimeoutError if the guest does not answer in time.
    """

    def __init__(
        self,
        lab: PrivateLibvirt,
        name: str,
        image: Path,
        *,
        vcpus: int = 2,
        max_vcpus: int | None = None,
        memory_mib: int = 512,
        cpuset: str | None = None,
        kernel_arguments: str = "",
        unpluggable: bool | None = None,
        persistent: bool = False,
        disk: Path | None = None,
        elements: str = "",
        cpu: str = "",
    ) -> None:
        self.lab = lab
        self.name = name
        self.image = image.resolve()
        self.vcpus = vcpus
        self.max_vcpus = vcpus if max_vcpus is None else max_vcpus
        self.memory_mib = memory_mib
        self.cpuset = cpuset
        self.kernel_arguments = kernel_arguments
        self.persistent = persistent
        self.disk = disk
        self.elements = elements
        self.cpu = cpu
        self._unpluggable = unpluggable
        self._runner: Runner | None = None
        self._started_s = 0.0
        self.boot_s = 0.0  # from the domain's start to the first answer
        self.restarts = 0  # because it hung at boot

    @property
    def agent_socket(self) -> Path:
        """The host's end of the agent's channel: a UNIX socket on which QEMU listens."""
        return self.lab.socket_path(f"{self.name}.agent")

    @property
    def console_log(self) -> Path:
        """What the guest's kernel and /init print."""
        return self.lab.logs / f"{self.name}.console.log"

    @cached_property
    def domain_type(self) -> str:
        """Either "kvm" or "qemu" (TCG)."""
        for part in ("vmlinuz", "initrd.img"):
            if not (self.image / part).exists():
                raise LabError(f"there is no {self.image / part}: build the image with images/build.py")
        return accelerator.domain_type(self.image, self.lab.cache)

    @property
    def xml(self) -> str:
        """The domain's definition."""
        kvm = self.domain_type == "kvm"
        emulated = "" if kvm else emulated_arguments()
        # The kernel prints its boot on the console, so that a guest that does not answer shows how far it came. /init
        # ends that: what the kernel prints later would take time from the guest's programs.
        arguments = f"console=ttyS0 loglevel=7 panic=-1 {emulated}{self.kernel_arguments}".strip()
        cpuset = f" cpuset={quoteattr(self.cpuset)}" if self.cpuset else ""
        vcpu_elements = ""
        if kvm if self._unpluggable is None else self._unpluggable:
            rows = [
                f"<vcpu id='{number}' enabled='{'yes' if number < self.vcpus else 'no'}'"
                f" hotpluggable='{'yes' if number else 'no'}'/>"
                for number in range(self.max_vcpus)
            ]
            vcpu_elements = f"<vcpus>{''.join(rows)}</vcpus>"
        disk = ""
        if self.disk is not None:
            disk = (
                "<disk type='file' device='disk'><driver name='qemu' type='qcow2'/>"
                f"<source file={quoteattr(str(self.disk))}/><target dev='vda' bus='virtio'/></disk>"
            )
        return f"""
<domain type='{self.domain_type}'>
  <name>{escape(self.name)}</name>
  <memory unit='MiB'>{self.memory_mib}</memory>
  <vcpu placement='static'{cpuset} current='{self.vcpus}'>{self.max_vcpus}</vcpu>{vcpu_elements}
  {self.elements}
  <os>
    <type arch='x86_64' machine='pc'>hvm</type>
    <kernel>{escape(str(self.image / "vmlinuz"))}</kernel>
    <initrd>{escape(str(self.image / "initrd.img"))}</initrd>
    <cmdline>{escape(arguments)}</cmdline>
  </os>
  <features><acpi/><apic/></features>
  {self.cpu or f"<cpu mode='{'host-passthrough' if kvm else 'maximum'}' check='none'/>"}
  <clock offset='utc'/>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>{"restart" if self.persistent else "destroy"}</on_reboot>
  <on_crash>destroy</on_crash>
  <devices>
    <emulator>{accelerator.emulator()}</emulator>
    <controller type='usb' model='none'/>
    <controller type='virtio-serial' index='0'/>
    <memballoon model='none'/>
    <serial type='file'>
      <source path={quoteattr(str(self.console_log))} append='off'/>
      <target port='0'/>
    </serial>
    {disk}
    {_channel(self.agent_socket, AGENT_CHANNEL)}
    {_channel(self._lab_socket, LAB_CHANNEL)}
  </devices>
</domain>
"""

    @property
    def _lab_socket(self) -> Path:
        return self.lab.socket_path(f"{self.name}.lab")

    @property
    def domain(self) -> libvirt.virDomain:
        """The domain, by the lab's connection."""
        return self.lab.connection.lookupByName(self.name)

    @property
    def qemu_pid(self) -> int:
        """QEMU's pid. Raises LabError if the guest does not run."""
        pid = processes.read_pid(self.lab.directory / "run" / "qemu" / f"{self.name}.pid")
        if pid is None:
            raise LabError(f"guest {self.name} does not run: start it first")
        return pid

    @property
    def vcpu_threads(self) -> dict[int, int]:
        """vCPU number -> thread id on the host."""
        return vcpu_threads(self.qemu_pid)

    def launch(self) -> None:
        """Starts the domain without waiting for the guest."""
        xml = self.xml  # first, so that the probe for KVM does not count as boot time
        self._started_s = time.monotonic()
        if self.persistent:
            self.lab.connection.defineXML(xml).create()
        else:
            self.lab.connection.createXML(xml, 0)
        self._runner = Runner(self._lab_socket, self.name)

    def reconnect(self) -> None:
        """Connects to the guest again after its QEMU has changed (it was restored or moved). Running commands go on in
        the guest, but their results are lost."""
        if self._runner is not None:
            self._runner.close()
        self._runner = Runner(self._lab_socket, self.name)

    def wait_ready(self, deadline_s: float = BOOT_DEADLINE_S) -> None:
        """Waits until the guest runs commands. At the deadline, raises TimeoutError with its vCPUs' state and its last
        console lines.

        An emulated guest that hangs at boot is started again, at most MAX_RESTARTS times. Two hangs were seen with
        QEMU 7.2. Both vCPUs slept, because one got no timer interrupts. Or both computed without end at an instruction
        that Linux changes as it boots (sched_clock_idle_wakeup_event, where a static key was switched): Linux puts a
        breakpoint there meanwhile, and QEMU seems to keep its translation. The vCPUs' CPU time shows both, however
        busy the host is.
        """
        begun_s = time.monotonic()
        looks: list[tuple[float, float]] = []
        while not self._answers_within(min(deadline_s, ASK_AGAIN_S)):
            waited_s = time.monotonic() - begun_s
            if waited_s > deadline_s:
                raise self._silent(deadline_s)
            if self.restarts < MAX_RESTARTS and self.domain_type == "qemu" and self._hangs(looks):
                log.warning("the guest is started again: %s", self._silent(waited_s))
                self._start_again()
                begun_s, looks = self._started_s, []
        self.boot_s = time.monotonic() - self._started_s

    def _answers_within(self, seconds: float) -> bool:
        try:
            self.runner.clock(seconds)
        except TimeoutError:
            return False
        return True

    def _silent(self, waited_s: float) -> TimeoutError:
        """The error of a guest that does not answer."""
        console_text = self.console_log.read_text(errors="replace")[-1000:] if self.console_log.exists() else ""
        waited = f"guest {self.name} did not answer within {waited_s:.3f} s"
        return TimeoutError(f"{waited}: {self._vcpu_state()}; it last printed: {console_text}")

    def _start_again(self) -> None:
        self.restarts += 1
        if self.persistent:  # as it is defined now
            self.domain.destroy()
            self._started_s = time.monotonic()
            self.domain.create()
            self.reconnect()
        else:
            self.stop()
            self.launch()

    def _hangs(self, looks: list[tuple[float, float]]) -> bool:
        """Whether a vCPU has used far more CPU time than a boot takes, or all together almost none in BOOT_IDLE_S.

        looks: when this was asked since the start, and the vCPUs' CPU time then. This look is added.
        """
        try:
            times_s = [one / 1e9 for one in self._vcpu_times_ns().values()]
        except (OSError, LabError):  # QEMU has just ended: the next question to the guest fails
            return False
        now_s, used_s = time.monotonic(), sum(times_s)
        idle = any(now_s - at_s >= BOOT_IDLE_S and used_s - then_s < BOOT_IDLE_CPU_S for at_s, then_s in looks)
        looks.append((now_s, used_s))
        return idle or max(times_s) > BOOT_CPU_S

    def _vcpu_times_ns(self) -> dict[int, int]:
        return {
            vcpu: int(Path(f"/proc/{self.qemu_pid}/task/{thread}/schedstat").read_text().split()[0])
            for vcpu, thread in self.vcpu_threads.items()
        }

    def _vcpu_state(self) -> str:
        """The vCPUs' CPU time within a second, and their instruction pointers and flags before and after it."""
        texts = []
        try:
            for wait_s in (1.0, 0.0):
                times_ns = self._vcpu_times_ns()
                human = libvirt_qemu.VIR_DOMAIN_QEMU_MONITOR_COMMAND_HMP
                registers = libvirt_qemu.qemuMonitorCommand(self.domain, "info registers -a", human)
                words = re.findall(r"(?:CPU#|[ER]IP=|HLT=|[ER]FL=)[0-9a-f]+", registers)
                texts.append(f"{self.domain.state()}, run for {times_ns} ns, {' '.join(words)}")
                time.sleep(wait_s)
        except (OSError, LabError, libvirt.libvirtError) as error:
            texts.append(f"the state of its vCPUs is unknown: {error}")
        return ", then ".join(texts)

    def __enter__(self) -> Guest:
        try:
            self.launch()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):  # an interrupt must not wait
            try:
                if not self._answers_within(ANSWER_DEADLINE_S):
                    error.add_note(str(self._silent(ANSWER_DEADLINE_S)))  # it may be the cause of the error
            except (OSError, LabError) as gone:
                error.add_note(str(gone))
        self.stop()

    def stop(self) -> None:
        """Ends the guest at once, if it still runs. A persistent one is also undefined."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None
        try:
            domain = self.domain
            if not self.persistent or domain.isActive():
                domain.destroy()
            if self.persistent:
                domain.undefineFlags(
                    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
                )
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise

    @property
    def runner(self) -> Runner:
        """The connection to the guest's runner. Raises LabError if the guest was not started."""
        if self._runner is None:
            raise LabError(f"guest {self.name} does not run: start it first")
        return self._runner

    def start(self, command: str) -> Command:
        """Starts a shell command in the guest; several may run at the same time."""
        return self.runner.start(command)

    def run(self, command: str, timeout_s: float = HANG_S) -> CommandResult:
        """Runs a shell command in the guest: (status, output). At the timeout, kills it and raises TimeoutError."""
        started = self.start(command)
        try:
            return started.wait(timeout_s)
        except TimeoutError:
            started.kill()
            raise

    def clock_offset(self, pings: int = 20) -> ClockOffset:
        """The guest's CLOCK_MONOTONIC minus the host's, from the ping with the shortest round trip."""
        best = ClockOffset(0.0, float("inf"))
        for _ in range(pings):
            before, guest, after = self.runner.clock(10.0)
            uncertainty_s = (after - before) / 2e9
            if uncertainty_s < best.uncertainty_s:
                best = ClockOffset((guest - (before + after) / 2) / 1e9, uncertainty_s)
        return best


def emulated_arguments() -> str:
    """Kernel arguments without KVM.

    Clock: otherwise the kernel would not trust the TSC and would read a device, which takes 10 us and a global lock. It
    is told the TSC's rate: it measures it wrongly while the host is busy. Addresses: QEMU 7.2 finds translated code by
    its virtual address. With random ones it would translate each program anew at each start, which no CPU has to do.
    """
    rate_khz = time_stamp_counter.counts_per_ms()
    return f"tsc=reliable {f'tsc_early_khz={rate_khz} ' if rate_khz else ''}no_timer_check norandmaps "


def _channel(path: Path, name: str) -> str:
    return (
        f"<channel type='unix'><source mode='bind' path={quoteattr(str(path))}/>"
        f"<target type='virtio' name='{name}'/></channel>"
    )
