#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Documents against the tree: what they name exists, what they list is complete.

check_docs.py            say what is wrong, exit 1 if anything is
check_docs.py --update   write the generated tables of docs anew, then check the rest
"""
import fnmatch
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REVIEW = ROOT / "docs/helper-review.md"
DRIVER_REVIEW = ROOT / "docs/driver-review.md"
PACE = 400  # lines an hour, for a reader who looks for mistakes
MANUAL = ROOT / "docs/man/holdfast-mounthelper.8.scd"
FILTER = ROOT / "mounthelper/filter.c"
WORDS = ROOT / "proto/mounthelper_words.h"
PROTOCOL = ROOT / "docs/protocol.md"
ROUTES = ROOT / "server/routes.c"
NODE_METRICS = [ROOT / "agent/status/metrics.c", ROOT / "agent/driver-container/metrics.c"]
METRICS = [ROOT / "server/metrics.c", *NODE_METRICS]
COMMANDS = [ROOT / "cli/command/commands.h", *sorted((ROOT / "cli").glob("**/*.c"))]
ACCESS_MANUAL = ROOT / "docs/man/holdfast-operator-access.1.scd"
RELOAD = ROOT / "server/reload.c"
AGENT_CONFIG = ROOT / "agent/config.c"
AGENT_CONFIG_MANUAL = ROOT / "docs/man/holdfast-agent.hcl.5.scd"
POLICY = ROOT / "mounthelper/tool/policy_parse.c"
POLICY_MANUAL = ROOT / "docs/man/mounthelper.policy.5.scd"
ARCHITECTURE = ROOT / "docs/architecture.md"
CONFIG = ROOT / "server/config.c"
CONFIG_MANUAL = ROOT / "docs/man/holdfast-server.hcl.5.scd"
CODES = ROOT / "lib/rpc/grpc_status.c"
NOMAD_PAGE = ROOT / "docs/nomad-keys.md"
NOMAD_KEYS = ROOT / "cli/nomad/keys.c"
SKIPPED = {".git", "build", "__pycache__", "node_modules"}
SUFFIXES = ("c", "h", "py", "md", "txt", "scd", "proto", "rules", "socket", "service", "in", "sh", "policy", "hcl")

faults = []


def fault(text):
    faults.append(text)


def read(path):
    return path.read_text(encoding="utf-8")


def shown(path):
    return str(path.relative_to(ROOT))


def tree():
    """Every file of the project, relative to its root."""
    found, folders = [], [ROOT]
    while folders:
        for entry in sorted(folders.pop().iterdir()):
            if entry.name in SKIPPED:
                continue
            (folders if entry.is_dir() else found).append(entry)
    return [shown(entry) for entry in found]


def documents():
    return sorted(ROOT.glob("docs/**/*.md")) + sorted(ROOT.glob("tests/*/README.md")) + [ROOT / "README.md"]


# --- what a document names --------------------------------------------------------------------------------


def test_names(files):
    """Tests of C and Python, and the names that ctest knows them by."""
    names = set()
    for name in files:
        if name.startswith("tests/") and name.endswith((".c", ".py")):
            text = read(ROOT / name)
            names.update(re.findall(r"^(?:[A-Z_]*(?:TEST|CASE)[A-Z_]*\(|static void\s+)(\w+)(?:,|\)|\(void \*\*state\))", text, re.M))
            names.update(re.findall(r"^\s*def (\w+)\(", text, re.M))
            names.add(Path(name).stem)
    return names


def program_names(files):
    """test_root_mounthelper_race is tests/integration/mounthelper/test_race.c; fuzz_wire is fuzz_wire.c."""
    paths = [Path(name) for name in files if name.startswith("tests/") and name.endswith((".c", ".py"))]
    names = {path.stem for path in paths} | {"test_docs"}
    for path in paths:
        end = re.sub(r"^(test|check)_", "", path.stem)
        names.update(f"test_{kind}{path.parent.name}_{end}" for kind in ("", "root_"))
    return names.__contains__


def source_words(files):
    words = set()
    for name in files:
        if name.endswith((".c", ".h", ".proto")) and not name.startswith("tests/"):
            words.update(re.findall(r"\w+", read(ROOT / name)))
    return words


def words_beside(path):
    """Words of the programs that a README is about."""
    programs = path.parent.glob("*.py") if path.name == "README.md" else []
    return {word for program in programs for word in re.findall(r"\w+", read(program))}


def is_file_name(quoted):
    return re.fullmatch(r"[\w./*@-]+\.(%s)" % "|".join(SUFFIXES), quoted) and not quoted.startswith(("/", "."))


def anchors(path):
    """Those of its headings that GitHub and the site (docs/site.py) make alike."""
    text = re.sub(r"^```.*?^```", "", read(path), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    made = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    return {anchor for anchor in made if "--" not in anchor and anchor.isascii()}


def check_quotes(path, files, tests, is_program, words):
    text = re.sub(r"^```.*?^```", "", read(path), flags=re.M | re.S)
    for quoted in set(re.findall(r"`([^`\n]+)`", text)):
        if re.fullmatch(r"(test|fuzz)_[\w*]+", quoted):
            if not is_program(quoted) and not fnmatch.filter(tests, quoted):
                fault(f"{shown(path)}: there is no test program {quoted}")
        elif re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)+", quoted):
            known = quoted in tests or quoted in words or quoted in metric_names() or quoted in modules_of("server")
            known = known or quoted in modules_of("agent") or quoted in words_beside(path)
            if not known:
                fault(f"{shown(path)}: there is no test or metric {quoted}")
        elif is_file_name(quoted):
            whole = [f for f in files if fnmatch.fnmatchcase(f, quoted)]
            part = [f for f in files if fnmatch.fnmatchcase(f, "*/" + quoted)]
            if not whole and not part and Path(quoted).name not in INSTALLED:
                fault(f"{shown(path)}: there is no file {quoted}")
        elif quoted.endswith("/") and re.fullmatch(r"[\w./-]+/", quoted) and not quoted.startswith("/"):
            if not (ROOT / quoted).is_dir() and not (path.parent / quoted).is_dir():
                fault(f"{shown(path)}: there is no folder {quoted}")
    for link, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
        page = path.parent / link if link else path
        if "://" in link:
            continue
        if not page.exists():
            fault(f"{shown(path)}: the link to {link} leads nowhere")
        elif anchor and anchor not in anchors(page):
            fault(f"{shown(path)}: {shown(page.resolve())} has no heading #{anchor}")


# Not of the tree: files of an installed machine.
INSTALLED = {"agent.hcl", "server.hcl", "mounthelper.policy", "mounthelper.policy.applied", "holdfast-agent.service", "holdfast-mounthelper@.service"}


# --- the mount helper ---------------------------------------------------------------------------------------


def sloc(path):
    """Lines that are neither blank nor comment."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), read(path), flags=re.S)
    return sum(1 for line in text.splitlines() if line.strip())


