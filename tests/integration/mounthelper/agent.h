/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A process with the agent's uid that starts the helper as the agent does, and carries the test's messages.
 */

#include "harness.h"

#include <stddef.h>
#include <stdint.h>

struct agent {
	pid_t pid;
	int control;	    /* to the agent process */
	int message_fd;	    /* what the helper writes to its standard error, */
	char message[1025]; /* and has written */
	pid_t helper;	    /* from HELLO */
	struct mh_hello hello;
	struct mh_failure failure; /* of a start that was refused; all zero when it said nothing */
	uint64_t seq;
};

/* How systemd starts the service of launch mode socket. */
struct service {
	uint64_t ambient;
	uint64_t bounding;
	uint32_t uid;		      /* 0: HELPER_UID */
	uint32_t supplementary_group; /* 0: none */
};

struct agent_start {
	uint32_t uid;		       /* 0: AGENT_UID */
	void (*as_root)(void);	       /* in the agent process, before it drops to its uid */
	void (*before_exec)(void);     /* in the process that becomes the helper */
	const char *const *argv;       /* NULL: the program's name alone */
	const struct service *service; /* NULL: launch mode setuid */
	uint32_t peer_uid;	       /* maker of the socket, 0: @uid */
	bool by_root;		       /* root executes it */
	bool no_socket;		       /* descriptor 3 is a file */
	bool stream_socket;	       /* descriptor 3 is of the wrong type */
};

/** Start the helper and wait for nothing: agent_stop() is the only call that may follow. */
void agent_launch(struct agent *agent, const struct agent_start *how);

/** Start the helper and wait for HELLO, then send ACK. Returns false when it ended instead. */
bool agent_start(struct agent *agent, const struct agent_start *how);

/** agent_start() that must work. */
void agent_up(struct agent *agent);

/** Close the socket and wait for the helper; its wait status. */
int agent_stop(struct agent *agent);

/** Exit code of a helper that ended by itself. */
int agent_stop_code(struct agent *agent);

/** What the helper said on its standard error, at most 1 KiB. */
const char *agent_message(struct agent *agent);

/** Send @n bytes as they are; the answer's length, 0 when the helper is gone. */
size_t agent_raw(struct agent *agent, const void *bytes, size_t n, void *answer);

/** The same with a descriptor attached. */
size_t agent_raw_with_fd(struct agent *agent, const void *bytes, size_t n, void *answer);

/** The same, but sent by a child of the agent. */
size_t agent_raw_from_child(struct agent *agent, const void *bytes, size_t n, void *answer);

/** Fill the header of @request (its op and size) and exchange it; false when the helper is gone. */
bool agent_call(struct agent *agent, void *request, size_t n, struct mh_reply *ret);
/** What LIST tells of the staged volume @volume in the folder of @plugin, "" for a native one, in @ret:
 * MH_NOT_FOUND when it tells nothing. */
bool agent_look(struct agent *agent, const char *volume, const char *plugin, struct mh_reply *ret);
bool agent_list(struct agent *agent, enum mh_list_kind kind, struct mh_list_reply *ret);

/* Requests for the default policy, with a ticket. */
struct mh_stage stage_disk(void);
struct mh_stage stage_tmpfs(void);
struct mh_publish publish_disk(void);
struct mh_publish publish_tmpfs(void);
struct mh_unpublish unpublish(const char *volume);
struct mh_unstage unstage(const char *volume);
struct mh_unstage unstage_plugins(const char *volume); /* of the profile plugin */
void sign_ticket(struct ticket *ticket);

/** Exchange and compare the status. */
struct mh_reply expect_stage(struct agent *agent, struct mh_stage req, enum mh_status want);
struct mh_reply expect_publish(struct agent *agent, struct mh_publish req, enum mh_status want);
struct mh_reply expect_unpublish(struct agent *agent, struct mh_unpublish req, enum mh_status want);
struct mh_reply expect_unstage(struct agent *agent, struct mh_unstage req, enum mh_status want);

/** Public key for the policy, as hex. */
const char *ticket_key_hex(void);
