/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Fencers: programs that hold the power switches' secrets, connected by a stream that they dial with a
 * certificate of the class `fencer`. The server gives them signed orders; it holds no secret of a switch.
 *
 * A fencer that was here since the server began to lead is remembered when it goes: that it is away is an
 * alarm before it is needed. */

#include "base/error.h"
#include "model/claim.h"
#include "rpc/server.h"

#include <fence_order.h>
#include <holdfast/v1/fences.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fencer;
struct fencers;
struct server;

enum {
	FENCERS_MAX = 32,
	FENCER_NODES_MAX = 2048,
	FENCER_TEXT_SIZE = 256,
	FENCERS_WARNING_SIZE = 512,
};

/* The users of fencers, of fences.c. */
struct fencer_events {
	/** Its hello has come: orders that it may have missed can be sent again. */
	void (*ready)(struct server *server, const char *name);
	void (*answer)(struct server *server, const char *name, const Holdfast__V1__FenceAnswer *answer);
	/** Its session has ended, or another one replaces it. */
	void (*left)(struct server *server, const char *name);
};

/** Fences.Session. */
extern const struct rpc_stream_handlers fencers_stream;

/** @events borrowed, must outlive it. @ret owned by the caller, fencers_free() after rpc_server_free(). */
enum status fencers_new(struct server *server, const struct fencer_events *events, struct fencers **ret,
			struct error *err);
/** NULL is allowed. */
void fencers_free(struct fencers *fencers);

/** The connected fencer of the name; NULL: there is no such. */
const struct fencer *fencers_find(const struct fencers *fencers, const char *name);

/** Do the server's settings let @fencer switch @node? See bindings.h. */
bool fencers_allow(const struct fencers *fencers, const char *fencer, const char *node);

/** A connected fencer whose file has @node, and that fencers_allow(): one whose last look at the switch
 * succeeded before others, then the one that named the node first since this server began to lead. NULL: no
 * fencer can switch it. */
const struct fencer *fencers_for_node(const struct fencers *fencers, const char *node);

/** Another one after @last and those in @tried have refused or failed: one whose last look at the switch
 * succeeded, and that the settings bind to the node. NULL: no other one. */
const struct fencer *fencers_other(const struct fencers *fencers, const char *node, const char *last,
				   char *const *tried, size_t n_tried);

const char *fencer_name(const struct fencer *fencer);

/** Returns the address of its present or last session. */
const char *fencer_address(const struct fencer *fencer);

/** Send @order. A failure ends the fencer's session. */
enum status fencer_send(const struct fencer *fencer, const void *order, size_t n, struct error *err);

/** Put the connected ones into @response. False when memory is short. */
bool fencers_show(const struct fencers *fencers, Holdfast__V1__ListFencesResponse *response);

struct fencers_count {
	size_t connected, away;
	size_t switches, failing; /* of the connected ones, and those whose last look failed */
};

/** NULL is allowed. */
struct fencers_count fencers_count(const struct fencers *fencers);

/** Compares their keys again: another one is in use. NULL is allowed. */
void fencers_compare_keys(struct fencers *fencers);

/** The text of an alarm: a node whose fencer is in doubt, a fencer that is away, a switch that does not
 * answer. False: there is no alarm. */
bool fencers_warning(const struct fencers *fencers, char ret[static FENCERS_WARNING_SIZE]);
