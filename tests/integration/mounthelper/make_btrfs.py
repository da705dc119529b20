#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes an empty btrfs in a file, for machines without mkfs.btrfs.

usage: make_btrfs.py FILE"""

import struct
import sys
import uuid

NODE, SECTOR, MIB = 16384, 4096, 1 << 20
SIZE = 256 * MIB
FSID, DEVICE, CHUNKS = (uuid.uuid4().bytes for _ in range(3))
# position and size, the same in the file system and on the device, then what is in it
PARTS = ((1 * MIB, 4 * MIB, 2), (8 * MIB, 64 * MIB, 4), (72 * MIB, 64 * MIB, 1))
RELOCATION = 2**64 - 9
TREES = {"chunk": 3, "root": 1, "extent": 2, "device": 4, "files": 5, "sums": 7, "relocation": RELOCATION}
AT = {name: 8 * MIB + (i - 1) * NODE if i > 0 else MIB for i, name in enumerate(TREES)}


def crc32c(data: bytes, crc: int) -> int:
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc


def summed(block: bytes) -> bytes:
    return struct.pack("<I", crc32c(block[32:], 0xFFFFFFFF) ^ 0xFFFFFFFF) + block[4:]


def key(number: int, kind: int, offset: int) -> bytes:
    return struct.pack("<QBQ", number, kind, offset)


def leaf(name: str, items: dict[tuple[int, int, int], bytes]) -> bytes:
    head = bytes(32) + FSID + struct.pack("<QQ", AT[name], 1 | 1 << 56) + CHUNKS
    head += struct.pack("<QQIB", 1, TREES[name], len(items), 0)
    at, data = NODE - 101, b""
    for where, item in sorted(items.items()):
        at -= len(item)
        head += key(*where) + struct.pack("<II", at, len(item))
        data = item + data
    return summed(head + bytes(NODE - len(head) - len(data)) + data)


def chunk(position: int, size: int, kind: int) -> bytes:
    return struct.pack("<QQQQIIIHHQQ", size, 2, 65536, kind, 65536, 65536, SECTOR, 1, 1, 1, position) + DEVICE


def folder() -> bytes:
    inode = struct.pack("<QQQQQIIIIQQQ", 1, 1, 0, NODE, 0, 1, 0, 0, 0o40755, 0, 0, 0)
    return inode + bytes(32) + struct.pack("<QI", 1700000000, 0) * 4


def root(name: str) -> bytes:
    first = 256 if name in ("files", "relocation") else 0
    item = folder() + struct.pack("<QQQQQQQI", 1, first, AT[name], 0, NODE, 0, 0, 1) + bytes(19)
    return item + struct.pack("<Q", 1) + uuid.uuid4().bytes + bytes(176)


def main() -> None:
    parent = struct.pack("<QH", 0, 2) + b".."
    empty = {(256, 1, 0): folder(), (256, 12, 256): parent}
    default = key(5, 132, 2**64 - 1) + struct.pack("<QHHB", 1, 0, 7, 2) + b"default"
    device = struct.pack("<QQQIIIQQQIBB", 1, SIZE, 132 * MIB, *[SECTOR] * 3, 0, 0, 0, 0, 0, 0) + DEVICE + FSID
    used = {2: NODE, 4: 6 * NODE, 1: 0}
    roots = {(TREES[name], 132, 0): root(name) for name in AT if name not in ("chunk", "root")}
    roots |= {(6, 1, 0): folder(), (6, 12, 6): parent, (6, 84, crc32c(b"default", 0xFFFFFFFE)): default}
    extents = {(AT[name], 169, 0): struct.pack("<QQQBQ", 1, 1, 2, 176, TREES[name]) for name in AT}
    extents |= {(p, 192, n): struct.pack("<QQQ", used[kind], 256, kind) for p, n, kind in PARTS}
    chunks = {(256, 228, p): chunk(p, n, kind) for p, n, kind in PARTS}
    devices = {(1, 204, p): struct.pack("<QQQQ", 3, 256, p, n) + CHUNKS for p, n, _ in PARTS}
    system = key(256, 228, MIB) + chunk(*PARTS[0])
    head = bytes(32) + FSID + struct.pack("<QQ8s", 65536, 1, b"_BHRfS_M")
    head += struct.pack("<QQQQQQQQQ", 1, AT["root"], AT["chunk"], 0, 0, SIZE, 7 * NODE, 6, 1)
    head += struct.pack("<IIIII", SECTOR, NODE, NODE, SECTOR, len(system))
    head += struct.pack("<QQQQHBBB", 1, 0, 0, 0x361, 0, 0, 0, 0) + device + bytes(256)
    head += struct.pack("<Q", 2**64 - 1)
    head += bytes(0x32B - len(head)) + system
    with open(sys.argv[1], "wb") as file:
        file.truncate(SIZE)
        for name, items in (("chunk", {(1, 216, 1): device} | chunks), ("root", roots), ("extent", extents),
                            ("device", devices), ("files", empty), ("sums", {}), ("relocation", empty)):
            file.seek(AT[name])
            file.write(leaf(name, items))
        file.seek(65536)
        file.write(summed(head + bytes(4096 - len(head))))


if __name__ == "__main__":
    main()