def first_sentence(path):
    comment = re.search(r"/\*+\s*(?!\s*SPDX)(.*?)\*/", read(path), re.S)
    text = re.sub(r"\s*\n\s*\*?\s*", " ", comment.group(1)).strip() if comment else ""
    return re.split(r"(?<=[.:])\s", text)[0].rstrip(":")


def modules(folder):
    """{stem: [files]} of a folder of C."""
    found = {}
    for path in sorted(folder.glob("*.[ch]")):
        found.setdefault(path.stem, []).append(path)
    return found


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def item(text):
    """The lines of an item of a list; what is in backticks stays on one line."""
    whole = re.sub(r"`[^`]*`", lambda m: m[0].replace(" ", "\0").replace("-", "\1"), "- " + text)
    lines = textwrap.wrap(whole, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ").replace("\1", "-") for line in lines]


def items(text):
    """The items of its lists, each on one line."""
    found = re.findall(r"^- (.*(?:\n  .*)*)", text, re.M)
    return [" ".join(each.split()) for each in found]


def names_of(paths):
    return ", ".join(f"`{path.name}`" for path in paths)


def total_item(total):
    return f"- all: {total} lines, {-(-total // PACE)} hours at {PACE} lines an hour"


def module_table(old, folder="mounthelper"):
    """Order and remarks are the document's; files and lines are the tree's."""
    there = modules(ROOT / folder)
    remarks = {}
    for each in items("\n".join(old)):
        stem = re.match(r"`(\w+)\.[ch]`.*? \(\d+\): (.*)", each)
        if stem:
            remarks[stem.group(1)] = stem.group(2)
    order = [stem for stem in remarks if stem in there] + [stem for stem in there if stem not in remarks]
    lines, total = [], 0
    for stem in order:
        n = sum(sloc(path) for path in there[stem])
        lines += item(f"{names_of(there[stem])} ({n}): {remarks.get(stem) or first_sentence(there[stem][-1])}")
        total += n
    return lines + [total_item(total)]


def driver_table(old):
    return module_table(old, "agent/driver-container")


def plugin_table(old):
    return module_table(old, "cli/docker")


def closure(folder, *places):
    """Modules of @places whose headers @folder includes, and what these include: {header: lines}, without its own."""
    lines, todo = {}, [path for path in (ROOT / folder).glob("*.[ch]")]
    while todo:
        for stem in re.findall(r'#include "([\w/]+)\.h"', read(todo.pop())):
            for place in places:
                module = sorted((ROOT / place).glob(stem + ".[ch]"))
                name = f"{place}/{stem}.h"
                if module and name not in lines and not name.startswith(folder + "/"):
                    lines[name] = sum(sloc(path) for path in module)
                    todo += module
    return lines


def base_table(_old):
    parts = closure("mounthelper", "lib", "proto")
    return [*(f"- `{name}`: {n}" for name, n in sorted(parts.items())), total_item(sum(parts.values()))]


def tool_table(old):
    return module_table(old, "mounthelper/tool")


def sizes_table(_old):
    """The parts of other folders are those of the headers that the program's own files lead to in that folder."""
    lines = []
    for name, folder, places in (("the driver", "agent/driver-container", ("lib", "proto")),
                                 ("the volume plugin", "cli/docker", ("lib", "cli"))):  # fmt: skip
        parts = [(name, sum(sloc(path) for path in (ROOT / folder).glob("*.[ch]")))]
        parts += [(f"its part of `{place}/`", sum(closure(folder, place).values())) for place in places]
        lines += [f"- {said}: {n} lines, {-(-n // PACE)} hours" for said, n in parts]
    return lines


DESCRIPTORS = {
    "HELPER_SOCKET_FD": "the socket",
    "h->trail.fd": "the log",
    "h->trail.read_fd": "the log, reading",
    "h->mountinfo.fd": "the mount table",
    "h->state_fd": "the state file",
    "h->audit_fd": "the audit socket",
}
CONDITIONS = {
    "h->audit_fd<0": "if audit is there",
    "h->trail.fd<0": "if there is one",
    "!h->agent->allow_detach": "with allow_detach",
    "!h->type_available[FS_NFS4]": "with an nfs4 profile",
}


def split_braces(text):
    """Top-level {...} groups of a C initialiser."""
    groups, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c == "{":
            depth += 1
            start = i if depth == 1 else start
        elif c == "}":
            depth -= 1
            if depth == 0:
                groups.append(text[start + 1 : i])
    return groups


def argument(match):
    index, value = match.group(2), match.group(3).strip()
    value = DESCRIPTORS.get(value, value)
    value = re.sub(r"\b(SYS_|SCMP_)", "", value)
    return f"{index} {'has' if match.group(1) == 'HAS' else '='} {value}"


def filter_rules():
    """{call: [text of one rule's checks]} in the order of filter.c."""
    text = re.sub(r"/\*.*?\*/", "", read(FILTER), flags=re.S)
    table = re.search(r"\brules\[\] = \{(.*?)\n\t\};", text, re.S)
    rules = {}
    for group in split_braces(table.group(1)) if table else []:
        flat = " ".join(group.split())
        name = re.match(r"(?:SCMP_SYS\((\w+)\)|SYS_NR_(\w+))", flat)
        checks = [argument(m) for m in re.finditer(r"\b(IS|HAS)\((\d), ((?:[^()]|\([^()]*\))*)\)", flat)]
        when = flat[flat.rindex("}") + 1 :].strip(" ,").replace(" ", "")
        if name:
            said = ", ".join(checks) or "any"
            said += " (" + CONDITIONS.get(when, when) + ")" if when else ""
            rules.setdefault(name.group(1) or name.group(2).lower(), []).append(said)
    if not rules:
        fault(f"{shown(FILTER)}: no rules found; check_docs.py expects them in rules[] = {{...}};")
    return rules


def filter_table(old):
    reasons = {}
    for each in items("\n".join(old)):
        call = re.match(r"`(\w+)`(?:, \[.*?\])?: (.*)", each)
        if call:
            reasons[call.group(1)] = call.group(2)
    lines, rules = [], filter_rules()
    for call, checks in rules.items():
        has = "" if checks == ["any"] else f", [{'; '.join(checks)}]"
        lines += item(f"`{call}`{has}: {reasons.get(call, 'TO BE WRITTEN')}")
    n = sum(len(checks) for checks in rules.values())
    return lines + ["", f"{len(rules)} calls, {n} rules."]


def literal(text, macros):
    """The text of C literals and macros in a row."""
    return "".join(part[1:-1].replace('\\"', '"') if part[0] == '"' else macros[part]
                   for part in re.findall(r'"(?:[^"\\]|\\.)*"|\w+', text))  # fmt: skip


def nomad_keys():
    """(block, key, fate, text) of each row of cli/nomad/keys.c."""
    source, macros = read(NOMAD_KEYS), {"NULL": ""}
    for name, text in re.findall(r"^#define (\w+)\s+(?:\\\n\s*)?(\".*\")$", source, re.M):
        macros[name] = literal(text, macros)
    rows = re.findall(r'\{NOMAD_(\w+), "(\w+)", NOMAD_(\w+),\s*((?:"(?:[^"\\]|\\.)*"|\w+|\s)+)\}', source)
    return [(block.lower(), key, fate.lower(), literal(text, macros)) for block, key, fate, text in rows]


SHARED = ("job", "group", "task")


def shared_rows():
    """(fate, text) that keys of two or more of the blocks job, group and task have: they are in one table."""
    places = {}
    for block, _, *rest in nomad_keys():
        if block in SHARED and rest[0] != "taken":
            places.setdefault(tuple(rest), set()).add(block)
    return {rest for rest, blocks in places.items() if len(blocks) > 1}


def nomad_table(block):
    def table(_old):
        shared, rows = shared_rows(), {}
        for found, key, *rest in nomad_keys():
            place = "shared" if found in SHARED and tuple(rest) in shared else found
            if place == block and f"`{key}`" not in rows.setdefault(tuple(rest), []):
                rows[tuple(rest)].append(f"`{key}`")
        if not rows:
            fault(f"{shown(NOMAD_KEYS)}: has no row of {block}")
        taken = rows.pop(("taken", ""), [])
        lines = ["Taken: " + ", ".join(taken) + ".", ""] if taken else []
        for (are, here), names in rows.items():
            lines += textwrap.wrap(f"- **{are}** {', '.join(names)}: {here}", 120, subsequent_indent="  ", break_long_words=False)
        return lines

    return table


NOMAD_BLOCKS = ("config", "constraint", "csi_plugin", "file", "group", "job", "logs", "network", "reschedule", "resources", "restart", "shared", "task", "update",
                "volume", "volume_mount")  # fmt: skip
TABLES = {"modules": module_table, "base": base_table, "filter": filter_table,
          "driver": driver_table, "plugin": plugin_table, "sizes": sizes_table, "tool": tool_table, **{f"nomad_{block}": nomad_table(block) for block in NOMAD_BLOCKS}}
REVIEWS = {REVIEW: ["base", "filter", "modules", "tool"], DRIVER_REVIEW: ["driver", "plugin", "sizes"],
           NOMAD_PAGE: sorted("nomad_" + block for block in NOMAD_BLOCKS)}
MARKED = re.compile(r"(<!-- generated: (\w+) -->\n)(.*?)(<!-- end -->)", re.S)


def generated(path, text):
    def fill(match):
        if match.group(2) not in TABLES:
            fault(f"{shown(path)}: there is no table {match.group(2)}")
            return match.group(0)
        lines = TABLES[match.group(2)](match.group(3).splitlines())
        return match.group(1) + "\n".join(lines) + "\n" + match.group(4)

    return MARKED.sub(fill, text)


def check_generated(update):
    for path, tables in REVIEWS.items():
        check_review(path, tables, update)


def check_review(path, tables, update):
    old = read(path)
    new = generated(path, old)
    seen = [m.group(2) for m in MARKED.finditer(old)]
    if sorted(seen) != tables:
        fault(f"{shown(path)}: its generated tables are {seen}, not {tables}")
    if "TO BE WRITTEN" in new:
        fault(f"{shown(path)}: a rule of the filter has no reason yet")
    if new == old:
        return
    if update:
        path.write_text(new, encoding="utf-8")
        return
    for was, is_now in zip(old.splitlines(), new.splitlines()):
        if was != is_now:
            fault(f"{shown(path)}: out of date, run tests/docs/check_docs.py --update\n  it says  {was}\n  true is  {is_now}")
            return
    fault(f"{shown(path)}: out of date, run tests/docs/check_docs.py --update")


def check_claims():
    """Below a heading that ends in "its test", a row without a test is a claim without one."""
    for path in REVIEWS:
        check_rows(path)


def check_rows(path):
    section = ""
    for line in re.sub(r"\n  (?=\S)", " ", read(path)).splitlines():
        if line.startswith("#"):
            section = line
        if section.endswith("its test") and line.startswith(("|", "- ")) and not re.match(r"\|[-| ]+$", line):
            last = cells(line)[-1]
            if last not in ("test", "tests") and not re.search(r"`\w+_\w+`", last):
                fault(f"{shown(path)}: no test in: {line}")


# --- the manual ---------------------------------------------------------------------------------------------


def section_of(manual, title):
    found = re.search(rf"^# {title}\n(.*?)(?=^# |\Z)", manual, re.M | re.S)
    if not found:
        fault(f"{shown(MANUAL)}: no section {title}")
    return found.group(1) if found else ""


def bold(text):
    """Words in bold at the beginning of a line, up to the first that is not."""
    words = set()
    for line in text.splitlines():
        if line.startswith("*"):
            words.update(re.findall(r"\*([a-z][\w-]*)\*", line))
    return words


def words_of(name):
    found = re.search(rf"#define {name}\(X\)(.*?)\n\n", read(WORDS) + "\n\n", re.S)
    return set(re.findall(r'X\(\w+,\s*(?:\d+,\s*)?"([\w-]+)"', found.group(1))) - {"none", "ok"}


def compare(what, listed, true):
    for word in sorted(true - listed):
        fault(f"{shown(MANUAL)}: {what} {word} is not explained")
    for word in sorted(listed - true):
        fault(f"{shown(MANUAL)}: {what} {word} does not exist")


def check_manual():
    manual = read(MANUAL)
    compare("the system call", bold(section_of(manual, "SYSTEM CALLS")), set(filter_rules()))
    compare("the reason", bold(section_of(manual, "REASONS")), words_of("MH_REASONS"))
    compare("the step", bold(section_of(manual, "STEPS")), words_of("MH_STEPS"))
    status = section_of(manual, "EXIT STATUS")
    compare("the word", bold(status), words_of("MH_STARTS"))
    compare("the fault of the trail", bold(section_of(manual, "TRAIL").split("one of these reasons:")[1].split("A log")[0]),
            words_of("MH_TRAILS"))
    for code in re.findall(r"MH_EXIT_\w+ = (\d+)", read(WORDS)):
        if f"\n*{code}*\n" not in status:
            fault(f"{shown(MANUAL)}: exit status {code} is not explained")


# --- the manual of operations --------------------------------------------------------------------------------


RUNBOOK = ROOT / "docs/runbook"
STUCK = RUNBOOK / "stuck-volume.md"
MONITORING = ROOT / "docs/monitoring.md"


def manual_text():
    """All pages that an operator reads, as one text."""
    return "".join(read(path) for path in sorted(ROOT.glob("docs/*.md")) + sorted(RUNBOOK.glob("*.md")))


def table_texts(path, table):
    """Texts of the designated initialisers of a C table; strings side by side are one."""
    body = re.search(r"%s\[\w+\] = \{\n(.*?)^\};" % table, read(path), re.M | re.S).group(1)
    texts = re.findall(r'\[\w+\]\s*=\s*\{?\s*((?:"(?:[^"\\]|\\.)*"\s*)+)', body)
    return ["".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text)) for text in texts]


