/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A server of Volumes and Nodes with a scripted mind, and clients for it, on one event loop. */

#include "temp_dir.h"

#include "../unit.h"
#include "base/error.h"
#include "holdfast/v1/nodes.pb-c.h"
#include "holdfast/v1/volumes.pb-c.h"
#include "rpc/client.h"
#include "rpc/server.h"

#include <stdbool.h>
#include <systemd/sd-event.h>

enum { WORLD_HELD_MAX = 8, WORLD_PATH_SIZE = 96, WORLD_WAIT_S = 20 };
static const uint64_t WORLD_CALL_US = UINT64_C(15000000);

/* What Volumes/Get does depends on the id asked for:
 * "missing" NOT_FOUND with odd characters; "hold" the call waits in held[]; "long" an error of the largest
 * size; "huge" an answer of answer_bytes; anything else is answered with a volume of that id. What
 * Nodes/Session does depends on the boot id of a heartbeat: "finish" OK; "fail" ABORTED; "flood" sends until
 * it is refused; anything else comes back as a welcome. */
struct world {
	sd_event *event;
	char dir[TEMP_DIR_SIZE], socket[WORLD_PATH_SIZE];
	struct rpc_stream_handlers handlers; /* of Nodes/Session */
	struct rpc_method node_methods[1];
	struct rpc_service services[2];
	struct rpc_server *server;
	struct rpc_client *client;
	struct rpc_call *held[WORLD_HELD_MAX];
	size_t n_held, answer_bytes;
	size_t n_calls;	      /* that reached a unary handler */
	struct rpc_peer peer; /* of the last of them */
	size_t n_gone;	      /* clients of calls in held[], before their answer */
	size_t n_opened;      /* streams */
	size_t n_closed, n_half_closed, n_messages;
	size_t n_flood; /* messages sent until the refusal */
	enum status flood_status;
	struct rpc_call *stream; /* the last one opened, NULL when closed */
};

int world_setup(void **state);
int world_setup_with(void **state, const struct rpc_server_limits *limits);
int world_teardown(void **state);

/** Run the event loop until *@flag or fail the test after WORLD_WAIT_S. */
void world_run_until(struct world *world, const bool *flag);

/** Run the event loop until the count reaches @n. */
void world_run_until_count(struct world *world, const size_t *count, size_t n);

/** Run what is due now, until nothing is. */
void world_settle(struct world *world);

/** A path inside the world's folder, valid until the next but three calls. */
const char *world_path(struct world *world, const char *name);

/** Another client of the server's unix socket. */
struct rpc_client *world_client(struct world *world);

/* The answer to a call. */
struct answer {
	bool done;
	size_t n_done;
	enum status status;
	struct error err;
	char id[64]; /* of the volume */
	size_t why_len;
};

void world_on_done(enum status status, const ProtobufCMessage *response, const struct error *err,
		   void *userdata);

/** Start Volumes/Get. */
struct rpc_pending *world_get(struct world *world, struct rpc_client *client, const char *id,
			      uint64_t timeout_us, struct answer *answer);

/** Volumes/Get to its end. */
enum status world_get_now(struct world *world, struct rpc_client *client, const char *id,
			  struct answer *answer);

/** Answer a held call as if it were an ordinary one. */
void world_answer(struct rpc_call *call, const char *id);

/* The owner of a Nodes/Session stream. */
struct session {
	struct world *world;
	struct rpc_stream *stream;
	bool opened, closed;
	enum status status;
	struct error err;
	size_t n_messages;
	char last[64];
	struct rpc_client *free_on_message; /* set: the client is freed inside on_message */
	bool cancel_on_message;
};

extern const struct rpc_stream_events *session_events; /* of the sessions that are opened next */
void session_open(struct session *session, struct world *world, struct rpc_client *client);
void session_open_within(struct session *session, struct world *world, struct rpc_client *client,
			 uint64_t timeout_us);
/** As if another method of Nodes were a stream. */
void session_open_method(struct session *session, struct world *world, struct rpc_client *client,
			 const char *method);
enum status session_send(struct session *session, const char *boot_id, struct error *err);
/** Send what must be taken. */
void session_say(struct session *session, const char *boot_id);

#define WORLD_TEST(name) TEST_ON(name, struct world, world, world_setup, world_teardown)

/* Register @name, whose case is @call with the world in state. */
#define WORLD_TEST_AS(name, call)                                                                           \
	static void name##_case(void **state)                                                               \
	{                                                                                                   \
		call;                                                                                       \
	}                                                                                                   \
	__attribute__((constructor)) static void name##_add(void)                                           \
	{                                                                                                   \
		unit_add(&(const struct CMUnitTest){#name, name##_case, world_setup, world_teardown, NULL}, \
			 __LINE__);                                                                         \
	}
