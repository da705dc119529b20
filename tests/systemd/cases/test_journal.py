# SPDX-License-Identifier: Apache-2.0
"""A volume's life in the journal: one filter shows it across server, agent and mount helper, each event explained."""

import json
import os
import re
import signal
import subprocess
import unittest

import machine

SERVER, AGENT = "holdfast-server", "holdfast-agent"
EPOCH = 1 << 32  # generations of each begin anew
UNITS = {SERVER: r"holdfast-server\.service", AGENT: r"holdfast-agent-socket\.service"}
RELAYED = "HOLDFAST_RELAYED=holdfast-mounthelper"


def entries(*match):
    """What the journal has for a match, oldest first, as dicts."""
    machine.run("journalctl", "--sync")
    text = machine.run("journalctl", "--no-pager", "--output=json", *match).stdout
    return [json.loads(line) for line in text.splitlines()]


def now():
    return int(entries("-n1")[-1]["__REALTIME_TIMESTAMP"])


def told(program, event, *match, since=0):
    """The entries of a program about an event, once there is one that is younger than since."""

    def found():
        of_event = entries(f"HOLDFAST_EVENT={event}", f"SYSLOG_IDENTIFIER={program}", *match)
        return [e for e in of_event if int(e["__REALTIME_TIMESTAMP"]) > since]

    return machine.wait_for(f"{program} to tell {event}", found, 20)


