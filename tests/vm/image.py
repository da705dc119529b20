# SPDX-License-Identifier: Apache-2.0
"""The guest: Debian with Debian's own kernel, as a disk that is made once and kept.

Which release of Debian is SUITE, that of this machine where nobody says another. Needs root, apt's mirror and the packages
of ./dev setup; no loop device, and nothing is mounted outside of mmdebstrap's own namespace. What is kept is named by a
hash of everything it is made from, this file included.
"""

import contextlib
import fcntl
import hashlib
import lzma
import os
import platform
import shutil
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = "/var/cache/holdfast-vm"
# suite: how the version of its kernel begins
KERNELS = {"bookworm": "6.1.", "trixie": "6.12."}
HOST = platform.freedesktop_os_release().get("VERSION_CODENAME")  # what this machine is, and its builds run on
SUITE = HOST
KERNEL = "linux-image-cloud-amd64"
DISK_SIZE = "2G"
LIST_SECONDS = 86400  # apt's lists of a suite that is not this machine's
KEEP_DAYS = 7  # images of other inputs; a new one costs a minute

# package: why; essential packages of Debian are there anyway
PACKAGES = {
    "kmod": "the kernel loads file systems by it",
    "mount": "looking around",
    "iproute2": "the loopback interface",
    "procps": "looking around",
    "strace": "kills the helper at a chosen system call",
    "e2fsprogs": "ext4 volumes",
    "xfsprogs": "xfs volumes",
    "erofs-utils": "erofs volumes",
    "squashfs-tools": "squashfs volumes",
    "nfs-kernel-server": "an NFS server",
    "auditd": "what the kernel's audit log says",
    "libcmocka0": "test programs",
    "libbsd0": "holdfast",
    "libcap-ng0": "test programs",
    "libseccomp2": "test programs",
    "libjansson4": "holdfast",
    "libmount1": "holdfast",
    "libnghttp2-14": "holdfast",
    "libprotobuf-c1": "holdfast",
    "libsmartcols1": "holdfast",
    "libsodium23": "holdfast",
    "libsqlite3-0": "holdfast",
    "openssl": "holdfast: brings libssl, whose package has another name in each release",
    "libsystemd0": "holdfast",
}

# module: why; what they depend on comes along
MODULES = {
    "loop": "volumes out of files",
    "xfs": "volumes",
    "erofs": "volumes",
    "squashfs": "volumes",
    "fuse": "a plugin's file system that never answers",
    "autofs": "a plugin that lets the kernel wait for it",
    "overlay": "a layer above a volume",
    "nfs": "the NFS client",
    "nfsv4": "the NFS client",
    "nfsd": "the NFS server",
    "virtio_net": "a network card, where a guest has one",
    "dummy": "a network that nobody answers from",
}
# Before there is a disk to load the others from.
EARLY_MODULES = ("virtio_pci", "virtio_blk", "virtio_console")

NOT_NEEDED = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*")

EARLY_INIT = """#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
while read module; do /bin/busybox insmod /modules/$module; done </modules/list
/bin/busybox mount -t ext4 /dev/vda /root || exec /bin/busybox poweroff -f
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root INIT
"""


def run(*args, **kwargs):
    """Run a program; its output."""
    return subprocess.run(args, check=True, stdout=subprocess.PIPE, text=True, **kwargs).stdout


def say(text):
    print(f"vm: {text}", flush=True)


@contextlib.contextmanager
def locked(folder=CACHE):
    """One at a time makes an image or a snapshot in the folder, and nobody uses a half-made one."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w", encoding="ascii") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def choose(suite):
    """The release of Debian that everything here is about from now on; None for that of this machine."""
    global SUITE
    if (suite or HOST) not in KERNELS:
        raise LookupError(f"there are guests of {', '.join(KERNELS)}, not of {suite or HOST}")
    SUITE = suite or HOST


def apt_options():
    """What makes apt's programs look at SUITE, with lists of its own unless this machine runs it."""
    if SUITE == HOST:
        return []
    folder = os.path.join(CACHE, "apt-" + SUITE)
    os.makedirs(os.path.join(folder, "lists", "partial"), exist_ok=True)
    sources, fetched = os.path.join(folder, "sources.list"), os.path.join(folder, "fetched")
    options = {"Dir::Etc::SourceList": sources, "Dir::Etc::SourceParts": "-", "Dir::State::Lists": os.path.join(folder, "lists"),
               "Dir::Cache::pkgcache": "", "Dir::Cache::srcpkgcache": "", "APT::Sandbox::User": "root"}  # fmt: skip
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    if not os.path.exists(fetched) or os.path.getmtime(fetched) < time.time() - LIST_SECONDS:
        with open(sources, "w", encoding="ascii") as f:
            f.writelines(line + "\n" for line in mirrors())
        run("apt-get", *words, "-qq", "update")
        with open(fetched, "w", encoding="ascii"):
            pass
    return words


