/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery/marks.h"

#include "server.h"

#include "base/clock.h"
#include "base/str.h"
#include "etcd/etcd.h"
#include "lead/lead.h"
#include "log/log.h"
#include "recovery/history.h"
#include "recovery/new_epoch.h"
#include "state/keys.h"
#include "state/schema.h"
#include "store/kv_marks.h"
#include "store/mark.h"

#include <holdfast/v1/types.pb-c.h>
#include <stdlib.h>
#include <string.h>

#define MARK_NAME "holdfast.mark" /* in data_dir */

struct own {
	char path[PATH_MAX];
	struct kv_marks marks;
};

static void name_marks(const struct config *config, struct own *ret)
{
	*ret = (struct own){.marks = {.paths = {ret->path}, .store_id = ""}};
	(void)str_format(ret->path, sizeof(ret->path), "%s/" MARK_NAME, config->data_dir);
	if (config->mark_file[0] != '\0')
		ret->marks.paths[1] = config->mark_file;
}

/* Above all that the marks know, and their nodes are waited for. */
static struct new_epoch epoch_after(const struct config *config, const struct kv_history *history,
				    uint64_t own_epoch)
{
	struct new_epoch wanted = {
		.cluster = config->cluster,
		.known_epoch = history->epoch > own_epoch ? history->epoch : own_epoch,
		.known_index = history->revision,
		.now_ms = clock_realtime_ms(),
		.restored_from = history->why,
		.known = {.n = history->nodes},
	};

	known_nodes_add_store(&wanted.known, history->store_id);
	return wanted;
}

enum status marks_check(const struct config *config, struct kv *kv, struct error *err)
{
	struct kv_history history = {.is_behind = false};
	struct new_epoch wanted;
	struct schema schema;
	struct own own;

	name_marks(config, &own);
	TRY(schema_read(kv, &schema, err));
	own.marks.store_id = schema.store_id;
	TRY(new_epoch_read(kv, &own.marks.epoch, err));
	TRY(kv_history(kv, &own.marks, &history, err));
	if (!history.is_behind)
		return STATUS_OK;
	wanted = epoch_after(config, &history, own.marks.epoch);
	return new_epoch_begin_here(kv, &wanted, err);
}

enum status marks_keep(struct server *server, struct error *err)
{
	const Holdfast__V1__Schema *schema = records_get(&server->state.records, KEY_SCHEMA);
	struct own own;

	name_marks(&server->config, &own);
	own.marks.store_id = schema->store_id;
	own.marks.epoch = state_epoch(&server->state);
	own.marks.nodes = history_nodes(server);
	return kv_keep_marks(server->kv, &own.marks, err);
}

/* --- of a follower --- */

struct marks_followed {
	struct kv_mark_files files;
	bool is_open;
	bool is_behind;		 /* etcd is, and that was logged */
	uint64_t first_revision; /* seen without a mark; 0: a mark exists, or was not looked for yet */
};

/* The leader does not know it: from here on a record of the store itself shows the lost history, and nothing
 * is granted before the epoch that the next leader begins. */
static void interrupt_leader(struct server *server, const struct kv_history *history, uint64_t epoch)
{
	const struct new_epoch wanted = epoch_after(&server->config, history, epoch);
	uint8_t bytes[NEW_EPOCH_DECISION_MAX];
	struct kv_op op = {.key = KEY_DECISION, .value = bytes};
	struct error err;

	if (new_epoch_pack_decision(&wanted, bytes, &op.len, &err) == STATUS_OK)
		lead_interrupt(server->lead, &op);
	else
		log_ctx(LOG_CRIT, &(struct log_ctx){.op = "epoch", .err = &err},
			"cannot write into etcd that it is behind");
}

/* A server without a mark begins one when a leader writes: the leader has compared the store with its own
 * mark. Before that write, the contents of etcd may have been put back in time. */
static bool has_moved(struct marks_followed *followed, const struct etcd_progress *progress)
{
	if (followed->first_revision == 0)
		followed->first_revision = progress->revision;
	return progress->revision != followed->first_revision;
}

