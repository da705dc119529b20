/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The troubles of a store, sqlite's or etcd's: one row each, with its name, its sentence and the next
 * command. Calls, /readyz, operator members, operator status, logs and metrics take them from here.
 *
 * The names are a label of a metric and part of /readyz: they do not change. */

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trouble_kind {
	TROUBLE_NONE,
	TROUBLE_NO_LEADER,    /* etcd answers, and no server leads */
	TROUBLE_NO_ANSWER,    /* of any member of etcd */
	TROUBLE_NO_QUORUM,    /* members answer that they know no leader of etcd */
	TROUBLE_NO_SPACE,     /* etcd's alarm */
	TROUBLE_CERTIFICATE,  /* etcd's is refused, or this server's is */
	TROUBLE_OTHER_KEY,    /* this server signs tickets with another key than the cluster */
	TROUBLE_OTHER_SCHEMA, /* the cluster is at an earlier or later one */
	TROUBLE_BEHIND,	      /* etcd is, behind the mark of this server */
	TROUBLE_SAME_NAME,    /* another server has the name and address of this one */
	TROUBLE_RETIRED,      /* the store in etcd was moved to sqlite */
	TROUBLE_HANGS,	      /* nothing becomes durable */
	TROUBLE_N,
};

enum { TROUBLE_TEXT_SIZE = 768 };

/* The facts that a sentence names; NULL: this trouble lacks it. */
struct trouble_facts {
	const char *server; /* its name */
	const char *store;  /* the folder, or the prefix in etcd */
	const char *detail; /* from elsewhere */
	uint64_t for_us;    /* it lasts so long */
};

/** "no_quorum" */
const char *trouble_word(enum trouble_kind kind);

/** Does the trouble end only by a repair of this server, while others may serve? */
bool trouble_is_of_one_server(enum trouble_kind kind);

/** "SENTENCE. Next: COMMAND" */
const char *trouble_text(enum trouble_kind kind, const struct trouble_facts *facts,
			 char ret[static TROUBLE_TEXT_SIZE]);
