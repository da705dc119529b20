#pragma once
/* The agent's side of the mount helper: starts it, keeps it running, one request at a time.
 *
 * Requests wait in a queue, each with a deadline. When the helper dies, the request under way is sent once
 * more to the next instance (every operation is idempotent) before anything else; a second death fails it. A
 * helper that does not answer in time is given up: its socket is closed and another one is started. */

#include "helper_msg.h"

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

enum {
	HELPER_QUEUE_MAX = 2048,  /* requests waiting; one more is STATUS_RESOURCE_EXHAUSTED */
	HELPER_ABANDONED_MAX = 4, /* hanging instances; no new one is started beyond them */
	HELPER_RESTART_MIN_MS = 100,
	HELPER_RESTART_MAX_MS = 15000,
	HELPER_DIGEST_TEXT = 2 * TICKET_DIGEST_SIZE + 1,
};

struct helper_client;
struct helper_call;

struct helper_client_options {
	const char *path;	     /* copied */
	uint64_t start_timeout_us;   /* from exec to HELLO */
	uint64_t request_timeout_us; /* of a request: once in the queue, once again under way */
};

/* What the running (or last) instance said in HELLO, and how it goes. */
struct helper_info {
	bool is_running; /* HELLO was seen and the process has not gone */
	pid_t pid;	 /* 0: none */
	uint8_t door;
	bool container;
	bool ticket_optional;
	uint32_t starts;    /* instances started so far */
	uint32_t failures;  /* in a row, without an answered request between them */
	uint32_t abandoned; /* instances that hang */
	uint32_t queued;    /* requests not answered yet */
	char cluster[TICKET_CLUSTER_SIZE];
	char node[TICKET_NODE_SIZE];
	char publish_base[MH_PATH_SIZE];
	char policy_digest[HELPER_DIGEST_TEXT];
	struct error last_error; /* status OK: none since the last answered request */
};

struct helper_client_events {
	/* an instance is ready for requests */
	void (*on_ready)(void *userdata);
	/* the instance is gone or could not be started; another one follows after a delay */
	void (*on_down)(const struct error *err, void *userdata);
};

/** @reply is borrowed and NULL unless @err is NULL: then the helper has answered, whatever it answered.
 * STATUS_DEADLINE_EXCEEDED and STATUS_UNAVAILABLE leave open whether the operation was done. */
typedef void helper_done_fn(const union helper_reply *reply, const struct error *err, void *userdata);

/** Nothing is started before helper_client_start(). SIGCHLD must be blocked.
 * @event borrowed; @events borrowed */
enum status helper_client_new(sd_event *event, const struct helper_client_options *options,
			      const struct helper_client_events *events, void *userdata,
			      struct helper_client **ret, struct error *err);

/** Closes the socket: the helper finishes what it does and ends. No callbacks. NULL is allowed. */
void helper_client_free(struct helper_client *client);

/** Start the first instance, from the event loop; that it does not come up is told by on_down. Once. */
enum status helper_client_start(struct helper_client *client, struct error *err);

enum helper_priority {
	HELPER_NORMAL,
	HELPER_URGENT, /* before every normal request: a list is read as one, without changes in between */
};

/** Queue a request; copied. @done runs exactly once, from the event loop, never from inside this call.
 * Fails with STATUS_RESOURCE_EXHAUSTED above HELPER_QUEUE_MAX. */
enum status helper_client_request(struct helper_client *client, const union helper_request *request,
				  enum helper_priority priority, helper_done_fn *done, void *userdata,
				  struct error *err);

const struct helper_info *helper_client_info(const struct helper_client *client);
