/* SPDX-License-Identifier: Apache-2.0 */
#include "warnings.h"

#include "ca_change.h"
#include "certificate.h"
#include "key_rotation.h"
#include "server.h"

#include "access/audit.h"
#include "access/revocations.h"
#include "access/tokens.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "fence/fencers.h"
#include "log/log.h"
#include "node/session.h"
#include "plugin/fence_clients.h"
#include "recovery/backup.h"
#include "recovery/history.h"
#include "recovery/marks.h"
#include "recovery/replaced.h"
#include "state/change.h"
#include "state/disk.h"
#include "state/keys.h"
#include "state/namespaces.h"
#include "state/records.h"
#include "state/stall.h"
#include "volume/schedules.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	KEYS_NAMED = 4,
	ACCURACY_US = USEC_PER_SEC,
	DAYS_MS = 24 * 3600 * 1000,
	BACKUP_OLD_DAYS = 2, /* these two as in docs/prometheus */
	NODE_CERTIFICATE_DAYS = 2,
	NAMESPACE_FULL_PERCENT = 75, /* as in docs/prometheus; new work is refused at 87 */
};

struct warnings {
	struct server *server;	/* borrowed */
	sd_event_source *timer; /* owned */
	bool in_force[WARNING_N];
	char twice_namespace[NAMESPACE_MAX + 1]; /* the volume that held_twice_warning() has named */
	char twice_id[VOLUME_ID_MAX + 1];
};

static bool stall_warning(struct server *server, char ret[static WARNING_SIZE])
{
	struct error err;

	if (stall_check(server, &err) == STATUS_OK)
		return false;
	str_copy_text(ret, WARNING_SIZE, err.msg);
	return true;
}

static bool history_warning(struct server *server, char ret[static WARNING_SIZE])
{
	const Holdfast__V1__Epoch *epoch = records_get(&server->state.records, KEY_EPOCH);
	uint64_t missing = history_missing_nodes(server) + replaced_count(server);

	if (!history_is_lost(server) &&
	    missing == 0) /* the nodes of a restore report; that is as it should be */
		return false;
	(void)str_format(ret, WARNING_SIZE,
			 "%sepoch %" PRIu64 " has begun (%.400s), %zu nodes have not reported, %" PRIu64
			 " are missing that are not known by name; nothing that they may hold is granted",
			 epoch && epoch->lost_history ? "the store had lost history: " : "",
			 state_epoch(&server->state), epoch ? epoch->restored_from : "",
			 server->state.n_unreported, missing);
	return true;
}

/* Names some of the nodes, all of which are walked only when there is one. */
static bool keys_warning(struct server *server, char ret[static WARNING_SIZE])
{
	const struct state *state = &server->state;
	struct node_entry *entry;
	size_t named = 0;
	size_t at = 0;

	if (state->n_nodes_other_key == 0)
		return false;
	for (entry = state_node_from(&server->state, ""); entry; entry = state_node_next(entry)) {
		int n;

		if (entry->node.other_ticket_keys[0] == '\0')
			continue;
		n = str_format(ret + at, WARNING_SIZE - at, "%snode %s has another ticket key (%s...)",
			       at > 0 ? ", " : "", entry->node.id, entry->node.other_ticket_keys);
		at += n > 0 ? (size_t)n : 0;
		if (++named == KEYS_NAMED)
			break;
	}
	(void)str_format(
		ret + at, WARNING_SIZE - at,
		"%s: mounts are refused there. Put this server's key into mounthelper.policy, or give "
		"the server its old key back",
		state->n_nodes_other_key > named ? " and more" : "");
	return true;
}

static struct volume_entry *held_twice_from(struct server *server, const char *namespace, const char *id)
{
	struct volume_entry *volume = state_volume_from(&server->state, namespace, id);

	while (volume && !volume_is_held_twice(volume))
		volume = state_volume_next(volume);
	return volume;
}

/* Begins with the volume that it has found last. So all volumes, 20 ms for 100 000, are walked only after
 * that one was resolved, and not in each review. */
static const struct volume_entry *find_held_twice(struct server *server)
{
	struct warnings *last = server->warnings; /* NULL: this server follows */
	struct volume_entry *volume = NULL;

	if (server->state.n_volumes_held_twice == 0)
		return NULL;
	if (last)
		volume = held_twice_from(server, last->twice_namespace, last->twice_id);
	if (!volume)
		volume = held_twice_from(server, "", "");
	if (volume && last) {
		memcpy(last->twice_namespace, volume->volume.namespace, sizeof(last->twice_namespace));
		memcpy(last->twice_id, volume->volume.id, sizeof(last->twice_id));
	}
	return volume;
}

