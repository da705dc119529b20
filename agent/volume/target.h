/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Which publish of which volume, and how: a value that operations are begun from. */

#include "ticket.h"

#include "model/alloc.h"
#include "model/volume.h"
#include "volume/secret_message.h"

#include <stdbool.h>
#include <stdint.h>

enum { VOLUME_MOUNT_PATIENCE_MS = 300000 }; /* of a mount with passing errors; a target may have its own */

/* The ways to use a volume: a csi plugin has one target for each, and gives it up with its last user. */
enum volume_use {
	VOLUME_USE_ANY,
	VOLUME_USE_READ,
	VOLUME_USE_WRITE,
	VOLUME_USE_WITH_PLUGIN, /* any that is not itself to be undone without the plugin */
	VOLUME_USE_UNKNOWN,	/* a publish of its device that no allocation accounts for */
	VOLUME_USE_N,
};

/* Which publish of which volume. An unmount uses the first part only. */
struct volume_target {
	char volume_id[VOLUME_ID_MAX + 1]; /* for people */
	char namespace[NAMESPACE_MAX + 1];
	char wire_volume[WIRE_VOLUME_SIZE];
	char alloc_id[UUID_TEXT_SIZE];
	uint8_t slot;
	enum volume_type type;
	struct source source;	       /* native */
	char profile[PROFILE_MAX + 1]; /* csi: the plugin's id, which the helper's profile has as well */
	char external_id[EXTERNAL_ID_MAX + 1];	  /* csi: what the plugin calls the volume */
	char context_digest[CONTEXT_DIGEST_SIZE]; /* csi: of the context, which goes to the plugin */
	enum access_mode access_mode;		  /* csi */
	enum attachment_mode attachment_mode;	  /* csi */
	bool read_only;
	uint32_t dev_major; /* of the staged file system, or the device, as far as known: 0:0 when not */
	uint32_t dev_minor;
	bool is_host_device;	 /* csi: that file system is one that the host has mounted for itself */
	bool is_nfs_listed;	 /* nfs4: the kernel's list was seen to have that file system */
	bool has_own_superblock; /* nfs4: it was seen to be staged with nosharecache */

	uint32_t mount_timeout_ms; /* of a mount with errors that may pass; 0: VOLUME_MOUNT_PATIENCE_MS */

	bool stage_read_only;
	bool exec;
	enum propagation propagation;
	bool has_ticket;
	struct ticket ticket;
	/* csi: a ClaimVolumeResponse with contexts, mount options and secrets; of this run of the agent only
	 */
	struct secret_message *details;
	/* of an unmount of this run of the agent, as the server wants: it repeats that */
	bool without_plugin; /* csi: its plugin is not waited for */
	bool is_freed;	     /* no caller waits for it: a failure leaves remains */
};

/** Returns whose file systems hang together: the server of an NFS volume, else the plugin or the profile. */
static inline const char *volume_target_group(const struct volume_target *target)
{
	return target->type == VOLUME_NATIVE && target->source.class == SOURCE_NFS4 ? target->source.server
										    : target->profile;
}

/** Copies the known facts of the device that the volume was mounted from. */
static inline void volume_target_keep_device(const struct volume_target *from, struct volume_target *to)
{
	to->dev_major = from->dev_major;
	to->dev_minor = from->dev_minor;
	to->is_host_device = from->is_host_device;
	to->is_nfs_listed = from->is_nfs_listed;
	to->has_own_superblock = from->has_own_superblock;
}

static inline enum volume_use volume_target_use(const struct volume_target *target)
{
	return target->read_only ? VOLUME_USE_READ : VOLUME_USE_WRITE;
}

/** Is the plugin's device handed out as it is? */
static inline bool volume_target_is_device(const struct volume_target *target)
{
	return target->type == VOLUME_CSI && target->attachment_mode == ATTACHMENT_BLOCK_DEVICE;
}
