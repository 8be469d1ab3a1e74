"""Reads the host's pCPUs from libvirt's capabilities: NUMA cells, sockets, cores with threads, caches, distances."""

from collections.abc import Mapping
from xml.etree import ElementTree

from vscaf.cpulist import parse_cpu_list
from vscaf.errors import HypervisorError
from vscaf.values import HostCpus


def parse_capabilities(xml: str, online: frozenset[int]) -> HostCpus:
    """The host's pCPUs, from the XML of virConnectGetCapabilities and the set of online pCPUs.

    libvirt lists no siblings for an offline pCPU, and none at all on some machines. Such a pCPU is a core of its own,
    unless another pCPU lists it as a sibling or has the same socket, die and core ids. Without cells every pCPU is on
    node 0. libvirt lists only caches of level 3 and above. A pCPU without one is in no cache of the result.

    Raises HypervisorError if the XML cannot be read.
    """
    try:
        host = ElementTree.fromstring(xml).find("./host")
        cells = [] if host is None else host.findall("./topology/cells/cell")
        banks = [] if host is None else host.findall("./cache/bank")
        node_of: dict[int, int] = {}
        sockets: dict[int, int] = {}
        core_of: dict[int, object] = {}
        distances: dict[tuple[int, int], int] = {}
        for cell in cells:
            node = int(cell.attrib["id"])
            for sibling in cell.iterfind("./distances/sibling"):
                distances[node, int(sibling.attrib["id"])] = int(sibling.attrib["value"])
            for cpu in cell.iterfind("./cpus/cpu"):
                number = int(cpu.attrib["id"])
                node_of[number] = node
                if "socket_id" in cpu.attrib:
                    sockets[number] = int(cpu.attrib["socket_id"])
                if siblings := cpu.get("siblings"):
                    # The lowest thread's number stands for the core, whichever of its threads lists the siblings.
                    core_of.update(dict.fromkeys(threads := parse_cpu_list(siblings) | {number}, min(threads)))
                elif "core_id" in cpu.attrib:
                    core_of.setdefault(number, (node, cpu.get("socket_id"), cpu.get("die_id"), cpu.get("core_id")))
        caches = _last_level(
            [
                (int(bank.attrib["level"]), parse_cpu_list(bank.get("cpus", "")))
                for bank in banks
                if bank.get("type") != "code"
            ]
        )
    except (ElementTree.ParseError, KeyError, ValueError) as error:
        raise HypervisorError(f"libvirt's capabilities cannot be read ({error}): see `virsh capabilities`") from error
    cores: dict[object, set[int]] = {}
    for number in online:
        cores.setdefault(core_of.get(number, number), set()).add(number)
        node_of.setdefault(number, 0)
    return HostCpus(
        online=online,
        cores=tuple(sorted(map(frozenset, cores.values()), key=min)),
        node_of=node_of,
        sockets=sockets,
        caches=tuple(sorted((cache & online for cache in caches if cache & online), key=min)),
        distances=distances,
    )


def _last_level(banks: list[tuple[int, frozenset[int]]]) -> tuple[frozenset[int], ...]:
    """The pCPUs of each last-level cache. Each pCPU is in the cache of the highest level that it has."""
    owner: dict[int, int] = {}
    for index, (_level, cpus) in sorted(enumerate(banks), key=lambda item: item[1][0]):
        owner.update(dict.fromkeys(cpus, index))
    caches: Mapping[int, set[int]] = {index: set() for index in owner.values()}
    for cpu, index in owner.items():
        caches[index].add(cpu)
    return tuple(map(frozenset, caches.values()))
