/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/door_fault.h"

#include "mounthelper_words.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "unit/lines.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* systemd 252 sets no_new_privs for a unit with User= when one of them is used, 257 by the first two. */
static const char *const without_setuid[] = {
	"NoNewPrivileges",	   "DynamicUser",
	"LockPersonality",	   "MemoryDenyWriteExecute",
	"PrivateDevices",	   "ProtectClock",
	"ProtectHostname",	   "ProtectKernelTunables",
	"ProtectKernelModules",	   "ProtectKernelLogs",
	"RestrictNamespaces",	   "RestrictRealtime",
	"RestrictSUIDSGID",	   "RestrictAddressFamilies",
	"SystemCallArchitectures", "SystemCallFilter",
	"SystemCallLog",	   NULL,
};

/* Each gives the unit a mount namespace of its own. */
static const char *const own_namespace[] = {
	"PrivateTmp",
	"PrivateDevices",
	"PrivateMounts",
	"PrivateIPC",
	"ProtectSystem",
	"ProtectHome",
	"ProtectProc",
	"ProcSubset",
	"ProtectControlGroups",
	"ProtectKernelTunables",
	"ProtectKernelModules",
	"ProtectKernelLogs",
	"ReadOnlyPaths",
	"ReadWritePaths",
	"InaccessiblePaths",
	"ExecPaths",
	"NoExecPaths",
	"TemporaryFileSystem",
	"BindPaths",
	"BindReadOnlyPaths",
	"MountFlags",
	"MountImages",
	"ExtensionImages",
	"RootDirectory",
	"RootImage",
	"LogNamespace",
	"DynamicUser",
	"PrivateUsers",
	NULL,
};

static const char *const bounds[] = {"CapabilityBoundingSet", "PrivateUsers", NULL};
static const char *const ambient[] = {"AmbientCapabilities", "CapabilityBoundingSet", NULL};
static const char *const user[] = {"User", "DynamicUser", NULL};
static const char *const devices[] = {"PrivateDevices", "BindPaths", "TemporaryFileSystem", NULL};
static const char *const limits[] = {"LimitFSIZE", "LimitCPU",	  "LimitDATA", "LimitAS",
				     "LimitSTACK", "LimitNOFILE", "LimitCORE", NULL};
static const char *const program[] = {"ExecStart", NULL};

#define PACKAGED_UNITS "/usr/lib/"

/* What each word comes from, in the unit that the helper has its surroundings from. */
static const struct fault {
	enum mh_start word;
	bool is_socket;
	const char *const *options;
	const char *advice;
} faults[] = {
	{START_NAMESPACE, true, own_namespace,
	 "gives the mount helper a mount namespace of its own, from which no mount reaches the host; remove "
	 "it"},
	{START_NAMESPACE, false, bounds, "must keep CAP_SYS_ADMIN, CAP_SYS_CHROOT and CAP_SYS_PTRACE"},
	{START_NOT_PRIVILEGED, true, ambient, "must be CAP_SYS_ADMIN CAP_AUDIT_WRITE"},
	{START_BECOME_ROOT, false, bounds, "must keep CAP_SETUID and CAP_SETGID"},
	{START_PROCFS, true, ambient, "must be CAP_SYS_ADMIN CAP_AUDIT_WRITE"},
	{START_PROCFS, false, bounds, "must keep CAP_SYS_ADMIN"},
	{START_LOCKDOWN, true, ambient, "must be CAP_SYS_ADMIN CAP_AUDIT_WRITE"},
	{START_LOCKDOWN, false, bounds, "must keep CAP_SETPCAP, CAP_SYS_ADMIN and CAP_AUDIT_WRITE"},
	{START_HELPER_UID, true, user, "must be the account of helper_uid in the policy"},
	{START_DEV, true, devices, "hides the kernel's /dev; remove it"},
	{START_DEV, false, devices, "hides the kernel's /dev; remove it"},
	{START_LIMIT, true, limits, "is too low for the mount helper; remove it"},
	{START_LIMIT, false, limits, "is too low for the mount helper; remove it"},
};

static void say_line(const struct unit_line *line, const char *unit, const char *advice, struct error *err)
{
	(void)error_set(err, STATUS_UNAVAILABLE, 0,
			"the mount helper does not start: %s:%u: %s=%.64s %s; then: systemctl daemon-reload; "
			"systemctl restart %s",
			line->path, line->number, line->option, line->value, advice, unit);
}

