# SPDX-License-Identifier: Apache-2.0
"""Work on images, loop devices, file systems and mounts: what a storage provider and its node half do on one machine.

Everything may be repeated: each function looks at what is there before it changes it.
"""

import fcntl
import os
import stat
import struct
import subprocess

LOOP_CTL_GET_FREE = 0x4C82
LOOP_MAJOR = 7
GOING_DOWN, WITHOUT_FLUSH = 0x8004587D, 2  # XFS_IOC_GOINGDOWN, which ext4 has too
ATTACH_TRIES = 16  # others on this machine take loop devices, too
MAKE = {"ext4": ["mkfs.ext4", "-q", "-E", "root_owner=0:0"], "xfs": ["mkfs.xfs", "-q", "-K"]}
NO_REPLAY = {"ext4": "noload", "xfs": "norecovery"}


class DiskError(Exception):
    """A step that failed; the text is the tool's."""


def run(*argv):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0:
        raise DiskError(f"{' '.join(argv)}: exit {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


# --- images -------------------------------------------------------------------------------------------------------


def make_image(path, size):
    with open(path, "ab") as f:
        f.truncate(size)


def copy_image(source, target):
    """A copy without the holes; half of one is never seen under the target's name."""
    run("cp", "--sparse=always", source, target + ".part")
    os.rename(target + ".part", target)


def remove(path):
    if os.path.exists(path):
        os.unlink(path)


# --- loop devices -------------------------------------------------------------------------------------------------


def loops_of(image):
    """Devices of this image, known by device and inode: another container may have one of the same name."""
    if not os.path.exists(image):
        return []
    st = os.stat(image)
    mine = [str(st.st_ino), f"{os.major(st.st_dev)}:{os.minor(st.st_dev)}"]
    listed = run("losetup", "--list", "--noheadings", "--output", "NAME,BACK-INO,BACK-MAJ:MIN").splitlines()
    return [line.split()[0] for line in listed if line.split()[1:] == mine]


def free_device():
    """A loop device that was free just now; its node is made where devtmpfs does not."""
    with open("/dev/loop-control", "rb") as control:
        number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
    device = f"/dev/loop{number}"
    if not os.path.exists(device):
        os.mknod(device, 0o660 | stat.S_IFBLK, os.makedev(LOOP_MAJOR, number))
    return device


def attach(image, read_only=False):
    for _ in range(ATTACH_TRIES):
        device = free_device()
        try:
            run("losetup", *(["--read-only"] if read_only else []), device, image)
        except DiskError:
            continue  # somebody was faster
        return device
    raise DiskError(f"no free loop device for {image}")


def detach(device):
    run("losetup", "--detach", device)


def is_device_of(device, image):
    return device in loops_of(image)


def grow_device(device):
    run("losetup", "--set-capacity", device)


# --- file systems and mounts --------------------------------------------------------------------------------------


def unescape(text):
    for code in ("\\040", "\\011", "\\012", "\\134"):
        text = text.replace(code, chr(int(code[1:], 8)))
    return text


def mounts():
    """Of this namespace: target and options of each, in their order."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as f:
        return [(unescape(line.split(" ")[4]), line.split(" ")[5].split(",")) for line in f]


def is_mounted(path):
    return any(target == path for target, _ in mounts())


def is_read_only(path):
    return any("ro" in options for target, options in mounts() if target == path)


def format_if_empty(device, fs_type):
    if subprocess.run(["blkid", "--probe", device], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                      check=False).returncode != 0:
        run(*MAKE[fs_type], device)


def mount_device(device, fs_type, path, flags, read_only):
    options = list(flags) + (["ro", NO_REPLAY[fs_type]] if read_only else [])
    run("mount", "-t", fs_type, *(["-o", ",".join(options)] if options else []), device, path)


def bind(source, target, read_only=False):
    run("mount", "--bind", source, target)
    if read_only:
        run("mount", "-o", "remount,bind,ro", target)


def unmount(path):
    """Everything that stands on this path."""
    while is_mounted(path):
        run("umount", path)


def resize(device, fs_type, path):
    """Under its mount. The kernel lets ext4 be grown only by holders of CAP_SYS_RESOURCE, which root of a container may
    lack; xfs asks for less."""
    run(*(["resize2fs", device] if fs_type == "ext4" else ["xfs_growfs", path]))


def shut_down(path):
    """The file system below path writes nothing from now on, not even its journal: each write fails."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, GOING_DOWN, struct.pack("I", WITHOUT_FLUSH))
    finally:
        os.close(descriptor)


def settle(path):
    """What was written below path is in the image."""
    run("sync", "--file-system", path)
