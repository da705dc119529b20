/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The engine: Docker Engine API 1.40 over a unix socket, a connection for each request, driven by sd-event.
 *
 * Its answers are not trusted: each is bounded in bytes and time. Callbacks never run inside a
 * function of this header, and `done` runs exactly once per started request, unless that is cancelled. */

#include "base/error.h"
#include "base/strbuf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#define ENGINE_API "/v1.40"

enum { ENGINE_PATH_SIZE = 1024, ENGINE_ANSWER_MAX = 16 << 20 };

struct engine;
struct engine_call;

/** @socket path of the unix socket, borrowed. @event borrowed */
enum status engine_new(sd_event *event, const char *socket, struct engine **ret, struct error *err);
/** Requests in flight end without `done`. NULL is allowed. */
void engine_free(struct engine *engine);

/** @status OK for 2xx and 304; else @err has the engine's text: NOT_FOUND for 404, FAILED_PRECONDITION for
 * 409, INVALID_ARGUMENT for 400, UNAVAILABLE when it does not answer, INTERNAL for an invalid answer
 * @json   the answer, or NULL when it was empty; to HEAD /containers/ID/archive the description of the path;
 *         borrowed */
typedef void engine_done_fn(enum status status, const struct error *err, const json_t *json, void *userdata);

/** Bytes of an answer that is read as it comes. False: not now; they come again after engine_resume(). */
typedef bool engine_data_fn(const uint8_t *bytes, size_t n, void *userdata);

struct engine_request {
	const char *method;
	const char *path;    /* below ENGINE_API; one of ENGINE_PATH_SIZE - 1 bytes was cut, and is refused */
	json_t *body;	     /* stolen; NULL: no body */
	uint64_t timeout_us; /* 0: no limit, for a call that ends with its container */
	uint64_t silence_us; /* whole seconds: it ends when no byte has come for so long, not while it is not
				now; 0: never */
	size_t answer_max;   /* most bytes of the answer; 0: ENGINE_ANSWER_MAX */
	engine_data_fn *data; /* NULL: the answer is collected, and JSON */
	bool is_text;	      /* the answer is lines of anything and of no interest */
	bool is_release;      /* short, and on the way to remove something: it has places of its own */
};

/** Appends @n bytes as part of a query: all but unreserved characters (RFC 3986) are encoded. */
void engine_put_encoded(struct strbuf *path, const char *text, size_t n);

/** @ret may be NULL; valid until done ran */
enum status engine_send(struct engine *engine, const struct engine_request *request, engine_done_fn *done,
			void *userdata, struct engine_call **ret, struct error *err);

/** Cancels a request: done does not run. NULL is allowed. */
void engine_cancel(struct engine_call *call);

/** Let data come again. */
void engine_resume(struct engine_call *call);

/** Makes an error from the engine's refusal of @what, {"message": "..."}.
 * @answer its body, of @n bytes; bytes after the JSON are ignored
 * @return the status of HTTP's @code */
enum status engine_refusal(const char *socket, long code, const char *what, const char *answer, size_t n,
			   struct error *err);

/** How many requests are in flight. */
size_t engine_n_calls(const struct engine *engine);
