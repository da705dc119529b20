#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what the packages are made of as SPDX 2.3 (JSON): each package, the libraries that it needs, and those that are
linked into its programs, with the versions that it was built with.

usage: sbom.py BUILD > FILE    the folder of ./dev package; SOURCE_DATE_EPOCH is its date
"""

import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

LINK = re.compile(r"^build ([^:]*): C_EXECUTABLE_LINKER.*\n((?:  .*\n)+)", re.MULTILINE)
ARCHIVE = re.compile(r"(?<=\s)/\S+\.a\b")


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def owner(path):
    return output("dpkg-query", "-S", os.path.realpath(path)).split(":")[0]


def version(package):
    """That is installed here, and so was built with; None: it is not, and nothing was built with it."""
    done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], capture_output=True, text=True, check=False)
    return done.stdout or None


def linked(build):
    """Program: packages of the libraries in it."""
    found = {}
    for target, rest in LINK.findall((build / "build.ninja").read_text(encoding="utf-8")):
        archives = {path for path in ARCHIVE.findall(rest) if not path.startswith(str(build.parent))}
        libraries = {owner(path) for path in archives}
        if "-static-pie" in rest:
            libraries.add(owner(output("gcc", "-print-file-name=libc.a").strip()))
        found[os.path.basename(target)] = libraries
    return found


def needed(deb):
    depends = output("dpkg-deb", "-f", deb, "Depends").strip()
    return {re.split(r"[ (|]", part.strip())[0] for part in depends.split(",") if part.strip()}


def programs(deb):
    return {os.path.basename(line.split()[-1]) for line in output("dpkg-deb", "-c", deb).splitlines() if line.startswith("-")}


def spdx_id(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def entry(name, number, **more):
    purl = f"pkg:deb/debian/{name}@{number}"
    return {"name": name, "SPDXID": spdx_id(name), "versionInfo": number, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}],
            **more}  # fmt: skip


def document(build):
    archives = linked(build)
    packages, relations = {}, []
    debs = {output("dpkg-deb", "-f", str(deb), "Package").strip(): deb for deb in sorted(build.glob("*.deb"))}
    for name, deb in debs.items():
        packages[name] = entry(name, output("dpkg-deb", "-f", str(deb), "Version").strip(), packageFileName=deb.name,
                               licenseDeclared="Apache-2.0", checksums=[{
                                   "algorithm": "SHA256", "checksumValue": hashlib.sha256(deb.read_bytes()).hexdigest()}])  # fmt: skip
        relations.append(("SPDXRef-DOCUMENT", "DESCRIBES", name))
        relations += [(name, "DEPENDS_ON", other) for other in sorted(needed(deb))]
        inside = set().union(*(archives.get(program, set()) for program in programs(deb)))
        relations += [(name, "STATIC_LINK", other) for other in sorted(inside)]
    for _, _, name in relations:
        if name not in packages and name not in debs and (number := version(name)):
            packages[name] = entry(name, number)
    stamp = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    sum_of_all = hashlib.sha256(json.dumps([packages, relations]).encode()).hexdigest()
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "holdfast",
            "documentNamespace": f"urn:holdfast:spdx:{sum_of_all}",
            "creationInfo": {"created": stamp.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: holdfast-sbom"]},
            "packages": [packages[name] for name in sorted(packages)],
            "relationships": [{"spdxElementId": one if one.startswith("SPDXRef-") else spdx_id(one), "relationshipType": kind,
                               "relatedSpdxElement": spdx_id(other) if other in packages else "NOASSERTION"}
                              for one, kind, other in relations]}  # fmt: skip


if __name__ == "__main__":
    json.dump(document(Path(sys.argv[1]).resolve()), sys.stdout, indent=1)
    print()
