/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A volume: what operators register and allocations claim. Value type, no pointers. */

#include "base/error.h"
#include "model/modes.h"
#include "model/source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	VOLUME_ID_MAX = 128,
	NAMESPACE_MAX = 64,
	PLUGIN_ID_MAX = 63, /* id_is_plugin() */
	PROFILE_MAX = 63,
	EXTERNAL_ID_MAX = 256,
	VOLUME_CAPABILITIES_MAX = 16,
	WIRE_VOLUME_SIZE = 64,
	CONTEXT_DIGEST_SIZE = 2 * 32 + 1, /* in hex */
};

#define NAMESPACE_DEFAULT "default"
#define PLUGIN_NATIVE "native"

enum volume_type {
	VOLUME_TYPE_UNSPECIFIED,
	VOLUME_NATIVE,
	VOLUME_CSI,
	VOLUME_TYPE_N,
};

struct capability {
	enum access_mode access_mode;
	enum attachment_mode attachment_mode;
};

struct volume {
	char id[VOLUME_ID_MAX + 1];
	char namespace[NAMESPACE_MAX + 1];
	char name[VOLUME_ID_MAX + 1];
	char external_id[EXTERNAL_ID_MAX + 1];
	enum volume_type type;
	char plugin_id[PLUGIN_ID_MAX + 1];
	char profile[PROFILE_MAX + 1];
	struct source source;
	struct capability capabilities[VOLUME_CAPABILITIES_MAX];
	uint32_t n_capabilities;
	/* csi: storage_context_digest() of its stored detail, see volume_source_digest(); not in messages */
	char context_digest[CONTEXT_DIGEST_SIZE];
	uint64_t generation;
	/* a ticket of this generation or above is younger than this registration, or than what named the
	 * placeholder; 0: no epoch has raised the generation of the registration, so of one above it */
	uint64_t newer_from;
	int64_t create_time_ms;
	int64_t modify_time_ms;
	uint64_t create_index;
	uint64_t modify_index;
};

/** @namespace, or NAMESPACE_DEFAULT when it is empty. */
const char *namespace_or_default(const char *namespace);

/** @namespace, or "" when it is empty or NAMESPACE_DEFAULT. */
const char *namespace_if_other(const char *namespace);

/** The arguments of "%s%s" in a command that names a volume or a job: " --namespace NAME" when the command
 * needs it. */
#define NAMESPACE_OPTION(namespace) \
	namespace_if_other(namespace)[0] != '\0' ? " --namespace " : "", namespace_if_other(namespace)

/** Fill what may be left out: namespace, name, plugin of a native volume, profile of one of class bind. */
void volume_default(struct volume *volume);

/** Check a registration; the first thing wrong is named with its field and what would be right. */
enum status volume_validate(const struct volume *volume, struct error *err);

/** Is it known from a node's report after a restore only? Such a volume has an owner for claims, and offers
 * no capability before it is registered again. */
bool volume_is_placeholder(const struct volume *volume);

/** Returns a field in which @b differs from what the claims on @placeholder show, or NULL. */
const char *volume_difference_to_claims(const struct volume *placeholder, const struct volume *b);

/** Merge the registration @update into @current, for a placeholder all fields that no claim defines:
 * capabilities may change as long as those of live claims, @in_use, stay; any other field that differs is
 * STATUS_FAILED_PRECONDITION and named. @current is untouched then. @ret_changed false when nothing differs.
 */
enum status volume_merge(struct volume *current, const struct volume *update, const struct capability *in_use,
			 size_t n_in_use, bool *ret_changed, struct error *err);

/** Does the volume offer exactly this capability? */
bool volume_has_capability(const struct volume *volume, enum access_mode access,
			   enum attachment_mode attachment);

/** Does it offer any capability of this kind? */
bool volume_has_attachment(const struct volume *volume, enum attachment_mode attachment);

/** Makes the source of a csi volume in the mount helper's form: the ticket's digest is of this, so that it
 * names the storage. @context_digest "": the volume has no context. */
void volume_csi_to_wire(const char *external_id, const char *context_digest, struct mh_source *ret);

/** The digest by which a ticket names the storage. STATUS_INVALID_ARGUMENT: the source is not valid. */
enum status volume_source_digest(const struct volume *volume, uint8_t ret[static TICKET_DIGEST_SIZE],
				 struct error *err);

enum { VOLUME_SOURCE_HEX_SIZE = 2 * TICKET_DIGEST_SIZE + 1 };

/** The same in hex. A native placeholder has it as its external_id, if a ticket has proven it. "": the source
 * is not valid. */
void volume_source_hex(const struct volume *volume, char ret[static VOLUME_SOURCE_HEX_SIZE]);

/** A name, or of the volume of one member of a job with its index behind: "db[3]". */
bool volume_id_is_valid(const char *id);

/** Name of the volume towards the mount helper: a readable part of the id and 16 hex digits of the SHA-256 of
 * namespace and id, so that two namespaces never meet. id_is_label(). */
void volume_wire_name(const char *namespace, const char *id, char ret[static WIRE_VOLUME_SIZE]);
