/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery/marks.h"

#include "server.h"

#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "recovery/history.h"
#include "recovery/new_epoch.h"
#include "state/keys.h"
#include "state/schema.h"
#include "store/mark.h"

#include <holdfast/v1/types.pb-c.h>
#include <string.h>

#define MARK_NAME "holdfast.mark" /* in data_dir */

struct own {
	char path[PATH_MAX];
	struct kv_marks marks;
};

static enum status name_marks(const struct config *config, struct own *ret, struct error *err)
{
	*ret = (struct own){.marks = {.paths = {ret->path}, .store_id = ""}};
	if (str_format(ret->path, sizeof(ret->path), "%s/" MARK_NAME, config->data_dir) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "data_dir: the path is too long");
	if (config->mark_file[0] != '\0')
		ret->marks.paths[1] = config->mark_file;
	return STATUS_OK;
}

static bool take_epoch(const struct kv_item *item, void *userdata)
{
	Holdfast__V1__Epoch *epoch;

	if (!str_eq(item->key, KEY_EPOCH))
		return true;
	epoch = holdfast__v1__epoch__unpack(NULL, item->len, item->value);
	*(uint64_t *)userdata = epoch ? epoch->number : 0;
	holdfast__v1__epoch__free_unpacked(epoch, NULL);
	return false;
}

static enum status begin_epoch(struct server *server, const struct kv_history *history, uint64_t own_epoch,
			       struct error *err)
{
	struct new_epoch wanted = {
		.cluster = server->config.cluster,
		.known_epoch = history->epoch > own_epoch ? history->epoch : own_epoch,
		.known_index = history->revision,
		.now_ms = clock_realtime_ms(),
		.restored_from = history->why,
		.known = {.n = history->nodes},
	};

	known_nodes_add_store(&wanted.known, history->store_id);
	return new_epoch_begin_here(server->kv, &wanted, NULL, err);
}

enum status marks_check(struct server *server, struct error *err)
{
	struct kv_history history = {.is_behind = false};
	struct schema schema;
	struct own own;
	enum status st = name_marks(&server->config, &own, err);

	if (st == STATUS_OK)
		st = schema_read(server->kv, &schema, err);
	if (st != STATUS_OK)
		return st;
	own.marks.store_id = schema.store_id;
	st = kv_range(server->kv, KEY_EPOCH, take_epoch, &own.marks.epoch, err);
	if (st == STATUS_OK)
		st = kv_history(server->kv, &own.marks, &history, err);
	return st == STATUS_OK && history.is_behind ? begin_epoch(server, &history, own.marks.epoch, err)
						    : st;
}

enum status marks_keep(struct server *server, struct error *err)
{
	const Holdfast__V1__Schema *schema = state_record(&server->state, KEY_SCHEMA);
	struct own own;
	enum status st = name_marks(&server->config, &own, err);

	if (st != STATUS_OK)
		return st;
	own.marks.store_id = schema->store_id;
	own.marks.epoch = state_epoch(&server->state);
	own.marks.nodes = history_nodes(server);
	return kv_keep_marks(server->kv, &own.marks, err);
}

bool marks_warning(const struct server *server, char ret[static MARKS_WARNING_SIZE])
{
	int number = kv_stats(server->kv).mark_errno;

	if (number == 0)
		return false;
	(void)str_format(ret, MARKS_WARNING_SIZE,
			 "a mark of the store cannot be written (errno %d): %.200s/" MARK_NAME
			 "%s%.200s. Until it can "
			 "be, nobody notices if the store goes back in time; check its disk",
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

	if (name_marks(config, &own, NULL) != STATUS_OK)
		return;
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
	enum status st = name_marks(config, &own, err);

	if (st == STATUS_OK)
		st = mark_open(own.path, &mark, &file, err); /* one that is there is of an earlier epoch */
	mark_close(file);
	return st;
}