/* Two may be writing to one of them. */
static bool held_twice_warning(struct server *server, char ret[static WARNING_SIZE])
{
	const struct volume_entry *volume = find_held_twice(server);

	if (!volume)
		return false;
	(void)str_format(ret, WARNING_SIZE,
			 "volumes are mounted more often than their access mode allows: %zu, one of them is "
			 "%s/%s. Two may be writing to it: holdfast volume status %s%s%s --why",
			 server->state.n_volumes_held_twice, volume->volume.namespace, volume->volume.id,
			 volume->volume.id, NAMESPACE_OPTION(volume->namespace));
	return true;
}

static bool namespace_warning(struct server *server, char ret[static WARNING_SIZE])
{
	uint64_t percent;
	const struct namespace_entry *fullest = namespaces_fullest(&server->state.namespaces, &percent);

	if (percent <= NAMESPACE_FULL_PERCENT)
		return false;
	(void)str_format(ret, WARNING_SIZE,
			 "namespace %s takes %" PRIu64
			 " percent of its memory of the server; beyond 87 it gets "
			 "nothing new: remove some, for example with holdfast job stop --purge, or raise "
			 "namespace_memory in holdfast-server.hcl(5)",
			 fullest->name, percent);
	return true;
}

static bool fencer_warning(struct server *server, char ret[static WARNING_SIZE])
{
	return fencers_warning(server->fencers, ret);
}

/* Walks the schedules (not the volumes) up to the first that fails, and only while one fails. */
static bool schedule_warning(struct server *server, char ret[static WARNING_SIZE])
{
	return schedules_warning(server, ret);
}

static bool full_warning(struct server *server, char ret[static WARNING_SIZE])
{
	return disk_warning(server, ret);
}

static bool mark_warning(struct server *server, char ret[static WARNING_SIZE])
{
	return marks_warning(server, ret);
}

static bool expiry_warning(struct server *server, char ret[static WARNING_SIZE])
{
	return certificate_warning(server->certificate, server->in_use.cert, ret) ||
	       certificate_name_warning(server, ret);
}

static bool kit_certificate_warning(struct server *server, char ret[static WARNING_SIZE])
{
	const char *path = server->config.kit_certificate;

	if (path[0] == '\0' || access(path, R_OK) == 0)
		return false;
	(void)str_format(
		ret, WARNING_SIZE,
		"no kit can be taken: kit_certificate %s: %s. Put the certificate of your kits there", path,
		strerror(errno));
	return true;
}

static bool is_old(const char *what, const char *command, int64_t last_ms, char ret[static WARNING_SIZE])
{
	char text[CLOCK_TEXT_SIZE];

	if (clock_realtime_ms() - last_ms <= (int64_t)BACKUP_OLD_DAYS * DAYS_MS)
		return false;
	if (last_ms == 0)
		(void)str_format(ret, WARNING_SIZE,
				 "no %s was ever read to its end, or only while the clock was ahead: %s",
				 what, command);
	else
		(void)str_format(ret, WARNING_SIZE, "the last %s that was read to its end is of %s: %s", what,
				 clock_format(last_ms, text), command);
	return true;
}

static bool backup_warning(struct server *server, char ret[static WARNING_SIZE])
{
	return is_old("backup", "holdfast operator backup FILE", backup_last_ms(server), ret);
}

static bool kit_warning(struct server *server, char ret[static WARNING_SIZE])
{
	return is_old("kit", "holdfast operator backup --kit FILE", backup_last_kit_ms(server), ret);
}

enum shown { BOTH, STATUS_ONLY, EVENT_ONLY };

/* While one of STATUS_ONLY is in force, no event can be stored: the log has it. Facts of EVENT_ONLY have a
 * row of their own in the status. */
