# SPDX-License-Identifier: Apache-2.0
"""An engine that lies: a proxy between the driver and a real engine changes one field of what is asked for, and, where a row
says so, makes the engine's description look as it was asked. Each is found, removed, refused and on record."""

import copy
import http.server
import json
import re
import socketserver
import threading

LABEL = "dev.holdfast.alloc"


def host(key, value):
    return lambda body: body["HostConfig"].__setitem__(key, value)


def mount(key, value):
    return lambda body: body["HostConfig"]["Mounts"][0].__setitem__(key, value)


def bind(source, target):
    """One more than was asked for."""
    return lambda body: body["HostConfig"]["Mounts"].append(
        {"Type": "bind", "Source": source, "Target": target, "ReadOnly": False, "BindOptions": {"Propagation": "rprivate"}})


def rows(work, engine):
    """Name, what is done to the request, is it hidden, the fields of which one is on record."""
    found = [
        ("another_user", lambda body: body.__setitem__("User", "1000"), False, {"user"}),
        ("a_folder_of_the_host_as_volume", mount("Source", f"{work}/host"), False, {"mount_source"}),
        ("a_reader_that_writes", mount("ReadOnly", False), False, {"mount_rw"}),
        ("one_mount_more", bind(f"{work}/host", "/more"), False, {"mount"}),
        ("one_mount_less", lambda body: body["HostConfig"].__setitem__("Mounts", []), False, {"mount"}),
        ("the_host_s_network", host("NetworkMode", "host"), False, {"network"}),
        ("the_host_s_memory", host("IpcMode", "host"), False, {"ipc_namespace"}),
        ("new_privileges", host("SecurityOpt", []), False, {"no_new_privileges"}),
        ("a_capability", host("CapAdd", ["CAP_SYS_ADMIN"]), False, {"capabilities"}),
        ("another_order_s_labels", lambda body: body["Labels"].__setitem__("dev.holdfast.stop_ms", "1"), False, {"labels"}),
        ("another_place", lambda body: body.__setitem__("WorkingDir", "/bin"), False, set()),
        ("the_image_s_check", lambda body: body.pop("Healthcheck"), False, {"healthcheck"}),
        ("a_group_more", host("GroupAdd", ["6"]), False, {"groups"}),
        ("hidden_group", lambda body: body.__setitem__("User", "0:6"), True, {"group"}),
        ("hidden_group_more", host("GroupAdd", ["6"]), True, {"groups"}),
        ("hidden_user", lambda body: body.__setitem__("User", "1000"), True, {"user"}),
        ("hidden_folder_as_volume", mount("Source", f"{work}/host"), True, {"mount_source"}),
        ("hidden_writer", mount("ReadOnly", False), True, {"mount_flags"}),
        ("hidden_mount", bind(f"{work}/host", "/more"), True, {"mount"}),
        ("hidden_network", host("NetworkMode", "host"), True, {"network"}),
        ("hidden_new_privileges", host("SecurityOpt", []), True, {"no_new_privileges"}),
        ("hidden_capability", host("CapAdd", ["CAP_NET_RAW"]), True, {"capabilities"}),
    ]
    found += [
        ("no_seccomp", host("SecurityOpt", ["no-new-privileges", "seccomp=unconfined"]), False, {"security"}),
        ("restarts", host("RestartPolicy", {"Name": "always"}), False, {"restart_policy"}),
    ]
    if engine == "docker":
        found += [(f"{hidden}{name}", host(name, []), bool(hidden), {"kernel_paths"})
                  for name in ("MaskedPaths", "ReadonlyPaths") for hidden in ("", "hidden_")]  # fmt: skip
    if engine == "podman":  # of this machine, Docker gets no privileged container to run, and no limits
        found += [(name, host("SecurityOpt", ["no-new-privileges", f"unmask={paths}"]), True, {"kernel_paths"})
                  for name, paths in (("unmasked_paths", "ALL"), ("one_unmasked_path", "/proc/keys"), ("a_writable_cgroup", "/sys/fs/cgroup"))]  # fmt: skip
        found += [("privileged", host("Privileged", True), False, {"privileged"}),
                  ("hidden_privileged", host("Privileged", True), True, {"capabilities", "devices", "mount"})]
    return found


