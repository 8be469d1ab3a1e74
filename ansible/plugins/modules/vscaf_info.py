#!/usr/bin/python
# Copyright: the vscaf developers
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

DOCUMENTATION = r"""
module: vscaf_info
short_description: Read the status of the vscaf daemon
version_added: 0.1.0
description:
  - Reads what C(vscaf status --json) prints, and which policies are installed. It changes nothing.
  - It does not fail if no daemon runs. RV(running) tells.
author:
  - The vscaf developers (@vscaf)
options:
  socket:
    description: The daemon's control socket.
    type: path
    default: /run/vscaf/control.sock
attributes:
  check_mode:
    description: It changes nothing, so it runs in check mode as well.
    support: full
  diff_mode:
    description: It changes nothing, so there is no difference to show.
    support: none
"""

EXAMPLES = r"""
- name: Read the daemon's status
  vscaf.vscaf.vscaf_info:
  register: vscaf

- name: Show which CPUs each domain has
  ansible.builtin.debug:
    msg: "{{ item.name }}: {{ item.state }} {{ item.partition }}"
  loop: "{{ vscaf.domains }}"
  loop_control:
    label: "{{ item.name }}"
  when: vscaf.running
"""

RETURN = r"""
running:
  description: Whether a daemon answers.
  returned: success
  type: bool
reason:
  description: Why not; an empty text if it answers.
  returned: success
  type: str
domains:
  description: The domains that the daemon knows, as in RV(status). Empty if no daemon runs.
  returned: success
  type: list
  elements: dict
  sample: [{name: cfd, state: cooperating, partition: 2-3, allocation: 2, demand: 4, agent: connected}]
status:
  description: The daemon's whole status. The schema is C(/v1/schema) of its control API.
  returned: if a daemon runs
  type: dict
policies:
  description: The policy in use with its options, the one before it, and the installed ones.
  returned: if a daemon runs
  type: dict
  sample: {current: {name: static, options: {}}, previous: null, installed: [equipartition, static]}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vscaf.vscaf.plugins.module_utils.control import SOCKET, ControlError, NoDaemon, request


def main():
    module = AnsibleModule(
        argument_spec={"socket": {"type": "path", "default": SOCKET}},
        supports_check_mode=True,
    )
    path = module.params["socket"]
    try:
        status = request(path, "GET", "/v1/status")
        policies = request(path, "GET", "/v1/policies")
    except NoDaemon as error:
        module.exit_json(changed=False, running=False, reason=str(error), domains=[])
    except ControlError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=False, running=True, reason="", domains=status["domains"], status=status, policies=policies
    )


if __name__ == "__main__":
    main()
