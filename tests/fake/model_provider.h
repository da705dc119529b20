/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A model of server/plugin/controller.h: a CSI plugin and the storage provider behind it, which makes, grows
 * and deletes volumes and snapshots. Put in the place of controller_call() and controller_capabilities() by
 * the linker (--wrap). Answers come from the event loop, as the real ones do. */

#include "server.h"

#include "base/error.h"
#include "plugin/controller.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PROVIDER_THINGS_MAX = 64,
	PROVIDER_CALLS_MAX = 32, /* kinds, by the request's number */
	PROVIDER_TEXT = 300,
	PROVIDER_HELD_MAX = 64,
};

enum provider_outcome {
	PROVIDER_OK,
	PROVIDER_FAIL,	    /* with a code; nothing is done */
	PROVIDER_FAIL_DONE, /* with a code, although it was done */
	PROVIDER_HOLD,	    /* nothing is done and nothing answered until provider_answer() */
	PROVIDER_HOLD_DONE, /* done, not answered until provider_answer() */
	PROVIDER_QUEUE,	 /* waits for its turn until provider_answer(), and ends if it is no longer wanted */
	PROVIDER_REFUSE, /* controller_call() itself fails with the code */
};

struct provider_thing { /* a volume or snapshot; gone when it has no id */
	char name[PROVIDER_TEXT];
	char id[PROVIDER_TEXT];
	char source[PROVIDER_TEXT];
	uint64_t capacity;
};

struct provider_orders {
	enum provider_outcome outcome;
	unsigned int times;
	enum status code;
};

struct provider {
	struct controller_half can;
	bool has_no_controller;
	bool does_not_confirm;
	bool needs_node_expansion;
	bool cannot_expand_on_nodes; /* its node service does not announce it; for provider_report() */
	bool is_slow_snapshot;	     /* not ready at first */
	bool names_nothing;	     /* answers without an id */
	bool names_no_source;	     /* of a snapshot */
	const char *names_made;	     /* answers to each create with this id; NULL: with one of its own */
	unsigned int n_topologies;   /* of what it makes */
	const char *words;	     /* of its failures, unless NULL */
	struct provider_thing volumes[PROVIDER_THINGS_MAX], snapshots[PROVIDER_THINGS_MAX];
	size_t n_volumes, n_snapshots; /* ever made */
	struct provider_orders orders[PROVIDER_CALLS_MAX];
	/* seen */
	unsigned int calls[PROVIDER_CALLS_MAX];
	char last_name[PROVIDER_TEXT];
	char last_namespace[PROVIDER_TEXT]; /* for which the last call counts; "": the server */
	char last_secrets[PROVIDER_TEXT];   /* "key=value," of the last call that had any, in their order */
	uint64_t last_min, last_max;
	Holdfast__V1__AttachmentMode last_attachment_mode; /* of the last expansion; 0: no capability */
	uint64_t node_bytes;	   /* that a node's file system gets; 0: says nothing */
	char nodes[PROVIDER_TEXT]; /* "n1,n2," in the order in which they were asked to expand */
};

extern struct provider provider;

void provider_reset(void);
void provider_order(int request, enum provider_outcome outcome, unsigned int times, enum status code);

/** Answer what is held. */
void provider_answer(void);

/** End what is held with @code; nothing is done. */
void provider_fail(enum status code);

/** The server ends: what is held or in flight ends with STATUS_CANCELLED. */
void provider_stop(struct server *server);

size_t provider_volumes(void);	 /* that exist */
size_t provider_snapshots(void); /* that exist */

enum status __wrap_controller_call(struct server *server, const struct controller_call *call,
				   struct error *err);
const struct controller_half *__wrap_controller_capabilities(struct plugin_entry *plugin);