class Journal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        machine.set_up()

    def run_alloc(self, name, volume):
        spec = machine.alloc_spec(name, volume)
        return machine.holdfast_json("alloc", "run", spec)["allocation"]

    def live(self, volume):
        """A volume's whole life; the allocation that had it."""
        machine.holdfast("volume", "register", machine.volume_spec(volume))
        alloc = self.run_alloc(volume + "-user", volume)
        machine.holdfast("alloc", "stop", alloc["id"])
        told(SERVER, "claim-freed", f"HOLDFAST_ALLOC={alloc['id']}")
        return alloc

    def test_one_filter_shows_a_volumes_life_across_the_three_programs(self):
        alloc = self.live("pgdata")
        life = entries("HOLDFAST_VOLUME=pgdata")
        seen = [(e["SYSLOG_IDENTIFIER"], e["HOLDFAST_EVENT"]) for e in life if "HOLDFAST_EVENT" in e]
        self.assertEqual(sorted(seen), sorted([
            (SERVER, "claim-granted"), (AGENT, "volume-claimed"),
            (AGENT, "mount-staged"), (AGENT, "mount-published"), (AGENT, "volume-published"),
            (AGENT, "mount-unpublished"), (AGENT, "mount-unstaged"), (AGENT, "volume-unpublished"),
            (SERVER, "claim-freed"),
        ]))  # fmt: skip
        wire = {e["HOLDFAST_WIRE_VOLUME"] for e in life if "HOLDFAST_WIRE_VOLUME" in e}
        self.assertEqual(len(wire), 1, wire)
        self.assertRegex(wire.pop(), r"^pgdata-[0-9a-f]{16}$")
        for e in life:
            if "HOLDFAST_EVENT" in e:
                self.assertEqual(e["HOLDFAST_RESULT"], "success", e)
                self.assertRegex(e["_SYSTEMD_UNIT"], UNITS[e["SYSLOG_IDENTIFIER"]])
            if e.get("HOLDFAST_OP") not in ("register", "unstage"):
                self.assertEqual(e["HOLDFAST_ALLOC"], alloc["id"], e)
            self.assertEqual("HOLDFAST_RELAYED" in e, e.get("HOLDFAST_EVENT", "").startswith("mount-"), e)
            if "HOLDFAST_RELAYED" in e:
                self.assertGreater(int(e["HOLDFAST_RECORD"]), 0, e)
            elif "HOLDFAST_EVENT" in e:
                self.assertEqual(int(e["HOLDFAST_GENERATION"]) % EPOCH, 1, e)
        granted, freed = told(SERVER, "claim-granted", "HOLDFAST_VOLUME=pgdata"), told(SERVER, "claim-freed", "HOLDFAST_VOLUME=pgdata")
        self.assertEqual(granted[0]["HOLDFAST_CLAIM"], freed[0]["HOLDFAST_CLAIM"])
        self.assertEqual(granted[0]["HOLDFAST_NODE"], machine.NODE)
        self.assertEqual(freed[0]["HOLDFAST_EVIDENCE"], "receipt")
        published = told(AGENT, "volume-published", "HOLDFAST_VOLUME=pgdata")
        self.assertIn(alloc["published"][0]["path"], published[0]["MESSAGE"])
        generation = told(AGENT, "mount-published", "HOLDFAST_VOLUME=pgdata", RELAYED)[0]["HOLDFAST_GENERATION"]
        self.assertEqual(int(generation) % EPOCH, 1)

    def test_the_wire_name_finds_entries_under_another_spelling(self):
        self.live("Pg_Data")
        granted = told(SERVER, "claim-granted", "HOLDFAST_VOLUME=Pg_Data")
        wire = granted[0]["HOLDFAST_WIRE_VOLUME"]
        self.assertRegex(wire, r"^pg-data-[0-9a-f]{16}$")
        programs = {e["SYSLOG_IDENTIFIER"] for e in entries(f"HOLDFAST_WIRE_VOLUME={wire}")}
        self.assertEqual(programs, {SERVER, AGENT})
        self.assertTrue(entries(f"HOLDFAST_WIRE_VOLUME={wire}", RELAYED))

    def test_every_line_of_a_life_is_there_once(self):
        self.live("once")
        texts = [e["MESSAGE"] for e in entries("HOLDFAST_VOLUME=once")]
        self.assertEqual(len(texts), len(set(texts)), texts)
        claims = [e for e in entries("HOLDFAST_VOLUME=once", "_SYSTEMD_UNIT=holdfast-server.service")]
        self.assertEqual([e.get("HOLDFAST_EVENT", e["HOLDFAST_OP"]) for e in claims], ["register", "claim-granted", "claim-freed"])
        everything = "\n".join(e["MESSAGE"] for e in entries("_SYSTEMD_UNIT=holdfast-server.service"))
        self.assertIn("volume once is granted to node", everything)
        self.assertNotIn("Claims.Free by", everything)
        self.assertNotRegex(everything, r"Volumes\.Claim by [^ ]+: ")

    def test_a_refusal_is_reported_with_the_volume_and_why(self):
        machine.holdfast("volume", "register", machine.volume_spec("wanted"))
        agent = int(machine.show("holdfast-agent-socket.service", "MainPID"))
        os.kill(agent, signal.SIGSTOP)  # so that both are accepted before one of them has the volume
        for name in ("first", "second"):
            machine.holdfast("alloc", "run", "--no-wait", machine.alloc_spec(name, "wanted"))
        os.kill(agent, signal.SIGCONT)
        refused = told(SERVER, "claim-refused", "HOLDFAST_VOLUME=wanted")[0]
        failed = told(AGENT, "allocation-failed", "HOLDFAST_VOLUME=wanted")[0]
        granted = told(SERVER, "claim-granted", "HOLDFAST_VOLUME=wanted")[0]
        for e in (refused, failed):
            self.assertEqual(e["HOLDFAST_RESULT"], "failed")
            self.assertIn("volume wanted is not free for write", e["MESSAGE"])
            self.assertEqual(e["HOLDFAST_ALLOC"], refused["HOLDFAST_ALLOC"])
            self.assertNotEqual(e["HOLDFAST_ALLOC"], granted["HOLDFAST_ALLOC"])
        self.assertEqual(refused["HOLDFAST_STATUS"], "FAILED_PRECONDITION")
        self.assertEqual(refused["HOLDFAST_WIRE_VOLUME"], granted["HOLDFAST_WIRE_VOLUME"])
        for e in (refused, granted):
            machine.holdfast("alloc", "stop", e["HOLDFAST_ALLOC"])

    def test_work_of_the_daemons_is_logged(self):
        told(SERVER, "server-listening")
        told(SERVER, "node-connected")
        told(AGENT, "helper-runs")
        told(AGENT, "helper-started", RELAYED)
        since = now()
        os.kill(int(machine.show("holdfast-agent-socket.service", "MainPID")), signal.SIGKILL)
        machine.wait_for("the agent to be started again", lambda: machine.is_active("holdfast-agent-socket.service"))
        machine.wait_connected()
        for program, event in ((SERVER, "node-disconnected"), (SERVER, "node-connected"), (AGENT, "session-up"), (AGENT, "helper-started")):
            told(program, event, since=since)
        since = now()
        machine.systemctl("restart", "holdfast-server.service")
        machine.wait_connected()
        for program, event in ((AGENT, "session-down"), (AGENT, "session-up"), (SERVER, "server-listening")):
            told(program, event, since=since)

    def test_the_catalogue_is_there_after_the_installation_and_explains_with_the_values(self):
        ids = {}
        for program in ("server", "agent", "mounthelper"):
            with open(f"/usr/lib/systemd/catalog/holdfast-{program}.catalog", encoding="utf-8") as f:
                ids |= {i: name for name, i in re.findall(r"^# (.*)\n-- ([0-9a-f]{32})$", f.read(), re.M)}
        known = machine.run("journalctl", "--list-catalog").stdout
        for i, name in ids.items():
            self.assertIn(f"{i} holdfast: ", known, name)
        alloc = self.live("explained")
        text = machine.run("journalctl", "-x", "--no-pager", "HOLDFAST_VOLUME=explained").stdout
        self.assertIn("Subject: Volume explained was granted to node " + machine.NODE, text)
        self.assertIn("Documentation: man:holdfast-mounthelper(8)", text)
        self.assertIn(f"Allocation {alloc['id']} got its own mount", text)
        self.assertNotRegex(text, r"@HOLDFAST_\w+@")
        granted = told(SERVER, "claim-granted", "HOLDFAST_VOLUME=explained")[0]
        self.assertEqual(ids[granted["MESSAGE_ID"]], "claim-granted")

    def test_the_catalogue_can_be_made_anew(self):
        machine.run("journalctl", "--update-catalog")
        done = subprocess.run(["journalctl", "--list-catalog"], capture_output=True, text=True, check=True)
        self.assertIn("holdfast: ", done.stdout)
        self.assertEqual(done.stderr, "")

    def test_any_user_can_write_our_fields_but_not_the_trusted_ones(self):
        """What the documents say: take _UID= or _SYSTEMD_UNIT= for who it was."""
        forged = "PRIORITY=5\nSYSLOG_IDENTIFIER=holdfast-server\nMESSAGE=granted\nHOLDFAST_VOLUME=forged\nHOLDFAST_EVENT=claim-granted\n"
        machine.run("setpriv", "--reuid=nobody", "--clear-groups", "python3", "-c",
                    "import socket,sys;s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM);"
                    "s.sendto(sys.argv[1].encode(),'/run/systemd/journal/socket')", forged)  # fmt: skip
        found = machine.wait_for("the entry", lambda: entries("HOLDFAST_VOLUME=forged"), 10)
        self.assertEqual(found[0]["_UID"], "65534")
        self.assertEqual(entries("HOLDFAST_VOLUME=forged", "_SYSTEMD_UNIT=holdfast-server.service"), [])


if __name__ == "__main__":
    unittest.main()
