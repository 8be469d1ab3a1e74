"""Shell commands that fix what a check has found."""

import shlex
from collections.abc import Iterable

from vscaf.config import DEFAULT_CONFIG, Config
from vscaf.cpulist import format_cpu_list
from vscaf.doctor.facts import DomainXml, HostFacts
from vscaf.hypervisor.libvirt.metadata import NAMESPACE


def virsh(host: HostFacts, *words: str) -> str:
    """A virsh command on the configuration's libvirt."""
    return shlex.join(["virsh", "-c", host.rules_config.uri, *words])


def restart(host: HostFacts, name: str) -> str:
    """Shuts a domain down and starts it, so that it runs as it is defined. A guest may take its time, or not obey."""
    start = f"until {virsh(host, 'start', name)}; do sleep 2; done"
    return f"{virsh(host, 'shutdown', name)} && timeout 120 sh -c {shlex.quote(start)}"


def libvirtd(host: HostFacts, action: str) -> str:
    """Starts or restarts libvirt's daemon: the one for all, or the one for QEMU alone. Installs it if there is none."""
    if not host.system.libvirt_daemons:
        return "apt-get update && apt-get install libvirt-daemon-system"
    return f"systemctl {action} {host.system.libvirt_daemons[0]}"


def edit(host: HostFacts, name: str, script: str) -> str:
    """Changes the XML of a domain's next start by a script for sed, which must have no quotes, `$` or `` ` ``.

    A script can take over the quote that libvirt wrote: `s/type=\\(.\\)qemu/type=\\1kvm/`.
    """
    return f"VISUAL=\"sed -i '{script}'\" {virsh(host, 'edit', name)}"


def set_metadata(host: HostFacts, name: str, element: str, *, running: bool, persistent: bool) -> str:
    """Gives the domain an element of vscaf's metadata, now and at its next start, as far as it has these."""
    words = ("metadata", name, NAMESPACE, "--key", "vscaf", "--set", element)
    return virsh(host, *words, *_where(running=running, persistent=persistent))


def pin_all(host: HostFacts, name: str, vcpus: Iterable[int], cpus: str, *, running: bool, persistent: bool) -> str:
    """Pins vCPUs and the emulator of a domain. *cpus*: a CPU list, or "r" to remove the pins."""
    where = _where(running=running, persistent=persistent)
    numbers = " ".join(map(str, sorted(vcpus)))
    words = shlex.join([cpus, *where])
    loop = f"for vcpu in {numbers}; do {virsh(host, 'vcpupin', name)} $vcpu {words}; done"
    return f"{loop}; {virsh(host, 'emulatorpin', name)} {words}"


def _where(*, running: bool, persistent: bool) -> list[str]:
    return ["--live"] * running + ["--config"] * persistent


def remove_kernel_option(option: str) -> str:
    """Removes an option of the host's kernel. GRUB is Debian's boot loader. Fails if the option is not in its files."""
    files = f"grep -lrs '^GRUB_CMDLINE.*{option}=' /etc/default/grub /etc/default/grub.d"
    script = f"s| *{option}=[-_,:/0-9a-zA-Z]*||g"  # not up to a space: the last option is followed by a quote
    return f"{files} | xargs sed -i {shlex.quote(script)} && update-grub && reboot"


def set_key(host: HostFacts, key: str, value: str, *, present: bool) -> str:
    """Sets a key of the configuration's first table to a text, and makes a running daemon use it."""
    line = f'{key} = "{value}"'
    script = f"s|^{key} *=.*|{line}|" if present else f"1i {line}"
    command = f"sed -i {shlex.quote(script)} {shlex.quote(host.config_file)}"
    return command if host.status is None else f"{command} && {_vscaf(host, 'reload')}"


def write_config(host: HostFacts, pool: frozenset[int]) -> str:
    """Writes a configuration with this pool."""
    line = shlex.quote(f'pool = "{format_cpu_list(pool)}"')
    return f"mkdir -p {DEFAULT_CONFIG.parent} && echo {line} > {shlex.quote(host.config_file)}"


def edit_config(host: HostFacts) -> str:
    """Opens the configuration in an editor, checks it, and makes a running daemon use it."""
    file = shlex.quote(host.config_file)
    command = f'"${{EDITOR:-vi}}" {file} && vscaf check-config {file}'
    return command if host.status is None else f"{command} && {_vscaf(host, 'reload')}"


def put_back(host: HostFacts) -> str:
    """Puts back what a daemon that has ended left changed, from its journal."""
    return _vscaf(host, "off")


def manage(host: HostFacts, name: str) -> str:
    """Makes the daemon manage a domain again."""
    return f"{_vscaf(host, 'manage')} {shlex.quote(name)}"


def prepare(host: HostFacts, domain: DomainXml, maximum: int | None = None) -> str:
    """Makes a domain partitionable, with a vCPU maximum of at least *maximum*. A transient domain is defined first."""
    uri = host.rules_config.uri
    words = ["vscaf", "prepare", domain.name]
    words += [] if maximum is None else ["--maximum", str(maximum)]
    words += [] if uri == Config(pool="0").uri else ["--uri", uri]
    if domain.persistent:
        return shlex.join(words)
    file = shlex.quote(f"{domain.name}.xml")
    define = f"{virsh(host, 'dumpxml', '--inactive', domain.name)} > {file} && {virsh(host, 'define')} {file}"
    return f"{define} && {shlex.join(words)}"


def _vscaf(host: HostFacts, command: str) -> str:
    if host.config_file == str(DEFAULT_CONFIG):
        return f"vscaf {command}"
    return f"vscaf {command} --config {shlex.quote(host.config_file)}"
