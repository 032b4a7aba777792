"""Runs a command as the first process of a pod, and ends as it ends.

    pod_init.py HOSTS NAME COMMAND...

The command gets PIDs, mounts and a host name of its own: NAME, and HOSTS instead of /etc/hosts.
When this process is killed, the whole pod is. Needs the rights of root, in some user namespace.
(util-linux's unshare does nearly this, but tells nobody that its child was killed by SIGKILL.)
"""

import ctypes
import os
import select
import signal
import socket
import sys

_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWPID = 0x00020000, 0x04000000, 0x20000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def _mount(source: str, target: str, kind: str, flags: int) -> None:
    words = (word.encode() for word in (source, target, kind))
    _check(_libc.mount(*words, ctypes.c_ulong(flags), None), f"mount {target}")


def _become_pod(hosts: str, name: str, command: list[str], parent: int) -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if select.select([parent], [], [], 0)[0]:
        os._exit(1)  # it ended before we asked to end with it
    os.close(parent)
    _mount("none", "/", "", _MS_REC | _MS_PRIVATE)
    _mount("proc", "/proc", "proc", 0)
    _mount(hosts, "/etc/hosts", "", _MS_BIND)
    socket.sethostname(name)
    os.execvp(command[0], command)


def main() -> int:
    hosts, name, *command = sys.argv[1:]
    _check(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWUTS | _CLONE_NEWPID), "unshare")
    parent, open_while_we_live = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(open_while_we_live)
        try:
            _become_pod(hosts, name, command, parent)
        except OSError as error:
            print(f"{name}: cannot run {command[0]}: {error}", file=sys.stderr, flush=True)
        os._exit(127)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