def kernel_package():
    """The package behind the name that always means the newest, for example linux-image-6.1.0-37-cloud-amd64."""
    for line in run("apt-cache", *apt_options(), "show", "--no-all-versions", KERNEL).splitlines():
        if line.startswith("Depends: "):
            return line.removeprefix("Depends: ").split(",")[0].split(" ")[0]
    raise RuntimeError(f"apt knows no {KERNEL}; run: apt-get update")


def key(kernel):
    """A name for exactly this image."""
    parts = [kernel, SUITE]
    for name in ("image.py", "guest/init"):
        with open(os.path.join(HERE, name), encoding="utf-8") as f:
            parts.append(f.read())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def mirrors():
    """Debian's lines of apt's own configuration, whatever file and format they are in, for SUITE."""
    lines = run(
        "apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"
    ).splitlines()
    found = dict.fromkeys(line.removeprefix("Debian ") for line in lines if line.startswith("Debian "))
    if not found:
        raise RuntimeError("no Debian mirror in apt's lists; run: apt-get update")
    return ["deb " + line.replace(f" {HOST}", f" {SUITE}") for line in found]


def make_root(root):
    """The file tree of the guest, without a kernel."""
    options = ["--aptopt=APT::Install-Recommends \"false\""]
    options += [f"--dpkgopt=path-exclude={pattern}" for pattern in NOT_NEEDED]
    run(
        "mmdebstrap", "--quiet", "--variant=essential", "--format=directory", "--include=" + ",".join(PACKAGES),
        *options, SUITE, root, *mirrors()
    )  # fmt: skip
    shutil.copy(os.path.join(HERE, "guest", "init"), os.path.join(root, "sbin", "holdfast-vm"))
    os.chmod(os.path.join(root, "sbin", "holdfast-vm"), 0o755)
    for name, text in (("hostname", "holdfast-vm\n"), ("fstab", ""), ("machine-id", "0" * 31 + "1\n")):
        with open(os.path.join(root, "etc", name), "w", encoding="ascii") as f:
            f.write(text)


def fetch_kernel(package, folder):
    """Unpack the kernel's package; nothing of it is run."""
    os.mkdir(folder)
    run("apt-get", *apt_options(), "-o", "APT::Sandbox::User=root", "-qq", "download", package, cwd=folder)
    (deb,) = os.listdir(folder)
    run("dpkg-deb", "-x", os.path.join(folder, deb), folder)
    os.unlink(os.path.join(folder, deb))
    # one is in the package, and kmod of one release or the other looks below the other one
    if not os.path.exists(os.path.join(folder, "usr/lib")):
        os.makedirs(os.path.join(folder, "usr"), exist_ok=True)
        os.symlink("../lib", os.path.join(folder, "usr/lib"))
    if not os.path.exists(os.path.join(folder, "lib")):
        os.symlink("usr/lib", os.path.join(folder, "lib"))
    run("depmod", "-b", folder, package.removeprefix("linux-image-"))


def ensure_kernel(package):
    """The folder with the kernel's package unpacked; made when it is not there yet. Call it locked()."""
    folder = os.path.join(CACHE, package)
    if os.path.isdir(folder):
        os.utime(folder)
        return folder
    shutil.rmtree(folder + ".new", ignore_errors=True)
    fetch_kernel(package, folder + ".new")
    os.rename(folder + ".new", folder)
    return folder