def first_cells(text):
    return {cells(line)[0] for line in text.splitlines() if line.startswith("|")}


def command_rows():
    """The text of the CLI's tables; rows that WAIT_COMMAND makes are written out."""
    row = r'{.path = "\1 wait", .options = OPTION_BIT(OPT_FOR) | OPTION_BIT(OPT_TIMEOUT), .call = '
    return re.sub(r'WAIT_COMMAND\("(\w+)"', row, "\n".join(map(read, COMMANDS)))


def cli_commands():
    return set(re.findall(r'(?:\.path = |LATER\()"([a-z -]+)"', command_rows()))


def said_by_programs():
    """Texts of the C code that people read, with each conversion of printf as a NUL."""
    found = []
    for folder in ("agent", "server", "lib", "cli"):
        for path in sorted((ROOT / folder).glob("**/*.c")):
            for run in re.findall(r'"(?:[^"\\\n]|\\.)*"(?:\s+(?:PRI\w+\s*)?"(?:[^"\\\n]|\\.)*")*', read(path)):
                text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', run))
                found.append(re.sub(r"%[-.*\d]*(?:z|l|ll|h)?[a-zA-Z]?", "\0", text))
    return found


# Tables whose quotes are what programs say of plugins: document, heading, number of cells in a row, which of them.
SAID = [("docs/runbook/plugin-errors.md", "# A CSI plugin reports an error", 4, 1), ("docs/drivers-tried.md", "## When it hangs, dies or lies", 3, 0)]
SAID_LEAST = 6


