/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A server that is not ours: nghttp2 by hand on a unix socket, with an answer prepared in advance. */

#include "world.h"

#include <nghttp2/nghttp2.h>

struct stranger_field {
	const char *name, *value;
};

/* What it does with every request once that has come whole, in this order. */
struct stranger_script {
	const struct stranger_field *early;   /* informational headers before the others; NULL: none */
	const struct stranger_field *headers; /* up to a NULL name; NULL: no answer at all */
	const void *body;		      /* NULL: the headers end the stream */
	size_t body_len;
	size_t pause_at; /* not 0: body bytes after which it waits for stranger_resume() */
	const struct stranger_field *trailers; /* NULL: the body ends the stream */
	bool reset;			       /* with reset_code, after the answer if there is one */
	uint32_t reset_code;
	bool goaway;		   /* GOAWAY that refuses the request */
	const char *goaway_reason; /* that comes with it */
	bool hang_up;
	bool at_once; /* do not wait for the end of the request */
};

struct stranger {
	struct world *world;
	char path[WORLD_PATH_SIZE];
	struct stranger_script script;
	int listen_fd;
	sd_event_source *listen_io;
	int fd;
	sd_event_source *io;
	nghttp2_session *session;
	size_t body_sent;
	bool paused;
	int32_t stream_id; /* of the last request */
	int32_t answered;  /* the stream answered in this turn; 0: none */
	size_t n_requests, n_connections;
	struct rpc_client *client; /* of this server */
	char headers[2048];	   /* of the last request, "name: value\n" */
};

void stranger_open(struct stranger *stranger, struct world *world);
void stranger_resume(struct stranger *stranger);
void stranger_close(struct stranger *stranger);
