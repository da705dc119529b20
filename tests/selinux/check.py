#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Hold the SELinux module against what it promises, without booting anything.

usage: check.py [--checkout FOLDER]
Needs root, ./dev package, the packages that ./dev lists for it, and Debian's own python3, which has setools. Installs the
module in a copy of a Debian tree with neverallow checking on, asks the resulting policy, and tries a module that must be
refused. Ends with `N passed, N failed`.
"""

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import setools

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKOUT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(CHECKOUT, "tests", "vm"))
import debian  # noqa: E402
import image  # noqa: E402
from table import BREAKING, LABELS, NOT_LABELLED, ONLY, PERMITTED, REFUSED, USING  # noqa: E402

MAKEFILE = "/usr/share/selinux/devel/Makefile"
DOMAINS = {f"holdfast_{name}_t" for name in ("server", "agent", "mounthelper", "volume")}
# of which rules are looked at
SOURCES = DOMAINS | {row[0] for row in PERMITTED + REFUSED} | {row[0] for _, _, rows in USING for row in rows}


class Tally:
    def __init__(self):
        self.passed = 0
        self.failed = 0

    def check(self, what, good, why=""):
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {what}: {why}")


def compile_module(folder, name):
    done = subprocess.run(
        ["make", "--silent", "-C", folder, "-f", MAKEFILE, "NAME=default", name + ".pp"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{name}: {done.stdout}")
    return os.path.join(folder, name + ".pp")


def make_module(work, name, rules):
    """A module of a test: rules in refpolicy's language, with the interfaces of holdfast.if."""
    folder = os.path.join(work, name)
    os.mkdir(folder)
    # that makefile takes interfaces from where they are installed, or from beside the module that they are named after
    shutil.copy(os.path.join(CHECKOUT, "selinux", "holdfast.if"), os.path.join(folder, name + ".if"))
    with open(os.path.join(folder, name + ".te"), "w", encoding="ascii") as f:
        f.write(f"policy_module({name}, 1.0.0)\n{rules}\n")
    return compile_module(folder, name)