/* What is wrong with the program of the setuid door? False: nothing that shows. */
static bool explain_file(const struct door_facts *facts, const char *path, struct error *err)
{
	char full[PATH_MAX];
	struct statvfs fs;
	struct stat st;

	if (str_format(full, sizeof(full), "%s%s", facts->root, path) < 0 || stat(full, &st) < 0)
		return false;
	if (!S_ISREG(st.st_mode) || st.st_uid != 0 || (st.st_mode & 07777) != 04750 ||
	    access(full, X_OK) < 0) {
		(void)error_set(
			err, STATUS_UNAVAILABLE, 0,
			"the mount helper does not start: %s has owner %u, group %u and mode %04o; the "
			"setuid door needs root, the agent's group and 4750: chown root:holdfast %s; "
			"chmod 4750 %s (dpkg-statoverride keeps it over an upgrade)",
			path, st.st_uid, st.st_gid, st.st_mode & 07777, path, path);
		return true;
	}
	if (statvfs(full, &fs) == 0 && (fs.f_flag & ST_NOSUID)) {
		(void)error_set(
			err, STATUS_UNAVAILABLE, 0,
			"the mount helper does not start: %s is on a file system that is mounted "
			"nosuid, for this agent at least (findmnt -T %s): remove nosuid in /etc/fstab, or "
			"use the socket door (holdfast-agent-socket.service)",
			path, path);
		return true;
	}
	return false;
}

static void explain_setuid(const struct door_facts *facts, const struct helper_door *door, struct error *err)
{
	struct unit_line line;

	if (!facts->no_new_privs) {
		(void)explain_file(facts, door->path, err);
		return;
	}
	if (facts->unit &&
	    unit_lines_find(facts->root, facts->unit, DOOR_UNIT_ALIAS, without_setuid, &line)) {
		say_line(&line, facts->unit,
			 "sets no_new_privs, with which the setuid bit does nothing; remove it, or use the "
			 "socket door (holdfast-agent-socket.service)",
			 err);
		return;
	}
	(void)error_set(
		err, STATUS_UNAVAILABLE, 0,
		"the mount helper does not start: no_new_privs is set for this agent, with which the "
		"setuid bit of %s does nothing, and no line of unit %s says so: whoever started it has "
		"set it; use the socket door (holdfast-agent-socket.service)",
		door->path, facts->unit ? facts->unit : "(none)");
}

static void explain_word(const struct door_facts *facts, const struct helper_door *door, uint16_t word,
			 struct error *err)
{
	const char *unit = door->is_socket ? DOOR_UNIT_TEMPLATE : facts->unit;
	const char *restart = door->is_socket ? "holdfast-agent" : facts->unit;
	struct unit_line line;

	for (size_t i = 0; unit && i < ARRAY_SIZE(faults); i++) {
		const struct fault *fault = &faults[i];

		if (fault->word != word || fault->is_socket != door->is_socket)
			continue;
		/* the package's own User= is right: the policy is what is wrong, which the word says */
		if (unit_lines_find(facts->root, unit, door->is_socket ? NULL : DOOR_UNIT_ALIAS,
				    fault->options, &line) &&
		    (word != START_HELPER_UID || !str_starts_with(line.path, PACKAGED_UNITS)))
			say_line(&line, restart, fault->advice, err);
		return;
	}
}

/* The service manager could not execute it, most likely. */
static void explain_silence(const struct door_facts *facts, struct error *err)
{
	char full[PATH_MAX];
	struct unit_line line;
	struct stat st;
	const char *wrong = NULL;

	if (!unit_lines_find(facts->root, DOOR_UNIT_TEMPLATE, NULL, program, &line)) {
		(void)error_set(err, STATUS_UNAVAILABLE, 0,
				"the mount helper does not start: there is no unit " DOOR_UNIT_TEMPLATE
				" that says what to execute; install holdfast-mounthelper");
		return;
	}
	if (str_format(full, sizeof(full), "%s%s", facts->root, line.value) < 0)
		return;
	if (stat(full, &st) < 0)
		wrong = "names a program that is not there";
	else if (!S_ISREG(st.st_mode) || (st.st_mode & (S_IROTH | S_IXOTH)) != (S_IROTH | S_IXOTH))
		wrong = "names a program that not everybody may execute (chmod 0755): the one of the "
			"setuid door is another file";
	if (wrong)
		say_line(&line, "holdfast-agent", wrong, err);
}

void door_fault_explain(const struct door_facts *facts, const struct helper_door *door,
			const struct mh_failure *failure, struct error *err)
{
	if (!failure && door->is_socket)
		explain_silence(facts, err);
	else if (!failure)
		(void)explain_file(facts, door->path, err);
	else if (failure->word == START_NOT_PRIVILEGED && !door->is_socket)
		explain_setuid(facts, door, err);
	else
		explain_word(facts, door, failure->word, err);
}

void door_fault_explain_self(const struct helper_door *door, const struct mh_failure *failure,
			     struct error *err)
{
	char unit[UNIT_NAME_SIZE];
	const struct door_facts facts = {
		.root = "",
		.unit = unit_of_self(unit) ? unit : NULL,
		.no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1,
	};

	door_fault_explain(&facts, door, failure, err);
}
