#!/usr/bin/python
# Copyright: the vscaf developers
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

DOCUMENTATION = r"""
module: vscaf_policy
short_description: Set the policy of the vscaf daemon
version_added: 0.1.0
description:
  - Makes the running daemon decide by another policy, with exactly the options that the task gives.
  - The daemon tries the policy on the present pool first. If it refuses, the policy in use stays.
  - The policy stays in use until the daemon ends, or until a reload brings another one from its configuration. To set
    the policy for good, use the variable C(vscaf_host_policy) of the role C(vscaf.vscaf.host).
author:
  - The vscaf developers (@vscaf)
options:
  name:
    description: Name of an installed policy.
    type: str
    required: true
  options:
    description: Options of the policy.
    type: dict
    default: {}
  socket:
    description: The daemon's control socket.
    type: path
    default: /run/vscaf/control.sock
attributes:
  check_mode:
    description: Can run in check mode. Only the name of the policy is checked then, not its options.
    support: full
  diff_mode:
    description: Shows the policy and its options before and after.
    support: full
"""

EXAMPLES = r"""
- name: Share by weights, with no guest above twice its equal share
  vscaf.vscaf.vscaf_policy:
    name: max-speedup-fitted
    options:
      most_of_equal: 2

- name: Split by hand
  vscaf.vscaf.vscaf_policy:
    name: static
    options:
      allocations:
        cfd: 4
        chemistry: 2
"""

RETURN = r"""
policy:
  description: Name of the policy in use.
  returned: success
  type: str
  sample: static
options:
  description: Its options.
  returned: success
  type: dict
  sample: {allocations: {cfd: 4, chemistry: 2}}
previous:
  description: Name of the policy that was in use before this task.
  returned: success
  type: str
  sample: max-speedup-fitted
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vscaf.vscaf.plugins.module_utils.control import SOCKET, ControlError, request


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "options": {"type": "dict", "default": {}},
            "socket": {"type": "path", "default": SOCKET},
        },
        supports_check_mode=True,
    )
    wanted = {"name": module.params["name"], "options": module.params["options"]}
    try:
        policies = request(module.params["socket"], "GET", "/v1/policies")
        if wanted["name"] not in policies["installed"]:
            there_is = ", ".join(policies["installed"])
            module.fail_json(msg=f"no policy is named {wanted['name']}: choose one of those installed ({there_is})")
        before = policies["current"]
        if before != wanted and not module.check_mode:
            request(module.params["socket"], "POST", "/v1/policy", wanted)
    except ControlError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=before != wanted,
        policy=wanted["name"],
        options=wanted["options"],
        previous=before["name"],
        diff={"before": before, "after": wanted},
    )


if __name__ == "__main__":
    main()