def semodule(root, *args):
    done = subprocess.run(
        ["chroot", root, "semodule", "-n", "-s", "default", *args],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def check_neverallows_when_installing(root):
    """What Debian leaves off; a neverallow is a comment otherwise."""
    path = os.path.join(root, "etc/selinux/semanage.conf")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    with open(path, "w", encoding="utf-8") as f:
        f.write(re.sub(r"(?m)^expand-check=0$", "expand-check=1", text))
    return "expand-check=1" in re.sub(r"(?m)^expand-check=0$", "expand-check=1", text)


def install(root, *modules):
    for module in modules:
        shutil.copy(module, os.path.join(root, "root"))
    args = [word for module in modules for word in ("-i", "/root/" + os.path.basename(module))]
    return semodule(root, *args)


class Policy:
    """Questions to a policy as it was installed."""

    def __init__(self, root):
        self.policy = setools.SELinuxPolicy(glob.glob(os.path.join(root, "etc/selinux/default/policy/policy.*"))[0])
        self.allowed = {}  # (source, class, permission): attributes and types it is on, booleans taken as off
        for rule in self.policy.terules():
            if rule.ruletype != setools.TERuletype.allow or self.is_off(rule):
                continue
            sources = {str(source) for source in rule.source.expand()} & SOURCES
            for source in sources:
                for permission in rule.perms:
                    self.allowed.setdefault((source, str(rule.tclass), permission), []).append(rule.target)

    @staticmethod
    def is_off(rule):
        try:
            return rule.conditional.evaluate() != rule.conditional_block
        except setools.exception.RuleNotConditional:
            return False

    def targets(self, source, cls, permission):
        return {str(target) for each in self.allowed.get((source, cls, permission), []) for target in each.expand()}

    def allows(self, source, target, cls, permission):
        return target in self.targets(source, cls, permission)

    def members(self, attribute):
        return {str(each) for each in self.policy.lookup_typeattr(attribute).expand()}

    def permissive(self):
        return {str(each) for each in self.policy.types() if each.ispermissive}

    def port(self, number):
        return [str(each) for each in self.policy.portcons() if each.ports.low == each.ports.high == number]


def check_rules(tally, policy):
    domains = policy.members("holdfast_domain")
    tally.check("the domains", domains == DOMAINS, f"holdfast_domain has {sorted(domains)}")
    tally.check("no domain is permissive", not policy.permissive() & DOMAINS, policy.permissive())
    unconfined = policy.members("unconfined_domain_type")
    tally.check("no domain is unconfined", not unconfined & DOMAINS, unconfined & DOMAINS)
    for cls, permission, allowed in ONLY:
        have = {domain for domain in DOMAINS if policy.targets(domain, cls, permission)}
        tally.check(f"{cls} {permission} is for {allowed}", have == set(allowed), f"it is for {sorted(have)}")
    check_permitted(tally, policy, PERMITTED)
    for row in REFUSED:
        tally.check("refused: {} {} {}:{}".format(row[0], row[3], row[1], row[2]), not policy.allows(*row), "it is allowed")
    port = policy.port(4656)
    tally.check("port 4656", port == ["portcon tcp 4656 system_u:object_r:holdfast_port_t:s0"], port)


def check_permitted(tally, policy, rows):
    for row in rows:
        tally.check("permitted: {} {} {}:{}".format(row[0], row[3], row[1], row[2]), policy.allows(*row), "no rule")


def type_of(root, path, mode):
    """The type that a path of a mode (file, dir, socket) gets; None: it is left as it is."""
    done = subprocess.run(["chroot", root, "matchpathcon", "-n", "-m", mode, path], stdout=subprocess.PIPE, text=True, check=True)
    context = done.stdout.strip()
    return None if context == "<<none>>" else context.split(":")[2]


def installed_programs(root):
    """Paths of the programs that the packages of this build hold."""
    listed = subprocess.run(
        "cat var/lib/dpkg/info/holdfast-*.list", shell=True, cwd=root, stdout=subprocess.PIPE, text=True, check=True
    ).stdout.split("\n")
    return [path for path in listed if re.match(r"/usr/(s?bin|libexec/holdfast)/", path) and os.path.isfile(root + path)]


def check_labels(tally, root):
    for path, mode, label in LABELS:
        found = type_of(root, path, mode)
        tally.check(f"{path} is {label}", found == label, f"it is {found}")
    programs = installed_programs(root)
    tally.check("the packages have programs", programs, "none was found")
    known = {path for path, _, _ in LABELS} | set(NOT_LABELLED)
    for path in programs:
        tally.check(f"{path} is in tests/selinux/table.py", path in known, "say which label it has")


def check_use(tally, root, work):
    """Modules of a site, as docs/selinux.md writes them, are accepted and give what they say."""
    modules = [make_module(work, name, rules) for name, rules, _ in USING]
    status, said = install(root, *modules)
    tally.check("modules that use the interfaces are accepted", status == 0, said)
    policy = Policy(root)
    for _, _, permitted in USING:
        check_permitted(tally, policy, permitted)
    semodule(root, *[word for name, _, _ in USING for word in ("-r", name)])


ALLOW = re.compile(r"\(allow (\S+) (\S+) \((\S+) \(([^)]*)\)\)\)")


def check_breaking(tally, root, work):
    """One module with a rule against each neverallow; what semodule says of it has to name every one. Of each neverallow it
    names four rules at the most."""
    requires = "".join(f"\ttype {name};\n" for name in sorted({t for row in BREAKING for t in row[1:3] if t != "self"}))
    rules = "".join(f"allow {source} {target}:{cls} {permission};\n" for _, source, target, cls, permission in BREAKING)
    module = make_module(work, "hfbreaking", f"gen_require(`\n{requires}')\n{rules}")
    status, said = install(root, module)
    tally.check("a module that breaks a neverallow is refused", status != 0, "it was accepted")
    named = {(m[1], m[2], m[3], word) for m in ALLOW.finditer(said) for word in m[4].split()}
    for what, source, target, cls, permission in BREAKING:
        tally.check(f"refused: {what}", (source, target, cls, permission) in named, "no neverallow named it")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--checkout", default=CHECKOUT)
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("check.py: needs root")
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="holdfast-selinux-", dir=image.roomy_folder()) as work:
        root = os.path.join(work, "root")
        debian.make_tree(root, debian.packages(options.checkout))
        tally.check("neverallows are checked", check_neverallows_when_installing(root), "no expand-check= in semanage.conf")
        folder = os.path.join(work, "module")
        shutil.copytree(os.path.join(options.checkout, "selinux"), folder)
        status, said = install(root, compile_module(folder, "holdfast"), os.path.join(folder, "holdfast_port.cil"))
        tally.check("the module is accepted", status == 0, said)
        if status == 0:
            check_rules(tally, Policy(root))
            check_labels(tally, root)
            check_use(tally, root, work)
            check_breaking(tally, root, work)
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
