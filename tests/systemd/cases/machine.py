# SPDX-License-Identifier: Apache-2.0
"""This machine, set up as docs/install.md says: a claim server and one node on it, everything by its unit.

For test cases inside a guest that has the packages installed. Works in the container and in the virtual machine.
"""

import json
import os
import pwd
import shutil
import subprocess
import time

CLUSTER = "test"
NODE = "worker-1"
ETC = "/etc/holdfast"
CREDENTIALS = "/etc/credstore"
TREE = "/run/holdfast-mount"
TRAIL = "/var/log/holdfast/mounthelper.trail"
DATA = "/srv/data"  # a directory that the policy lends as host volume "data"
INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # the kernel's constant
SERVER = "127.0.0.1"
CLI = {
    "HOLDFAST_ADDR": SERVER + ":4656",
    "HOLDFAST_CACERT": "/root/pki/ca.pem",
    "HOLDFAST_CLIENT_CERT": "/root/pki/operator-ann.pem",
    "HOLDFAST_CLIENT_KEY": "/root/pki/operator-ann.key",
}


def run(*args, check=True, **kwargs):
    """Run a program; what it printed is in stdout and stderr of the result."""
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, **kwargs)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(args)}: exit {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done


def holdfast(*args, check=True):
    """The command line, as an operator with a certificate."""
    return run("holdfast", *args, check=check, env=os.environ | CLI)


def holdfast_json(*args):
    return json.loads(holdfast(*args, "--json").stdout)


def systemctl(*args, check=True):
    return run("systemctl", *args, check=check)


def is_active(unit):
    return systemctl("is-active", unit, check=False).stdout.strip() == "active"


def show(unit, name):
    """One property of a unit."""
    return systemctl("show", "--property", name, "--value", unit).stdout.strip()


def journal(*args):
    run("journalctl", "--sync")
    return run("journalctl", "--no-pager", "--output=cat", *args).stdout


def wait_journal(words, *args):
    """Until the journal has all these words for a match, as a daemon may tell others before it logs; the text."""
    def text():
        return journal(*args)

    def told():
        said = text()
        return said if all(word in said for word in words) else None

    return wait_for(f"the journal to have {words}", told, seen=lambda: text()[-4000:])


def wait_for(what, condition, seconds=60, seen=lambda: None):
    """Poll a condition that another process brings about; its value once it is true. In the virtual machine everything
    takes some ten times as long. seen: what there is instead, for the failure."""
    deadline = time.monotonic() + seconds * slowness()
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            instead = seen()
            raise AssertionError(f"waited {seconds * slowness()} s for {what}" + (f"; there is: {instead}" if instead else ""))
        time.sleep(0.05)


def slowness():
    """How much longer one waits here before something counts as hung, than in the container on a machine at rest."""
    return 1 if in_container() else 5


def in_container():
    """In a pid namespace that is not the first one the helper must be told that this is meant."""
    return os.stat("/proc/self/ns/pid").st_ino != INITIAL_PID_NAMESPACE


def systemd_version():
    return int(run("systemctl", "--version").stdout.split()[1])


def has_selinux():
    return os.path.exists("/sys/fs/selinux/enforce")


def domain_of(pid):
    """The SELinux domain of a process."""
    with open(f"/proc/{pid}/attr/current", encoding="ascii") as f:
        return f.read().strip("\0\n").split(":")[2]


def write(path, text, mode=0o644, owner="root"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    account = pwd.getpwnam(owner)
    os.chown(path, account.pw_uid, account.pw_gid)
    os.chmod(path, mode)


def mounts_below(folder, pid="self"):
    """Lines of a process's mount table whose target is below folder."""
    with open(f"/proc/{pid}/mountinfo", encoding="utf-8", errors="replace") as f:
        return [line.rstrip("\n") for line in f if line.split(" ")[4].startswith(folder + "/")]


def make_pki():
    for what in (["ca", CLUSTER], ["server", "--host", SERVER], ["node", NODE], ["operator", "ann"]):
        run("holdfast", "operator", "cert", *what, "--out", "/root/pki")
    os.makedirs(f"{ETC}/tls", exist_ok=True)
    for name in ("ca.pem", "server.pem"):
        shutil.copy(f"/root/pki/{name}", f"{ETC}/tls/{name}")
    shutil.copy(f"/root/pki/node-{NODE}.pem", f"{ETC}/tls/node.pem")


def install_key(source, name):
    """Where the units' LoadCredential= finds it."""
    with open(source, encoding="ascii") as f:
        write(f"{CREDENTIALS}/{name}", f.read(), 0o600)


def make_store():
    """As docs/install.md has it."""
    if not os.path.exists("/var/lib/holdfast/server/holdfast.db"):
        run("systemd-run", "--wait", "--property=User=holdfast-server", "--property=StateDirectory=holdfast/server",
            "--property=StateDirectoryMode=0700", "--property=UMask=0077", "holdfast-server", "--new-cluster")  # fmt: skip


def set_up_server():
    install_key("/root/pki/server.key", "holdfast.server.key")
    run("openssl", "genpkey", "-algorithm", "ed25519", "-out", "/root/pki/ticket.key")
    install_key("/root/pki/ticket.key", "holdfast.ticket.key")
    write(f"{ETC}/server.hcl", f'cluster = "{CLUSTER}"\nlisten {{\n  host = "{SERVER}"\n}}\n')
    make_store()
    systemctl("start", "holdfast-server.service")


def ticket_key():
    der = subprocess.run(
        ["openssl", "pkey", "-in", "/root/pki/ticket.key", "-pubout", "-outform", "DER"], stdout=subprocess.PIPE, check=True
    ).stdout
    return der[-32:].hex()


def write_policy(profiles="", limits=""):
    """profiles: more blocks of the agent's; limits: lines of limits."""
    agent, helper = pwd.getpwnam("holdfast"), pwd.getpwnam("holdfast-mount")
    write(f"{ETC}/mounthelper.policy", f"""agent {agent.pw_uid} {{
	cluster = {CLUSTER}
	node = {NODE}
	helper_uid = {helper.pw_uid}
	helper_gid = {helper.pw_gid}
	stage_base = {TREE}/stage
	publish_base = {TREE}/publish
	log = {TRAIL}
	lock_dir = {TREE}/lock
	container = {"yes" if in_container() else "no"}
	audit = {"optional" if in_container() else "required"}
	ticket_key = {ticket_key()}
	starts_per_minute = 6000
	ops_per_second = 1000
	burst = 2000
{limits}	profile scratch {{
		class = tmpfs
		fstype = tmpfs
		trust = trusted
		max_size = 64MiB
		shared = yes
	}}
	hostvol data {{
		path = {DATA}
		owner_uid = {agent.pw_uid}
	}}
{profiles}}}
""")  # fmt: skip
    run("holdfast", "policy", "apply")


def set_up_node(mode="socket", profiles="", limits=""):
    """mode: socket or setuid. Started, but perhaps not connected yet."""
    install_key(f"/root/pki/node-{NODE}.key", "holdfast.node.key")
    os.makedirs(DATA, exist_ok=True)
    shutil.chown(DATA, "holdfast", "holdfast")
    write_policy(profiles, limits)
    use_launch_mode(mode)


def use_launch_mode(mode):
    """Start the agent in this launch mode, and stop it with the other one."""
    helper = f'helper {{\n  socket = "{TREE}/mounthelper.sock"\n}}\n' if mode == "socket" else ""
    write(f"{ETC}/agent.hcl", f"""cluster = "{CLUSTER}"
node_id = "{NODE}"
server {{
  host = "{SERVER}"
  server_uri = "holdfast://{CLUSTER}/server/server"
}}
{helper}""")  # fmt: skip
    systemctl("start", f"holdfast-agent-{mode}.service")


def agent_status():
    done = holdfast("agent", "status", "--json", check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def wait_connected():
    def connected():
        status = agent_status()
        return status and status["connected"] and status["helper"]["running"]

    try:
        wait_for("the agent to connect", connected)
    except AssertionError as e:
        raise AssertionError(f"{e}; it says: {agent_status()}") from e


def set_up(mode="socket", profiles="", limits=""):
    """All of it, running and connected."""
    make_pki()
    set_up_server()
    set_up_node(mode, profiles, limits)
    wait_connected()


def volume_spec(name, **more):
    """A tmpfs volume for one writer, as a file; more: lines of its own."""
    path = f"/root/{name}.volume.hcl"
    lines = "".join(f"{key} = {value}\n" for key, value in more.items())
    write(path, f"""id = "{name}"
name = "{name}"
type = "native"
profile = "scratch"
{lines}
source {{
  class = "tmpfs"
  size = "16MiB"
  inodes = 1024
}}
capability {{
  access_mode = "single-node-writer"
  attachment_mode = "file-system"
}}
""")  # fmt: skip
    return path


def block_volume_spec(name, profile, by_id):
    """A volume on a disk for one writer, as a file."""
    path = f"/root/{name}.volume.hcl"
    write(path, f"""id = "{name}"
name = "{name}"
type = "native"
profile = "{profile}"
source {{
  class = "block"
  by_id = "{by_id}"
}}
capability {{
  access_mode = "single-node-writer"
  attachment_mode = "file-system"
}}
""")  # fmt: skip
    return path


def alloc_spec(name, volume, **more):
    """An allocation with one volume; more: further keys of its volume block, as they are written."""
    path = f"/root/{name}.alloc.hcl"
    lines = "".join(f"  {key} = {value}\n" for key, value in more.items())
    write(path, f"""name = "{name}"
node = "{NODE}"
volume "data" {{
  source = "{volume}"
  access_mode = "single-node-writer"
  attachment_mode = "file-system"
{lines}}}
""")  # fmt: skip
    return path


def run_alloc(name, volume, **more):
    """Run an allocation with one volume; it is running then."""
    return holdfast_json("alloc", "run", alloc_spec(name, volume, **more))["allocation"]


def main_pid(unit):
    return int(show(unit, "MainPID"))
