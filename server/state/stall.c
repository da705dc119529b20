/* SPDX-License-Identifier: Apache-2.0 */
/* Detects a store that stores nothing, as opposed to a slow one, and logs it. */

#include "state/stall.h"

#include "server.h"

#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"

#include <string.h>

/* Between two lines about one trouble. */
static const uint64_t LOG_MIN_US = 60 * USEC_PER_SEC;
static const uint64_t LOG_MAX_US = 3600 * USEC_PER_SEC;

uint64_t stall_age_us(const struct server *server)
{
	return server->kv ? kv_stats(server->kv).pending_us : 0;
}

enum trouble_kind stall_kind(const struct server *server)
{
	struct kv_stats stats;

	if (!server->kv)
		return TROUBLE_NONE;
	stats = kv_stats(server->kv);
	if (stats.is_full)
		return TROUBLE_NO_SPACE;
	if (stats.pending_us < STALL_S * USEC_PER_SEC)
		return TROUBLE_NONE;
	return server->lead ? TROUBLE_NO_ANSWER : TROUBLE_HANGS;
}

static const char *describe(const struct server *server, enum trouble_kind kind,
			    char ret[static TROUBLE_TEXT_SIZE])
{
	const struct trouble_facts facts = {.store = server->config.data_dir, .for_us = stall_age_us(server)};

	return trouble_text(kind, &facts, ret);
}

enum status stall_check(const struct server *server, struct error *err)
{
	enum trouble_kind kind = stall_kind(server);
	char text[TROUBLE_TEXT_SIZE];

	if (kind == TROUBLE_NONE)
		return STATUS_OK;
	return error_set(err, STATUS_UNAVAILABLE, 0, "%s", describe(server, kind, text));
}

bool stall_explain_late(void *userdata, struct error *err)
{
	const struct server *server = userdata;
	enum trouble_kind kind = stall_kind(server);
	char text[TROUBLE_TEXT_SIZE];
	char before[ERROR_MSG_MAX];

	if (kind == TROUBLE_NONE)
		return false;
	memcpy(before, err->msg, sizeof(before));
	(void)error_set(err, STATUS_DEADLINE_EXCEEDED, 0,
			"%.200s: %s. Whether a change of this call is kept is known when the store continues",
			before, describe(server, kind, text));
	return true;
}

static void log_trouble(struct server *server, enum trouble_kind kind)
{
	char text[TROUBLE_TEXT_SIZE];

	if (kind == TROUBLE_NONE)
		log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "store"},
			"the store continues (it was: %s): everything is taken as before",
			trouble_word(server->stall.kind));
	else
		log_ctx(LOG_ERR, &(struct log_ctx){.op = "store"}, "%s: %s", trouble_word(kind),
			describe(server, kind, text));
}

void stall_watch(struct server *server)
{
	enum trouble_kind kind = stall_kind(server);
	uint64_t now_us = clock_monotonic_us();

	if (kind == server->stall.kind && (kind == TROUBLE_NONE || now_us < server->stall.log_us))
		return;
	if (kind != server->stall.kind)
		server->stall.pause_us = LOG_MIN_US / 2;
	log_trouble(server, kind);
	server->stall.kind = kind;
	if (server->stall.pause_us < LOG_MAX_US)
		server->stall.pause_us *= 2;
	server->stall.log_us = now_us + server->stall.pause_us;
}
