/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A claim: one allocation's right to one volume, and the steps by which it is released.
 *
 * A volume that its controller must attach is granted in two steps: reserved and not sent, while the
 * controller is asked; then sent. So the server knows the effects of a reservation
 * that never reached its node.
 *
 *   reserved --mount receipt--> taken --work ended--> unpublishing --evidence--> node-detached
 *      |                          |                                                  |
 *      |                          +-- receipt of the release --> node-detached       |
 *      |                                                                             |
 *      +-- never sent to the node --> freed         freed <-- controller-detached <--+
 *
 * The step to controller-detached needs the controller's confirmation, or if its detach has failed an
 * operator's attestation. Until its node has released it, an operator may order its release there without its
 * plugin: that is noted, and frees nothing; the node's receipt of that release is evidence of the kind
 * operator. The caller knows whether the work has ended.
 *
 * The record is complete in itself: nothing that garbage collection removes is needed to finish or explain
 * it. Modes, provider's node id and boot id stay through every step. */

#include "base/error.h"
#include "model/modes.h"
#include "model/volume.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	NODE_ID_MAX = 63,
	EXTERNAL_NODE_ID_MAX = 256,
	UUID_TEXT_SIZE = 37,
	EVIDENCE_DETAIL_MAX = 255,
	LAST_ERROR_MAX = 415,
	/* both fit into the evidence's detail, with the text between them */
	PLUGIN_WAIVER_MAX = 150,
	KERNEL_WORDS_MAX = 95,
};

enum claim_state {
	CLAIM_STATE_UNSPECIFIED,
	CLAIM_RESERVED,
	CLAIM_TAKEN,
	CLAIM_UNPUBLISHING,
	CLAIM_NODE_DETACHED,
	CLAIM_CONTROLLER_DETACHED,
	CLAIM_FREED,
	CLAIM_STATE_N,
};

enum evidence {
	EVIDENCE_NONE,
	EVIDENCE_RECEIPT,
	EVIDENCE_NEW_BOOT,
	EVIDENCE_STORAGE_FENCE,
	EVIDENCE_OPERATOR,
	EVIDENCE_NEVER_SENT,
	EVIDENCE_POWER_FENCE,	/* its node was switched off in that boot, proved by a second action */
	EVIDENCE_NETWORK_FENCE, /* its plugin's storage refuses its node of that boot, and lists it */
	EVIDENCE_N,
};

/* The request to the controller for a claim. */
enum controller_attach {
	ATTACH_NONE,  /* nothing: there is nothing to detach */
	ATTACH_ASKED, /* stored before the call: it may or may not be attached */
	ATTACH_DONE,
	ATTACH_N,
};

enum { CLAIM_SLOT_UNKNOWN = UINT8_MAX }; /* of a claim that its node reports without a ticket */

struct claim {
	char id[UUID_TEXT_SIZE];
	char volume_id[VOLUME_ID_MAX + 1];
	char namespace[NAMESPACE_MAX + 1];
	char external_id[EXTERNAL_ID_MAX + 1]; /* of its storage: see claim_set_storage() */
	char context_digest[CONTEXT_DIGEST_SIZE];
	char plugin_id[PLUGIN_ID_MAX + 1];
	char profile[PROFILE_MAX + 1];
	char allocation_id[UUID_TEXT_SIZE];
	char node_id[NODE_ID_MAX + 1];
	char boot_id[UUID_TEXT_SIZE];
	char external_node_id[EXTERNAL_NODE_ID_MAX + 1];
	enum claim_mode mode;
	enum access_mode access_mode;
	enum attachment_mode attachment_mode;
	enum propagation propagation;
	uint32_t slot; /* among its allocation's volumes, as in its tickets */
	uint64_t generation;
	enum claim_state state;
	enum evidence evidence;
	char evidence_detail[EVIDENCE_DETAIL_MAX + 1];
	enum controller_attach attach;
	bool sent_to_node;   /* false: the grant provably never left the server */
	bool adopted;	     /* learned from its node after a restore */
	bool storage_proven; /* adopted: external_id is that of its ticket, or of the server's own record */
	bool storage_digest; /* adopted: external_id is the digest in its ticket, of an id that is unknown */
	bool renamed;	     /* adopted: its node knows it by an id that another node's claim has */
	bool was_freed;	     /* before its node reported that it still has it mounted: see held_twice.h */
	bool other_machine;  /* its node is another machine since then: a new boot of that one proves nothing
			      */
	bool fence_asked;    /* stored before the provider is asked to cut the node off: it may have */
	enum evidence detach_evidence; /* EVIDENCE_OPERATOR: only a person has attested the detach */
	char detach_detail[EVIDENCE_DETAIL_MAX + 1];
	/* person and reason of the attestation that its node may release it without its plugin; may be empty
	 */
	char plugin_waiver[PLUGIN_WAIVER_MAX + 1];
	int64_t state_time_ms; /* since when it is in this state */
	uint32_t attempts;     /* of the current step */
	char last_error[LAST_ERROR_MAX + 1];
	uint32_t last_error_code; /* enum status of it; 0: not known */
	int64_t create_time_ms;
	int64_t volume_create_time_ms; /* a later volume of the same name has another time */
	int64_t modify_time_ms;
	uint64_t create_index;
	uint64_t modify_index;
};

