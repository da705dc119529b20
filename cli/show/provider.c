/* SPDX-License-Identifier: Apache-2.0 */
/* A provider's external volumes and snapshots. */

#include "base/cleanup.h"
#include "show/rows.h"
#include "show/show.h"

enum { NODES_BYTES_MAX = 256 };

/* "i-1,i-2 and 3 more" */
static void put_nodes(const struct shown *shown, struct strbuf *sb)
{
	const Holdfast__V1__ExternalVolume *volume = (const void *)shown->message;
	size_t i = 0;

	for (; i < volume->n_published_node_ids && sb->len < NODES_BYTES_MAX; i++)
		strbuf_printf(sb, "%s%.128s", i ? "," : "", volume->published_node_ids[i]);
	if (i < volume->n_published_node_ids)
		strbuf_printf(sb, " and %zu more", volume->n_published_node_ids - i);
}

DEFINE_ROWS(show_external, holdfast__v1__external_volume, "the provider has no volumes",
	    COL("EXTERNAL ID", "{external_id}"), COL("CAPACITY", "{capacity:size}"),
	    COL_STATE("HEALTHY", "{abnormal?no|yes}"), COL("SNAPSHOT", "{snapshot_id}"),
	    COL("CLONE OF", "{clone_id}"), COL_PUT("PUBLISHED ON", put_nodes),
	    COL("CONDITION", "{condition}"));

DEFINE_ROWS(show_snapshots, holdfast__v1__snapshot, "no snapshots", COL("SNAPSHOT ID", "{snapshot_id}"),
	    COL("NAME", "{name}"), COL("PLUGIN", "{plugin_id}"),
	    COL("VOLUME", "{source_volume_id?{source_volume_id}|{external_source_id}}"),
	    COL("SIZE", "{size_bytes:size}"), COL("AGE", "{create_time_ms:age}"),
	    COL_STATE("READY", "{deleting?deleting|{ready}}"), COL("LAST ERROR", "{last_error}"));
