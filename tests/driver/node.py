"""A host for libvirt's test driver: an XML file that a connection to `test:///PATH` reads."""

from pathlib import Path

DOMAIN = """
  <domain type='test'>
    <name>{name}</name>
    <memory unit='MiB'>64</memory>
    <vcpu placement='static' current='{vcpus}'>{maximum}</vcpu>{elements}
    <os><type>hvm</type></os>
  </domain>"""

NODE = """<node>
  <cpu><mhz>2000</mhz><model>vscaf</model><active>{cpus}</active><nodes>1</nodes><sockets>1</sockets>
  <cores>{cpus}</cores><threads>1</threads></cpu><memory>8000000</memory>{domains}
</node>
"""


def write_node(directory: Path, cpus: int, domains: dict[str, tuple[int, int]], elements: str = "") -> str:
    """Writes a node of *cpus* CPUs with running *domains* (name -> vCPUs, maximum). Returns its URI.

    elements: further XML elements of each domain.
    """
    bodies = "".join(
        DOMAIN.format(name=name, vcpus=now, maximum=most, elements=elements) for name, (now, most) in domains.items()
    )
    path = directory / "node.xml"
    path.write_text(NODE.format(cpus=cpus, domains=bodies), encoding="utf-8")
    return f"test://{path}"
