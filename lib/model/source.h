/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The source of a native volume, and its form for the mount helper. Value type, no pointers. */

#include "base/error.h"

#include <mounthelper_wire.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	BY_ID_MAX = 128,
	SOURCE_SERVER_MAX = 45, /* an IPv6 address as text */
	SOURCE_EXPORT_MAX = 255,
	HOST_VOLUME_MAX = 63,
};

enum source_class {
	SOURCE_UNSPECIFIED,
	SOURCE_BLOCK,
	SOURCE_TMPFS,
	SOURCE_NFS4,
	SOURCE_BIND,
	SOURCE_CLASS_N,
};

struct source {
	enum source_class class;
	char by_id[BY_ID_MAX + 1];	       /* block: entry of /dev/disk/by-id */
	uint64_t size_bytes;		       /* tmpfs */
	uint64_t inodes;		       /* tmpfs */
	char server[SOURCE_SERVER_MAX + 1];    /* nfs4: its address */
	char export[SOURCE_EXPORT_MAX + 1];    /* nfs4: path on the server */
	char host_volume[HOST_VOLUME_MAX + 1]; /* bind: name in the helpers' policies */
};

/** Write the server's address in its one usual form, so that sources can be compared. */
void source_default(struct source *source);

/** The first thing wrong is named with its field and what would be right. */
enum status source_validate(const struct source *source, struct error *err);

bool source_eq(const struct source *a, const struct source *b);

/** The source in the mount helper's form, without the numbers of a block device: the ticket's digest is of
 * this, and the node fills in the numbers. The one place where server and agent make it.
 * STATUS_INVALID_ARGUMENT for a source that source_validate() would refuse. */
enum status source_to_wire(const struct source *source, struct mh_source *ret, struct error *err);
