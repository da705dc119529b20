/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A client that is not ours: nghttp2 by hand, or any bytes at all, on the world's unix socket. */

#include "world.h"

#include <nghttp2/nghttp2.h>

enum { RAW_TEXT_SIZE = 8192, RAW_BODY_SIZE = 4096 };

/* One request's answer. */
struct raw_answer {
	char headers[RAW_TEXT_SIZE]; /* "name: value\n", trailers too */
	char body[RAW_BODY_SIZE];    /* NUL-terminated, cut */
	size_t body_len;	     /* all of it */
	bool done;		     /* the stream is closed, or the connection is */
	bool ended;		     /* the server has said its last word */
	bool was_reset;		     /* by the server */
	uint32_t reset_code;	     /* NGHTTP2_NO_ERROR unless the server reset the stream */
};

struct raw {
	struct world *world;
	int fd;
	sd_event_source *io;
	nghttp2_session *session; /* NULL: bytes only */
	bool closed;		  /* by the server */
	bool reads;
	size_t n_received;	  /* bytes */
	char text[RAW_TEXT_SIZE]; /* the first of them, NUL-terminated, when there is no session */
	size_t n_answers;
	struct raw_answer *answers[64];
	int32_t ids[64];
};

/** Connect; @h2: with a session whose settings are sent. */
void raw_open(struct raw *raw, struct world *world, bool h2);
void raw_close(struct raw *raw);

/** Stop or continue reading what the server sends. */
void raw_read(struct raw *raw, bool reads);

/** Send bytes as they are. Returns how many the socket took. */
size_t raw_send(struct raw *raw, const void *bytes, size_t n);

struct raw_field {
	const char *name, *value;
};

struct raw_request {
	const struct raw_field *fields; /* up to a NULL name; NULL: those of a gRPC call of Volumes/Get */
	const void *body;
	size_t body_len;
	bool open; /* the body is not ended */
};

void raw_start(struct raw *raw, const struct raw_request *request, struct raw_answer *answer);

/** Start and run to the end. */
void raw_call(struct raw *raw, const struct raw_request *request, struct raw_answer *answer);

/** Start and run until the server has said its last word, though the request may be open. */
void raw_ask(struct raw *raw, const struct raw_request *request, struct raw_answer *answer);

/** Send more of an open request: only the body of @request counts. */
void raw_continue(struct raw *raw, const struct raw_request *request, const struct raw_answer *answer);

/** Send what the session has. */
void raw_flush(struct raw *raw);

/** Run until @end has come, or fail. */
void raw_expect(struct raw *raw, const char *end);

/** Reset the stream of a request. */
void raw_reset(struct raw *raw, const struct raw_answer *answer);

/** A gRPC frame with a GetVolumeRequest of @id into @frame of at least 64 bytes; returns its length. */
size_t raw_get_frame(uint8_t *frame, const char *id);

/* The head of a request, as fields of a raw_request; what follows @type is more fields. */
#define RAW_POST(path, type, ...)                                                                  \
	{                                                                                          \
		{":method", "POST"}, {":scheme", "http"}, {":path", path}, {"content-type", type}, \
			##__VA_ARGS__,                                                             \
		{                                                                                  \
			NULL, NULL                                                                 \
		}                                                                                  \
	}

/** Run @body with a session that is open. */
void raw_run(struct world *world, void (*body)(struct world *world, struct raw *raw));

/* A case with a session that is open. */
#define RAW_TEST(name)                                          \
	static void name(struct world *world, struct raw *raw); \
	WORLD_TEST_AS(name, raw_run(*state, name))              \
	static void name(struct world *world, struct raw *raw)
