/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Messages to and from the mount helper: building requests, checking what comes back. Pure.
 *
 * The helper is trusted with more than we are, and its messages are checked nevertheless: a mix-up of replies
 * must end in an error, never in a mount taken for another one. Source: proto/mounthelper_wire.h. */

#include "mounthelper_wire.h"

#include "base/error.h"
#include "log/events.h"
#include "model/modes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The message about a helper without a trail, with the remedy. */
#define HELPER_NO_TRAIL                                                                                      \
	"its trail cannot be written, so nothing new is mounted, and mounts stay: make room on the disk of " \
	"the log that its policy names (df); nothing needs a restart"

/* The mount helper has no way to the journal. Lines of the agent that repeat its records are about this
 * program.
 */
#define HELPER_RELAYED "holdfast-mounthelper"

/* One request as on the wire; header.length is the length used. */
union helper_request {
	struct mh_header header;
	struct mh_ack ack;
	struct mh_stage stage;
	struct mh_publish publish;
	struct mh_unpublish unpublish;
	struct mh_unstage unstage;
	struct mh_list list;
};

/* Its answer: list for MH_OP_LIST, else reply. */
union helper_reply {
	struct mh_header header;
	struct mh_reply reply;
	struct mh_list_reply list;
};

/* A mount as the helper is asked for it; strings borrowed. */
struct helper_mount {
	const char *volume;  /* name towards the helper */
	const char *profile; /* entry of its policy */
	const char *alloc;
	uint8_t slot;
	bool read_only;
	bool exec;
	enum propagation propagation;
	const struct mh_source *source;
	const struct ticket *ticket; /* NULL: no ticket */
};

/* Builders: STATUS_INVALID_ARGUMENT for values that do not fit the wire format. helper_request_seal() fills
 * in seq when the request is sent. */
enum status helper_request_stage(const struct helper_mount *mount, union helper_request *ret,
				 struct error *err);
enum status helper_request_publish(const struct helper_mount *mount, union helper_request *ret,
				   struct error *err);
enum status helper_request_unpublish(const char *volume, const char *alloc, uint8_t slot,
				     union helper_request *ret, struct error *err);
/** @plugin whose folder the volume is in; empty: a native volume's place */
enum status helper_request_unstage(const char *volume, const char *plugin, union helper_request *ret,
				   struct error *err);
/** Builds the request to list the mounts of one volume in the stage tree. @plugin as above */
enum status helper_request_look(const char *volume, const char *plugin, union helper_request *ret,
				struct error *err);
void helper_request_list(enum mh_list_kind kind, uint32_t cursor, union helper_request *ret);
void helper_request_ack(union helper_request *ret);

/** Number a request: @seq is that of the previous one on this connection plus 1. */
void helper_request_seal(union helper_request *request, uint64_t seq);

/** Check the helper's first message. STATUS_UNIMPLEMENTED for another version, STATUS_DATA_LOSS when
 * malformed. */
enum status helper_hello_check(const void *bytes, size_t n, struct mh_hello *ret, struct error *err);

/** Is this the last message of a helper that cannot start? */
bool helper_failure_check(const void *bytes, size_t n, struct mh_failure *ret);

/** Check the answer to @request; STATUS_DATA_LOSS when it is malformed or answers something else. */
enum status helper_reply_check(const void *bytes, size_t n, const union helper_request *request,
			       union helper_reply *ret, struct error *err);

/** Nothing is mounted where the policy wants a mount: it may be soon. */
bool helper_reply_is_unmounted(const struct mh_reply *reply);

/** Converts the answer to helper_request_look() to a reply: MH_NOT_FOUND when nothing is there. */
struct mh_reply helper_reply_of_look(const struct mh_list_reply *list);

/** Was nothing done for now, because another instance of the helper works on the volume? The same request
 * will succeed later. */
bool helper_reply_is_locked(const struct mh_reply *reply);

/** It was not done because the trail does not take its record: the disk is full, or the log is not right. */
bool helper_reply_is_without_trail(const struct mh_reply *reply);

/** Was nothing done for now, because ops_per_second and burst of the policy are used up? */
bool helper_reply_is_over_rate(const struct mh_reply *reply);

/** Returns the outcome that a reply reports: STATUS_OK for MH_OK and MH_ALREADY, STATUS_ABORTED if it
 * helper_reply_is_locked(), else a code and a sentence.
 * @subject of the request, for the sentence: "volume db-0123" */
enum status helper_reply_outcome(const struct mh_reply *reply, const char *subject, struct error *err);

/** Returns the journal's event for a reply: done, failed, or refused before any attempt. LOG_EVENT_NONE if it
 * has no event, as for a list. */
enum log_event helper_reply_event(const struct mh_reply *reply);

/** Returns the trail's keyword for a reason; NULL for no reason, "unknown" for one of a later release. */
const char *helper_reason_word(unsigned int reason);

/** "STAGE"; never NULL. */
const char *helper_op_name(unsigned int op);

/** The volume that a request is about; empty for those of no volume. Borrowed from @request. */
const char *helper_request_volume(const union helper_request *request);