static const struct {
	const char *word;
	bool (*text)(struct server *server, char *ret);
	enum shown shown;
} rows[] = {
	[WARNING_STORE] = {"store", stall_warning, STATUS_ONLY},
	[WARNING_HELD_TWICE] = {"held-twice", held_twice_warning, BOTH},
	[WARNING_HISTORY] = {"history", history_warning, BOTH},
	[WARNING_FENCERS] = {"fencers", fencer_warning, BOTH},
	[WARNING_FENCE_CLIENTS] = {"fence-clients", fence_clients_warning, BOTH},
	[WARNING_SNAPSHOTS] = {"snapshots", schedule_warning, BOTH},
	[WARNING_TICKET_KEY] = {"ticket-key", keys_warning, BOTH},
	[WARNING_CA] = {"ca", certificate_ca_warning, BOTH},
	[WARNING_CA_CHANGE] = {"ca-change", ca_change_warning, BOTH},
	[WARNING_TOKENS] = {"tokens", tokens_warning, BOTH},
	[WARNING_REVOCATIONS] = {"revocations", revocations_warning, BOTH},
	[WARNING_NAMESPACES] = {"namespaces", namespace_warning, BOTH},
	[WARNING_KEY_ROTATION] = {"key-rotation", key_rotation_warning, BOTH},
	[WARNING_DISK] = {"disk", full_warning, STATUS_ONLY},
	[WARNING_MARK] = {"mark", mark_warning, BOTH},
	[WARNING_CERTIFICATE] = {"certificate", expiry_warning, BOTH},
	[WARNING_KIT_CERTIFICATE] = {"kit-certificate", kit_certificate_warning, BOTH},
	[WARNING_BACKUP] = {"backup", backup_warning, EVENT_ONLY},
	[WARNING_KIT] = {"kit", kit_warning, EVENT_ONLY},
};
static_assert(ARRAY_SIZE(rows) == WARNING_N, "each warning has a row");

bool warning_text(struct server *server, enum warning_kind kind, char ret[static WARNING_SIZE])
{
	return rows[kind].shown != EVENT_ONLY && rows[kind].text(server, ret);
}

/* --- events --- */

/* If the store refuses the record, a later review repeats it. */
static void review_one(struct warnings *warnings, enum warning_kind kind)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	char text[WARNING_SIZE], object[AUDIT_OBJECT_SIZE];
	bool is_in_force;

	if (rows[kind].shown == STATUS_ONLY)
		return;
	is_in_force = rows[kind].text(warnings->server, text);
	if (is_in_force == warnings->in_force[kind])
		return;
	(void)str_format(object, sizeof(object), "warning %s", rows[kind].word);
	audit_own(warnings->server, &change, is_in_force ? "Server.Warn" : "Server.WarnEnd", object,
		  is_in_force ? text : NULL);
	if (change_commit(warnings->server, &change, NULL, NULL, NULL) == STATUS_OK)
		warnings->in_force[kind] = is_in_force;
}

static void review_node(struct server *server, const struct session_expiry *first)
{
	struct node_entry *node = state_node(&server->state, first->node_id);
	cleanup(change_release) struct change change = CHANGE_INIT;
	char text[CLOCK_TEXT_SIZE], why[AUDIT_WHY_SIZE];

	if (!node || node->certificate_warned_ms == first->expires_ms ||
	    first->expires_ms - clock_realtime_ms() > (int64_t)NODE_CERTIFICATE_DAYS * DAYS_MS)
		return;
	(void)str_format(why, sizeof(why),
			 "its certificate expires at %s, and its agent has not renewed it: on the node, "
			 "holdfast agent status",
			 clock_format(first->expires_ms, text));
	audit_node_event(server, &change, NODE_EVENT_CERTIFICATE, node->id, why);
	if (change_commit(server, &change, NULL, NULL, NULL) == STATUS_OK)
		node->certificate_warned_ms = first->expires_ms;
}

void warnings_review(struct warnings *warnings)
{
	struct session_expiry first[SESSION_EXPIRIES_MAX];
	size_t n = session_expiries(warnings->server, first);

	if (warnings->server->disk->level != DISK_PLENTY) /* it refuses records */
		return;
	for (int kind = 0; kind < WARNING_N; kind++)
		review_one(warnings, (enum warning_kind)kind);
	for (size_t i = 0; i < n; i++)
		review_node(warnings->server, &first[i]);
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct warnings *warnings = userdata;

	warnings_review(warnings);
	if (sd_event_source_set_time_relative(source, WARNINGS_REVIEW_S * USEC_PER_SEC) >= 0)
		(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT); /* else no events */
	return 0;
}

enum status warnings_new(struct server *server, struct warnings **ret, struct error *err)
{
	struct warnings *warnings = calloc(1, sizeof(*warnings));
	int r;

	if (!warnings)
		return error_no_memory(err, "the warnings");
	warnings->server = server;
	r = sd_event_add_time_relative(server->event, &warnings->timer, CLOCK_MONOTONIC,
				       WARNINGS_REVIEW_S * USEC_PER_SEC, ACCURACY_US, on_time, warnings);
	if (r < 0) {
		free(warnings);
		return error_set(err, status_from_errno(r), r, "review the warnings");
	}
	*ret = warnings;
	return STATUS_OK;
}

void warnings_free(struct warnings *warnings)
{
	if (!warnings)
		return;
	(void)sd_event_source_disable_unref(warnings->timer);
	free(warnings);
}
