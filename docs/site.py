#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a static site of all pages and manual pages, with a search, in a new folder.

mkdocs makes HTML of the pages, scdoc and mandoc of the manual. A name like holdfast-job(5) becomes a link to its page. A link that leads
nowhere is an error.
"""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FRONT = ("README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md")
PAGES = {*(ROOT / name for name in FRONT), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs/pictures").iterdir()}
GROUPS = (
    ("Install", ("install", "install-after", "install-apart", "three-servers", "node", "selinux", "migration")),
    ("Use", ("volumes", "workloads", "containers", "postgresql", "drivers", "drivers-tried", "task-drivers", "access-modes", "propagation")),
    ("Operate", ("operations", "monitoring", "node-loss", "network-fence", "trail", "performance")),
    ("Coming from", ("from-nomad", "nomad-keys", "from-kubernetes", "from-systemd", "glossary")),
    ("Reference", ("architecture", "protocol", "threat-model", "helper-review", "driver-review")),
)
IN_MANUAL = re.compile(r"<b>((?:holdfast|mounthelper)[\w.-]*)</b>\((\d)\)")
MANUAL = re.compile(r"\b((?:holdfast|mounthelper)[\w.-]*)\((\d)\)")
CONFIG = """site_name: Holdfast
docs_dir: pages
site_dir: {site}
theme: readthedocs
plugins: [search]
use_directory_urls: false
nav: {nav}
"""


def manual_pages():
    """Name with section -> source."""
    return {path.stem: path for path in sorted((ROOT / "docs/man").glob("*.scd"))}


def linked(text, up, manual):
    """The page with links to the manual, and without links to files that are not part of the site."""

    def to_manual(m):
        name = f"{m[1]}.{m[2]}"
        return f"[{m[0]}]({up}docs/man/{name}.md)" if name in manual else m[0]

    blocks = re.split(r"(^```.*?^```$|^ {4}.*?$|`[^`\n]*`|\[[^\]]*\]\([^)]*\))", text, flags=re.M | re.S)
    return "".join(part if i % 2 else MANUAL.sub(to_manual, part) for i, part in enumerate(blocks))


def without_sources(text, folder):
    def keep(m):
        target = m[2].split("#")[0]
        there = (folder / target).resolve()
        is_page = "://" in target or not target or there in PAGES
        return m[0] if is_page else m[1]

    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^)]*)\)", keep, text)


def write_manual(name, source, pages, manual):
    roff = subprocess.run(["scdoc"], input=source.read_bytes(), capture_output=True, check=True).stdout
    html = subprocess.run(["mandoc", "-T", "html", "-O", "fragment,man=%N.%S.html"], input=roff, capture_output=True, check=True).stdout.decode()
    html = IN_MANUAL.sub(lambda m: f'<a href="{m[1]}.{m[2]}.html">{m[0]}</a>' if f"{m[1]}.{m[2]}" in manual else m[0], html)
    title, section = name.rsplit(".", 1)
    (pages / f"{name}.md").write_text(f"# {title}({section})\n\n<div>{html}</div>\n", encoding="utf-8")


def navigation(manual):
    nav = [{"Holdfast": "README.md"}]
    nav += [{title: [f"docs/{name}.md" for name in names]} for title, names in GROUPS]
    for title, folder in (("Runbook", "runbook"), ("Decisions", "adr")):
        nav.append({title: [str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs" / folder).glob("*.md"))]})
    nav.append({"Manual": [f"docs/man/{name}.md" for name in manual]})
    nav.append({"Project": list(FRONT[1:])})
    return nav


def make(site, build):
    pages, manual = build / "pages", manual_pages()
    for path in (page for page in PAGES if page.suffix == ".md"):
        to = pages / path.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        up = "../" * (len(to.relative_to(pages).parts) - 1)
        text = without_sources(path.read_text(encoding="utf-8"), path.parent)
        to.write_text(linked(text, up, manual), encoding="utf-8")
    shutil.copytree(ROOT / "docs/pictures", pages / "docs/pictures")
    (pages / "docs/man").mkdir()
    for name, source in manual.items():
        write_manual(name, source, pages / "docs/man", manual)
    nav = navigation(manual)
    named = {page for group in nav for value in group.values() for page in ([value] if isinstance(value, str) else value)}
    missing = {str(path.relative_to(pages)) for path in pages.rglob("*.md")} - named
    if missing:
        sys.exit(f"site: these pages are in no group of {__file__}: {', '.join(sorted(missing))}")
    (build / "mkdocs.yml").write_text(CONFIG.format(site=site, nav=nav), encoding="utf-8")
    subprocess.run(["mkdocs", "build", "--quiet", "--strict", "--config-file", str(build / "mkdocs.yml")], check=True)
    print(f"site: {site}/index.html, {len(named)} pages")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", metavar="FOLDER", help="it is made; it may exist if it is empty")
    site = Path(parser.parse_args().folder).resolve()
    if site.exists() and (not site.is_dir() or any(site.iterdir())):
        sys.exit(f"site: {site} is not an empty folder, and mkdocs would remove what is in it")
    with tempfile.TemporaryDirectory() as build:
        make(site, Path(build))


if __name__ == "__main__":
    main()
