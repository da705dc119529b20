#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the tree keeps to the floors of rooms.py, and whether a breach of them would be seen. Prints as cmocka does."""

import copy
import sys

import rooms

HOUSE = rooms.House(rooms.ROOT)


def changed(name, text, house=HOUSE):
    """The house with one file more, or one with more text."""
    house = copy.copy(house)
    house.text = {**house.text, name: house.text.get(name, "") + text}
    house.includes = {**house.includes, name: sorted(house.resolve(name, house.text[name]))}
    return house


def file_of(room, end):
    return next(name for name in HOUSE.text if rooms.room(name) == room and name.endswith(end))


def refused(house):
    return "\n".join(rooms.faults(house))


def the_tree_keeps_to_its_floors():
    assert not refused(HOUSE), refused(HOUSE)


def an_arrow_that_leads_up_is_refused():
    for program, (_, floors) in rooms.FLOORS.items():
        names = [f"{program}/{floor.strip('()').split()[0]}".removesuffix("/.") for floor in floors]
        for upper, lower in zip(names, names[1:]):
            other = next((name for name in HOUSE.text if rooms.room(name) == upper and name.endswith(".h")), None)
            if other is None or other in rooms.OPEN or not any(rooms.room(name) == lower for name in HOUSE.text):
                continue
            said = refused(changed(file_of(lower, ".c"), f'\n#include "{other.partition("/")[2]}"\n'))
            assert f"{lower} may not use {upper}" in said, (upper, lower, said)


def an_arrow_along_a_floor_is_refused_without_brackets():
    said = refused(changed(file_of("agent/unit", ".c"), f'\n#include "{file_of("agent/kernel", ".h").partition("/")[2]}"\n'))
    assert "agent/unit may not use agent/kernel" in said, said
    assert rooms.may_include("server/volume", "server/claim") and rooms.may_include("server/claim", "server/volume")


def a_program_uses_neither_another_one_nor_all_of_lib():
    said = refused(changed(file_of("cli", ".c"), '\n#include "store/kv.h"\n'))
    assert "cli may not use lib/store" in said, said
    assert not rooms.may_include("cli", "agent/csi") and not rooms.may_include("lib/base", "cli")


def a_room_without_a_floor_is_refused():
    assert "agent/attic: has no floor" in refused(changed("agent/attic/box.c", "int box;\n"))


def a_circle_that_grows_is_refused():
    house = changed("mounthelper/ring_a.h", "int a;\n")
    house = changed("mounthelper/ring_b.h", '#include "ring_a.h"\n', house)
    house = changed("mounthelper/ring_a.h", '#include "ring_b.h"\n', house)
    assert "mounthelper: 2 files include or call each other in a circle, 1 at most" in refused(house), refused(house)


def a_circle_of_calls_without_includes_is_refused():
    house = changed("mounthelper/ring_a.c", "int ring_a(void)\n{\n\treturn ring_b();\n}\n")
    house = changed("mounthelper/ring_b.c", "int ring_b(void)\n{\n\treturn ring_a();\n}\n", house)
    assert "mounthelper: 2 files" in refused(house), refused(house)


def a_circle_through_what_is_open_to_all_is_refused():
    said = refused(changed("server/server.h", '#include "volume/work.h"\n'))
    assert "files include or call each other in a circle, 1 at most" in said and "server/server " in said, said


def main():
    failed = 0
    for check in (the_tree_keeps_to_its_floors, an_arrow_that_leads_up_is_refused,
                  an_arrow_along_a_floor_is_refused_without_brackets, a_program_uses_neither_another_one_nor_all_of_lib,
                  a_room_without_a_floor_is_refused, a_circle_that_grows_is_refused,
                  a_circle_of_calls_without_includes_is_refused,
                  a_circle_through_what_is_open_to_all_is_refused):  # fmt: skip
        try:
            check()
            print(f"[       OK ] {check.__name__}")
        except AssertionError as error:
            failed += 1
            print(f"[  FAILED  ] {check.__name__}\n{error}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
