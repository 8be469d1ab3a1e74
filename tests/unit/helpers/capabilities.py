"""Capabilities XML of many kinds of hosts, as libvirt writes it."""

from collections.abc import Iterable, Mapping


def cpu(number, siblings=None, socket=0, core=None):
    """One <cpu> element. Without siblings it is that of an offline CPU."""
    if siblings is None:
        return f"<cpu id='{number}'/>"
    core = number if core is None else core
    return f"<cpu id='{number}' socket_id='{socket}' die_id='0' core_id='{core}' siblings='{siblings}'/>"


def capabilities(
    cells: Iterable[tuple[int, Iterable[str]]] | None,
    distances: Mapping[tuple[int, int], int] | None = None,
    banks: Iterable[tuple[int, str, str]] = (),
) -> str:
    """cells: number and <cpu> elements of each. None: no topology. distances: by two cell numbers. banks: level, type
    and CPUs of each cache."""
    inner = ""
    if cells is not None:
        for number, cpus in cells:
            siblings = "".join(
                f"<sibling id='{b}' value='{value}'/>" for (a, b), value in (distances or {}).items() if a == number
            )
            inner += (
                f"<cell id='{number}'><memory unit='KiB'>4194304</memory>"
                f"<pages unit='KiB' size='4'>1048576</pages>"
                f"{f'<distances>{siblings}</distances>' if siblings else ''}"
                f"<cpus num='{len(list(cpus))}'>{''.join(cpus)}</cpus></cell>"
            )
        inner = f"<topology><cells>{inner}</cells></topology>"
    caches = "".join(
        f"<bank id='{index}' level='{level}' type='{kind}' size='32' unit='MiB' cpus='{cpus}'/>"
        for index, (level, kind, cpus) in enumerate(banks)
    )
    return (
        "<capabilities><host><uuid>0</uuid><cpu><arch>x86_64</arch></cpu>"
        f"{inner}{f'<cache>{caches}</cache>' if caches else ''}</host>"
        "<guest><os_type>hvm</os_type></guest></capabilities>"
    )


def two_nodes_smt2():
    """16 pCPUs on two nodes. Core c has the CPUs c and c + 8. Each node has four cores, a socket and a cache."""
    cells = [
        (node, [cpu(c + t * 8, f"{c},{c + 8}", node) for t in (0, 1) for c in range(node * 4, node * 4 + 4)])
        for node in (0, 1)
    ]
    distances = {(a, b): 10 if a == b else 21 for a in (0, 1) for b in (0, 1)}
    return capabilities(cells, distances, [(3, "both", "0-3,8-11"), (3, "both", "4-7,12-15")])


def four_nodes():
    """16 pCPUs without SMT on four nodes, two on each of two sockets."""
    cells = [(node, [cpu(c, str(c), node // 2) for c in range(node * 4, node * 4 + 4)]) for node in range(4)]
    distances = {(a, b): 10 if a == b else 12 if a // 2 == b // 2 else 32 for a in range(4) for b in range(4)}
    return capabilities(cells, distances)


def hybrid(efficient=8):
    """One node with one cache: CPUs 0-7 are four cores of two threads, CPUs from 8 on are cores of one thread."""
    cpus = [cpu(c, f"{c // 2 * 2}-{c // 2 * 2 + 1}") for c in range(8)]
    cpus += [cpu(c, str(c)) for c in range(8, 8 + efficient)]
    return capabilities([(0, cpus)], banks=[(3, "both", f"0-{7 + efficient}")])


def partly_offline():
    """As two_nodes_smt2, with CPU 9 (sibling of 1) and the siblings 6 and 14 offline."""
    cells = []
    for node in (0, 1):
        cpus = []
        for thread in (0, 1):
            for core in range(node * 4, node * 4 + 4):
                number = core + thread * 8
                if number in (9, 6, 14):
                    cpus.append(cpu(number))
                else:
                    cpus.append(cpu(number, "1" if core == 1 else f"{core},{core + 8}", node))
        cells.append((node, cpus))
    return capabilities(cells, banks=[(3, "both", "0-3,8,10-11"), (3, "both", "4-5,7,12-13,15")])
