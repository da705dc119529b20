#include "release.h"
#include "server.h"
#include "session.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <stdlib.h>

/* What to tell the node once a change is durable. */
struct told {
	char node_id[NODE_ID_MAX + 1];
	uint64_t serial; /* of the session that caused it */
	enum session_word word;
	char id[UUID_TEXT_SIZE]; /* of the claim or allocation */
};

static struct told *told_new(const struct session *session, enum session_word word, const char *id)
{
	struct told *told = calloc(1, sizeof(*told));

	if (!told)
		return NULL;
	(void)str_copy(told->node_id, sizeof(told->node_id), session->node_id);
	(void)str_copy(told->id, sizeof(told->id), id);
	told->serial = session->serial;
	told->word = word;
	return told;
}

static void drive_claim(struct server *server, const char *id)
{
	struct claim_entry *entry = state_claim(&server->state, id);

	if (entry)
		release_drive(server, entry);
}

static void drive_alloc(struct server *server, const char *id)
{
	struct alloc_entry *alloc = state_alloc(&server->state, id);
	struct claim_entry *entry;

	if (alloc)
		LIST_FOREACH (entry, &alloc->claims, of_alloc)
			release_drive(server, entry);
}

static void on_durable(struct server *server, void *userdata)
{
	cleanup_free struct told *told = userdata;
	struct node_entry *node = state_node(&server->state, told->node_id);
	struct session *session = node ? node->session : NULL;

	if (session && session->serial == told->serial)
		session->n_pending--;
	if (session)
		session_tell(session, told->word, told->id);
	switch (told->word) {
	case SESSION_ACK_MOUNTED:
	case SESSION_ACK_RELEASED:
	case SESSION_DRIVE_CLAIM:
		drive_claim(server, told->id);
		break;
	case SESSION_FORGET_ALLOC:
		drive_alloc(server, told->id);
		break;
	case SESSION_NOTHING:
	case SESSION_STOP_ALLOC:
	case SESSION_WORD_N:
		break;
	}
}

enum status session_commit(struct session *session, struct change *change, enum session_word word,
			   const char *id, struct error *err)
{
	enum status st =
		change_commit_taking(session->server, change, on_durable, told_new(session, word, id), err);

	session->n_pending += st == STATUS_OK;
	return st;
}