def check_said():
    """In a quote words in capitals, names of calls, numbers and dots stand for anything."""
    texts = said_by_programs()
    for name, heading, n_cells, column in SAID:
        section = read(ROOT / name).split(heading + "\n")[1].split("\n#")[0]
        rows = [cells(line) for line in section.splitlines() if line.startswith("| ") and len(cells(line)) == n_cells]
        quotes = [quoted for row in rows for quoted in re.findall(r"`([^`]+)`", row[column])]
        if len(quotes) < SAID_LEAST:
            fault(f"{name}: what it quotes below '{heading}' was not understood")
        for part in [part for quoted in quotes for part in
                     re.split(r"\b[A-Z]+\b|\b[A-Z][a-z]+[A-Z]\w+\b|\b\d\w*\b|\.\.\.", quoted)]:
            part = part.strip(" :;")
            if re.search(r"[a-z]{2}", part) and not any(part in text for text in texts):
                fault(f"{name}: no program says '{part}'")


def check_operations():
    """Each thing that the server says about a claim or a node has its row, and each command exists."""
    text = manual_text()
    rows = first_cells(text)
    said = [("explain.c", "rows"), ("explain.c", "evidence_words"), ("feasibility.c", "words")]
    for name, table in said:
        path = ROOT / "lib/model" / name
        found = table_texts(path, table)
        if len(found) <= 5:
            fault(f"{shown(path)}: its table {table} was not understood")
        for words in found:
            if words and words not in rows and words not in UNSAID:
                fault(f"docs: no row says what to do about '{words}' of {shown(path)}")
    commands = cli_commands()
    for quoted in re.findall(r"`holdfast ([^`\n]+)`|^holdfast (.+)$", text, re.M):
        words = (quoted[0] or quoted[1]).split()
        if not any(" ".join(words[:n]) in commands for n in range(1, 4)):
            fault(f"docs: there is no command 'holdfast {' '.join(words)}'")


def messages(path):
    """String literals of a C file, those side by side as one."""
    text = re.sub(r'"\s*(?:PRI\w+\s*)?"', "", re.sub(r"/\*.*?\*/", "", read(path), flags=re.S))
    return re.findall(r'"((?:[^"\\\n]|\\.)*)"', text)


def check_namespaces(files):
    """Each command with the id of a volume or a job has NAMESPACE_OPTION in its message: "%s%s" behind a word."""
    n = 0
    for name in files:
        if not (name.startswith(("agent/", "cli/", "lib/", "server/")) and name.endswith(".c")):
            continue
        for message in messages(ROOT / name):
            for said in re.findall(r"holdfast ((?:volume|job) (?!snapshot |import )[a-z][^,;:)]*)", message):
                n += "%" in said
                if "%" in said and not re.search(r"\w%s%(?:\.\d+)?s", said):
                    fault(f"{name}: 'holdfast {said}' lacks NAMESPACE_OPTION()")
    if n < 30:
        fault(f"only {n} messages name a command with a volume or a job")


