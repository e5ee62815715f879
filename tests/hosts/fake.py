"""Fake hosts: namespaces of the kernel that make several hosts of one machine.

Each host has a network of its own with one address, its own names, processes and monotonic clock,
which is hours away from the driver's. A bridge joins them; the driver is at its address.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CLOCKS_S = (50_000, 3_000, 90_000)
"""Seconds that each host's clock is ahead of the driver's."""
_NEEDED = ("ip", "unshare")


class FakeHosts:
    """Hosts of one network, which exist until ``close``."""

    def __init__(self, number, folder):
        self._net = f"10.{100 + os.getpid() % 100}.{os.getpid() // 100 % 256}"
        self._bridge = f"elb{os.getpid()}"
        self.driver = f"{self._net}.254"
        self.addresses = [f"{self._net}.{index + 1}" for index in range(number)]
        self._folder = folder
        self._ip("link", "add", self._bridge, "type", "bridge")
        self._ip("addr", "add", f"{self.driver}/24", "dev", self._bridge)
        self._ip("link", "set", self._bridge, "up")
        for index, address in enumerate(self.addresses):
            name, outer = self._name(address), self._outer(address)
            self._ip("netns", "add", name)
            self._ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", name)
            self._ip("link", "set", outer, "master", self._bridge, "up")
            self._ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            self._ip("-n", name, "link", "set", "eth0", "up")
            self._ip("-n", name, "link", "set", "lo", "up")
            (folder / f"{address}.clock").write_text(str(CLOCKS_S[index % len(CLOCKS_S)]))
        self._script = folder / "enter"
        self._script.write_text(
            "#!/bin/sh\n"
            f'address=$1; shift; clock=$(cat "{folder}/$address.clock")\n'
            f'exec ip netns exec "elh{os.getpid()}-${{address##*.}}" unshare --uts --pid --fork '
            '--kill-child --mount-proc --time --monotonic "$clock" "$@"\n'
        )

    @property
    def command(self):
        """Command that starts an agent on a host, for the launcher's options."""
        return f"sh {self._script} {{address}} {{agent}}"

    def cut(self, address):
        """Take down a host's link, without a notice to anything."""
        self._ip("link", "set", self._outer(address), "down")

    def mend(self, address):
        """Bring a host's link up again."""
        self._ip("link", "set", self._outer(address), "up")

    def close(self):
        """Remove all of it; processes that are still there lose their network."""
        for address in self.addresses:
            self._ip("netns", "del", self._name(address), check=False)
            self._ip("link", "del", self._outer(address), check=False)
        self._ip("link", "del", self._bridge, check=False)

    def _name(self, address):
        return f"elh{os.getpid()}-{address.rpartition('.')[2]}"

    def _outer(self, address):
        return f"ev{os.getpid()}-{address.rpartition('.')[2]}"

    def _ip(self, *words, check=True):
        subprocess.run(["ip", *words], check=check, capture_output=True)


def why_not():
    """Why this machine cannot have fake hosts; None if it can."""
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    tried = subprocess.run(
        ["unshare", "--net", "--uts", "--pid", "--fork", "--time", "--monotonic", "5", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return tried.stderr.strip() or "the kernel forbids namespaces" if tried.returncode else None


def fake_hosts(number, folder):
    """Fake hosts in a folder for their files; skips the test, aloud, where there can be none."""
    reason = why_not()
    if reason is not None:
        pytest.skip(f"no fake hosts here: {reason}")
    return FakeHosts(number, Path(folder))
