"""Runs tasks in the root directory of another system by chroot, which no connection plugin of ansible-core does."""

from __future__ import annotations

import shlex

from ansible.plugins.connection.local import Connection as Local

DOCUMENTATION = """
name: root
short_description: run tasks in a directory by chroot
description: The address of the host is the directory. Needs root.
options:
  directory:
    description: The directory.
    type: path
    required: true
    vars:
      - name: ansible_host
"""


# Of that system. The controller's may begin with the environment in which Ansible runs.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Connection(Local):
    """As the connection "local", with another root directory."""

    transport = "root"

    def exec_command(self, cmd, in_data=None, sudoable=True):
        command = shlex.join(["chroot", self.get_option("directory"), "env", f"PATH={PATH}", "/bin/sh", "-c", cmd])
        return super().exec_command(command, in_data, sudoable)

    def put_file(self, in_path, out_path):
        super().put_file(in_path, self.get_option("directory") + out_path)

    def fetch_file(self, in_path, out_path):
        # Both copy, but fetch_file of "local" calls put_file of this class.
        super().put_file(self.get_option("directory") + in_path, out_path)
