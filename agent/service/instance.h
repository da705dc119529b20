/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One instance of a service: dials a socket, probes it, asks for its facts and probes it again, for as long
 * as it exists. instance_step() decides each step. A row has the differences between the kinds: the
 * questions, and the functions that take the answers.
 *
 * The last question may be a stream: its first message is the answer. It stays open, each later message is
 * taken too, and its end shows at once that a service was restarted. */

#include "base/backoff.h"
#include "base/error.h"
#include "service/client.h"
#include "service/instance_step.h"
#include "service/registry.h"

#include <sys/un.h>

struct service_instance;

enum {
	INSTANCE_PROBE_TIMEOUT_MS = 5000,
	INSTANCE_RETRY_MIN_MS = 500, /* between probes of one that is not healthy */
	INSTANCE_RETRY_MAX_MS = 30000,
	INSTANCE_SOON_MIN_MS = 250, /* between probes of one that is bound, or lost, again and again */
	INSTANCE_SOON_MAX_MS = 5000,
	INSTANCE_CHANGES_PER_SECOND = 1, /* of a plugin id, or of all drivers: writes at the server */
	INSTANCE_CHANGES_BURST = 20,
};

struct service_question {
	unsigned int method;
	uint64_t timeout_ms; /* 0: the method's */
	bool may_be_absent;  /* UNIMPLEMENTED is an answer too, that is not taken */
	bool is_extra;	     /* so is any other failure */
};

/* @instance of a function is the first member of its owner. */
struct service_row {
	const struct service_kind *kind;
	const struct service_question *questions; /* the probe, then the facts */
	size_t n_questions;
	/* The request; NULL: one without fields. NULL: all are. */
	const ProtobufCMessage *(*request)(const struct service_instance *instance, unsigned int method);
	/* Is it asked for? NULL: always. */
	bool (*is_asked)(const struct service_instance *instance, unsigned int method);
	/* An answer. */
	enum status (*take)(struct service_instance *instance, unsigned int method,
			    const ProtobufCMessage *response, struct error *err);
	/* Are the facts right, after the last answer? NULL: yes. */
	enum status (*check)(struct service_instance *instance, struct error *err);
	void (*log)(const struct service_instance *instance); /* its health has changed */
	void (*changed)(struct service_instance *instance);   /* state, facts or reason; may not free it */
	const char *no_access; /* next command when its socket may not be dialled; NULL */
	bool is_told_of_loss;  /* by its connection */
};

struct service_instance_options {
	sd_event *event;	       /* borrowed */
	const struct service_row *row; /* borrowed */
	const char *dir;	       /* copied, as the next two: the socket is DIR/NAME/SOCKET */
	const char *name;
	const char *socket;
	uint64_t probe_interval_us;
	size_t message_bytes; /* as in service_client_options, and the next one */
	uint64_t call_timeout_us;
};

/* The first member of its owner, who reads name, path, client, state, since_ms and last_error. */
struct service_instance {
	struct service_instance_options options; /* without dir, name and socket */
	char name[64];
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct service_client *client;
	enum instance_state state;
	int64_t since_ms;	 /* wall clock, as people see the state */
	struct error last_error; /* why it is not healthy; status OK: it is, or nothing is known yet */
	struct backoff retry;	 /* of one that is not healthy */
	struct backoff soon;	 /* of one that does not stay what it is */
	sd_event_source *timer;
	size_t at;		   /* the question in flight */
	struct service_call *call; /* its call */
	struct service_call *stream;
	sd_event_source *first_timer; /* until the stream's first message */
	bool is_first;		      /* it is waited for */
};

/** Dialled at once, from the event loop. @instance is zero before; afterwards service_instance_release(),
 * also upon failure. */
enum status service_instance_init(struct service_instance *instance,
				  const struct service_instance_options *options, struct error *err);

/** Calls in flight end before this returns, as "shut down" where exits are watched. */
void service_instance_release(struct service_instance *instance);

/** Its socket is gone: report so, before its release. */
void service_instance_end(struct service_instance *instance);

/** Handles a socket bound by another process: asks for its facts again. Calls in flight end. */
void service_instance_recreate(struct service_instance *instance);

/** Other facts are wanted, or it may be reached now: it is probed again, soon. */
void service_instance_ask_again(struct service_instance *instance);

/** Its socket was touched, so perhaps it can be reached now: one that is not healthy is probed again, soon.
 */
void service_instance_retry(struct service_instance *instance);

/** Do calls go to it? */
bool service_instance_is_healthy(const struct service_instance *instance);

/** Returns whether it is healthy and its facts are current. If not, it may be another process already. */
bool service_instance_is_settled(const struct service_instance *instance);

struct service_folder_events {
	/* A new one for the socket, dialled; NULL: it is looked at again later. */
	struct service_instance *(*add)(const struct service_socket *socket, void *userdata);
	void (*remove)(struct service_instance *instance); /* its socket is gone; to be freed */
};

/** Makes the instances of @registry those of @sockets, oldest first. */
void service_instances_update(struct registry *registry, const struct service_socket *sockets, size_t n,
			      const struct service_folder_events *events, void *userdata);
