#!/usr/bin/python
# Copyright: the vscaf developers
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

DOCUMENTATION = r"""
module: vscaf_domain
short_description: Set the rules of a domain in its metadata
version_added: 0.1.0
description:
  - Marks a libvirt domain as managed by vscaf, and sets its bounds, weight, priority and place of rest.
  - The rules are in the element C(<vscaf:partition/>) of the domain's own metadata. A running daemon uses them within
    its period.
  - The element has exactly the rules that the task gives. A rule that is not given is removed, and the daemon's
    configuration or default counts.
  - The rules are set in the persistent definition and in the running domain, where there is one.
author:
  - The vscaf developers (@vscaf)
requirements:
  - libvirt-python on the managed node (Debian's python3-libvirt)
options:
  name:
    description: Name of the domain.
    type: str
    required: true
  state:
    description:
      - With V(present) vscaf manages the domain by these rules.
      - With V(absent) the element is removed, and vscaf gives the domain back, unless its configuration names it.
    type: str
    choices: [present, absent]
    default: present
  min:
    description: The fewest CPUs that the domain has while it computes.
    type: int
  max:
    description: The most CPUs that it ever has.
    type: int
  weight:
    description: How much its speedup counts, above 0 and at most 1000. Some policies ignore it.
    type: float
  priority:
    description:
      - From -1000 to 1000. If more domains compute than there are cores, those of higher priority keep their own.
    type: int
  rest:
    description: Where the domain runs without demand.
    type: str
    choices: [reserve, share, keep]
  uri:
    description: The libvirt connection.
    type: str
    default: qemu:///system
attributes:
  check_mode:
    description: Can run in check mode and report changes without making them.
    support: full
  diff_mode:
    description: Shows the elements before and after.
    support: full
"""

EXAMPLES = r"""
- name: Give the domain cfd two to six CPUs, and count its speedup twice
  vscaf.vscaf.vscaf_domain:
    name: cfd
    min: 2
    max: 6
    weight: 2.0

- name: Take the domain cfd from vscaf
  vscaf.vscaf.vscaf_domain:
    name: cfd
    state: absent
"""

RETURN = r"""
partition:
  description: The element that the domain has now; an empty text if it has none.
  returned: success
  type: str
  sample: <partition min="2" max="6" weight="2"/>
changed_in:
  description: Where the element was changed, in the persistent definition (V(config)) or the running domain (V(live)).
  returned: success
  type: list
  elements: str
  sample: [config, live]
"""

import traceback

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.vscaf.vscaf.plugins.module_utils.partition import (
    ATTRIBUTES,
    NAMESPACE,
    PREFIX,
    RESTS,
    partition_xml,
    same_form,
    wrong_rule,
)

try:
    import libvirt
except ImportError:
    libvirt = None
    LIBVIRT_MISSING = traceback.format_exc()


def places(domain):
    """Name -> flag of the definitions that the domain has."""
    found = {}
    if domain.isPersistent():
        found["config"] = libvirt.VIR_DOMAIN_AFFECT_CONFIG
    if domain.isActive():
        found["live"] = libvirt.VIR_DOMAIN_AFFECT_LIVE
    return found


def read_partition(domain, flag):
    """The element in one definition, or an empty text."""
    try:
        return same_form(domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, NAMESPACE, flag))
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN_METADATA:
            return ""
        raise


def set_partition(domain, wanted, check_mode):
    """Sets the element, or removes it if *wanted* is empty. Returns the elements before, and which ones differ."""
    before = {place: read_partition(domain, flag) for place, flag in places(domain).items()}
    different = [place for place, xml in before.items() if xml != wanted]
    for place in [] if check_mode else different:
        flag = places(domain)[place]
        key = PREFIX if wanted else None
        domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, wanted or None, key, NAMESPACE, flag)
    return before, different


def shown(parts):
    return "".join(f"{place}: {xml or 'none'}\n" for place, xml in parts.items())


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "min": {"type": "int"},
            "max": {"type": "int"},
            "weight": {"type": "float"},
            "priority": {"type": "int"},
            "rest": {"type": "str", "choices": list(RESTS)},
            "uri": {"type": "str", "default": "qemu:///system"},
        },
        supports_check_mode=True,
    )
    if libvirt is None:
        module.fail_json(msg=missing_required_lib("libvirt-python"), exception=LIBVIRT_MISSING)
    name, uri, absent = module.params["name"], module.params["uri"], module.params["state"] == "absent"
    rules = {rule: module.params[rule] for rule in ATTRIBUTES}
    wrong = wrong_rule(rules)
    if wrong:
        module.fail_json(msg=f"domain {name}: {wrong}")
    wanted = "" if absent else partition_xml(rules)
    libvirt.registerErrorHandler(lambda _context, _error: None, None)  # it would print to standard error
    try:
        connection = libvirt.open(uri)
        try:
            before, different = set_partition(connection.lookupByName(name), wanted, module.check_mode)
        finally:
            connection.close()
    except libvirt.libvirtError as error:
        if not (absent and error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN):
            module.fail_json(msg=f"domain {name} at {uri}: {error.get_error_message()}: look at `virsh -c {uri} list`")
        before, different = {}, []
    after = dict.fromkeys(before, wanted)
    module.exit_json(
        changed=bool(different),
        changed_in=different,
        partition=wanted,
        diff={"before": shown(before), "after": shown(after), "before_header": name, "after_header": name},
    )


if __name__ == "__main__":
    main()
