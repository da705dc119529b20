/* SPDX-License-Identifier: Apache-2.0 */
/* Events of one object, from the server's audit: the newest ones, oldest first. */

#include "operator/events.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "call/connect.h"
#include "call/pick.h"
#include "command/commands.h"
#include "command/values.h"
#include "show/rows.h"

#include <holdfast/v1/operator.pb-c.h>
#include <stdlib.h>

enum { EVENTS_IN_STATUS = 10, EVENTS_DEFAULT = 50, EVENTS_MAX = 1000, ABOUT_SIZE = PICK_ID_SIZE + 512 };

static void put_what(const struct shown *shown, struct strbuf *sb)
{
	const Holdfast__V1__AuditRecord *record = (const void *)shown->message;

	strbuf_puts(sb, record->what);
	if (record->code != 0)
		strbuf_printf(sb, " (%s)", status_name(status_from_number(record->code)));
}

static DEFINE_ROWS(event_rows, holdfast__v1__audit_record, "no events", COL("TIME", "{time_ms:time}"),
		   COL_PUT("EVENT", put_what), COL("BY", "{who}"), COL_MORE("OBJECT", "{object}"),
		   COL("DETAIL", "{code?{message}|{why}}"));

/* The pages come newest first; each is in order. */
struct collected {
	Holdfast__V1__ListAuditResponse **pages;
	size_t n_pages;
	size_t n;
};

static void collected_release(struct collected *collected)
{
	for (size_t i = 0; i < collected->n_pages; i++)
		protobuf_c_message_free_unpacked(&collected->pages[i]->base, NULL);
	free(collected->pages);
}

static enum status collect(struct connection *connection, const char *about, size_t limit,
			   struct collected *collected, struct error *err)
{
	Holdfast__V1__ListAuditRequest request = HOLDFAST__V1__LIST_AUDIT_REQUEST__INIT;

	request.about = (char *)(uintptr_t)about;
	request.newest = true;
	do {
		Holdfast__V1__ListAuditResponse **pages =
			/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
			reallocarray(collected->pages, collected->n_pages + 1, sizeof(*pages));

		if (!pages)
			return error_no_memory(err, "events");
		collected->pages = pages;
		request.per_page = (uint32_t)(limit - collected->n);
		TRY(connection_call(connection, &holdfast__v1__operator__descriptor, "ListAudit",
				    &request.base, CALL_TIMEOUT_US, &pages[collected->n_pages], err));
		request.before = pages[collected->n_pages]->next_before;
		collected->n += pages[collected->n_pages++]->n_records;
	} while (request.before > 0 && collected->n < limit);
	return STATUS_OK;
}

static enum status show(const struct invocation *inv, const struct collected *collected, struct error *err)
{
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
	cleanup_free Holdfast__V1__AuditRecord **list = calloc(collected->n + 1, sizeof(*list));
	size_t n = 0;

	if (!list)
		return error_no_memory(err, "events");
	for (size_t i = collected->n_pages; i-- > 0;)
		for (size_t k = 0; k < collected->pages[i]->n_records; k++)
			list[n++] = collected->pages[i]->records[k];
	if (!inv->options[OPT_JSON])
		return show_list(&event_rows, NULL, list, n, inv->options[OPT_VERBOSE] != NULL, err);
	for (size_t i = 0; i < n; i++)
		TRY(print_answer(&list[i]->base, err));
	return STATUS_OK;
}

static enum status show_events(struct invocation *inv, struct connection *connection, const char *about,
			       struct error *err)
{
	cleanup(collected_release) struct collected collected = {.pages = NULL};
	uint64_t limit;

	TRY(value_number(inv, OPT_LIMIT, 1, EVENTS_MAX, EVENTS_DEFAULT, &limit, err));
	TRY(collect(connection, about, limit, &collected, err));
	return show(inv, &collected, err);
}

