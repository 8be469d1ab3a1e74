"""Facts of a host, read from a tree of made-up files."""

from pathlib import Path
from typing import Any

import pytest
from vscaf.doctor.facts import Irq, Process
from vscaf.doctor.facts_host import read_system
from vscaf.doctor.finding import Unknown

CPUS = "sys/devices/system/cpu"
FILES = {
    "dev/kvm": "",
    "usr/sbin/virtqemud": "",
    "proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu vmx\n",
    "proc/self/mounts": "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n",
    "proc/meminfo": "MemTotal: 8 kB\nHugepagesize:       2048 kB\n",
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory\n",
    f"{CPUS}/isolated": "\n",
    f"{CPUS}/nohz_full": "(null)\n",
    "proc/irq/9/acpi/mark": "",
    "proc/irq/9/smp_affinity_list": "0-7\n",
    "proc/irq/9/effective_affinity_list": "1\n",
    "proc/irq/10/smp_affinity_list": "0-7\n",
    "proc/irq/11/disk/mark": "",
    "proc/irq/11/smp_affinity_list": "2-3\n",
    "proc/irq/default_smp_affinity": "ff\n",
    "proc/2/status": "Name:\tkthreadd\nCpus_allowed_list:\t0-7\n",
    "proc/17/status": "Name:\tcron\nUmask:\t0022\nVmSize:\t6556 kB\nCpus_allowed_list:\t0-1,3\n",
    "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages": "512\n",
    "sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages": "4\n",
}
FACTS = {
    "kvm_device": True,
    "libvirt_daemons": ("virtqemud",),
    "cpu_flags": {"fpu", "vmx"},
    "controllers": {"cpuset", "cpu", "memory"},
    "isolated": set(),
    "nohz_full": set(),
    "irqs": (Irq(9, frozenset({1})), Irq(11, frozenset({2, 3}))),
    "processes": (Process(17, "cron", frozenset({0, 1, 3})),),
    "tuned_profile": "",
    "pinning_hooks": (),
    "pacemaker": (),
    "hugepages": {0: {2048: 512}, 1: {1048576: 4}},
    "default_hugepage_kib": 2048,
}


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, FILES)
    return tmp_path


def test_a_whole_host(root: Path) -> None:
    facts = read_system(root)
    assert {name: getattr(facts, name) for name in FACTS} == FACTS


@pytest.mark.parametrize(
    ("file", "text", "fact", "value"),
    [
        (f"{CPUS}/isolated", "2-3\n", "isolated", {2, 3}),
        (f"{CPUS}/nohz_full", "3\n", "nohz_full", {3}),
        ("proc/cpuinfo", "processor : 0\nFeatures : fp\n", "cpu_flags", None),
        (
            "proc/self/mounts",
            "cgroup /cg/cpu cgroup rw,cpu,cpuacct 0 0\ncgroup /cg/set cgroup rw,cpuset 0 0\n",
            "controllers",
            {"rw", "cpu", "cpuacct", "cpuset"},
        ),
        ("proc/self/mounts", "proc /proc proc rw 0 0\n", "controllers", set()),
        ("etc/tuned/active_profile", "realtime-virtual-host\n", "tuned_profile", "realtime-virtual-host"),
    ],
)
def test_other_contents(root: Path, file: str, text: str, fact: str, value: Any) -> None:
    write(root, {file: text})
    assert getattr(read_system(root), fact) == value


@pytest.mark.parametrize(
    ("file", "fact"),
    [
        ("proc/cpuinfo", "cpu_flags"),
        ("proc/self/mounts", "controllers"),
        ("sys/fs/cgroup/cgroup.controllers", "controllers"),
        (f"{CPUS}/isolated", "isolated"),
        (f"{CPUS}/nohz_full", "nohz_full"),
        ("proc/irq/9/effective_affinity_list", "irqs"),
        ("proc/17/status", "processes"),
        ("proc/meminfo", "default_hugepage_kib"),
        ("sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "hugepages"),
        ("etc/tuned/active_profile", "tuned_profile"),
        ("var/lib/pacemaker/cib/cib.xml", "pacemaker"),
    ],
)
def test_what_cannot_be_read_is_unknown_and_names_the_file(root: Path, file: str, fact: str) -> None:
    """Root may read every file, but nobody can read a directory as one."""
    (root / file).unlink(missing_ok=True)
    (root / file).mkdir(parents=True)
    facts = read_system(root)
    value = getattr(facts, fact)
    assert isinstance(value, Unknown) and file in value.why, value
    for other, good in FACTS.items():
        assert other == fact or getattr(facts, other) == good


@pytest.mark.parametrize(
    ("file", "text", "fact"),
    [
        (f"{CPUS}/isolated", "some\n", "isolated"),
        ("proc/17/status", "Name:\tcron\nVmSize:\t6556 kB\n", "processes"),
        ("proc/meminfo", "MemTotal: 8 kB\n", "default_hugepage_kib"),
        ("var/lib/pacemaker/cib/cib.xml", "<cib", "pacemaker"),
    ],
)
def test_what_makes_no_sense_is_unknown(root: Path, file: str, text: str, fact: str) -> None:
    write(root, {file: text})
    assert isinstance(getattr(read_system(root), fact), Unknown)


def test_without_any_file_nothing_is_known(tmp_path: Path) -> None:
    facts = read_system(tmp_path)
    known = {name for name in FACTS if not isinstance(getattr(facts, name), Unknown)}
    assert known == {"kvm_device", "libvirt_daemons", "tuned_profile", "pinning_hooks", "pacemaker"}, (
        "these are programs, absent here"
    )
    assert facts.kvm_device is False


HOOK = "#!/bin/sh\n# virsh vcpupin would be wrong here\nlogger $1 $2\n"
PINNING = '#!/bin/sh\n[ "$2" = started ] && virsh vcpupin $1 0 3\n'


@pytest.mark.parametrize("name", ["etc/libvirt/hooks/qemu", "etc/libvirt/hooks/qemu.d/50-pin"])
def test_hooks_that_pin(root: Path, name: str) -> None:
    write(root, {name: PINNING, "etc/libvirt/hooks/network": PINNING, "etc/libvirt/hooks/qemu.d/10-log": HOOK})
    for script in (root / "etc/libvirt/hooks").rglob("*"):
        script.chmod(0o755)
    assert read_system(root).pinning_hooks == (f"/{name}",)
    (root / name).chmod(0o644)  # libvirt does not run it
    assert read_system(root).pinning_hooks == ()


CIB = """<cib><configuration><resources><group id="g">
<primitive id="default" class="ocf" provider="heartbeat" type="VirtualDomain"/>
<primitive id="on" type="VirtualDomain"><instance_attributes id="a">
<nvpair id="1" name="autoset_utilization_cpu" value="true"/></instance_attributes></primitive>
<primitive id="off" type="VirtualDomain"><instance_attributes id="b">
<nvpair id="2" name="autoset_utilization_cpu" value="False"/></instance_attributes></primitive>
<primitive id="address" type="IPaddr2"/>
</group></resources></configuration></cib>"""


def test_resources_of_pacemaker(root: Path) -> None:
    write(root, {"var/lib/pacemaker/cib/cib.xml": CIB})
    assert read_system(root).pacemaker == ("default", "on")
