/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A plugin that plays its part frame by frame: HTTP/2 written by hand, so that it can be wrong in any way. On
 * a unix socket, on the test's event loop.
 *
 * A request is answered with the steps of the next script; when there is none left, with an empty message and
 * OK, as a good plugin does. */

#include "temp_dir.h"
#include "unit.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

enum { PLUGIN_CONNS_MAX = 8, PLUGIN_REQUESTS_MAX = 64, PLUGIN_HEADERS_SIZE = 2048, PLUGIN_BODY_SIZE = 4096 };

enum step_kind {
	STEP_END,
	STEP_HEADERS,  /* text: "name: value\n" for each */
	STEP_DATA,     /* text of n bytes */
	STEP_DRIP,     /* the same, one byte in a frame and in a packet */
	STEP_RESET,    /* number: code */
	STEP_GOAWAY,   /* number: code; n: last stream, text: what comes with it */
	STEP_PING,     /* text: 8 bytes */
	STEP_SETTINGS, /* text of n bytes: the entries */
	STEP_WINDOW,   /* number: increment of the connection */
	STEP_BYTES,    /* text of n bytes, as they are */
	STEP_CLOSE,    /* the connection */
	STEP_EARLY,    /* first of a script: it begins with the headers of the request */
	STEP_LATE,     /* what follows waits until the client has reset the stream */
};

struct step {
	enum step_kind kind;
	bool ends; /* END_STREAM */
	const char *text;
	size_t n;
	uint32_t number;
};

#define HEAD(text_)                                   \
	{                                             \
		.kind = STEP_HEADERS, .text = (text_) \
	}
#define LAST(text_)                                                 \
	{                                                           \
		.kind = STEP_HEADERS, .text = (text_), .ends = true \
	}
#define BYTES_OF(kind_, text_)                                           \
	{                                                                \
		.kind = (kind_), .text = (text_), .n = sizeof(text_) - 1 \
	}
#define DATA(text_) BYTES_OF(STEP_DATA, text_)
#define LAST_DATA(text_)                                                                 \
	{                                                                                \
		.kind = STEP_DATA, .text = (text_), .n = sizeof(text_) - 1, .ends = true \
	}
#define NUMBER(kind_, number_)                       \
	{                                            \
		.kind = (kind_), .number = (number_) \
	}

/* What most scripts begin and end with. */
#define GRPC ":status: 200\ncontent-type: application/grpc\n"
#define EMPTY "\0\0\0\0\0"
#define OK "grpc-status: 0\n"

/* One request, as it came. */
struct plugin_request {
	size_t conn; /* number of its connection, from 0 */
	uint32_t stream;
	char headers[PLUGIN_HEADERS_SIZE]; /* "name: value\n", sorted as sent */
	uint8_t body[PLUGIN_BODY_SIZE];	   /* its beginning */
	size_t body_len;		   /* all of it */
	bool is_whole, was_reset;
	uint32_t reset_code;
};

struct plugin_conn;

struct plugin {
	sd_event *event;
	char dir[TEMP_DIR_SIZE], path[TEMP_PATH_SIZE];
	int listener;
	sd_event_source *accepting;
	struct plugin_conn *conns[PLUGIN_CONNS_MAX];
	size_t n_conns;					 /* ever */
	const struct step *opening;			 /* NULL: empty SETTINGS */
	const struct step *scripts[PLUGIN_REQUESTS_MAX]; /* per request; NULL: none */
	size_t n_scripts;
	bool holds;  /* without a script nothing is answered */
	bool grants; /* a stream may send one byte more for each frame that came */
	struct plugin_request requests[PLUGIN_REQUESTS_MAX];
	size_t n_requests; /* ever begun */
	size_t n_whole;
	size_t n_resets;    /* by the client */
	size_t n_pings;	    /* of the client's own */
	size_t n_ping_acks; /* of ours, with the payload that was sent */
	size_t n_settings_acks;
};

int plugin_setup(struct plugin *plugin, sd_event *event);
void plugin_teardown(struct plugin *plugin);

/** The process ends: connections and listener are closed, the file stays. */
void plugin_kill(struct plugin *plugin);

/** It is there again: the file is made anew. */
void plugin_start(struct plugin *plugin);

/** Read no more of what comes, on any connection. */
void plugin_deafen(struct plugin *plugin);

/** Take no connection any more, though the socket listens. */
void plugin_doze(struct plugin *plugin);

/** Answer the request at @at that was held, with @steps. */
void plugin_play(struct plugin *plugin, size_t at, const struct step *steps);

/** Let the kernel end the life of every connection. */
void plugin_hang_up(struct plugin *plugin);