def module_files(kernel, version, names):
    """Files of the modules and of those they depend on, in the order of loading."""
    files = {}
    for name in names:
        for line in run("modprobe", "-d", kernel, "-S", version, "--show-depends", name).splitlines():
            kind, path = line.split()[:2]
            if kind == "insmod":
                files[os.path.realpath(path)] = None
    return list(files)


def add_modules(root, kernel, version, names=MODULES):
    source = os.path.realpath(os.path.join(kernel, "lib/modules", version))
    target = os.path.join(root, "usr/lib/modules", version)
    for path in module_files(kernel, version, names):
        copy = os.path.join(target, os.path.relpath(path, source))
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        shutil.copy(path, copy)
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        shutil.copy(os.path.join(source, name), target)
    run("depmod", "-b", root, version)


def unpack_module(path, folder):
    """Copy a module as busybox can load it; the name it has there."""
    name = os.path.basename(path).removesuffix(".xz")
    with lzma.open(path) if path.endswith(".xz") else open(path, "rb") as packed, open(os.path.join(folder, name), "wb") as out:
        shutil.copyfileobj(packed, out)
    return name


def make_early_root(path, kernel, version, init):
    """The initial RAM disk: busybox, the modules of the disk, one script. init: what becomes PID 1 of the guest."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("bin", "dev", "root", "modules"):
            os.mkdir(os.path.join(folder, name))
        shutil.copy(shutil.which("busybox"), os.path.join(folder, "bin"))
        files = module_files(kernel, version, EARLY_MODULES)
        with open(os.path.join(folder, "modules", "list"), "w", encoding="ascii") as f:
            f.writelines(unpack_module(module, os.path.join(folder, "modules")) + "\n" for module in files)
        with open(os.path.join(folder, "init"), "w", encoding="ascii") as f:
            f.write(EARLY_INIT.replace("INIT", init))
        os.chmod(os.path.join(folder, "init"), 0o755)
        names = "".join(
            os.path.relpath(os.path.join(where, name), folder) + "\n"
            for where, folders, names in os.walk(folder)
            for name in folders + names
        )
        with open(path, "wb") as f:
            subprocess.run(
                ["cpio", "--create", "--format=newc", "--quiet"], cwd=folder, input=names.encode(), stdout=f, check=True
            )


def build(package, target):
    """Make disk, vmlinuz and initrd in the folder target, which must be empty."""
    version = package.removeprefix("linux-image-")
    with tempfile.TemporaryDirectory(prefix="holdfast-vm-", dir=roomy_folder()) as work:
        root, kernel = os.path.join(work, "root"), ensure_kernel(package)
        make_root(root)
        add_modules(root, kernel, version)
        make_early_root(os.path.join(target, "initrd"), kernel, version, "/sbin/holdfast-vm")
        shutil.copy(os.path.join(kernel, "boot", "vmlinuz-" + version), os.path.join(target, "vmlinuz"))
        # a label says which; the journal stays, because a test cuts the power
        run("mke2fs", "-q", "-t", "ext4", "-L", "holdfast-vm", "-E", "lazy_itable_init=1,root_owner=0:0", "-d", root,
            os.path.join(target, "disk"), DISK_SIZE)  # fmt: skip


def roomy_folder():
    """Unpacking packages is most of the work: in memory, where there is room."""
    shm = "/dev/shm"
    if os.path.isdir(shm) and shutil.disk_usage(shm).free > 4 << 30:
        return shm
    return None


def forget_old(above=CACHE):
    """What nobody has used for long; who uses an image touches its folder."""
    for name in os.listdir(above):
        path = os.path.join(above, name)
        if os.path.isdir(path) and os.path.getmtime(path) < time.time() - KEEP_DAYS * 86400:
            shutil.rmtree(path)


def ensure():
    """The folder with disk, vmlinuz and initrd; made when it is not there yet. Call it locked()."""
    package = kernel_package()
    name = key(package)
    folder = os.path.join(CACHE, name)
    if os.path.isdir(folder):
        os.utime(folder)
        return folder
    started = time.monotonic()
    say(f"making the image of {SUITE} with {package}")
    forget_old()
    unfinished = folder + ".new"
    shutil.rmtree(unfinished, ignore_errors=True)
    os.mkdir(unfinished)
    build(package, unfinished)
    os.rename(unfinished, folder)
    say(f"image made in {time.monotonic() - started:.1f} s")
    return folder