def check_messages(files):
    """Each command that a message of the server names exists, with its options."""
    commands = cli_commands()
    groups = {command.split()[0] for command in commands if " " in command}
    options = set(re.findall(r'\.name = "([a-z-]+)"', read(ROOT / "cli/command/options.c")))
    for name in files:
        if not (name.startswith(("server/", "lib/model/")) and name.endswith(".c")):
            continue
        for message in messages(ROOT / name):
            for said in re.findall(r"holdfast ((?:%s) [^,;:)]*)" % "|".join(sorted(groups)), message):
                words = said.replace("%s%.64s", "").split()
                if not any(" ".join(words[:n]) in commands for n in (2, 3)):
                    fault(f"{name}: a message names 'holdfast {said}', which is no command")
                for option in re.findall(r"--([a-z-]+)", said):
                    if option not in options:
                        fault(f"{name}: a message names the option --{option}, which there is not")


# A node that can take it is no obstacle; nodes do not fence themselves yet.
UNSAID = {"able to take it", "its own fence"}


# --- the protocol -------------------------------------------------------------------------------------------


def served_addresses():
    """"GET /v1/volumes" -> "Volumes.List", from the table of the server."""
    text = read(ROUTES)
    table = text[text.index("const struct rpc_route routes[]"):]
    found = {}
    for macro, pattern, service, call in re.findall(r'(GET|PUT_OR_POST|DELETE)\("([^"]+)", "(\w+)", "(\w+)"\)', table):
        for method in macro.split("_OR_"):
            found[f"{method} {pattern}"] = f"{service}.{call}"
    for block in re.findall(r"\{\.method.*?\}(?=,\n)", table, re.S):
        method, pattern = (re.search(rf'\.{key} = "([^"]+)"', block).group(1) for key in ("method", "pattern"))
        service, call = re.search(r'SERVICE\("(\w+)"\)', block), re.search(r'\.call = "(\w+)"', block)
        found[f"{method} {pattern}"] = f"{service.group(1)}.{call.group(1)}" if service else "text"
    return found


def written_addresses():
    found = {}
    for line in items(read(PROTOCOL)):
        cell = re.match(r"(`(?:GET|PUT|POST|DELETE) /.*?`): (\w+\.\w+|text)\b", line)
        for address in re.findall(r"`([^`]+)`", cell.group(1)) if cell else []:
            found[address] = cell.group(2)
            if address.startswith("PUT "):  # each of them may be a POST
                found["POST " + address.removeprefix("PUT ")] = cell.group(2)
    return found


def served_methods():
    """Service -> its methods as the page lists them."""
    found = {}
    for path in sorted(ROOT.glob("proto/holdfast/v1/*.proto")):
        for name, body in re.findall(r"^service (\w+) \{(.*?)^\}", read(path), re.M | re.S):
            found[name] = [method + (" (stream)" if stream else "")
                           for method, stream in re.findall(r"rpc (\w+)\((stream )?", body)]
    return found


def check_same(what, written, true):
    for key in sorted(set(written) | set(true)):
        if written.get(key) != true.get(key):
            fault(f"{shown(PROTOCOL)}: {what} {key} is {written.get(key)}, in the code {true.get(key)}")


def written_rights():
    """Method -> the right that the page gives it."""
    section = re.search(r"^\*\*Rights\.\*\*(.*?)^## ", read(PROTOCOL), re.M | re.S)
    written = {}
    for each in items(section.group(1)) if section else []:
        right = re.fullmatch(r"([\w ,-]+): (\w+\.\w+(?:, \w+\.\w+)*)", each)
        if right:
            written.update({method: right.group(1) for method in right.group(2).split(", ")})
    return written


def check_protocol():
    text = read(PROTOCOL)
    check_same("address", written_addresses(), served_addresses())
    services = served_methods()
    services.pop("Agent", None)  # the agent's own socket
    streams = re.search(r"^Streams: ([\w., ]+)\. ", text, re.M)
    true = sorted(f"{name}.{method.removesuffix(' (stream)')}" for name, methods in services.items() for method in methods
                  if method.endswith(" (stream)"))
    check_same("list of", {"streams": sorted(streams.group(1).split(", ")) if streams else []}, {"streams": true})
    methods = {f"{name}.{method.removesuffix(' (stream)')}": True for name, methods in services.items() for method in methods}
    check_same("method", {method: True for method in written_rights()}, methods)
    codes = dict(re.findall(r'\[STATUS_(\w+)\] = \{"(\w+", \d+)\}', read(CODES)))
    codes.pop("OK")
    check_same("code", {name: f'{word}", {http}' for name, word, http in
                        re.findall(r"^\| \d+ \| (\w+) \| (\w+) \| (\d+) \|", text, re.M)}, codes)


def check_rights():
    """The right of each method, as test_rights.c has it."""
    text = read(ROOT / "tests/unit/server/test_rights.c")
    words = {name: word if over == "NAMESPACE" else f"{over.lower()} {word}" for name, over, word in
             re.findall(r'\[(\w+)\] = \{OVER_(\w+),\s*\{"([\w-]+)"', text)}
    text = text[text.index("rows[] = {"):text.index("\n};", text.index("rows[] = {"))]
    kinds = {"OF_MANAGEMENT": "management", "OF_NODES": "a node", "OF_FENCERS": "a fencer", "OF_ANYBODY": "any identity",
             "OF_NEW_NODES": "no identity, the token of the request"}
    true = {}
    for method, kind, needs in re.findall(r'\{"(\w+\.\w+)", (\w+),\s*(0|N\([^,]*\)),', text):
        rights = [words[name] for name in re.findall(r"N\((\w+)\)", needs)]
        # the first row of a method is its plain one
        true.setdefault(method, ", ".join(rights) or kinds.get(kind, "?"))
    check_same("the right of", written_rights(), true)


def check_session_messages():
    text = read(ROOT / "proto/holdfast/v1/nodes.proto")
    for name, title in (("SessionUp", "up"), ("SessionDown", "down")):
        body = re.search(rf"^message {name} \{{(.*?)^\}}", text, re.M | re.S).group(1)
        true = {member: True for member in re.findall(r"^\s+\w+ (\w+) = \d+;", body, re.M)}
        part = re.search(rf"^Messages {title}:\n\n(.*?)\n\n", read(PROTOCOL), re.M | re.S)
        names = [each.split(":")[0] for each in items(part.group(1))] if part else []
        check_same(f"the message {title}", {word: True for name in names for word in name.split(", ")}, true)


def blocks_of(config):
    return set(re.findall(r'\.key = "(\w+)",\s*\.type = CONF_BLOCKS', config))


