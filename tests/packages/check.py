#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Are the packages that ./dev package left in build/package fit for Debian?

lintian, hardening flags in the log of a whole build, ownership and modes, maintainer scripts, what they are made of, a
repository for apt, and the same bytes again from a copy of the source in another folder. Ends with `N passed, N failed`.
"""

import argparse
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HELPER = "./usr/libexec/holdfast/holdfast-mounthelper"
EXPECTED = {"agent", "driver-container", "mounthelper", "server", "fencer", "cli"}
BUILD_SECONDS = 900


class Failure(Exception):
    pass


def run(*args, **kwargs):
    return subprocess.run(
        args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False, **kwargs
    )


def need(condition, why):
    if not condition:
        raise Failure(why)


def packages(checkout):
    found = {}
    for path in glob.glob(os.path.join(checkout, "build", "package", "*.deb")):
        found[os.path.basename(path).split("_")[0].removeprefix("holdfast-")] = path
    return found


def field(deb, name):
    return run("dpkg-deb", "-f", deb, name).stdout.strip()


def contents(deb):
    """(mode, owner, path) of all that is in it."""
    for line in run("dpkg-deb", "-c", deb).stdout.splitlines():
        mode, owner, _, _, _, path = line.split(None, 5)
        yield mode, owner, path.split(" -> ")[0]


def all_are_there(debs):
    need(EXPECTED <= set(debs), f"missing: {EXPECTED - set(debs)}; run ./dev package")


def they_belong_together(debs):
    with open(os.path.join(CHECKOUT, "CMakeLists.txt"), encoding="utf-8") as f:
        version = re.search(r"VERSION ([0-9.]+) LANGUAGES", f.read())[1]
    with open(os.path.join(CHECKOUT, "cmake/debian/changelog"), encoding="utf-8") as f:
        need(f.readline().startswith(f"holdfast ({version}) "), f"changelog does not begin with version {version}")
    for deb in debs.values():
        need(field(deb, "Version") == version, f"{deb}: version is not {version}")
    # agent and helper are of one version of their protocol
    need(f"holdfast-mounthelper (= {version})" in field(debs["agent"], "Depends"), "agent: depends on another helper")
    need(f"holdfast-agent (= {version})" in field(debs["driver-container"], "Depends"), "driver: depends on another agent")


def lintian_has_nothing_to_say(debs):
    # as root it warns about that alone
    done = run("lintian", "--allow-root", "--fail-on=error,warning", "--tag-display-limit=0", *sorted(debs.values()))
    said = [line for line in done.stdout.splitlines() if re.match(r"[EWIP]: ", line)]
    need(not said and done.returncode == 0, "\n".join(said) or done.stdout)


def every_override_has_a_reason(debs):
    for path in glob.glob(os.path.join(CHECKOUT, "cmake/debian/*.lintian-overrides")):
        with open(path, encoding="utf-8") as f:
            before = "\n"
            for line in f:
                # one comment may stand before several
                need(line.startswith("#") or before.startswith(("#", "holdfast-")), f"{path}: {line.strip()}")
                before = line


def nothing_in_them_has_privilege(debs):
    for deb in debs.values():
        for mode, owner, path in contents(deb):
            need(owner == "root/root", f"{deb}: {path} is {owner}'s")
            need("s" not in mode and "t" not in mode and mode[5] == "-" == mode[8] or mode[0] == "l", f"{deb}: {path} {mode}")
            need(path.startswith(("./etc/", "./usr/")) or path == "./", f"{deb}: {path}")


def what_is_in_etc_is_a_conffile(debs):
    for deb in debs.values():
        files = {path[1:] for mode, _, path in contents(deb) if path.startswith("./etc/") and mode[0] == "-"}
        conffiles = set(run("dpkg-deb", "-I", deb, "conffiles").stdout.split()) if files else set()
        need(files == conffiles, f"{deb}: {files ^ conffiles}")


def needrestart_restarts_no_volume_or_network(debs):
    with tempfile.TemporaryDirectory() as folder:
        run("dpkg-deb", "-x", debs["cli"], folder)
        conf = os.path.join(folder, "etc/needrestart/conf.d/holdfast.conf")
        # as its main program reads it, and asks for a unit
        text = ('our %nrconf; defined do $ARGV[0] or die $@; my ($k) = grep { $ARGV[1] =~ /$_/ } keys %{$nrconf{override_rc}};'
                'print defined $k ? $nrconf{override_rc}{$k} : "restart";')
        for unit, expected in (("holdfast-volume@db.service", "0"), ("holdfast-network@web.service", "0"), ("holdfast-server.service", "restart")):
            found = run("perl", "-e", text, conf, unit).stdout
            need(found == expected, f"{unit}: {found}")


def the_two_helpers_are_the_same_bytes(debs):
    with tempfile.TemporaryDirectory() as folder:
        run("dpkg-deb", "-x", debs["mounthelper"], folder)
        first, second = digest(os.path.join(folder, HELPER)), digest(os.path.join(folder, HELPER + "-socket"))
        need(first == second, "launch modes setuid and socket have different programs")


def scripts_are_shell(debs):
    scripts = [p for p in glob.glob(os.path.join(CHECKOUT, "build/package/debian/*/*")) if not p.endswith("conffiles")]
    need(len(scripts) >= 3 * len(EXPECTED), f"only {scripts}")
    done = run("shellcheck", "-s", "sh", *scripts, os.path.join(CHECKOUT, "cmake/debian/holdfast-in-use"))
    need(done.returncode == 0, done.stdout)
    for script in scripts:
        with open(script, encoding="utf-8") as f:
            text = f.read()
        need("\nset -e\n" in text, f"{script}: no set -e")
        need(not re.search(r"@\w+@", text), f"{script}: not filled in")
        # mounts and helpers are nobody's business here
        need(not re.search(r"\bumount -|\bpkill\b|\bkillall\b|restart [^#\n]*mounthelper|rm -r", text), script)


def what_is_to_be_read_is_in_them(debs):
    """Each page of docs/, with the examples, in the package that everybody has; each manual page in one package."""
    inside = {name: {path for _, _, path in contents(deb)} for name, deb in debs.items()}
    wanted = [f"./usr/share/doc/holdfast-cli/{name}" for name in ("README.md", "CHANGELOG.md", "SECURITY.md")]
    wanted += [f"./usr/share/doc/holdfast-cli/{os.path.basename(page)}" for page in glob.glob(f"{CHECKOUT}/docs/*.md")]
    for folder, _, files in os.walk(f"{CHECKOUT}/docs/examples"):
        wanted += [os.path.join("./usr/share/holdfast", os.path.relpath(folder, f"{CHECKOUT}/docs"), file) for file in files]
    missing = [path for path in wanted if path not in inside["cli"] and path + ".gz" not in inside["cli"]]
    need(len(wanted) > 20 and not missing, f"cli: {missing}")
    for page in glob.glob(f"{CHECKOUT}/docs/man/*.scd"):
        name = os.path.basename(page).removesuffix(".scd")
        having = [deb for deb, paths in inside.items() if f"./usr/share/man/man{name[-1]}/{name}.gz" in paths]
        need(len(having) == 1, f"{name}: in {having}")


def the_licence_is_reported(debs):
    for name, deb in debs.items():
        with tempfile.TemporaryDirectory() as folder:
            run("dpkg-deb", "-x", deb, folder)
            with open(f"{folder}/usr/share/doc/holdfast-{name}/copyright", encoding="utf-8") as f:
                text = f.read()
        need("\nLicense: Apache-2.0\n" in text and "/usr/share/common-licenses/Apache-2.0" in text, f"{deb}: its copyright")


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def spdx_says_what_is_in_them(debs):
    """The digests of the packages, and the libraries in the mount helper."""
    with open(f"{CHECKOUT}/build/package/holdfast.spdx.json", encoding="utf-8") as f:
        document = json.load(f)
    found = {one["name"]: one for one in document["packages"]}
    for name, deb in debs.items():
        need(found[f"holdfast-{name}"]["checksums"][0]["checksumValue"] == digest(deb), f"{name}: its digest")
    parts = {(one["spdxElementId"], one["relationshipType"], one["relatedSpdxElement"]) for one in document["relationships"]}
    wanted = {("SPDXRef-holdfast-mounthelper", "STATIC_LINK", f"SPDXRef-{name}-dev") for name in ("libc6", "libcap-ng", "libseccomp", "libsodium")}
    need(wanted <= parts and ("SPDXRef-holdfast-server", "DEPENDS_ON", "SPDXRef-libssl3") in parts, f"missing: {wanted - parts}")
    installed = run("dpkg-query", "-W", "-f=${Version}", "libsodium-dev").stdout
    need(found["libsodium-dev"]["versionInfo"] == installed, f"libsodium {found['libsodium-dev']}, not {installed}")


def apt_takes_them_from_a_signed_repository_only(debs):
    """An apt with folders of its own reads the repository, and refuses it when a byte of its index or a package has changed."""
    with tempfile.TemporaryDirectory(prefix="holdfast-repo-") as folder:
        env = os.environ | {"GNUPGHOME": f"{folder}/keys"}
        os.mkdir(f"{folder}/keys", 0o700)
        key = "packages@holdfast.example.org"
        run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", key, "ed25519", "sign", env=env)
        done = run("./dev", "package", "--repo", f"{folder}/repo", "--key", key, cwd=CHECKOUT, timeout=BUILD_SECONDS, env=env)
        need(done.returncode == 0, done.stdout)
        run("gpgconf", "--kill", "gpg-agent", env=env)
        for name in ("etc", "state/lists/partial", "cache/archives/partial"):
            os.makedirs(f"{folder}/{name}")
        with open(f"{folder}/etc/sources.list", "w", encoding="utf-8") as f:
            f.write(f"deb [signed-by={folder}/repo/holdfast.gpg] file:{folder}/repo stable main\n")
        apt = ("apt-get", "-o", f"Dir::Etc={folder}/etc", "-o", f"Dir::State={folder}/state", "-o", f"Dir::Cache={folder}/cache",
               "-o", "APT::Sandbox::User=root", "-o", "Dir::State::status=/var/lib/dpkg/status")  # fmt: skip
        update = run(*apt, "update", "--error-on=any")
        need(update.returncode == 0, update.stdout)
        for name in debs:
            done = run(*apt, "download", f"holdfast-{name}", cwd=folder)
            need(done.returncode == 0, done.stdout)
        deb = glob.glob(f"{folder}/repo/pool/**/holdfast-server*.deb", recursive=True)[0]
        with open(deb, "r+b") as f:
            f.seek(-1, os.SEEK_END)
            last = f.read(1)
            f.seek(-1, os.SEEK_END)
            f.write(bytes([last[0] ^ 1]))
        for path in glob.glob(f"{folder}/holdfast-server*.deb"):
            os.unlink(path)
        need(run(*apt, "download", "holdfast-server", cwd=folder).returncode != 0, "a package that was changed is taken")
        with open(f"{folder}/repo/dists/stable/InRelease", "r+", encoding="utf-8") as f:
            text = f.read().replace("Origin: Holdfast", "Origin: Holdfost")
            f.seek(0)
            f.write(text)
        os.unlink(f"{folder}/repo/dists/stable/Release.gpg")
        need(run(*apt, "update", "--error-on=any").returncode != 0, "an index that was changed is taken")


class Again:
    """The packages once more, from a copy of the source elsewhere, at another time, with another umask."""

    def __init__(self, folder):
        self.checkout = os.path.join(folder, "another", "place")
        os.makedirs(self.checkout)
        listed = run("git", "-C", CHECKOUT, "ls-files", "-co", "--exclude-standard").stdout.splitlines()
        for name in listed:
            source = os.path.join(CHECKOUT, name)
            if os.path.isfile(source):
                target = os.path.join(self.checkout, name)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copy(source, target)
        date = run("git", "-C", CHECKOUT, "log", "-1", "--format=%ct").stdout.strip()
        self.done = run("./dev", "package", cwd=self.checkout, timeout=BUILD_SECONDS, umask=0o077, env=os.environ | {
            "SOURCE_DATE_EPOCH": date, "TZ": "Pacific/Kiritimati", "LANG": "C"})  # fmt: skip

    def the_bytes_are_the_same(self, debs):
        need(self.done.returncode == 0, self.done.stdout[-3000:])
        again = packages(self.checkout)
        need(set(again) == set(debs), f"{set(again) ^ set(debs)}")
        for name, path in debs.items():
            need(digest(path) == digest(again[name]), f"{name}: other bytes; compare {path} by diffoscope")

    def every_compiler_call_is_hardened(self, debs):
        log = os.path.join(self.checkout, "build/package/build.log")
        need(os.path.getsize(log) > 100000, "the log of the build is short")
        # it begins to read where dpkg-buildpackage does
        with open(log, encoding="utf-8", errors="replace") as f, open(log + ".blhc", "w", encoding="utf-8") as out:
            out.write("dpkg-buildpackage: info: source package holdfast\n" + f.read())
        # the mount helper is linked as a static PIE, which it does not know
        done = run("blhc", "--all", "--ignore-line", ".* -static-pie .*", log + ".blhc")
        need(done.returncode == 0, done.stdout[-3000:])
        with open(log, encoding="utf-8", errors="replace") as f:
            links = [line for line in f if " -static-pie " in line]
        need(links and all("-z,relro" in line and "-z,now" in line for line in links), "the mount helper's link")


def main():
    argparse.ArgumentParser(usage=__doc__).parse_args()
    debs = packages(CHECKOUT)
    passed, failed = 0, 0
    checks = [all_are_there, they_belong_together, lintian_has_nothing_to_say, every_override_has_a_reason,
              nothing_in_them_has_privilege, what_is_in_etc_is_a_conffile, needrestart_restarts_no_volume_or_network, the_two_helpers_are_the_same_bytes,
              scripts_are_shell, what_is_to_be_read_is_in_them, the_licence_is_reported, spdx_says_what_is_in_them,
              apt_takes_them_from_a_signed_repository_only]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="holdfast-packages-") as folder:
        again = Again(folder)
        for check in [*checks, again.the_bytes_are_the_same, again.every_compiler_call_is_hardened]:
            try:
                check(debs)
                passed += 1
                print(f"[       OK ] {check.__name__}", flush=True)
            except (Failure, KeyError) as e:
                failed += 1
                print(f"{e}\n[  FAILED  ] {check.__name__}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