/* Opens the marks, after a comparison with their present values, which must not be lost. */
static bool open_followed(struct server *server, const struct etcd_progress *progress)
{
	struct marks_followed *followed = server->marks_followed;
	struct kv_history history;
	struct own own;
	struct error err;
	enum status status;

	name_marks(&server->config, &own);
	own.marks.epoch = progress->epoch;
	own.marks.nodes = progress->nodes;
	own.marks.store_id = progress->store_id;
	status = kv_marks_find_history(&own.marks, progress->revision, true, &history, &err);
	if (status == STATUS_OK && history.is_behind) {
		if (!followed->is_behind)
			log_ctx(LOG_CRIT, &(struct log_ctx){.op = "epoch"},
				"etcd is behind what this server has seen: %s; the leader is ended, and an "
				"epoch begins with the next one",
				history.why);
		followed->is_behind = true;
		lead_set_behind(server->lead, history.why);
		interrupt_leader(server, &history, progress->epoch);
		return false;
	}
	lead_set_behind(server->lead, NULL);
	if (status == STATUS_OK && history.revision == 0 && !has_moved(followed, progress))
		return false;
	if (status == STATUS_OK)
		status = kv_marks_open(&followed->files, server->config.etcd.prefix, &own.marks,
				       progress->revision, &err);
	if (status == STATUS_OK)
		return true;
	kv_marks_close(&followed->files);
	followed->files = (struct kv_mark_files){.dirty_us = 0};
	log_ctx(LOG_WARNING, &(struct log_ctx){.op = "store", .err = &err}, "the marks are not kept");
	return false;
}

void marks_follow(struct server *server, const struct etcd_progress *progress)
{
	struct marks_followed *followed = server->marks_followed;

	if (followed && followed->is_open &&
	    (progress->epoch != followed->files.mark.epoch ||
	     !str_eq(progress->store_id, followed->files.mark.store_id) ||
	     progress->revision < followed->files.mark.revision)) {
		marks_follow_end(server); /* another store, or this one of another time */
		followed = NULL;
	}
	if (!followed) {
		followed = calloc(1, sizeof(*followed));
		server->marks_followed = followed;
	}
	if (!followed)
		return;
	if (!followed->is_open)
		followed->is_open = open_followed(server, progress);
	if (followed->is_open)
		kv_marks_write(&followed->files, progress->revision, progress->nodes);
}

void marks_follow_end(struct server *server)
{
	if (server->marks_followed)
		kv_marks_close(&server->marks_followed->files);
	free(server->marks_followed);
	server->marks_followed = NULL;
}

bool marks_warning(const struct server *server, char ret[static MARKS_WARNING_SIZE])
{
	int number = kv_stats(server->kv).mark_errno;

	if (number == 0)
		return false;
	(void)str_format(
		ret, MARKS_WARNING_SIZE,
		"a mark of the store cannot be written (errno %d): %.200s/" MARK_NAME
		"%s%.200s. Until it can be, a store that goes back in time is not noticed; check its disk",
		number, server->config.data_dir, server->config.mark_file[0] != '\0' ? ", or " : "",
		server->config.mark_file);
	return true;
}

void marks_watch(struct server *server)
{
	char text[MARKS_WARNING_SIZE];
	int number = kv_stats(server->kv).mark_errno;

	if (number == server->mark_errno)
		return;
	server->mark_errno = number;
	if (marks_warning(server, text))
		log_ctx(LOG_ERR, &(struct log_ctx){.op = "store"}, "%s", text);
	else
		log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "store"},
			"the marks of the store are written again");
}

void marks_raise(const struct config *config, struct new_epoch *wanted)
{
	struct own own;

	name_marks(config, &own);
	for (size_t i = 0; i < KV_MARKS_MAX && own.marks.paths[i]; i++) {
		struct mark mark;

		if (mark_read(own.marks.paths[i], &mark, NULL) != STATUS_OK)
			continue;
		new_epoch_raise(wanted, mark.epoch, mark.revision);
		if (mark.nodes > wanted->known.n)
			wanted->known.n = mark.nodes;
		known_nodes_add_store(&wanted->known, mark.store_id);
	}
}

enum status marks_note_restore(const struct config *config, uint64_t epoch, struct error *err)
{
	const struct mark mark = {.epoch = epoch};
	struct mark_file *file = NULL;
	struct own own;

	name_marks(config, &own);
	TRY(mark_open(own.path, &mark, &file, err)); /* one that is there is of an earlier epoch */
	mark_close(file);
	return STATUS_OK;
}
