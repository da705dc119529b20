/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A volume in the three parts in which it is stored: the part for admission (struct volume), the part that
 * only plugin calls and placement need (VolumeDetail), and the part that is never shown (VolumeSecrets).
 * Pure. */

#include "base/error.h"
#include "model/message.h"
#include "model/volume.h"

#include <holdfast/v1/types.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	VOLUME_MAP_ENTRIES_MAX = 64,	  /* of parameters, context, secrets */
	VOLUME_MAP_KEY_MAX = 256,	  /* bytes */
	VOLUME_MAP_BYTES_MAX = 16 * 1024, /* keys and values of one map */
	VOLUME_FS_TYPE_MAX = 32,	  /* bytes */
	VOLUME_MOUNT_FLAGS_MAX = 32,
	VOLUME_MOUNT_FLAG_MAX = 256,	   /* bytes of one */
	VOLUME_TOPOLOGIES_MAX = 64,	   /* in each list */
	VOLUME_PLAIN_FIRST = 60,	   /* number of the first plain field, see types.proto */
	VOLUME_PLAIN_TEXT_MAX = 1024,	   /* bytes */
	VOLUME_NODE_CAPACITIES_MAX = 4096, /* as many as there are claims */
};

#define VOLUME_CAPACITY_MAX ((uint64_t)INT64_MAX) /* bytes; CSI's sizes are signed */
#define VOLUME_REDACTED "[redacted]"

struct volume_parts {
	struct volume volume;
	Holdfast__V1__VolumeDetail *detail;   /* owned, never NULL */
	Holdfast__V1__VolumeSecrets *secrets; /* owned, never NULL */
};

#define VOLUME_PARTS_INIT       \
	{                       \
		.detail = NULL, \
	}

void volume_parts_release(struct volume_parts *parts);

/** Split the volume that a caller sent. Fields that only the server knows (capacity, phase, nodes' state) are
 * omitted. STATUS_INVALID_ARGUMENT names the field. @ret untouched on failure, else owned, to be released. */
enum status volume_parts_from_pb(const Holdfast__V1__Volume *pb, struct volume_parts *ret, struct error *err);

/** Deep copy; @detail and @secrets may be NULL: as empty. */
enum status volume_parts_copy(const struct volume *volume, const Holdfast__V1__VolumeDetail *detail,
			      const Holdfast__V1__VolumeSecrets *secrets, struct volume_parts *ret,
			      struct error *err);

/** Check a registration after volume_default(), its type's rules too; the first thing wrong is named with its
 * field and what would be right. A secret's value is never part of a message. */
enum status volume_parts_validate(const struct volume_parts *parts, struct error *err);

/** The provider's answer to a creation cannot be set by a caller: context and topologies of @update are
 * omitted. */
void volume_parts_forget_answer(struct volume_parts *update);

/** A registration that names neither name nor external id means those of @current. Before volume_default().
 */
void volume_parts_inherit(struct volume_parts *update, const struct volume *current);

/** Settle the fields of a first registration: topologies are the required ones unless some are given. */
enum status volume_parts_begin(struct volume_parts *parts, struct error *err);

/** Merge the valid registration @update into @current. Sizes are volume_detail_resize()'s.
 * @in_use modes of the live claims
 * @ret_changed false when nothing differs
 * STATUS_FAILED_PRECONDITION names the field that cannot be changed and why; @current may then be half-way:
 * throw it away. */
enum status volume_parts_merge(struct volume_parts *current, const struct volume_parts *update,
			       const struct capability *in_use, size_t n_in_use, bool *ret_changed,
			       struct error *err);

/** Ask for another size, 0: leave that bound as it is. @ret_changed whether the request differs from the last
 * one. STATUS_INVALID_ARGUMENT when no size is between the bounds, STATUS_FAILED_PRECONDITION when the volume
 * is larger already than it may be: volumes never shrink. */
enum status volume_detail_resize(Holdfast__V1__VolumeDetail *detail, uint64_t min, uint64_t max,
				 bool *ret_changed, struct error *err);

/** Lay @over over @secrets. False when memory is short. */
bool volume_secrets_overlay(Holdfast__V1__VolumeSecrets *secrets, struct message_text_entry *const *over,
			    size_t n_over);

/** Is all of the value blanks and control characters of ASCII? */
bool volume_secret_is_blank(const char *text);

/** Has the value only white space, controls and characters without width, which a plugin may cut off? */
bool volume_secret_may_be_blank(const char *text);

/** Does @given lack @stored, or a value for it? A blank one is no secret to many plugins. */
bool volume_secret_is_left_out(const struct message_text_entry *stored,
			       struct message_text_entry *const *given, size_t n);

/** The same with the secrets of a request, checked. STATUS_INVALID_ARGUMENT if they leave out a stored one:
 * no caller combines a secret that it does not give with others, which may name another server. */
enum status volume_secrets_take(Holdfast__V1__VolumeSecrets *secrets, struct message_text_entry *const *given,
				size_t n, struct error *err);

/** Check mount options of any origin; no flag is part of a message. */
enum status mount_options_check(const Holdfast__V1__MountOptions *options, struct error *err);

/** Check the secrets of a request; "[redacted]" is refused, which only a registration may have. */
enum status volume_check_secrets(struct message_text_entry *const *secrets, size_t n, struct error *err);

/** Same rules for other maps; @field for messages. */
enum status volume_check_map(const char *field, struct message_text_entry *const *map, size_t n,
			     struct error *err);

/** Check topologies of any origin; @field for messages. */
enum status volume_check_topologies(const char *field, Holdfast__V1__Topology *const *topologies, size_t n,
				    struct error *err);

/** Fill the fields of @view, on the heap, that are stored apart: secrets and mount flags redacted. @detail
 * and
 * @secrets may be NULL. False when memory is short: @view must not be shown then. */
bool volume_show(Holdfast__V1__Volume *view, const Holdfast__V1__VolumeDetail *detail,
		 const Holdfast__V1__VolumeSecrets *secrets);

/** The same with secrets and mount flags as they are: only for the node that was granted a claim. */
bool volume_show_to_node(Holdfast__V1__Volume *view, const Holdfast__V1__VolumeDetail *detail,
			 const Holdfast__V1__VolumeSecrets *secrets);

/* Maps of our messages as what they all are. */
#define VOLUME_MAP(entries) ((struct message_text_entry *const *)(void *)(entries))
