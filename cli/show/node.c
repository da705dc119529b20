/* SPDX-License-Identifier: Apache-2.0 */
#include "model/node.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "rpc/pbjson_word.h"
#include "show/output.h"
#include "show/show.h"

#include <inttypes.h>

enum status show_nodes(Holdfast__V1__Node *const *nodes, size_t n, bool verbose, struct error *err)
{
	static const struct column columns[] = {
		{.name = "ID"},
		{.name = "STATUS", .is_state = true},
		{.name = "ELIGIBILITY", .is_state = true},
		{.name = "ADDRESS"},
		{.name = "VERSION"},
		{.name = "KERNEL", .is_wide = true},
		{.name = "PLUGINS HEALTHY"},
		{.name = "SEEN"},
	};
	cleanup(table_freep) struct table *table = NULL;
	int64_t now_ms = clock_realtime_ms();

	if (n == 0) {
		print_line("no nodes");
		return STATUS_OK;
	}
	table = table_new(columns, ARRAY_SIZE(columns));
	table_show_whole(table, verbose);
	for (size_t i = 0; i < n; i++) {
		const Holdfast__V1__Node *node = nodes[i];
		char status[PBJSON_WORD_SIZE], healthy[48], age[AGE_SIZE];
		size_t n_healthy = 0;

		for (size_t k = 0; k < node->n_plugins; k++)
			n_healthy += node->plugins[k]->healthy != 0;
		(void)str_format(healthy, sizeof(healthy), "%zu/%zu", n_healthy, node->n_plugins);
		table_add(table,
			  (const char *const[]){node->id,
						pbjson_word_text(&holdfast__v1__node_status__descriptor,
								 (int)node->status, status),
						node->ineligible ? "ineligible" : "eligible", node->address,
						node->agent_version, node->kernel, healthy,
						age_text(node->last_seen_ms, now_ms, age)});
	}
	return table_print(table, NULL, err);
}

static enum status show_node_plugins(const Holdfast__V1__Node *node, bool verbose, struct error *err)
{
	static const struct column columns[] = {
		{.name = "PLUGIN"},   {.name = "PROFILE"},
		{.name = "CLASS"},    {.name = "HEALTHY", .is_state = true},
		{.name = "PROVIDER"}, {.name = "DESCRIPTION", .is_wide = true},
	};
	cleanup(table_freep) struct table *table = NULL;

	if (node->n_plugins == 0)
		return STATUS_OK;
	table = table_new(columns, ARRAY_SIZE(columns));
	table_show_whole(table, verbose);
	for (size_t i = 0; i < node->n_plugins; i++) {
		const Holdfast__V1__NodePlugin *p = node->plugins[i];
		char class[PBJSON_WORD_SIZE];

		table_add(table, (const char *const[]){
					 p->plugin_id, p->profile,
					 p->class_ ? pbjson_word_text(&holdfast__v1__source_class__descriptor,
								      (int)p->class_, class)
						   : "",
					 p->healthy ? "yes" : "no", p->provider, p->health_description});
	}
	return table_print(table, "plugins", err);
}

static void show_drain(const Holdfast__V1__Drain *drain, int64_t now_ms)
{
	char text[AGE_SIZE + 32], age[AGE_SIZE];

	if (drain->done_ms) {
		(void)str_format(text, sizeof(text), "done, %s ago", age_text(drain->done_ms, now_ms, age));
	} else {
		(void)str_format(text, sizeof(text), "for %s%s", age_text(drain->started_ms, now_ms, age),
				 drain->deadline_ms && now_ms > drain->deadline_ms ? ", late" : "");
	}
	print_field("drain", text);
	print_field("drained by", drain->by);
	print_field("drain reason", drain->reason);
}

enum status show_node(const Holdfast__V1__Node *node, bool verbose, struct error *err)
{
	int64_t now_ms = clock_realtime_ms();
	char text[PBJSON_WORD_SIZE], age[AGE_SIZE];
	char skew[NODE_CLOCK_TEXT_SIZE], clock[NODE_CLOCK_TEXT_SIZE + 64];

	if (!node)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no node");
	print_field("ID", node->id);
	print_field("status",
		    pbjson_word_text(&holdfast__v1__node_status__descriptor, (int)node->status, text));
	print_field("eligible", node->ineligible ? "no" : "yes");
	if (node->ineligible)
		print_field("because", node->eligibility_reason);
	if (node->drain && node->drain->started_ms)
		show_drain(node->drain, now_ms);
	print_field("address", node->address);
	print_field("boot ID", node->boot_id);
	print_field("machine", node->machine);
	if (node->other_machine[0]) {
		print_field("refused", node->other_machine);
		print_field("refused as", "another machine under this name; see holdfast node identify");
	}
	print_field("agent", node->agent_version);
	print_field("kernel", node->kernel);
	if (node_clock_is_off(node->clock_skew_ms)) {
		(void)str_format(clock, sizeof(clock), "%s the server's: set the one that is wrong",
				 node_clock_text(node->clock_skew_ms, skew));
		print_field("clock", clock);
	}
	if (node->other_ticket_keys[0]) {
		(void)str_format(clock, sizeof(clock),
				 "%.32s..., another one than the server's: mounts are refused",
				 node->other_ticket_keys);
		print_field("ticket key", clock);
	}
	print_field("seen", age_text(node->last_seen_ms, now_ms, age));
	if (node->disconnected_ms)
		print_field("disconnected for", age_text(node->disconnected_ms, now_ms, age));
	if (node->disconnected_ms && node->disconnect_reason[0])
		print_field("disconnected as", node->disconnect_reason);
	print_field("age", age_text(node->create_time_ms, now_ms, age));
	return show_node_plugins(node, verbose, err);
}
