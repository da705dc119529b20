# SPDX-License-Identifier: Apache-2.0
"""An engine that lies: a proxy between the driver and a real engine changes one field of what is asked for, and, where a row
says so, makes the engine's description look as it was asked. Each is found, removed, refused and on record."""

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


class Proxy(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def __init__(self, world, path):
        self.world, self.change, self.is_hidden, self.asked = world, None, False, None
        self.meanwhile = None  # called after a container was made
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
        if path.startswith("/containers/create") and self.server.change:
            wanted = json.loads(body)
            self.server.asked = json.loads(body)
            self.server.change(wanted)
            body = json.dumps(wanted)
        status, said = self.server.world.ask_engine(self.command, path, body)
        if path.startswith("/containers/create") and self.server.meanwhile:
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
        proxy.change, proxy.is_hidden, proxy.asked = change, is_hidden, None
        said = world.phase(phase if fields else "honest")
        new = world.made()[known:]
        right = "[  PASSED  ] 1 test" in said and (len(new) == 1 and new[0] in fields if fields else not new)
        yield f"an_engine_that_lies_by_{name}_is_refused" if fields else f"an_engine_that_adds_{name}_is_taken", None if right else f"{new}\n{said[-1500:]}"
    proxy.change, proxy.is_hidden = None, False
    yield from late_cases(world, proxy)
    proxy.shutdown()
    proxy.server_close()
    world.kill_driver()
    world.start_driver()
