/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "node/session.h"

/* Sessions whose node has fallen silent: its agent hangs, or the network drops what it sends while the
 * connection stays open.
 *
 * Time passes here by looks, each worth what lies between two of them, and a look comes only after all that
 * had arrived was read (lowest priority). While the server itself is stopped, or behind with reading, no time
 * passes, and no node is missed for that. Silence disconnects a node and releases nothing. */

enum {
	HEARTBEATS_MISSED = 3,
	LOOKS_PER_HEARTBEAT = 4,
	SESSIONS_PER_LOOK = 64, /* ended in one turn of the loop: each costs a write */
	ACCURACY_US = 10000,
};

static uint64_t silent_us(const struct silence *silence, const struct session *session)
{
	return silence->listened_us - session->heard_us;
}

static void end_silent(struct session *session)
{
	char heartbeat[CLOCK_TEXT_SIZE], silent[CLOCK_TEXT_SIZE];
	struct error err;

	(void)error_set(
		&err, STATUS_DEADLINE_EXCEEDED, 0,
		"nothing was heard of node %s for %s, which is more than %d heartbeats of %s: its agent "
		"hangs, or the network drops what it sends",
		session->node_id,
		clock_format_duration(silent_us(&session->server->silence, session), silent),
		HEARTBEATS_MISSED, clock_format_duration(session->heartbeat_us, heartbeat));
	session->server->silence.n_ended++;
	session_end(session, &err);
}

/* Returns whether there are more. Who was told a longer interval than others may stand before them. */
static bool end_some(struct silence *silence)
{
	struct session *session = TAILQ_FIRST(&silence->sessions);
	struct session *next;

	for (int n = 0; session; session = next) {
		next = TAILQ_NEXT(session, by_silence);
		if (silent_us(silence, session) <= HEARTBEATS_MISSED * silence->heartbeat_min_us)
			return false;
		/* the message before the last look may have come at its end */
		if (silent_us(silence, session) <=
		    HEARTBEATS_MISSED * session->heartbeat_us + silence->look_us)
			continue;
		if (n++ == SESSIONS_PER_LOOK)
			return true;
		end_silent(session);
	}
	return false;
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct silence *silence = userdata;
	bool has_more;

	(void)usec;
	silence->listened_us += silence->look_us;
	has_more = end_some(silence);
	if (has_more) /* the same look goes on in the next turn */
		silence->listened_us -= silence->look_us;
	if (sd_event_source_set_time_relative(source, has_more ? 0 : silence->look_us) < 0 ||
	    sd_event_source_set_enabled(source, SD_EVENT_ONESHOT) < 0)
		log_line(LOG_ERR, "cannot look for silent nodes any more, ignoring");
	return 0;
}

void session_heard(struct session *session)
{
	struct silence *silence = &session->server->silence;
	struct node_entry *node = state_node(&session->server->state, session->node_id);

	session->heard_us = silence->listened_us;
	if (!session->is_listed)
		return;
	TAILQ_REMOVE(&silence->sessions, session, by_silence);
	TAILQ_INSERT_TAIL(&silence->sessions, session, by_silence);
	if (node && node->session == session)
		node->node.last_seen_ms = clock_realtime_ms(); /* not worth a write of its own */
}

void session_list(struct session *session)
{
	struct silence *silence = &session->server->silence;

	if (silence->heartbeat_min_us == 0 || session->heartbeat_us < silence->heartbeat_min_us)
		silence->heartbeat_min_us = session->heartbeat_us;
	session->heard_us = silence->listened_us;
	session->is_listed = true;
	TAILQ_INSERT_TAIL(&silence->sessions, session, by_silence);
}

void session_unlist(struct session *session)
{
	if (!session->is_listed)
		return;
	session->is_listed = false;
	TAILQ_REMOVE(&session->server->silence.sessions, session, by_silence);
}

uint64_t session_silence_us(const struct server *server)
{
	const struct session *first = TAILQ_FIRST(&server->silence.sessions);

	return first ? silent_us(&server->silence, first) : 0;
}

int64_t session_first_expiry_ms(const struct server *server)
{
	const struct session *session;
	int64_t first_ms = 0;

	TAILQ_FOREACH (session, &server->silence.sessions, by_silence) {
		int64_t expires_ms = rpc_call_peer(session->call)->expires_ms;

		if (expires_ms != 0 && (first_ms == 0 || expires_ms < first_ms))
			first_ms = expires_ms;
	}
	return first_ms;
}

enum status session_silence_start(struct server *server, struct error *err)
{
	struct silence *silence = &server->silence;
	int r;

	silence->look_us = server->config.heartbeat_us / LOOKS_PER_HEARTBEAT;
	r = sd_event_add_time_relative(server->event, &silence->timer, CLOCK_MONOTONIC, silence->look_us,
				       ACCURACY_US, on_look, silence);
	if (r >= 0)
		r = sd_event_source_set_priority(silence->timer, SD_EVENT_PRIORITY_IDLE);
	return r < 0 ? error_set(err, status_from_errno(r), r, "look for silent nodes") : STATUS_OK;
}
