/* SPDX-License-Identifier: Apache-2.0 */
/* What a provider has: external volumes and snapshots. */

#include "base/cleanup.h"
#include "base/str.h"
#include "show/output.h"
#include "show/show.h"

#include <inttypes.h>

enum { NODES_TEXT_SIZE = 512 };

/* "i-1,i-2 and 3 more" */
static void nodes_text(const Holdfast__V1__ExternalVolume *volume, char text[static NODES_TEXT_SIZE])
{
	size_t n = 0;
	size_t i;

	text[0] = '\0';
	for (i = 0; i < volume->n_published_node_ids && n < NODES_TEXT_SIZE / 2; i++)
		n += (size_t)snprintf(text + n, NODES_TEXT_SIZE - n, "%s%.128s", i ? "," : "",
				      volume->published_node_ids[i]);
	if (i < volume->n_published_node_ids)
		(void)snprintf(text + n, NODES_TEXT_SIZE - n, " and %zu more",
			       volume->n_published_node_ids - i);
}

enum status show_external(Holdfast__V1__ExternalVolume *const *volumes, size_t n, bool verbose,
			  struct error *err)
{
	static const struct column columns[] = {
		{.name = "EXTERNAL ID"},
		{.name = "CAPACITY"},
		{.name = "HEALTHY", .is_state = true},
		{.name = "SNAPSHOT"},
		{.name = "CLONE OF"},
		{.name = "PUBLISHED ON", .is_wide = true},
		{.name = "CONDITION", .is_wide = true},
	};
	cleanup(table_freep) struct table *table = NULL;

	if (n == 0) {
		print_line("the provider has no volumes");
		return STATUS_OK;
	}
	table = table_new(columns, ARRAY_SIZE(columns));
	table_show_whole(table, verbose);
	for (size_t i = 0; i < n; i++) {
		const Holdfast__V1__ExternalVolume *v = volumes[i];
		char size[SIZE_TEXT_SIZE], nodes[NODES_TEXT_SIZE];

		nodes_text(v, nodes);
		table_add(table, (const char *const[]){v->external_id, size_text(v->capacity, size),
						       v->abnormal ? "no" : "yes", v->snapshot_id,
						       v->clone_id, nodes, v->condition});
	}
	return table_print(table, NULL, err);
}

enum status show_snapshots(Holdfast__V1__Snapshot *const *snapshots, size_t n, bool verbose,
			   struct error *err)
{
	static const struct column columns[] = {
		{.name = "SNAPSHOT ID"},
		{.name = "NAME"},
		{.name = "PLUGIN"},
		{.name = "VOLUME"},
		{.name = "SIZE"},
		{.name = "AGE"},
		{.name = "READY", .is_state = true},
		{.name = "LAST ERROR", .is_wide = true},
	};
	cleanup(table_freep) struct table *table = NULL;
	int64_t now_ms = clock_realtime_ms();

	if (n == 0) {
		print_line("no snapshots");
		return STATUS_OK;
	}
	table = table_new(columns, ARRAY_SIZE(columns));
	table_show_whole(table, verbose);
	for (size_t i = 0; i < n; i++) {
		const Holdfast__V1__Snapshot *s = snapshots[i];
		char size[SIZE_TEXT_SIZE], age[AGE_SIZE];

		table_add(table, (const char *const[]){s->snapshot_id, s->name, s->plugin_id,
						       s->source_volume_id[0] ? s->source_volume_id
									      : s->external_source_id,
						       size_text(s->size_bytes, size),
						       age_text(s->create_time_ms, now_ms, age),
						       s->ready ? "yes" : "no", s->last_error});
	}
	return table_print(table, NULL, err);
}
