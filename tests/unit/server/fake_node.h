/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A node's side of a session, under the test's control: says what the test tells it to, keeps what comes
 * down. */

#include "model_plugin.h"

#include "base/error.h"
#include "model/claim.h"
#include "rpc/address.h"
#include "rpc/client.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <ticket.h>

enum { FAKE_HELD_MAX = 16 };

#define CSI_PLUGIN "ebs"

/* What the node says about the plugin; all false: it has none. */
struct fake_csi {
	bool has_node, has_controller, node_sick, controller_sick;
	bool needs_no_controller; /* volumes of the plugin do not */
	bool cannot_attach;	  /* its controller has no attach_detach */
	bool can_create_delete;	  /* its controller does */
	bool hides_node_id;	  /* the provider's id of the node is not known */
	bool can_expand;	  /* its node half expands file systems */
	bool can_fence;		  /* its controller does, by csi-addons */
	const char *clients[10];  /* borrowed; addresses of the node; NULL ends them */
	const char *node_id; /* borrowed; the provider's id of the node; NULL: "i-" and the node's name */
};

struct fake_node {
	sd_event *event; /* borrowed */
	struct rpc_tls *tls;
	struct rpc_client *client;
	struct rpc_stream *stream; /* NULL: not connected */
	char id[NODE_ID_MAX + 1], boot_id[UUID_TEXT_SIZE];
	const char *agent_version;	    /* borrowed; NULL: says none */
	const char *certificate_issuer;	    /* borrowed; NULL: reports none */
	const char *machine;		    /* borrowed; NULL: see fake_nodes_have_machines; "": says none */
	int64_t clock_ahead_ms;		    /* of the server's */
	ProtobufCBinaryData ticket_keys;    /* borrowed; as its hello says */
	Holdfast__V1__NodePlugin **plugins; /* borrowed; what it says instead of the profile and csi below */
	size_t n_plugins;
	Holdfast__V1__NodeDriver **drivers; /* borrowed; task drivers; NULL: none */
	size_t n_drivers;
	Holdfast__Driver__V1__KeyValue **attributes; /* borrowed; of its hello; NULL: none */
	size_t n_attributes;
	struct model_plugin
		*plugin; /* borrowed; answers the calls that come down; NULL: there must be none */
	struct fake_csi csi;
	Holdfast__V1__PluginReply *held[FAKE_HELD_MAX]; /* owned; answers that the plugin keeps back */
	size_t n_held;
	/* what came down since it connected */
	bool welcomed;
	uint32_t heartbeat_ms; /* as welcome told it */
	int64_t welcome_clock_ms;
	int calls; /* to the plugin */
	int streams_wanted;
	Holdfast__V1__OpenTaskStream *stream_wanted; /* owned; the last one; NULL: none */
	uint64_t last_call_id;
	int runs, stops, releases, acks, forgets, reports_wanted;
	uint64_t report_epoch;
	bool report_is_reverted;
	const struct claim *has;	 /* borrowed; mounted, in its next hellos; NULL: none */
	const struct claim *released;	 /* borrowed; its receipt follows each welcome until the ack */
	Holdfast__V1__TrailHead *trail;	 /* borrowed; in its next hellos and receipts; NULL: none */
	const Holdfast__V1__Mark *shows; /* borrowed; in its next hellos; NULL: none */
	Holdfast__V1__Mark *mark;	 /* owned; the last one that came, with whatever; NULL: none */
	int marks;			 /* that came by themselves */
	char last_run[UUID_TEXT_SIZE], last_stop[UUID_TEXT_SIZE], last_ack[UUID_TEXT_SIZE];
	char last_stop_namespace[NAMESPACE_MAX + 1], last_forget_namespace[NAMESPACE_MAX + 1];
	bool last_ack_released;
	char last_release[UUID_TEXT_SIZE];	 /* claim */
	char last_forced[PLUGIN_WAIVER_MAX + 1]; /* of that claim, as it was told */
	enum claim_state last_release_state;
	struct ticket last_release_ticket;
	bool last_release_was_freed, last_release_has_ticket, closed;
	enum status closed_status;
	char closed_message[ERROR_MSG_MAX];
};

/** Load the certificate DIR/tls/CERT.pem and .key and make a client; not connected yet. */
void fake_node_init(struct fake_node *node, sd_event *event, const char *dir, const char *cert,
		    uint16_t port);
/** The same, of several servers that are one, as an agent knows them. */
void fake_node_init_at(struct fake_node *node, sd_event *event, const char *dir, const char *cert,
		       const struct rpc_address *servers, size_t n);
void fake_node_release(struct fake_node *node);

/** A test program that defines it as true has nodes with a machine each, unless it is set; else they show
 * none.
 */
extern const bool fake_nodes_have_machines __attribute__((weak));

/** Fails if the answer shows a machine, or a half of one, with which a node has said hello. Backups have all.
 */
void expect_no_machine(const ProtobufCMessage *answer);

/** A copy of @mark; owned by the caller. */
Holdfast__V1__Mark *mark_copy(const Holdfast__V1__Mark *mark);

/** Open a session and say hello as node @id in @boot_id; @allocs may be NULL. Waits for welcome or for the
 * end, of the session or of the server. */
void fake_node_connect(struct fake_node *node, const char *id, const char *boot_id,
		       Holdfast__V1__AllocStatus **allocs, size_t n_allocs);
/** The same without waiting. */
void fake_node_greet(struct fake_node *node, const char *id, const char *boot_id,
		     Holdfast__V1__AllocStatus **allocs, size_t n_allocs);
void fake_node_disconnect(struct fake_node *node);

/** Say how the plugin is now. */
void fake_node_send_fingerprint(struct fake_node *node);

/** Send the answers that were held back. */
void fake_node_answer(struct fake_node *node);
void fake_node_send_reply(struct fake_node *node, const Holdfast__V1__PluginReply *reply);

void fake_node_send_heartbeat(struct fake_node *node);

/** The stream alone, without hello. */
void fake_node_open(struct fake_node *node, const char *id, const char *boot_id);

void fake_node_send_report(struct fake_node *node, Holdfast__V1__NodeReport *report);

void fake_node_send(struct fake_node *node, const Holdfast__V1__SessionUp *up);
void fake_node_send_alloc(struct fake_node *node, const char *alloc_id, Holdfast__V1__ClientStatus status);
void fake_node_send_mounted(struct fake_node *node, const struct claim *claim);
void fake_node_send_released(struct fake_node *node, const struct claim *claim);
/** By the helper alone, which saw @kernel. */
void fake_node_send_without_plugin(struct fake_node *node, const struct claim *claim, const char *kernel);
/** A receipt that speaks of the release and says that there was none. */
void fake_node_send_not_released(struct fake_node *node, const struct claim *claim);
void fake_node_send_failed(struct fake_node *node, const struct claim *claim, enum status code,
			   const char *error);

/** The answers to a claim for which the test does not wait. */
struct asked {
	int answers;
	enum status status;
	char message[ERROR_MSG_MAX];
};

/** Counts the answer in a struct asked. */
rpc_done_fn asked_take;

/** Volumes.Claim without waiting; @done as of rpc_client_call(). */
void fake_node_start_claim(struct fake_node *node, const char *volume, const char *alloc, rpc_done_fn *done,
			   void *userdata);

/** Volumes.Claim; @ret owned by the caller, or NULL. */
enum status fake_node_claim(struct fake_node *node, const char *volume, const char *alloc,
			    Holdfast__V1__ClaimVolumeResponse **ret, struct error *err);