def check_settings():
    """The keys of the server's settings, in the code and in the manual."""
    code = "".join(read(CONFIG.parent / name) for name in ("config.c", "plugin/controller_nodes.c", "plugin/parameters.c", "fence/bindings.c", "lead/lead_settings.c"))
    keys = set(re.findall(r'\.key = "(\w+)"', code)) | set(re.findall(r"\b(?:TLS_)?PATH\((?!member)(\w+)\)", code))
    keys |= set(re.findall(r'json_object_get\((?:root|body), "(\w+)"\)', code))
    blocks = blocks_of(code)
    written = set(re.findall(r"^\*(\w+)\* = ", read(CONFIG_MANUAL), re.M))
    written |= set(re.findall(r'^## (\w+) (?:"\w+" )?\{ \}', read(CONFIG_MANUAL), re.M))
    for key in sorted(keys - written):
        fault(f"{shown(CONFIG_MANUAL)}: lacks {key}{' { }' if key in blocks else ''}")
    for key in sorted(written - keys):
        fault(f"{shown(CONFIG_MANUAL)}: {key} is no setting of the server")


def same_words(manual, what, written, true):
    for word in sorted(true - written):
        fault(f"{shown(manual)}: lacks {what} {word}")
    for word in sorted(written - true):
        fault(f"{shown(manual)}: {what} {word} does not exist")


def check_reload():
    """Every setting is either taken over by SIGHUP or named in the manual as one that waits for the next start."""
    code, config = read(RELOAD), read(CONFIG)
    keys = set(re.findall(r'\.key = "(\w+)"', config)) | set(re.findall(r"\b(?:TLS_)?PATH\((?!member)(\w+)\)", config))
    keys |= set(re.findall(r'json_object_get\(root, "(\w+)"\)', config))
    keys -= blocks_of(config)
    at_start = re.search(r"at_start\[\] = \{(.*?)\};", code, re.S).group(1)
    known = {name.split(".")[-1] for name in re.findall(r'(?:NUMBER|TEXT)\("([\w.]+)"', code)}
    for key in sorted(keys - known):
        fault(f"{shown(RELOAD)}: SIGHUP does not know the setting {key}")
    section = re.search(r"^# RELOAD\n(.*?)^# ", read(CONFIG_MANUAL), re.M | re.S).group(1)
    waits = {name.split(".")[0] for name in re.findall(r'(?:NUMBER|TEXT)\("([\w.]+)"', at_start)}
    written = re.search(r"((?:\*\w+\*(?:, | and\s)?)+)\s*wait for\s+the next start", section)
    listed = set(re.findall(r"\*(\w+)\*", written.group(1))) if written else set()
    same_words(CONFIG_MANUAL, "under RELOAD, of what waits for the next start,", listed, waits)


def check_agent_settings():
    code = read(AGENT_CONFIG)
    body = code[code.index("server_fields[]"):code.index("level_names")]
    keys = set(re.findall(r'(?:\.key = |TEXT\(|TIMEOUT\()"(\w+)"', body))
    manual = read(AGENT_CONFIG_MANUAL)
    written = set(re.findall(r"^\*(\w+)\* = ", manual, re.M)) | set(re.findall(r"^## (\w+) \{ \}", manual, re.M))
    same_words(AGENT_CONFIG_MANUAL, "the setting", written, keys)


def check_policy_keys():
    table = re.search(r"\n\t\{\"cluster\".*?^\};", read(POLICY), re.M | re.S).group(0)
    keys = set(re.findall(r'^\t\{"(\w+)", ', table, re.M))
    written = set(re.findall(r"\*(\w+)\*", read(POLICY_MANUAL)))
    for key in sorted(keys - written):
        fault(f"{shown(POLICY_MANUAL)}: lacks the key {key}")


METRIC_NAMES = set()


def metric_names():
    if not METRIC_NAMES:
        for path in METRICS:
            text = read(path)
            METRIC_NAMES.update("holdfast_" + name for name in re.findall(r'(?:one|head)\(\s*to, "(\w+)"', text))
            METRIC_NAMES.update(re.findall(r'\b(holdfast_\w+)\{', text))
    return METRIC_NAMES


def check_metrics():
    """What the manuals call a metric is one."""
    if len(metric_names()) < 20:
        fault("server/metrics.c: its metrics were not understood")
    rows = {each.split("`")[1] for each in items(read(MONITORING)) if each.startswith("`")}
    for path in NODE_METRICS:
        found = re.findall(r'scrape_(?:one|head)\(to, "(\w+)"', read(path))
        if len(found) < 4:
            fault(f"{shown(path)}: its metrics were not understood")
        for name in found:
            if "holdfast_" + name not in rows:
                fault(f"{shown(MONITORING)}: no row has holdfast_{name} of {shown(path)}")
    for path in documents() + sorted(ROOT.glob("docs/man/*.scd")):
        for name in set(re.findall(r"\bholdfast_\w+(?:_total|_pending|_waiting|_stuck)\b", read(path))):
            if name not in metric_names():
                fault(f"{shown(path)}: there is no metric {name}")


def check_alerts():
    """Each metric that operations says to watch is one that a test sees move."""
    table = read(MONITORING).split("## What to watch", 1)[1].split("\n`holdfast operator watch", 1)[0]
    watched = re.findall(r"^- `(holdfast_\w+)` ", table, re.M)
    if len(watched) < 20:
        fault(f"{shown(MONITORING)}: the table of metrics was not understood")
    folders = [ROOT / "tests/unit" / name for name in ("server", "agent", "driver_container")]
    tests = "".join(read(path) for folder in folders for path in sorted(folder.glob("test_*.c")))
    for name in watched:
        if name not in metric_names():
            fault(f"{shown(MONITORING)}: there is no metric {name}")
        if not re.search(rf'metric_of\(f, "{name.removeprefix("holdfast_")}\W|{name}\W', tests):
            fault(f"{shown(MONITORING)}: no test sees {name} move")


def check_runbook():
    """Each page begins with a command and is in the table of all; a test types each page with blocks of sh."""
    tests = "".join(read(path) for path in sorted((ROOT / "tests").glob("*/**/test_*.py")))
    table = read(RUNBOOK / "README.md")
    for path in sorted(RUNBOOK.glob("*.md")):
        if path.name == "README.md":
            continue
        text = read(path)
        if f"]({path.name})" not in table:
            fault(f"{shown(RUNBOOK)}/README.md: does not lead to {path.name}")
        if not re.match(r"# .*\n\n(?:Type this .*:\n(?:.*\n)?\n)?```", text):
            fault(f"{shown(path)}: does not begin with the command to type")
        typed = re.search(rf'[pP]age\((?:.*, )?"{path.stem}"|runbook/{path.name}', tests) is not None
        if not typed or "```sh" not in text:
            fault(f"{shown(path)}: no test types its commands")
    if not re.search(r"^apt-get install .*\betcd-client\b", read(ROOT / "docs/three-servers.md"), re.MULTILINE):
        fault("docs/three-servers.md: installs no etcd-client, whose etcdctl pages type; Debian's etcd-server has none")


