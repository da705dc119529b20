/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The agent's side of the mount helper: a pool of instances, each with one request in flight.
 *
 * Requests wait in one queue, each with a deadline, and go to any free instance of their lane; requests of
 * one volume are carried out in the order in which they came. When an instance dies, the request in flight is
 * sent once more, behind the other volumes' and before any other of its own (every operation is idempotent);
 * a second death fails it. An instance that does not answer in time is given up: its socket is closed and
 * another one is started, as long as there are no more than HELPER_INSTANCES_MAX of them, hanging ones
 * included.
 *
 * When the rate of the helper's policy is used up, no change is begun for a moment and the request is sent
 * again: more work than the rate allows takes longer, but does not fail.
 *
 * NFS has an instance of its own, started on demand: a server that does not answer delays no volume but those
 * of other NFS servers, these by one call.
 *
 * A CSI plugin or host volume has at most half of the others in flight, or one: if there are two, another
 * volume has an instance while it hangs.
 *
 * A group is silent from a call that ended its instance to the next answer of any call. Its calls are sent
 * when no other call can be, and silent groups have that half together.
 *
 * A list is read as one: from the first urgent request to the last no change is begun, and the first waits
 * until those in flight are done. Only changes of NFS, plugins and host volumes may be in flight meanwhile;
 * when they end, the list is stale. Lists are requested from the youngest free instance, which has read the
 * newest policy. */

#include "base/error.h"
#include "helper/msg.h"
#include "helper/proc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

enum {
	HELPER_QUEUE_MAX = 2048, /* requests waiting; one more is STATUS_RESOURCE_EXHAUSTED */
	HELPER_POOL_DEFAULT = 2, /* instances, without that of NFS */
	HELPER_POOL_MAX = 4,
	HELPER_INSTANCES_MAX = 8,     /* with that of NFS and those that hang; the helper's own limit */
	HELPER_NFS_ABANDONED_MAX = 2, /* hanging instances of the NFS lane; it gets no new one beyond them */
	HELPER_RESTART_MIN_MS = 100,
	HELPER_RESTART_MAX_MS = 15000,
	HELPER_DIGEST_TEXT = 2 * TICKET_DIGEST_SIZE + 1,
};

struct helper_client;

/* The head of the helper's trail, as its instances report it. */
struct trail_head {
	uint64_t record; /* number; 0: not known */
	uint8_t sha256[TICKET_DIGEST_SIZE];
};

struct helper_client_options {
	struct helper_launch launch; /* copied */
	unsigned int instances;	     /* 1 to HELPER_POOL_MAX */
	uint64_t start_timeout_us;   /* from exec or connect to HELLO */
	uint64_t request_timeout_us; /* of a request: once in the queue, once again in flight */
};

/* The HELLO of the instance that answered last, and the state of the pool. Fields include the NFS instance
 * only where noted. */
struct helper_info {
	bool is_running;     /* at least one instance takes requests */
	pid_t pid;	     /* of the first that does; 0: no instance does */
	uint8_t launch_mode; /* 1 setuid, 2 socket, 0 not known yet */
	bool container;
	bool ticket_optional;
	uint32_t starts;    /* instances started so far, that of NFS included */
	uint32_t failures;  /* in a row, without an answered request between them */
	uint32_t abandoned; /* instances that hang, that of NFS included */
	uint32_t queued;    /* requests not answered yet */
	struct trail_head head;
	bool is_without_trail;	 /* it could not record the last mount */
	const char *trail_fault; /* why it could not record its own start and only cleans up, or NULL */
	char cluster[TICKET_CLUSTER_SIZE];
	char node[TICKET_NODE_SIZE];
	char publish_base[MH_PATH_SIZE];
	char stage_base[MH_PATH_SIZE]; /* empty: not reported */
	char policy_digest[HELPER_DIGEST_TEXT];
	uint8_t ticket_keys[MH_KEYS_MAX][TICKET_KEY_ID_SIZE]; /* that its policy names; zero: no key */
	struct error last_error; /* STATUS_OK: no error since the last answered request */
};

/* One instance, for people. */
struct helper_instance_info {
	pid_t pid; /* 0: no process now */
	bool is_nfs;
	const char *state; /* "ready", "starting", "ending", "hangs", "down", "idle" (NFS, not needed yet) */
	uint8_t launch_mode;		/* as above */
	const char *op;			/* in flight: "STAGE"; NULL: nothing */
	char volume[MH_LABEL_SIZE];	/* of the request in flight; empty: no request, or of no volume */
	int64_t since_ms;		/* wall clock, when it was sent; 0: nothing is in flight */
	uint32_t restarts;		/* of this place in the pool */
	char last_error[ERROR_MSG_MAX]; /* empty: no error since its last answered request */
};

struct helper_client_events {
	/* an instance takes requests */
	void (*on_ready)(pid_t pid, void *userdata);
	/* an instance is gone or could not be started, against our will; another one follows after a delay */
	void (*on_down)(const struct error *err, void *userdata);
	/* the lists may have changed, or were never read: the first instance is ready, another policy is in
	 * force, or something may have been done that was not answered */
	void (*on_stale)(void *userdata);
};

/** @reply is borrowed and NULL unless @err is NULL: then the helper has answered, with success or failure.
 * STATUS_ABORTED: it was not sent, because others took longer. STATUS_DEADLINE_EXCEEDED and
 * STATUS_UNAVAILABLE leave open whether the operation was done. */
typedef void helper_done_fn(const union helper_reply *reply, const struct error *err, void *userdata);

/** Nothing is started before helper_client_start(). SIGCHLD must be blocked.
 * @event borrowed; @events borrowed */
enum status helper_client_new(sd_event *event, const struct helper_client_options *options,
			      const struct helper_client_events *events, void *userdata,
			      struct helper_client **ret, struct error *err);

/** Closes the sockets: the helpers finish what they do and end. No callbacks. NULL is allowed. */
void helper_client_free(struct helper_client *client);

/** Starts the instances, from the event loop; on_down reports one that does not start. Call it once. */
enum status helper_client_start(struct helper_client *client, struct error *err);

/** Replaces the instances by new ones, which read the current policy: one after another, each after its
 * request in flight, the next only when the one before takes requests again. One that waits for its restart
 * is started now. */
void helper_client_restart(struct helper_client *client);

enum helper_lane {
	HELPER_NORMAL,
	HELPER_NFS,    /* all requests of an NFS volume */
	HELPER_URGENT, /* lists */
};

/** Queue a request; copied. @group whose file systems hang together, a CSI plugin, host volume or NFS server
 * (copied); empty: not shared. @done runs exactly once, from the event loop, never from inside this call.
 * Fails with STATUS_RESOURCE_EXHAUSTED above HELPER_QUEUE_MAX. */
enum status helper_client_request(struct helper_client *client, const union helper_request *request,
				  enum helper_lane lane, const char *group, helper_done_fn *done,
				  void *userdata, struct error *err);

const struct helper_info *helper_client_info(const struct helper_client *client);

/** Every instance, those that hang last. Returns how many. */
size_t helper_client_instances(const struct helper_client *client,
			       struct helper_instance_info ret[static HELPER_INSTANCES_MAX]);
