# SPDX-License-Identifier: Apache-2.0
"""The guests with systemd as PID 1 and SELinux enforcing: the tree of debian.py on Debian's kernel, with the packages of
this build installed, or bare.

The kernel and Debian's packages are kept below image.CACHE, and so are disk and snapshot of the bare one, which hold nothing
else. Those with the packages hold this build: they are kept below build/vm of the checkout, and made again when its packages
change.
"""

import glob
import hashlib
import os
import shutil
import tempfile
import time

import debian
import image
import machine
import snapshot
from image import say
from payload import CHECKOUT

HERE = os.path.dirname(os.path.abspath(__file__))
# Debian's default is AppArmor: security= says which of the two, SELinux' own configuration says the rest. The serial
# numbers of the disks are names in /dev/disk/by-id.
KIND = machine.Kind(
    words="security=selinux enforcing=1",
    scratch=(("result", 64 << 20), ("holdfast-scratch", 320 << 20)),
)
DISK_SIZE = "3G"
POLICY = "default"
BARE = os.path.join(image.CACHE, "bare")

# module: why; besides those of the other guest
MODULES = image.MODULES | {
    "dm-mod": "volumes of the device mapper",
    "veth": "networks of containers",
    "bridge": "networks of containers",
    "br_netfilter": "networks of containers",
}
# path in the guest: file of guest/ and mode
FILES = {
    "/usr/local/sbin/holdfast-test": ("runner.py", 0o755),
    "/etc/systemd/system/holdfast-test.service": ("holdfast-test.service", 0o644),
}


def key(debs):
    """A name for exactly this disk."""
    parts = [debian.key(), image.kernel_package(), *(debian.digest(deb) for deb in debs)]
    made_by = (__file__, debian.__file__, image.__file__)
    parts += [debian.digest(path) for path in (*made_by, *(os.path.join(HERE, "guest", name) for name, _ in FILES.values()))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def set_up(root):
    """What the tree needs beside the packages to be this guest."""
    for path, (name, mode) in FILES.items():
        shutil.copy(os.path.join(HERE, "guest", name), root + path)
        os.chmod(root + path, mode)
    image.run("systemctl", "--quiet", f"--root={root}", "enable", "holdfast-test.service", "auditd.service")
    # the journal of the boot before is what tells of a shutdown
    os.makedirs(os.path.join(root, "var/log/journal"), exist_ok=True)


def set_up_selinux(root):
    """Policy and labels, from outside: in the guest it would take a minute, and a second boot."""
    config = os.path.join(root, "etc/selinux/config")
    with open(config, encoding="utf-8") as f:
        lines = ["SELINUX=enforcing\n" if line.startswith("SELINUX=") else line for line in f]
    with open(config, "w", encoding="utf-8") as f:
        f.writelines(lines)
    modules = [line.split()[0] for line in image.run("chroot", root, "semodule", "-s", POLICY, "-l").splitlines()]
    # by name: the port of holdfast_port.cil has a type of holdfast.pp
    for path in sorted(glob.glob(os.path.join(root, "usr/share/selinux/packages/holdfast/holdfast*"))):
        name = os.path.basename(path).partition(".")[0]
        if name not in modules:  # a package does it when it is installed on a machine where SELinux is on
            image.run("chroot", root, "semodule", "-n", "-s", POLICY, "-i", path.removeprefix(root))
    contexts = os.path.join(root, "etc/selinux", POLICY, "contexts/files/file_contexts")
    image.run("setfiles", "-F", "-r", root, contexts, root)
    # started by a service, as cases are, it has a domain of its own in Debian 13, which may not read the journal
    os.setxattr(os.path.join(root, "usr/bin/journalctl"), "security.selinux", b"system_u:object_r:bin_t:s0\0")


def build(target, debs):
    """Make disk, vmlinuz and initrd in the folder target, which must be empty."""
    with image.locked():
        package = image.kernel_package()
        kernel = image.ensure_kernel(package)
    version = package.removeprefix("linux-image-")
    with tempfile.TemporaryDirectory(prefix="holdfast-vm-", dir=image.roomy_folder()) as work:
        root = os.path.join(work, "root")
        debian.make_tree(root, debs)
        image.add_modules(root, kernel, version, MODULES)
        set_up(root)
        set_up_selinux(root)
        image.make_early_root(os.path.join(target, "initrd"), kernel, version, "/sbin/init")
        shutil.copy(os.path.join(kernel, "boot", "vmlinuz-" + version), os.path.join(target, "vmlinuz"))
        # with a journal, because a test cuts the power
        image.run("mke2fs", "-q", "-t", "ext4", "-L", "holdfast-vm", "-E", "lazy_itable_init=1,root_owner=0:0",
                  "-d", root, os.path.join(target, "disk"), DISK_SIZE)  # fmt: skip


def image_with(debs, above, forget):
    """The image in the folder above, with its snapshot; both made when they are not there, after forget()."""
    os.makedirs(above, exist_ok=True)
    with image.locked(above):
        folder = os.path.join(above, key(debs))
        if not os.path.isdir(folder):
            started = time.monotonic()
            say(f"making the image with systemd, in {folder}")
            forget()
            shutil.rmtree(folder + ".new", ignore_errors=True)
            os.mkdir(folder + ".new")
            build(folder + ".new", debs)
            os.rename(folder + ".new", folder)
            say(f"image made in {time.monotonic() - started:.1f} s")
        os.utime(folder)
        source = snapshot.Image(KIND, folder)
        snapshot.ensure(source)
    return source


def ensure(checkout=CHECKOUT):
    """The guest with the packages of this build."""
    above = os.path.join(debian.build_folder(checkout), "vm")

    def forget():
        for old in glob.glob(os.path.join(above, "*", "")):
            shutil.rmtree(old)

    return image_with(debian.packages(checkout), above, forget)


def ensure_bare(_checkout=None):
    """The guest with what the packages of this build need of Debian's, and without them."""
    return image_with([], BARE, lambda: image.forget_old(BARE))