enum status events_show_newest(struct connection *connection, const char *about, bool verbose,
			       struct error *err)
{
	Holdfast__V1__ListAuditRequest request = HOLDFAST__V1__LIST_AUDIT_REQUEST__INIT;
	cleanup_message Holdfast__V1__ListAuditResponse *page = NULL;
	struct error ignored;

	request.about = (char *)(uintptr_t)about;
	request.newest = true;
	request.per_page = EVENTS_IN_STATUS;
	if (connection_call(connection, &holdfast__v1__operator__descriptor, "ListAudit", &request.base,
			    CALL_TIMEOUT_US, &page, &ignored) != STATUS_OK)
		return STATUS_OK;
	return show_list(&event_rows, "events", page->records, page->n_records, verbose, err);
}

static const char *namespace_of(const struct invocation *inv)
{
	return inv->options[OPT_NAMESPACE] ? option_text(inv, OPT_NAMESPACE) : "default";
}

static enum status cmd_volume_events(struct invocation *inv, struct error *err)
{
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE], namespace[PICK_ID_SIZE], about[ABOUT_SIZE];

	TRY(connect_server(inv, &connection, err));
	if (pick_volume(connection, inv->args[0], inv->options[OPT_NAMESPACE], id, namespace, err) !=
	    STATUS_OK) { /* its events outlive it */
		str_copy_text(id, sizeof(id), inv->args[0]);
		str_copy_text(namespace, sizeof(namespace), namespace_of(inv));
	}
	(void)str_format(about, sizeof(about), "volume %s/%s", namespace, id);
	return show_events(inv, connection, about, err);
}

static enum status cmd_node_events(struct invocation *inv, struct error *err)
{
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE], about[ABOUT_SIZE];

	TRY(connect_server(inv, &connection, err));
	if (pick_node(connection, inv->args[0], id, err) != STATUS_OK)
		str_copy_text(id, sizeof(id), inv->args[0]);
	(void)str_format(about, sizeof(about), "node %s", id);
	return show_events(inv, connection, about, err);
}

static enum status cmd_job_events(struct invocation *inv, struct error *err)
{
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE], namespace[PICK_ID_SIZE], about[ABOUT_SIZE];

	TRY(connect_server(inv, &connection, err));
	if (pick_job(connection, inv->args[0], inv->options[OPT_NAMESPACE], id, namespace, err) !=
	    STATUS_OK) { /* its events outlive it */
		str_copy_text(id, sizeof(id), inv->args[0]);
		str_copy_text(namespace, sizeof(namespace), namespace_of(inv));
	}
	(void)str_format(about, sizeof(about), "job %s/%s", namespace, id);
	return show_events(inv, connection, about, err);
}

#define EVENTS_OPTIONS (OPTION_BIT(OPT_LIMIT) | OPTION_BIT(OPT_VERBOSE))

static const struct command of_volumes[] = {
	{.path = "volume events",
	 .args = "ID",
	 .help = "Show what happened to a volume and its claims",
	 .example = "db",
	 .options = EVENTS_OPTIONS,
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_VOLUME},
	 .run = cmd_volume_events},
};

static const struct command of_nodes[] = {
	{.path = "node events",
	 .args = "ID",
	 .help = "Show when a node was lost and back, and each change of it",
	 .example = "worker-3",
	 .options = EVENTS_OPTIONS,
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_NODE},
	 .run = cmd_node_events},
};

static const struct command of_jobs[] = {
	{.path = "job events",
	 .args = "ID",
	 .help = "Show what people and the server did to a job",
	 .example = "web",
	 .options = EVENTS_OPTIONS,
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_JOB},
	 .run = cmd_job_events},
};

const struct command_table volume_events_commands = {of_volumes, ARRAY_SIZE(of_volumes)};
const struct command_table node_events_commands = {of_nodes, ARRAY_SIZE(of_nodes)};
const struct command_table job_events_commands = {of_jobs, ARRAY_SIZE(of_jobs)};
