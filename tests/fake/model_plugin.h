/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A model of a CSI plugin's controller, as a storage provider stands behind it: which volume is attached to
 * which of its nodes. Several nodes may run it; they all speak to the same provider.
 *
 * Every rule that CSI gives a CO is checked: what breaks one is written down as a violation. */

#include "base/error.h"

#include <holdfast/v1/plugin_call.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MODEL_ATTACHMENTS_MAX = 64,
	MODEL_PLUGIN_TEXT = 257,
	MODEL_CALLS_MAX = 32, /* kinds, by the request's number */
	MODEL_FENCED_MAX = 8,
};

/* What happens to a call. */
enum model_outcome {
	MODEL_OK,
	MODEL_FAIL,	    /* with a code; nothing is done */
	MODEL_FAIL_DONE,    /* with a code, although it was done */
	MODEL_HOLD,	    /* nothing is done and nothing answered, until model_plugin_answer() */
	MODEL_HOLD_DONE,    /* done, but not answered, until model_plugin_answer() */
	MODEL_TWICE,	    /* done and answered twice */
	MODEL_NOT_FOUND,    /* a detach: nothing is done, for it knows no such thing */
	MODEL_NOT_HERE,	    /* not asked: the node does not run it */
	MODEL_LOSE_BEFORE,  /* the node's session ends before it is done */
	MODEL_LOSE_AFTER,   /* likewise, after it was done */
	MODEL_OTHER_ANSWER, /* done, and answered with the response of another kind */
	MODEL_OUTCOME_N,
};

struct model_attachment {
	char volume[MODEL_PLUGIN_TEXT]; /* external id */
	char node[MODEL_PLUGIN_TEXT];	/* the provider's */
	bool is_read_only;
};

/* What the plugin is to do with the next calls of one kind. */
struct model_orders {
	enum model_outcome outcome;
	unsigned int times; /* how often, then MODEL_OK again */
	enum status code;   /* of MODEL_FAIL and MODEL_FAIL_DONE */
};

struct model_plugin {
	struct model_attachment attachments[MODEL_ATTACHMENTS_MAX];
	size_t n_attachments;
	char fenced[MODEL_FENCED_MAX][64]; /* addresses that its storage refuses; empty: free */
	bool hides_fences;		   /* its list of them is empty */
	bool forgets_fences;		   /* it refuses nothing that it is asked to */
	bool is_single_node; /* a volume can be attached to one node only, else FAILED_PRECONDITION */
	struct model_orders orders[MODEL_CALLS_MAX];
	size_t context_bytes; /* of the value in the publish context; 0: the volume's id */
	/* seen */
	unsigned int calls[MODEL_CALLS_MAX]; /* that were asked, not those that are not here */
	unsigned int in_flight;		     /* serial ones, held ones included */
	unsigned int most_in_flight;
	char last_secret[64];	   /* value of the secret "key" in the last attach or detach */
	char last_node_secret[64]; /* likewise, in the last expansion of a file system */
	char last_context[64];
	char last_fs_type[32];
	int last_attachment_mode;
	char violation[256];
};

/* An answer on its way: how often the reply is to be sent. */
struct model_answer {
	Holdfast__V1__PluginReply *reply; /* owned by the caller, protobuf_c_message_free_unpacked() */
	unsigned int times;		  /* 0: not yet */
	bool lose;			  /* end the session instead */
};

/** Order the next @times calls of the kind @request (a HOLDFAST__V1__PLUGIN_CALL__REQUEST_...). */
void model_plugin_order(struct model_plugin *plugin, int request, enum model_outcome outcome,
			unsigned int times, enum status code);

/** Take a call on some node. A held one is to be answered later with the reply that is in the answer. */
void model_plugin_call(struct model_plugin *plugin, const Holdfast__V1__PluginCall *call,
		       struct model_answer *ret);

/** A held call is answered, or its node gone. */
void model_plugin_done(struct model_plugin *plugin);

bool model_plugin_is_fenced(const struct model_plugin *plugin, const char *cidr);

bool model_plugin_is_attached(const struct model_plugin *plugin, const char *volume, const char *node);