def limits():
    """As above, of a task with limits."""
    return [(f"another_{key}", host(key, value), False, {field}) for key, value, field in (
        ("NanoCpus", 400000000, "cpu"), ("CpuShares", 1024, "cpu_shares"), ("MemorySwap", 128 << 20, "memory_swap"), ("Memory", 80 << 20, "memory"),
        ("PidsLimit", 200, "pids"), ("OomKillDisable", True, "oom_kill"))]  # fmt: skip


def to_docker(spec):
    """What rows change of podman's request, as they know it."""
    limits = spec.get("resource_limits", {})
    body = {"User": spec.get("user", ""), "Labels": spec["labels"], "Env": [f"{k}={v}" for k, v in spec.get("env", {}).items()],
            "WorkingDir": spec["work_dir"], "Healthcheck": spec["healthconfig"]}  # fmt: skip
    body["HostConfig"] = host = {"SecurityOpt": ["no-new-privileges"], "Privileged": spec["privileged"], "NetworkMode": spec["netns"]["nsmode"]}
    host["RestartPolicy"] = {"Name": spec["restart_policy"]}
    host["Mounts"] = [{"Type": m["type"], "Source": m["source"], "Target": m["destination"], "ReadOnly": "ro" in m["options"],
                       "BindOptions": {"Propagation": m["options"][2]}} for m in spec["mounts"]]  # fmt: skip
    host |= {"Memory": limits.get("memory", {}).get("limit"), "MemorySwap": limits.get("memory", {}).get("swap"),
             "CpuShares": limits.get("cpu", {}).get("shares"), "PidsLimit": limits.get("pids", {}).get("limit"),
             "NanoCpus": limits.get("cpu", {}).get("quota", 0) * 10000}  # fmt: skip
    return body


