/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The session with the server: one stream that is opened again and again, with a growing delay, and begins
 * with a hello each time. Messages without a session are dropped: the hello and the receipts repeat them,
 * and after the welcome all statuses if one has changed since the hello. */

#include "alloc/receipts.h"
#include "base/error.h"
#include "model/alloc.h"
#include "model/claim.h"
#include "rpc/client.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>
#include <ticket.h>

enum {
	SESSION_RETRY_MIN_MS = 200,
	SESSION_RETRY_MAX_MS = 15000,
	SESSION_HEARTBEAT_MIN_MS = 20,
	SESSION_HEARTBEAT_MAX_MS = 60000,
	SESSION_HEARTBEAT_DEFAULT_MS = 5000,
};

struct session;

/* The decoded messages of the server. */
struct trail_head;

struct session_handlers {
	/* The hello, freed by the session; NULL when memory is short. @ret_is_short: statuses follow. */
	Holdfast__V1__SessionHello *(*make_hello)(bool *ret_is_short, void *userdata);
	/* how far the server's history has got: with welcome, before on_up, and now and then */
	void (*on_mark)(const Holdfast__V1__Mark *mark, void *userdata);
	/* welcome was seen; @sends_statuses: the hello was short, or a status has changed since */
	void (*on_up)(bool sends_statuses, void *userdata);
	void (*on_down)(const struct error *err, void *userdata);
	void (*on_run)(const struct alloc *alloc, void *userdata);
	void (*on_stop)(const char *namespace, const char *alloc_id, void *userdata);
	void (*on_ack)(const char *claim_id, bool is_released, void *userdata);
	/* @ticket: proof of the claim, for a report; NULL: the server sent no ticket */
	void (*on_release)(const struct claim *claim, const char *wire_volume, const struct ticket *ticket,
			   void *userdata);
	void (*on_forget)(const char *namespace, const char *alloc_id, void *userdata);
	/* the server asks for everything that is held: session_send_report() */
	/* @is_reverted: this node has gone back in time, as the server sees it */
	void (*on_report_wanted)(uint64_t epoch, bool is_reverted, void *userdata);
	/* a call to a plugin of this node: session_send_reply(), once, with its call_id. @call borrowed */
	void (*on_call)(const Holdfast__V1__PluginCall *call, void *userdata);
	/* a caller wants to reach a task. @wanted borrowed */
	void (*on_task_stream)(const Holdfast__V1__OpenTaskStream *wanted, void *userdata);
};

struct session_options {
	const char *cluster;	     /* that the server must be of; borrowed */
	const char *boot_id;	     /* borrowed */
	uint64_t connect_timeout_us; /* to an accepted stream, and again to the welcome */
};

struct session_info {
	bool is_up;
	int64_t since_ms; /* of the current session; 0: no session */
	bool is_reverted; /* the server has seen in this session that this node went back in time in this boot
			   */
	uint32_t attempts;			/* since the last success */
	uint8_t ticket_key[TICKET_KEY_ID_SIZE]; /* of the server; zero: not received yet */
	int64_t clock_skew_ms;	 /* by which this clock is ahead of the server's, at least; below 0: behind */
	struct error last_error; /* STATUS_OK: no error yet */
};

/** @event, @client, @handlers borrowed. @ret owned by the caller, session_free() */
enum status session_new(sd_event *event, struct rpc_client *client, const struct session_options *options,
			const struct session_handlers *handlers, void *userdata, struct session **ret,
			struct error *err);

/** No callbacks. @client must outlive it. NULL is allowed. */
void session_free(struct session *session);

/** Connects; or ends the session and begins another one with a new hello. From the event loop. */
void session_restart(struct session *session);
const struct session_info *session_info(const struct session *session);

/** Nothing happens without a session. */
void session_send_status(struct session *session, const struct alloc *alloc);
/** @head of the mount helper's trail, which the receipt carries */
void session_send_receipt(struct session *session, const struct receipt *receipt,
			  const struct trail_head *head);
void session_send_release_error(struct session *session, const char *claim_id, uint64_t generation,
				const struct error *why);

/** An allocation that was not taken: failed, with the reason. */
void session_send_refusal(struct session *session, const char *namespace, const char *alloc_id,
			  const struct error *why);
/** An allocation that is not known here: complete. */
void session_send_unknown(struct session *session, const char *namespace, const char *alloc_id);

/** The end of a call that came on this session. */
void session_send_reply(struct session *session, const Holdfast__V1__PluginReply *reply);

/** The plugins of this node as they are now. */
void session_send_fingerprint(struct session *session, const Holdfast__V1__Fingerprint *fingerprint);

/** How full volumes are. False: there is no session. */
bool session_send_usage(struct session *session, const Holdfast__V1__VolumeUsageReport *report);

/** Sends a part of a report. False: there is no session, and the other parts must not be sent. */
bool session_send_report(struct session *session, const Holdfast__V1__NodeReport *report);