def check_waits():
    """No wait of a page is ended by the line of another number ("10 nodes"), or of etcd, which leads without a server."""
    for path in documents():
        for found in re.findall(r"(?:until .*\| grep |```sh until\n[^`]*```\n\s*```text\n *)'?((?:0 |leads).*)", read(path)):
            fault(f"{shown(path)}: another line has the words of a wait, too: {found}")


def set_members(folder):
    """Members of struct log_ctx that the code of a program sets."""
    text = "".join(read(path) for path in sorted((ROOT / folder).glob("**/*.c")))
    named = set(re.findall(r"(?:\bctx|(?<![\w)\]]))\.(\w+) = ", text))  # in an initializer, or of a variable ctx
    return named | ({"node"} if "log_set_node(" in text else set())


def journal_fields():
    """Field -> the programs that write it."""
    text = read(ROOT / "lib/log/log.c")
    members = dict(re.findall(r'\{"(\w+)", "\w+", offsetof\(struct log_ctx, (\w+)\)\}', text))
    made = {"EVENT": "event", "MESSAGE_ID": "event", "RESULT": "event", "GENERATION": "generation", "RECORD": "record", "STATUS": "err",
            "ERRNO": "err"}
    members |= {field: made[which] for which, field in re.findall(r'\[LOG_MADE_(\w+)\] = \{"(\w+)"', text)}
    fields = {}
    for folder in ("server", "agent"):
        used = set_members(folder)
        fields[folder] = {field for field, member in members.items() if member in used}
    return fields


def check_journal():
    """The list of the journal's fields says who writes which; every event is used; catalogues name what exists."""
    fields = journal_fields()
    found = [re.match(r"([A-Z_]+)(?:, (server|agent) only)?: ", each) for each in items(read(MONITORING))]
    said = {name: {each.group(1) for each in found if each and each.group(2) in (None, name)} for name in ("server", "agent")}
    for name in fields:
        for field in sorted(fields[name] ^ said[name]):
            fault(f"{shown(MONITORING)}: field {field}: the {name} {'writes' if field in fields[name] else 'does not write'} it")
    events = read(ROOT / "proto/journal_events.h")
    for program, rest in re.findall(r"#define JOURNAL_EVENTS_(\w+)\(X\)(.*?)\n\n", events + "\n\n", re.S):
        folder = "agent" if program == "HELPER" else program.lower()  # which relays them
        text = "".join(read(path) for path in sorted((ROOT / folder).glob("**/*.c")))
        for symbol in re.findall(r"X\((\w+),", rest):
            if f"LOG_EVENT_{symbol}" not in text:
                fault(f"proto/journal_events.h: nobody tells {symbol}")
    known = set().union(*fields.values())
    for path in sorted(ROOT.glob("systemd/*.catalog")):
        for field in set(re.findall(r"@(\w+)@", read(path))) - known:
            fault(f"{shown(path)}: there is no field {field}")
        for page, section in re.findall(r"([\w.-]+)\((\d)\)", read(path)):
            if page.startswith(("holdfast", "mounthelper")) and not (ROOT / f"docs/man/{page}.{section}.scd").exists():
                fault(f"{shown(path)}: there is no page {page}({section})")


def check_audit_names(files):
    """Records have the names of methods; those of the server itself are explained."""
    own = set()
    for name in files:
        if not (name.startswith("server/") and name.endswith(".c")):
            continue
        text = read(ROOT / name)
        words = dict(re.findall(r'#define (\w+) "([\w.]+)"', text))
        calls = re.findall(r'audit_(own)\((?:[^,"()]+,\s+){2}("[^"]+"|\w+),', text)
        calls += [("own", what) for what in re.findall(r'audit_silent\((?:[^,"()]+,\s+){2}NULL,\s+("[^"]+"),', text)]
        calls += [("write", what) for what in
                  re.findall(r'audit_(?:write|silent|about)\((?:[^,"()]+,\s+){3}("[^"]+"|\w+),', text)]
        for kind, what in calls:
            what = what.strip('"') if what.startswith('"') else words.get(what)
            if what and not re.fullmatch(r"[A-Z]\w+\.[A-Z]\w+", what):
                fault(f"{name}: '{what}' in the audit is no Service.Method")
            if what and kind == "own":
                own.add(what)
    section = re.search(r"^# AUDIT\n(.*?)^# ", read(ACCESS_MANUAL), re.M | re.S).group(1)
    written = set(re.findall(r"\*([A-Z]\w+\.\w+)\*", section))
    if len(own) < 8:
        fault("server: its records in the audit were not understood")
    for what in sorted(own - written):
        fault(f"{shown(ACCESS_MANUAL)}: lacks the server's own record {what}")


def option_sets():
    """Command -> the options that it takes, as the tables below cli and cli/command/options.c have them."""
    enum = re.search(r"enum option_id \{(.*?)\};", read(ROOT / "cli/command/command.h"), re.S).group(1)
    order = re.findall(r"\b(OPT_\w+)", re.sub(r"/\*.*?\*/", "", enum, flags=re.S))
    names = dict(re.findall(r'\[(OPT_\w+)\]\s*=\s*\{\s*\.name = "([a-z-]+)"', read(ROOT / "cli/command/options.c")))
    text = command_rows()
    sets = {}

    def expand(expression):
        found = set(re.findall(r"OPTION_BIT\((OPT_\w+)\)", expression))
        for word in re.findall(r"\b[A-Z]+\b", re.sub(r"OPTION_BIT\(\w+\)", "", expression)):
            found |= sets.get(word, set())
        return found

    for macro, body in re.findall(r"#define ([A-Z]+) (.*)", text):
        between = re.search(r"(OPT_\w+) \+ 1\).*~.*?(OPT_\w+)\)", body)
        sets[macro] = (set(order[order.index(between.group(2)):order.index(between.group(1)) + 1]) if between
                       else expand(body))
    common = expand(re.search(r"common_options =(.*?);", read(ROOT / "cli/command/options.c"), re.S).group(1))
    commands = {}
    for path, rest in re.findall(r'\{\.path = "([^"]+)",(.*?)\.(?:run|call) = ', text, re.S):
        options = re.search(r"\.options = (.*?),\s*(?:\.|$)", rest, re.S)
        commands[path] = {names[o] for o in (expand(options.group(1)) if options else set()) | common}
    return commands


