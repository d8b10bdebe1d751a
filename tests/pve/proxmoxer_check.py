"""Drives the model through proxmoxer, which was written against real Proxmox VE: each step must be what it expects.

The port is the first argument, the authority's certificate the second. Tokens come through the environment.
"""

import os
import sys

from proxmoxer import ProxmoxAPI
from proxmoxer.core import ResourceException
from proxmoxer.tools import Tasks

NAME = "mp-0123456789abcdef0123456789abcdef"
port, authority = sys.argv[1:]
user, token_name = os.environ["PVE_TOKEN_ID"].split("!")


def connect(secret):
    return ProxmoxAPI(
        "127.0.0.1",
        port=int(port),
        user=user,
        token_name=token_name,
        token_value=secret,
        verify_ssl=authority,
        timeout=30,
    )


pve = connect(os.environ["PVE_TOKEN_SECRET"])
assert pve.version.get()["version"].count(".") == 2
assert sorted(node["node"] for node in pve.nodes.get()) == ["pve1", "pve2"]
assert {vm["vmid"] for vm in pve.nodes("pve1").qemu.get()} == {101, 9000}
vm = pve.nodes("pve1").qemu(101)


def well(upid):
    """A task's id has nine parts that proxmoxer understands, and the task ends well."""
    parts = Tasks.decode_upid(upid)
    assert (parts["node"], parts["user"]) == ("pve1", user), parts
    assert parts["comment"] == "", parts
    end = Tasks.blocking_status(pve, upid, timeout=30, polling_interval=0)
    assert end is not None and end["exitstatus"] == "OK", end
    assert (end["type"], end["id"], end["starttime"]) == (parts["type"], parts["id"], parts["starttime"]), end
    return parts["type"]


def failed(upid):
    """The task began, and ended with these words."""
    end = Tasks.blocking_status(pve, upid, timeout=30, polling_interval=0)
    assert end is not None and end["status"] == "stopped", end
    return end["exitstatus"]


def refused(ask, status):
    """The words of a refusal, which proxmoxer reads from the reason phrase, and what is wrong by parameter."""
    try:
        ask()
    except ResourceException as error:
        assert error.status_code == status, error
        return error.content, error.errors
    raise AssertionError("it was not refused")


# A reset, as one writes it by hand.
assert vm.status.current.get()["status"] == "running"
assert vm.feature.get(feature="snapshot")["hasFeature"] == 1
assert well(vm.snapshot.post(snapname=NAME, vmstate=0)) == "qmsnapshot"
assert [entry["name"] for entry in vm.snapshot.get()] == [NAME, "current"]
assert failed(vm.snapshot.post(snapname=NAME)) == f"snapshot name '{NAME}' already used"
assert well(vm.status.stop.post()) == "qmstop"
assert vm.status.current.get()["qmpstatus"] == "stopped"
assert well(vm.snapshot(NAME).rollback.post()) == "qmrollback"
assert well(vm.status.start.post()) == "qmstart"
assert well(vm.snapshot(NAME).delete()) == "qmdelsnapshot"
assert failed(vm.snapshot(NAME).rollback.post()) == f"snapshot '{NAME}' does not exist"
listed = pve.nodes("pve1").tasks.get(vmid=101, source="all", limit=50)
kinds = ["qmsnapshot", "qmsnapshot", "qmstop", "qmrollback", "qmstart", "qmdelsnapshot", "qmrollback"]
assert [task["type"] for task in reversed(listed)] == kinds, listed
assert all("endtime" in task for task in listed), listed

# A VM from a template, set up.
new = int(pve.cluster.nextid.get())
assert well(pve.nodes("pve1").qemu(9000).clone.post(newid=new, name="runner-1", full=1)) == "qmclone"
config = pve.nodes("pve1").qemu(new).config.get()
assert config["name"] == "runner-1"
assert pve.nodes("pve1").qemu(new).config.put(digest=config["digest"], tags="motorpool") is None
assert pve.nodes("pve1").qemu(new).config.get()["tags"] == "motorpool"
late = refused(lambda: pve.nodes("pve1").qemu(new).config.put(digest=config["digest"], tags="x"), 500)
assert late[0] == "detected modified configuration - file changed by other user? Try again.", late

# How full a storage is.
storage = pve.nodes("pve1").storage("local-lvm").status.get()
assert storage["total"] == storage["used"] + storage["avail"] and storage["active"] == 1

# Refusals.
words, errors = refused(lambda: vm.snapshot.post(), 400)
assert words == "Parameter verification failed." and "snapname" in errors, (words, errors)
words, errors = refused(lambda: vm.snapshot.post(snapname="no.dots"), 400)
assert "invalid configuration ID" in errors["snapname"], errors
words, _ = refused(lambda: pve.nodes("pve1").qemu(199).status.current.get(), 500)
assert words == "Configuration file 'nodes/pve1/qemu-server/199.conf' does not exist", words
words, _ = refused(lambda: vm.nothing.get(), 501)
assert words.startswith("Method 'GET /nodes/pve1/qemu/101/nothing' not implemented"), words
words, _ = refused(lambda: pve.nodes("pve2").qemu.get(), 595)
assert words == "No route to host", words
small = ProxmoxAPI(
    "127.0.0.1",
    port=int(port),
    user=user,
    token_name="small",
    token_value=os.environ["PVE_SMALL_SECRET"],
    verify_ssl=authority,
    timeout=30,
)
words, _ = refused(lambda: small.nodes("pve1").qemu(101).status.stop.post(), 403)
assert words == "Permission check failed (/vms/101, VM.PowerMgmt)", words
words, _ = refused(lambda: connect("wrong").version.get(), 401)
assert words, "a 401 says something"

print("proxmoxer is content")
