# SPDX-License-Identifier: Apache-2.0
"""A Debian with systemd and the packages of this build in it: what the container of tests/systemd and the guest
with systemd boot.

The tree of Debian's own packages is kept as a tar below image.CACHE under a hash of what it is made from; what this build
adds is unpacked over it each time, into a folder of the build.
"""

import filecmp
import glob
import hashlib
import os
import shutil
import time

import image
from payload import CHECKOUT

# package: why; what they depend on comes along, what they only recommend does not
PACKAGES = {
    "systemd": "PID 1",
    "systemd-sysv": "is /sbin/init",
    "dbus": "the system bus",
    "polkitd": "who may start a unit",
    "libpam-systemd": "sessions",
    "udev": "/dev/disk/by-id",
    "kmod": "the kernel loads file systems by it",
    "login": "sessions",
    "procps": "looking around",
    "iproute2": "the loopback interface, and networks between machines",
    "nftables": "a firewall",
    "mount": "looking around",
    "attr": "labels of files",
    "acl": "who reaches the sockets of plugins",
    "python3": "test cases",
    "python3-grpcio": "CSI plugins for tests",
    "python3-protobuf": "CSI plugins for tests",
    "strace": "kills a daemon at a chosen system call",
    "socat": "sockets by hand",
    "openssl": "the key that signs tickets; brings libssl, whose package has another name in each release",
    "e2fsprogs": "ext4 volumes",
    "xfsprogs": "xfs volumes",
    "nfs-kernel-server": "an NFS server",
    "auditd": "what the kernel's audit log says",
    "logrotate": "the trail is rotated",
    "selinux-basics": "SELinux",
    "selinux-policy-default": "SELinux",
    "policycoreutils": "SELinux",
    "podman": "containers on volumes",
    "crun": "runs those",
    "busybox-static": "what is in those",
    "etcd-server": "the store of several servers",
    "etcd-client": "what pages type",
    "chrony": "what pages type",
    "libfaketime": "a clock that is wrong",
    "postgresql": "a service of a package on a volume",
    "curl": "what pages type",
    "fence-agents": "what pages type",
    "ipmitool": "what pages type",
    "openipmi": "a machine's BMC that is simulated",
    "libbsd0": "holdfast",
    "libjansson4": "holdfast",
    "libmount1": "holdfast",
    "libnghttp2-14": "holdfast",
    "libprotobuf-c1": "holdfast",
    "libsmartcols1": "holdfast",
    "libsqlite3-0": "holdfast",
    "libsystemd0": "holdfast",
}

# Packages that another release has in another form: Debian 13 has one for each fence agent.
ONLY_IN = {"fence-agents": "bookworm"}

# Large libraries that nothing here calls: the compiler of PostgreSQL's queries, and clouds of fence agents.
NOT_CALLED = ("/usr/lib/*/libLLVM*", "/usr/lib/*/libz3*", "/usr/lib/python3/dist-packages/botocore/data/*",
              "/usr/lib/python3/dist-packages/googleapiclient/discovery_cache/documents/*")  # fmt: skip


def packages_of_suite():
    return [name for name in PACKAGES if ONLY_IN.get(name, image.SUITE) == image.SUITE]


def key():
    """A name for exactly this tree of Debian's packages."""
    parts = [image.SUITE, *image.NOT_NEEDED, *NOT_CALLED, *packages_of_suite()]
    return "debian-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def ensure_tar():
    """Path of the tar of Debian's packages; made when it is not there, or after image.KEEP_DAYS for new versions."""
    path = os.path.join(image.CACHE, key() + ".tar")
    with image.locked():
        if os.path.exists(path) and os.path.getmtime(path) > time.time() - image.KEEP_DAYS * 86400:
            return path
        started = time.monotonic()
        image.say(f"making a tree of {image.SUITE} with systemd")
        for old in glob.glob(os.path.join(image.CACHE, "debian-*.tar*")):
            if os.path.getmtime(old) < time.time() - image.KEEP_DAYS * 86400:
                os.unlink(old)
        options = ['--aptopt=APT::Install-Recommends "false"']
        options += [f"--dpkgopt=path-exclude={pattern}" for pattern in image.NOT_NEEDED + NOT_CALLED]
        image.run(
            "mmdebstrap", "--quiet", "--variant=minbase", "--format=tar", "--include=" + ",".join(packages_of_suite()), *options,
            image.SUITE, path + ".new", *image.mirrors(), env=os.environ | {"TMPDIR": image.roomy_folder() or "/tmp"}
        )  # fmt: skip
        os.rename(path + ".new", path)
        image.say(f"tree made in {time.monotonic() - started:.1f} s")
    return path


def build_folder(checkout=CHECKOUT):
    """Where what is built for the suite is: of another one than this machine's it is apart."""
    return os.path.join(checkout, "build", *([] if image.SUITE == image.HOST else [image.SUITE]))


def packages(checkout=CHECKOUT):
    """The packages of this build, as ./dev package or package() leaves them."""
    found = sorted(glob.glob(os.path.join(build_folder(checkout), "package", "*.deb")))
    if not found:
        raise LookupError(f"no packages in {build_folder(checkout)}/package; run: ./dev package")
    return found


# In mounts of its own: $1 the tree, $2 the source. What a package installs may want to see the kernel.
IN_BUILD_ROOT = """
mount --make-rprivate /
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t tmpfs tmpfs "$1/tmp"
mkdir -p "$1/build"
mount --bind "$2" "$1/build"
exec chroot "$1" sh -c 'cd /build && exec ./dev package'
"""