def check_examples():
    """Each command line in the documents and manuals names a command, and options that it takes."""
    commands = option_sets()
    groups = {" ".join(path.split()[:n]) for path in commands for n in (1, 2)}
    for path in documents() + sorted(ROOT.glob("docs/man/*.scd")) + sorted(ROOT.glob("systemd/*.catalog")):
        text = read(path)
        lines = re.findall(r"^(?:\(umask 077; |\s+)?holdfast ([a-z].*)$", text, re.M)
        lines += re.findall(r"`holdfast ([^`]+)`", text) if path.suffix == ".md" else []
        for line in lines:
            line = re.split(r" [|&>#]|\)$", " ".join(line.split()))[0]
            words = [w for w in line.split()]
            command = next((" ".join(words[:n]) for n in (3, 2, 1) if " ".join(words[:n]) in commands), None)
            if command is None:
                if " ".join(w for w in words if not w.startswith("-")) not in groups and words[0] != "COMMAND":
                    fault(f"{shown(path)}: there is no command 'holdfast {line}'")
                continue
            for option in re.findall(r"(?<!\S)--([a-z-]+)", line):
                if option not in commands[command]:
                    fault(f"{shown(path)}: 'holdfast {line}': {command} has no option --{option}")


def check_users():
    """A unit with a shell on a volume has a user: root would follow links that a writer of the volume has left."""
    for path in documents() + sorted(ROOT.glob("docs/examples/*.service")):
        text = read(path).replace("\\\n", " ")
        for unit in re.findall(r"^\[Service\]\n(?:.+\n)+|^systemd-run .*$", text, re.M):
            if re.search(r"BindPaths=/run/holdfast-volumes/.*\bsh -c|\bsh -c.*BindPaths=/run/holdfast-volumes/", unit, re.S) and "User=" not in unit:
                fault(f"{shown(path)}: runs a shell on a volume as root")


# Sections that a page of a section of the manual has.
SECTIONS = {"1": ["EXIT STATUS", "EXAMPLES"], "5": ["DESCRIPTION", "EXAMPLES"], "8": ["EXIT STATUS", "EXAMPLES", "SECURITY", "FILES"]}


def check_sections():
    for path in sorted(ROOT.glob("docs/man/*.scd")):
        titles = re.findall(r"^# (.+)$", read(path), re.M)
        for title in SECTIONS[path.name.split(".")[-2]]:
            if title not in titles:
                fault(f"{shown(path)}: has no section {title}")
        for other in re.findall(r"\*([\w.-]+)\*\((\d)\)", read(path)):
            name = f"{other[0]}.{other[1]}.scd"
            if other[0].startswith(("holdfast", "mounthelper")) and not (path.parent / name).exists():
                fault(f"{shown(path)}: there is no page {other[0]}({other[1]})")


def modules_of(program):
    """Stems of its files, in whichever room they are."""
    return {path.stem for path in (ROOT / program).glob("**/*.[ch]")}


def rooms(program):
    return {program} | {shown(path.parent) for path in (ROOT / program).glob("*/CMakeLists.txt")}


def check_rooms():
    """Each room of server and agent has its line in the architecture, and no other."""
    tables = re.findall(r"^## The (\w+)\n.*?^Rooms:\n\n(.*?)\n\n", read(ARCHITECTURE), re.M | re.S)
    if [name for name, _ in tables] != ["server", "agent"]:
        fault(f"{shown(ARCHITECTURE)}: has tables of rooms of {[name for name, _ in tables]}")
    for name, table in tables:
        listed = {each.split("`")[1] for each in items(table)}
        for room in sorted(rooms(name) - listed):
            fault(f"{shown(ARCHITECTURE)}: nothing is said about {room}")
        for room in sorted(listed - rooms(name)):
            fault(f"{shown(ARCHITECTURE)}: there is no {room}")


DECISION_LINES_MAX = 48


def check_interop():
    """The lane interop, which does not run by default, has a row for each method."""
    table = read(ROOT / "tests/integration/grpc-interop/table.js")
    for service, methods in served_methods().items():
        for method in methods:
            name = f"{service}.{method.removesuffix(' (stream)')}"
            if f"'{name}'" not in table:
                fault(f"tests/integration/grpc-interop/table.js: {name} has no row")


def check_decisions():
    for path in sorted(ROOT.glob("docs/adr/*.md")):
        if len(read(path).splitlines()) > DECISION_LINES_MAX:
            fault(f"{shown(path)}: has more than {DECISION_LINES_MAX} lines")
        if f"adr/{path.name}" not in read(ARCHITECTURE):
            fault(f"{shown(ARCHITECTURE)}: does not lead to {shown(path)}")


def check_limits():
    """A limit in the architecture is a constant of that value in that file."""
    limits = [re.search(r": (\d+) \(`([A-Z_]+)`, `([\w/.]+)`\)$", each) for each in items(read(ARCHITECTURE))]
    if len([limit for limit in limits if limit]) < 15:
        fault(f"{shown(ARCHITECTURE)}: its limits were not understood")
    for value, name, path in [limit.groups() for limit in limits if limit]:
        found = re.search(rf"\b{name}(?: =)? (\d+)", read(ROOT / path))
        if not found or found.group(1) != value:
            fault(f"{shown(ARCHITECTURE)}: {name} is {value}, in {path} {found.group(1) if found else 'not there'}")


def main():
    if sys.argv[1:] not in ([], ["--update"]):
        sys.exit(__doc__)
    files = tree()
    tests, is_program, words = test_names(files), program_names(files), source_words(files)
    check_generated(update=sys.argv[1:] == ["--update"])
    check_claims()
    check_operations()
    check_said()
    check_messages(files)
    check_namespaces(files)
    check_manual()
    check_protocol()
    check_interop()
    check_rights()
    check_session_messages()
    check_settings()
    check_reload()
    check_agent_settings()
    check_policy_keys()
    check_metrics()
    check_alerts()
    check_runbook()
    check_waits()
    check_journal()
    check_audit_names(files)
    check_examples()
    check_users()
    check_sections()
    check_rooms()
    check_decisions()
    check_limits()
    for path in documents():
        check_quotes(path, files, tests, is_program, words)
    for text in faults:
        print(text)
    print(f"{len(documents())} documents, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