enum claim_event_type {
	CLAIM_EVENT_SENT,	   /* the grant goes to its node, with what the controller attached */
	CLAIM_EVENT_ATTACH_FAILED, /* detail is the controller's error; nothing was sent */
	CLAIM_EVENT_MOUNTED,	   /* mount receipt of the node */
	CLAIM_EVENT_WORK_ENDED,	 /* the allocation is client-terminal or was ordered to stop before it ran */
	CLAIM_EVENT_EVIDENCE,	 /* evidence and detail are set */
	CLAIM_EVENT_NODE_FAILED, /* the node's release failed: detail is its error */
	CLAIM_EVENT_CONTROLLER_DETACHED, /* the provider detached it, or the volume needs no controller */
	CLAIM_EVENT_CONTROLLER_FAILED,	 /* detail is the error */
	CLAIM_EVENT_FREE,		 /* nothing is left to do */
	CLAIM_EVENT_FENCE_ASKED,	 /* the provider is about to be asked to cut the node off */
	CLAIM_EVENT_DETACH_ATTESTED,	 /* detail: person and reason of the attestation that the provider
					    released it */
	CLAIM_EVENT_FORCED, /* detail: person and reason of the attestation that the node continues without
			       the plugin */
	CLAIM_EVENT_N,
};

struct claim_event {
	enum claim_event_type type;
	enum evidence evidence; /* CLAIM_EVENT_EVIDENCE */
	const char *detail;	/* may be NULL */
	const char *boot_id;	/* of a fence: in which the node was fenced */
	const char *plugin_id;	/* EVIDENCE_NETWORK_FENCE: whose storage refuses the node */
	enum status code;	/* of a failure; STATUS_OK: not known */
	int64_t now_ms;
};

/** Apply one event. Pure: changes @claim only.
 *
 * An event that the state has already passed is STATUS_OK and changes nothing, so repeats are harmless; one
 * that the state does not allow is STATUS_FAILED_PRECONDITION. Evidence is refused when it is EVIDENCE_NONE,
 * new_boot when the boot id in @event->detail is the claim's own, storage_fence unless the fence was
 * noted as asked for something that the controller attached, and power_fence and network_fence unless
 * @event->boot_id is the claim's own and @event->detail names the proof; network_fence also unless
 * @event->plugin_id is the claim's own.
 * @ret_changed whether @claim must be stored */
enum status claim_step(struct claim *claim, const struct claim_event *event, bool *ret_changed,
		       struct error *err);

/** Does the claim keep others from the volume? True in every state before CLAIM_FREED. */
bool claim_is_live(const struct claim *claim);
/** Returns as what of its volume's capabilities it is held. */
struct capability claim_capability(const struct claim *claim);

/** Notes in @claim that it is on the storage that @volume has now: a csi volume's external_id and context,
 * of any other one volume_source_hex(), because such an external_id names no storage. */
void claim_set_storage(struct claim *claim, const struct volume *volume);
/** Is @claim on the storage that @volume has now, as far as the claim's is known? */
bool claim_is_on_storage(const struct claim *claim, const struct volume *volume);

/** Is it surely on another part than @volume of what the provider names by one id? */
bool claim_is_of_other_context(const struct claim *claim, const struct volume *volume);

/** Is it held by a machine that its node is no longer? A session in @boot_id cannot speak for it. */
bool claim_is_elsewhere(const struct claim *claim, const char *boot_id);

const char *claim_state_name(enum claim_state state);
const char *evidence_name(enum evidence evidence);