def to_podman(spec, body):
    """Writes what was changed in @body into podman's request."""
    host, options = body["HostConfig"], [o.partition("=") for o in body["HostConfig"]["SecurityOpt"]]
    named = {name: value for name, _, value in options}
    spec |= {"user": body["User"], "labels": body["Labels"], "work_dir": body["WorkingDir"], "healthconfig": body.get("Healthcheck"),
             "no_new_privileges": "no-new-privileges" in named, "privileged": host["Privileged"], "netns": {"nsmode": host["NetworkMode"]},
             "restart_policy": host["RestartPolicy"]["Name"], "groups": host.get("GroupAdd", []), "cap_add": host.get("CapAdd", spec.get("cap_add"))}  # fmt: skip
    if "seccomp" in named:
        spec |= {"seccomp_profile_path": named["seccomp"], "annotations": {"io.podman.annotations.seccomp": named["seccomp"]}}
    if "unmask" in named:
        spec["unmask"] = [named["unmask"]]
    if "IpcMode" in host:
        spec["ipcns"] = {"nsmode": host["IpcMode"]}
    spec["mounts"] = [{"type": m["Type"], "source": m["Source"], "destination": m["Target"],
                       "options": ["bind", "ro" if m["ReadOnly"] else "rw", m["BindOptions"]["Propagation"]]} for m in host["Mounts"]]  # fmt: skip
    memory = {"limit": host["Memory"], "swap": host["MemorySwap"], "disableOOMKiller": host.get("OomKillDisable")}
    cpu = {"shares": host["CpuShares"]} | ({"quota": host["NanoCpus"] // 10000, "period": 100000} if host["NanoCpus"] else {})
    limits = {"memory": memory, "cpu": cpu} | ({"pids": {"limit": host["PidsLimit"]}} if host["PidsLimit"] else {})
    return spec | {"resource_limits": {part: {k: v for k, v in values.items() if v is not None} for part, values in limits.items()}}


class Proxy(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def __init__(self, world, path):
        self.world, self.change, self.is_hidden, self.asked = world, None, False, None
        self.meanwhile = None  # called after a container was made
        self.has_started = False
        super().__init__(path, Handler)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "driver"

    def log_message(self, *_):
        pass

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode() or None
        path = self.path.removeprefix("/v1.40")
        is_own, is_create = path.startswith("/libpod"), "/containers/create" in path
        if is_create and self.server.change:
            wanted = to_docker(json.loads(body)) if is_own else json.loads(body)
            self.server.asked = copy.deepcopy(wanted)
            self.server.change(wanted)
            body = json.dumps(to_podman(json.loads(body), wanted) if is_own else wanted)
        status, said = self.server.world.ask_engine(self.command, path, body)
        self.server.has_started |= path.endswith("/start")
        if is_create and self.server.meanwhile:
            self.server.meanwhile()
        if re.fullmatch(r"/containers/holdfast-[^/]+/json", path) and status == 200 and self.server.is_hidden and self.server.asked:
            said = self.as_asked(json.loads(said))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def as_asked(self, found):
        asked = self.server.asked
        for key in ("User", "Labels", "Env"):
            found["Config"][key] = asked.get(key)
        for key in ("NetworkMode", "SecurityOpt", "Privileged", "CapAdd", "PidMode", "GroupAdd", "MaskedPaths", "ReadonlyPaths"):
            found["HostConfig"][key] = asked["HostConfig"].get(key)
        found["Mounts"] = [{"Type": "bind", "Source": m["Source"], "Destination": m["Target"], "RW": not m["ReadOnly"],
                            "Propagation": m["BindOptions"]["Propagation"]} for m in asked["HostConfig"]["Mounts"]]  # fmt: skip
        return json.dumps(found).encode()

    def do_HEAD(self):
        status, described = self.server.world.ask_about(self.path.removeprefix("/v1.40"))
        self.send_response(status)
        if described:
            self.send_header("X-Docker-Container-Path-Stat", described)
        self.end_headers()

    do_GET = do_POST = do_DELETE = forward


def late_cases(world, proxy):
    """The volume's mark changes after the container was made: it is removed, and not started."""
    mark, known = world.work / "publish" / world.ALLOC / ".3/vol-3", len(world.refusals())
    proxy.meanwhile = mark.rmdir
    said = world.phase("late")
    proxy.meanwhile = None
    mark.mkdir()
    new = world.refusals()[known:]
    right = "[  PASSED  ] 1 test" in said and new == [("volume", "PERMISSION_DENIED")]
    yield "a_volume_that_changes_before_the_start_starts_nothing", None if right else f"{new}\n{said[-1500:]}"


def cases(world):
    """Yields (name, why it failed or None). The driver speaks to the proxy meanwhile."""
    path = f"{world.work}/liar.sock"
    proxy = Proxy(world, path)
    world.allow(path)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    world.kill_driver()
    world.start_driver(config=world.settings_with_engine(path))
    phases = [("lied", row) for row in rows(world.work, world.engine)] + [("limited", row) for row in limits() if world.engine == "podman"]
    for phase, (name, change, is_hidden, fields) in phases:
        known = len(world.made())
        proxy.change, proxy.is_hidden, proxy.asked, proxy.has_started = change, is_hidden, None, False
        said = world.phase(phase if fields else "honest")
        new = world.made()[known:]
        right = "[  PASSED  ] 1 test" in said and (len(new) == 1 and new[0] in fields if fields else not new)
        if world.engine == "podman":  # its process is compared before its program runs
            right = right and proxy.has_started == (not fields)
        yield f"an_engine_that_lies_by_{name}_is_refused" if fields else f"an_engine_that_adds_{name}_is_taken", None if right else f"{new}\n{said[-1500:]}"
    proxy.change, proxy.is_hidden = None, False
    yield from late_cases(world, proxy)
    proxy.shutdown()
    proxy.server_close()
    world.kill_driver()
    world.start_driver()
