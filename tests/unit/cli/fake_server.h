/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A model of the server behind the client's interface: a few objects, and what was asked of it. */

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_MAX = 4, FAKE_TEXT = 128 };

struct fake_alloc_step {
	int client_status; /* HOLDFAST__V1__CLIENT_STATUS__... */
	const char *description;
};

/* An answer that a test prepares, in JSON as the server would write it. */
struct fake_answer {
	const char *method;   /* "Nodes.Drain" */
	const char *json;     /* NULL: the call is refused */
	enum status status;   /* of the refusal */
	const char *details;  /* ErrorDetails in JSON, or NULL */
	const char *lost;     /* not the server's word: nobody answered, and so the client says */
	int sys_errno;	      /* of that */
	void (*before)(void); /* NULL, or called before the answer */
};

struct fake_server {
	/* what it says to methods that are named here, before anything below; several for one method are
	 * given one after the other, the last one for ever */
	struct fake_answer answers[16];
	/* of a stream: WatchEvents, until the first NULL; then it ends with stream_end */
	const char *events[FAKE_MAX];
	enum status stream_end;

	/* what it holds */
	const char *volume_ids[FAKE_MAX];
	const char *node_ids[FAKE_MAX], *alloc_ids[FAKE_MAX];
	struct fake_alloc_step
		steps[8]; /* what an allocation goes through, one per Get; the last one stays */

	size_t n_volumes; /* if set, Volumes.List has so many in pages, not volume_ids */

	int64_t node_disconnected_ms; /* of the node of allocations */
	const char *held_volume;      /* that an allocation has a claim of, by Get; or NULL */
	unsigned int claims_ahead;    /* a claim of an allocation changed so much later */

	/* how it fails: a method's name, and how */
	const char *failing;
	enum status failure;

	size_t heap_least, heap_most; /* bytes on the heap when a page of n_volumes was asked for */

	/* what it was asked */
	char requests[1 << 16]; /* "Nodes.Drain {...}\n", every one */
	char token[FAKE_TEXT];
	unsigned int given[16]; /* how often each of answers was */
	char calls[512];	/* "Volumes.List(d) Volumes.Get(db) " */
	char attest_reason[FAKE_TEXT], without_plugin_reason[FAKE_TEXT];
	char spec_id[FAKE_TEXT]; /* of the volume or allocation it got */
	char node_id[FAKE_TEXT];
	bool why;
	unsigned int gets;
	uint32_t longest_wait_ms;
	uint64_t last_index;
};

extern struct fake_server fake;
