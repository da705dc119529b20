/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "claim/release.h"
#include "node/session.h"

#include <stdlib.h>

/* What to tell the node once a change is durable. */
struct told {
	char node_id[NODE_ID_MAX + 1];
	enum session_word word;
	char id[UUID_TEXT_SIZE]; /* of the claim or allocation */
	size_t weight;		 /* in node_entry.n_pending */
};

static struct told *told_new(const struct session *session, enum session_word word, const char *id)
{
	struct told *told = calloc(1, sizeof(*told));

	if (!told)
		return NULL;
	(void)str_copy(told->node_id, sizeof(told->node_id), session->node_id);
	(void)str_copy(told->id, sizeof(told->id), id);
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

	if (node) /* purged and back meanwhile: it counts from 0 */
		node->n_pending -= told->weight < node->n_pending ? told->weight : node->n_pending;
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
	case SESSION_WITHOUT_PLUGIN:
	case SESSION_WORD_N:
		break;
	}
}

enum status session_commit(struct session *session, struct change *change, enum session_word word,
			   const char *id, struct error *err)
{
	struct told *told = told_new(session, word, id);
	size_t weight = change->n > 0 ? change->n : 1;
	struct node_entry *node;
	enum status st;

	if (told)
		told->weight = weight;
	st = change_commit_taking(session->server, change, on_durable, told, err);
	node = state_node(&session->server->state, session->node_id);
	if (st == STATUS_OK && node)
		node->n_pending += weight;
	return st;
}
