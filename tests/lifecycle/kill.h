/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* kill -9 at every durable step: scenarios of one server, two nodes and an operator, in which the server dies
 * right before or right after its k-th durable step and starts again on the same store.
 *
 * Scenarios are written as if nobody died: each call is repeated until it has an answer, and waiting
 * continues over a death. What the server has acknowledged is written down as facts, and every fact must hold
 * from then on: after each death before any node is back, once they all are, and at the end. */

#include "config.h"
#include "fault.h"
#include "sim.h"

enum { KILL_FACTS = 32, KILL_METHODS = 32, KILL_TEXT = 32 * 1024, KILL_NAME = 96 };

/* What must be answered to a read, since something was acknowledged. */
struct kill_fact {
	char about[KILL_NAME];
	const char *method;
	char request[KILL_NAME];
	enum status status;
	char part[KILL_NAME];	   /* of the answer as JSON; "": any */
	char not_there[KILL_NAME]; /* no part of it; "": any */
};

#define ID_MARK "837a-8eec1ce19687" /* of namespace default, see model/alloc_id.h */

/* Writes of one kind that were acknowledged: each has its record in the audit. */
struct kill_method {
	const char *name;
	uint64_t n;
};

struct kill {
	struct sim sim; /* the first member: its callbacks get back here */
	struct config config;
	const struct kill_scenario *scenario;
	struct fault fault; /* of the next server */
	bool is_reverse;    /* the last node is back first */
	bool is_restoring;  /* nodes have to tell what they hold; a death undoes what was not durable of it */
	bool has_died;
	int died_at;	     /* for messages: the step */
	bool is_asked_again; /* the last call was repeated over a death */
	struct kill_fact facts[KILL_FACTS];
	struct kill_method methods[KILL_METHODS];
	enum status status;	     /* of the last answer, */
	char text[KILL_TEXT];	     /* itself as JSON, */
	char message[ERROR_MSG_MAX]; /* or its error */
};

struct kill_scenario {
	const char *name;
	void (*prepare)(struct kill *k); /* with a server that is not killed; may be NULL */
	void (*run)(struct kill *k);
	uint64_t reservation_ttl_us; /* 0: default */
	bool acl;
};

extern const struct kill_scenario kill_scenarios_of_claims[];
extern const struct kill_scenario kill_scenarios_of_nodes[];
extern const struct kill_scenario kill_scenarios_of_volumes[];
extern const struct kill_scenario kill_scenarios_of_upkeep[];

/* kill_server.c: the server as a child */
pid_t kill_server_spawn(struct sim *sim);
void kill_server_forget_store(struct kill *k);

/* kill_world.c */

/** Ask "Service.Method" once, with the request in JSON; the answer is in @k. False: the server has died. */
bool kill_try(struct kill *k, const char *method, const char *request);
/** Ask until there is an answer, starting the server again as often as it dies. */
enum status kill_ask(struct kill *k, const char *method, const char *request);
/** A write that must succeed, or have succeeded: @again is what its repeat over a death may answer too. Waits
 * while it is refused for now. */
void kill_must(struct kill *k, const char *method, const char *request, enum status again);
/** One turn: everything that comes has come, and every node does what it can. */
void kill_turn(struct kill *k);
void kill_recover(struct kill *k);
/** The server has restarted by itself: nodes lose their sessions and come back. False: it has died. */
bool kill_follow_restart(struct kill *k);
void kill_connect(struct kill *k, int node);
void kill_check(struct kill *k);

#define KILL_UNTIL(k, condition)                                                      \
	do {                                                                          \
		uint64_t limit_ = clock_monotonic_us() + 20 * USEC_PER_SEC;           \
		while (!(condition)) {                                                \
			if (clock_monotonic_us() > limit_) {                          \
				oracle_explain_all(&(k)->sim);                        \
				sim_fail(&(k)->sim, "waits in vain for " #condition); \
			}                                                             \
			kill_turn(k);                                                 \
		}                                                                     \
	} while (0)

/* kill_facts.c */
void kill_know(struct kill *k, const struct kill_fact *fact);
void kill_doubt(struct kill *k, const char *about);
void kill_check_facts(struct kill *k);
/** @what (of the audit) was acknowledged once more. */
void kill_count(struct kill *k, const char *what);
void kill_forget_facts(struct kill *k);
/** The chain is whole, and has what was acknowledged. */
void kill_check_audit(struct kill *k);

/* kill_does.c: what operators do, with the facts that follow */
int kill_add_volume(struct kill *k, const char *id, bool is_csi);
void kill_register(struct kill *k, int volume);
void kill_run(struct kill *k, int alloc, int volume, int node);
void kill_stop(struct kill *k, int alloc);
struct sim_entry *kill_entry(struct kill *k, int alloc, int node);
bool kill_is_running(struct kill *k, int alloc, int node);
bool kill_is_over(struct kill *k, int alloc, int node);
bool kill_is_free(struct kill *k, int volume);
/** Does the answer to a read have @part? */
bool kill_shows(struct kill *k, const char *method, const char *request, const char *part);