def ensure_build_root(folder):
    """A tree of the suite with nothing in it but what every Debian has; ./dev adds what it builds with, and that stays."""
    root = os.path.join(folder, "root")
    if os.path.exists(root) and os.path.getmtime(root) > time.time() - image.KEEP_DAYS * 86400:
        return root
    shutil.rmtree(root, ignore_errors=True)
    shutil.rmtree(root + ".new", ignore_errors=True)
    image.run("mmdebstrap", "--quiet", "--variant=minbase", "--format=directory", image.SUITE, root + ".new", *image.mirrors())
    os.utime(root + ".new")
    os.rename(root + ".new", root)
    return root


def copy_source(checkout, folder):
    """What git knows of the checkout, and the build of the last time, in the folder; what is the same there stays as it is,
    so that it is not built again."""
    listed = image.run("git", "-C", checkout, "ls-files", "-z", "-co", "--exclude-standard").split("\0")
    listed = {name for name in listed if os.path.isfile(os.path.join(checkout, name))}
    for where, folders, files in os.walk(folder):
        if where == folder and "build" in folders:
            folders.remove("build")
        for path in (os.path.join(where, name) for name in files):
            if os.path.relpath(path, folder) not in listed:
                os.unlink(path)
    for name in listed:
        source, target = os.path.join(checkout, name), os.path.join(folder, name)
        if not (os.path.isfile(target) and filecmp.cmp(source, target, shallow=False)):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(source, target)


def package(checkout=CHECKOUT):
    """Make the packages of this build for another suite than this machine's: there, by ./dev package."""
    if image.SUITE == image.HOST:
        raise LookupError(f"this machine runs {image.SUITE} itself; run: ./dev package")
    started, source = time.monotonic(), os.path.join(build_folder(checkout), "source")
    copy_source(checkout, source)
    folder = os.path.join(image.CACHE, "build-" + image.SUITE)
    with image.locked(folder):
        root = ensure_build_root(folder)
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "SOURCE_DATE_EPOCH": image.run("git", "-C", checkout, "log", "-1", "--format=%ct").strip(),
        }
        image.run("unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-euc", IN_BUILD_ROOT, "build", root, source,
                  env=environment)  # fmt: skip
    made = os.path.join(build_folder(checkout), "package")
    shutil.rmtree(made, ignore_errors=True)
    os.mkdir(made)
    for deb in glob.glob(os.path.join(source, "build", "package", "*.deb")):
        shutil.copy(deb, made)
    image.say(f"packages of {image.SUITE} made in {time.monotonic() - started:.1f} s")


def set_up(root):
    """What makes it a test machine."""
    for name, text in (("hostname", "holdfast-test\n"), ("fstab", ""), ("machine-id", "")):
        with open(os.path.join(root, "etc", name), "w", encoding="ascii") as f:
            f.write(text)
    # only cost time at boot, or need a network
    units = os.path.join(root, "etc/systemd/system")
    for name in ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
                 "e2scrub_reap.service", "fstrim.timer", "systemd-timesyncd.service", "getty@tty1.service",
                 "systemd-random-seed.service", "openipmi.service", "logrotate.timer", "podman-auto-update.timer", "podman.socket",
                 "podman-auto-update.service", "podman-restart.service", "console-getty.service",
                 "selinux-autorelabel-mark.service", "systemd-binfmt.service", "proc-sys-fs-binfmt_misc.automount"):  # fmt: skip
        link = os.path.join(units, name)
        if not os.path.lexists(link):
            os.symlink("/dev/null", link)
    # for the tests that ask for it
    image.run("systemctl", "--quiet", f"--root={root}", "disable", "nfs-server.service", "nfs-client.target",
              "rpcbind.service", "rpcbind.socket", "nfs-blkmap.service", "auditd.service", "etcd.service", "chrony.service",
              "postgresql.service")  # fmt: skip
    if os.path.exists(os.path.join(root, ".autorelabel")):
        os.unlink(os.path.join(root, ".autorelabel"))


def install(root, debs):
    """Install packages of this build in the tree, as an administrator would with dpkg -i."""
    folder = os.path.join(root, "root", "debs")
    os.mkdir(folder)
    for deb in debs:
        shutil.copy(deb, folder)
    image.run("chroot", root, "sh", "-c", "dpkg -i /root/debs/*.deb >/root/dpkg.log 2>&1 || { cat /root/dpkg.log; exit 1; }")
    shutil.rmtree(folder)


def make_tree(root, debs):
    """Make the tree in the folder root, which is replaced; debs may be empty."""
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    image.run("tar", "-C", root, "--xattrs", "--xattrs-include=*", "-xpf", ensure_tar())
    set_up(root)
    if debs:
        install(root, debs)


def ensure_tree(checkout=CHECKOUT, installed=True):
    """A folder with the tree; made again when the packages of the build are other ones. Nothing may write to it."""
    debs = packages(checkout) if installed else []
    stamp = key() + "".join(f" {os.path.basename(deb)}:{digest(deb)}" for deb in debs)
    root = os.path.join(build_folder(checkout), "systemd", "root" if installed else "bare")
    try:
        with open(root + ".stamp", encoding="ascii") as f:
            if f.read() == stamp:
                return root
    except FileNotFoundError:
        pass
    started = time.monotonic()
    make_tree(root, debs)
    with open(root + ".stamp", "w", encoding="ascii") as f:
        f.write(stamp)
    image.say(f"{root} made in {time.monotonic() - started:.1f} s")
    return root


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()[:16]
