/* SPDX-License-Identifier: Apache-2.0 */
/* How full volumes are, as their nodes measure them. */
#include "show/rows.h"
#include "show/show.h"

static void put_usage_condition(const struct shown *shown, struct strbuf *sb)
{
	const Holdfast__V1__VolumeUsage *usage = (const void *)shown->message;

	show_text(shown,
		  "{full?full{unknown_since_ms?; }}{unknown_since_ms?unknown since {unknown_since_ms:time}}",
		  sb);
	if (usage->condition[0])
		strbuf_printf(sb, "%s%s", sb->len ? "; " : "", usage->condition);
}

#define KNOWN(text) "{total_bytes?" text "}"

DEFINE_ROWS(show_usages, holdfast__v1__volume_usage, NULL, COL("VOLUME", "{volume_id}"),
	    COL("NODE", "{node_id}"),
	    COL_NUMBER("FULL", "{total_bytes?{percent}%|{percent?{percent}%|unknown}}"),
	    COL_NUMBER("USED", KNOWN("{used_bytes:size}")), COL_NUMBER("FREE", KNOWN("{free_bytes:size}")),
	    COL_NUMBER("SIZE", KNOWN("{total_bytes:size}")), COL_PUT("CONDITION", put_usage_condition),
	    COL_MORE("INODES", "{total_inodes?{used_inodes} of {total_inodes}}"),
	    COL_MORE("REPORTED", "{time_ms:age}"));
