#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_program.py PROGRAM: the mount helper as it is installed needs no loader and has no code to run another program."""
import subprocess
import sys

# Whatever starts another program, or looks somebody or something up by way of plugins and configuration files.
ABSENT = {
    "execve", "execv", "execvp", "execvpe", "execl", "execle", "execlp", "fexecve", "execveat",
    "system", "popen", "posix_spawn", "posix_spawnp", "fork", "vfork", "wordexp",
    "getpwnam", "getpwnam_r", "getpwuid_r", "getgrnam", "getgrgid", "getgrouplist",
    "getaddrinfo", "gethostbyname", "getservbyname", "iconv_open",
}
# Of libcap-ng, which nothing calls: sent to abort() by the linker.
ABORTS = {"getpwuid", "initgroups"}


def readelf(option, program):
    return subprocess.run(["readelf", "-W", option, program], check=True, capture_output=True, text=True).stdout


def main():
    program, faults = sys.argv[1], []
    for line in readelf("-l", program).splitlines():
        if "INTERP" in line:
            faults.append("it has a program interpreter")
        if "GNU_STACK" in line and "E" in line.split("0x")[-2]:
            faults.append("its stack is executable")
    if "Type:                              DYN" not in readelf("-h", program):
        faults.append("it is not position-independent")
    if "(NEEDED)" in readelf("-d", program):
        faults.append("it needs shared libraries")
    address = {}
    for line in readelf("-s", program).splitlines():
        words = line.split()
        if len(words) == 8 and words[6] != "UND":
            address.setdefault(words[7], words[1])
    if len(address) < 100:
        faults.append("its symbols are missing, so nothing can be said about them")
    faults += [f"it has {name}()" for name in sorted(ABSENT & set(address))]
    faults += [f"{name} is not abort()" for name in sorted(ABORTS) if address.get(name) != address.get("abort")]
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


main()
