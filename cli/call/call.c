/* SPDX-License-Identifier: Apache-2.0 */
#include "call/call.h"

#include "base/str.h"
#include "call/pages.h"
#include "command/contexts.h"
#include "command/request.h"
#include "command/values.h"
#include "pb/reflect.h"
#include "show/rows.h"

#include <assert.h>
#include <errno.h>
#include <holdfast/v1/agent.pb-c.h>
#include <stdlib.h>
#include <string.h>

enum { DOING_SIZE = 2 * PICK_ID_SIZE, QUESTION_MAX = 512 };

void *message_new(const ProtobufCMessageDescriptor *descriptor)
{
	ProtobufCMessage *message = calloc(1, descriptor->sizeof_message);

	if (message)
		protobuf_c_message_init(descriptor, message);
	return message;
}

void call_set(struct call *call, char **field, const char *text)
{
	char *copy;

	if (!text)
		return;
	copy = strdup(text);
	if (!copy) {
		call->is_short = true;
		return;
	}
	if (*field != protobuf_c_empty_string)
		free(*field);
	*field = copy;
}

enum status call_reason(struct call *call, enum option_id id, char **field, struct error *err)
{
	char *reason = NULL;

	TRY(value_reason(call->inv, id, &reason, err));
	call_set(call, field, reason);
	return STATUS_OK;
}

enum status call_pick(struct call *call, pick_fn *complete, const char *given, char **field,
		      struct error *err)
{
	char id[PICK_ID_SIZE];

	TRY(complete(call->connection, given, id, err));
	call_set(call, field, id);
	return STATUS_OK;
}

enum status call_method(struct call *call, void *ret, struct error *err)
{
	const struct command_call *row = call->row;

	if (call->is_short)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot make a request");
	return connection_call(call->connection, row->service, row->method, call->request, call->timeout_us,
			       ret, err);
}

bool call_has(const struct call *call, enum option_id id)
{
	return call->inv->options[id] != NULL;
}

/* --- fields of the request by rows --- */

static const char *given_value(const struct call *call, const struct command_field *field)
{
	int i = field->given - OPTION_N;

	if (i < 0)
		return call->inv->options[field->given];
	return i < call->inv->n_args ? call->inv->args[i] : NULL;
}

static const ProtobufCFieldDescriptor *request_field(const struct call *call, const char *name)
{
	const ProtobufCMessage *request = call->request;
	const ProtobufCFieldDescriptor *field = reflect_find(request->descriptor, name);

	assert(field);
	return field;
}

static char **request_text(const struct call *call, const char *name)
{
	return (void *)((char *)call->request + request_field(call, name)->offset);
}

/* Refuses an option of the list for the object, and the other way round. The namespace is of both: an object
 * is looked up in it, and a context or the environment may give it. */
static enum status check_options(const struct call *call, struct error *err)
{
	const struct command *command = call->inv->command;
	bool is_list = call->row == &command->list;
	const struct command_field *other = is_list ? command->call.fields : command->list.fields;

	for (; command->list.method && other->name; other++) {
		const struct command_field *own = call->row->fields;

		if (other->given >= OPTION_N || other->given == OPT_NAMESPACE || !given_value(call, other))
			continue;
		while (own->name && own->given != other->given)
			own++;
		if (!own->name)
			return usage_error(
				call->inv, err, "--%s is for %s", command_options[other->given].name,
				is_list ? "one of them: give its ID" : "the list: give it without an ID");
	}
	return STATUS_OK;
}

static enum status load_fields(struct call *call, struct error *err)
{
	TRY(check_options(call, err));
	for (const struct command_field *field = call->row->fields; field->name; field++) {
		const char *value = given_value(call, field);

		if (field->source == FIELD_REASON)
			TRY(call_reason(call, (enum option_id)field->given, request_text(call, field->name),
					err));
		else if (field->source != FIELD_GIVEN)
			continue;
		else if (request_field(call, field->name)->type == PROTOBUF_C_TYPE_BOOL)
			*(protobuf_c_boolean *)(void *)request_text(call, field->name) = value != NULL;
		else
			call_set(call, request_text(call, field->name), value);
	}
	return STATUS_OK;
}

/* The id of the volume or job is completed in the namespace that is found with it. */
static enum status look_up_in_namespace(struct call *call, const char *given,
					const struct command_field *field, struct error *err)
{
	char id[PICK_ID_SIZE], namespace[PICK_ID_SIZE];
	const char *name = field->name, *in = call->inv->options[OPT_NAMESPACE];

	if (field->source == FIELD_JOB)
		TRY(pick_job(call->connection, given, in, id, namespace, err));
	else
		TRY(pick_volume(call->connection, given, in, id, namespace, err));
	call_set(call, request_text(call, name), id);
	call_set(call, request_text(call, "namespace"), namespace);
	return STATUS_OK;
}

static enum status look_up_fields(struct call *call, struct error *err)
{
	static pick_fn *const picks[] = {
		[FIELD_NODE] = pick_node,     [FIELD_KNOWN_NODE] = pick_known_node,
		[FIELD_PLUGIN] = pick_plugin, [FIELD_KNOWN_PLUGIN] = pick_known_plugin,
		[FIELD_ALLOC] = pick_alloc,
	};

	for (const struct command_field *field = call->row->fields; field->name; field++) {
		const char *value = given_value(call, field);

		if (field->source == FIELD_VOLUME || field->source == FIELD_JOB)
			TRY(look_up_in_namespace(call, value, field, err));
		else if (field->source >= FIELD_NODE && field->source <= FIELD_ALLOC && value)
			TRY(call_pick(call, picks[field->source], value, request_text(call, field->name),
				      err));
	}
	return STATUS_OK;
}

/* Moves the field @name, a map, from a message that @json makes into the request. Takes the reference. */
static enum status move_map(struct call *call, const char *name, json_t *json, struct error *err)
{
	const ProtobufCFieldDescriptor *field = request_field(call, name);
	cleanup_message ProtobufCMessage *made = NULL;
	char *to = call->request;

	TRY(request_make(((const ProtobufCMessage *)call->request)->descriptor, json_pack("{so}", name, json),
			 &made, err));
	/* cppcheck-suppress pointerSize ; the member is a pointer */
	memcpy(to + field->offset, (char *)made + field->offset, sizeof(void *));
	memcpy(to + field->quantifier_offset, (char *)made + field->quantifier_offset, sizeof(size_t));
	memset((char *)made + field->quantifier_offset, 0, sizeof(size_t));
	memset((char *)made + field->offset, 0, sizeof(void *));
	return STATUS_OK;
}

static enum status read_maps(struct call *call, struct error *err)
{
	for (const struct command_field *field = call->row->fields; field->name; field++) {
		json_t *json = NULL;

		if (field->source < FIELD_PAIRS)
			continue;
		if (field->source == FIELD_PAIRS)
			TRY(request_pairs(call->inv, (enum option_id)field->given, &json, err));
		else
			TRY(request_secrets(call->inv, &json, err));
		TRY(move_map(call, field->name, json, err));
	}
	return STATUS_OK;
}

/* Checks that each id that was looked up was given whole. */
static enum status check_whole(const struct call *call, struct error *err)
{
	for (const struct command_field *field = call->row->fields; field->name; field++) {
		const char *value = given_value(call, field);

		if (value && field->source >= FIELD_VOLUME && field->source <= FIELD_ALLOC)
			TRY(value_check_whole(call->inv, call->row->whole, value,
					      *request_text(call, field->name), err));
	}
	return STATUS_OK;
}

/* Checks the ids, and asks the question. */
static enum status confirm(struct call *call, struct error *err)
{
	const struct command_call *row = call->row;
	cleanup_strbuf struct strbuf question = STRBUF_INIT(QUESTION_MAX);

	if (row->whole)
		TRY(check_whole(call, err));
	if (!row->question)
		return STATUS_OK;
	show_text(&(struct shown){.message = call->request}, row->question, &question);
	return value_confirm(call->inv, question.error == 0 ? question.data : NULL, err);
}

/* --- the dispatcher --- */

static enum status call_begin(struct call *call, struct error *err)
{
	const struct command_call *row = call->row;
	const ProtobufCMethodDescriptor *method =
		protobuf_c_service_descriptor_get_method_by_name(row->service, row->method);

	assert(method);
	call->request = message_new(method->input);
	if (!call->request)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot make a request");
	TRY(load_fields(call, err));
	return row->load ? row->load(call, call->request, err) : STATUS_OK;
}

static enum status reach(struct call *call, struct error *err)
{
	const struct command_call *row = call->row;
	enum status status = row->service == &holdfast__v1__agent__descriptor
				     ? connect_agent(call->inv, &call->connection, err)
				     : connect_server(call->inv, &call->connection, err);

	if (status == STATUS_OK)
		status = look_up_fields(call, err);
	if (status == STATUS_OK)
		status = confirm(call, err);
	if (status == STATUS_OK)
		status = read_maps(call, err);
	if (status == STATUS_OK && row->fill)
		status = row->fill(call, call->request, err);
	if (status == STATUS_OK && call->is_short)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot make a request");
	return status;
}

static enum status ask(struct call *call, ProtobufCMessage **ret, struct error *err)
{
	const struct command_call *row = call->row;
	char doing[DOING_SIZE];

	switch (row->pages) {
	case PAGES_LIST:
		return pages_call(call->connection, call->inv, row->service, row->method, call->request, ret,
				  err);
	case PAGES_WHOLE:
		return pages_fetch(call->connection, row->service, row->method, call->request, 0, ret, err);
	case PAGES_NONE:
		break;
	}
	if (!row->doing)
		return call_method(call, ret, err);
	if (!call->subject)
		call->subject = *request_text(call, row->fields[0].name);
	(void)snprintf(doing, sizeof(doing), "%s %.128s", row->doing, call->subject);
	return connection_call_long(call->connection, call->inv, row->service, row->method, call->request,
				    call->timeout_us, doing, ret, err);
}

enum status call_show_rows(const struct call *call, ProtobufCMessage *answer, struct error *err)
{
	const struct rows *rows = call->row->rows;
	const char *output = call->inv->options[OPT_OUTPUT];
	ProtobufCMessage **items;
	size_t n;

	if (rows->descriptor == answer->descriptor)
		return show_page(rows, answer, call->request, call_has(call, OPT_VERBOSE), err);
	items = pages_items(answer, &n);
	if (!output || !str_eq(output, "name"))
		return show_list(rows, NULL, items, n, call_has(call, OPT_VERBOSE), err);
	show_names(rows, items, n);
	return STATUS_OK;
}

static bool is_by_rows(const struct call *call)
{
	const char *output = call->inv->options[OPT_OUTPUT];

	return !call->row->show || (output && str_eq(output, "name"));
}

static enum status show(struct call *call, ProtobufCMessage *answer, struct error *err)
{
	const struct command_call *row = call->row;
	enum status status;

	if (call_has(call, OPT_JSON) && !row->shows_json)
		return print_answer(answer, err);
	status = is_by_rows(call) ? call_show_rows(call, answer, err) : row->show(call, answer, err);
	if (row->pages == PAGES_LIST && !row->shows_json)
		pages_report_rest(answer);
	return status;
}

/* A list on its way to standard output, of which one page is in memory. */
struct listing {
	const struct call *call;
	struct list_output output; /* of JSON and YAML */
	struct table *table;	   /* NULL: not in this output */
	size_t n;		   /* lines so far */
};

static enum status show_rows_of(struct listing *listing, ProtobufCMessage *page, bool is_last,
				struct error *err)
{
	const struct rows *rows = listing->call->row->rows;
	int64_t now_ms = clock_realtime_ms();
	ProtobufCMessage **items;
	size_t n;

	items = pages_items(page, &n);
	if (!listing->table)
		show_names(rows, items, n);
	for (size_t i = 0; listing->table && i < n; i++)
		show_table_add(listing->table, rows,
			       &(struct shown){items[i], NULL, listing->n + i, now_ms,
					       call_has(listing->call, OPT_VERBOSE)});
	listing->n += n;
	if (!is_last || !listing->table)
		return STATUS_OK;
	if (listing->n == 0 && rows->none)
		print_line("%s", rows->none);
	return listing->n > 0 ? table_print(listing->table, NULL, err) : STATUS_OK;
}

static enum status show_next(ProtobufCMessage **page, bool is_last, void *userdata, struct error *err)
{
	struct listing *listing = userdata;

	TRY(call_has(listing->call, OPT_JSON) ? print_list_page(&listing->output, *page, is_last, err)
					      : show_rows_of(listing, *page, is_last, err));
	if (is_last && !call_has(listing->call, OPT_JSON))
		pages_report_rest(*page);
	return STATUS_OK;
}

/* Shows a list page by page. A table is shown when all of it is there, as its widths are known only then. */
static enum status list(struct call *call, struct error *err)
{
	const struct command_call *row = call->row;
	const char *output = call->inv->options[OPT_OUTPUT];
	struct listing listing = {.call = call};
	uint64_t limit = 0;
	enum status status = pages_limit(call->inv, &limit, err);

	if (status == STATUS_OK && !call_has(call, OPT_JSON) && !(output && str_eq(output, "name"))) {
		listing.table = show_table_new(row->rows, call_has(call, OPT_VERBOSE));
		if (!listing.table)
			status = error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot make a table");
	}
	if (status == STATUS_OK)
		status = pages_each(call->connection, row->service, row->method, call->request, limit,
				    show_next, &listing, err);
	table_free(listing.table);
	list_output_release(&listing.output);
	return status;
}

/* Adds the field to the refusal of a filter that has the name of a column for it. */
static void name_field(const struct rows *rows, struct error *err)
{
	static const char refusal[] = " has no field '";
	char *name = strstr(err->msg, refusal);

	name = name ? name + strlen(refusal) : NULL;
	for (size_t i = 0; name && i < rows->n; i++) {
		const struct column *column = &rows->columns[i];
		size_t n = strlen(column->name), at = (size_t)(name - err->msg) + n;

		if (column->text[0] != '{' || strncasecmp(name, column->name, n) != 0 || name[n] != '\'')
			continue;
		(void)snprintf(err->msg + at, sizeof(err->msg) - at, "'; column %s shows %.*s", column->name,
			       (int)strcspn(column->text + 1, ":?|}"), column->text + 1);
		return;
	}
}

static enum status ask_and_show(struct call *call, struct error *err)
{
	const struct command_call *row = call->row;
	cleanup_message ProtobufCMessage *answer = NULL;
	bool is_list = row->pages == PAGES_LIST && !row->shows_json &&
		       (call_has(call, OPT_JSON) || is_by_rows(call));
	enum status status = is_list ? list(call, err) : ask(call, &answer, err);

	if (status == STATUS_OK)
		return is_list ? STATUS_OK : show(call, answer, err);
	if (row->pages == PAGES_LIST && row->rows && call_has(call, OPT_FILTER))
		name_field(row->rows, err);
	return row->refused && !call->inv->is_usage_error ? row->refused(call, status, err) : status;
}

static enum status run_call(struct invocation *inv, const struct command_call *row, struct error *err)
{
	struct call call = {
		.inv = inv,
		.row = row,
		.timeout_us = row->timeout_us ? row->timeout_us : CALL_TIMEOUT_US,
	};
	enum status status = call_begin(&call, err);

	if (status == STATUS_OK)
		status = reach(&call, err);
	if (status == STATUS_OK && !call.is_over)
		status = ask_and_show(&call, err);
	connection_free(call.connection);
	protobuf_c_message_free_unpacked(call.request, NULL);
	return status;
}

static bool is_list(const struct command_call *row)
{
	return row->rows &&
	       row->rows->descriptor !=
		       protobuf_c_service_descriptor_get_method_by_name(row->service, row->method)->output;
}

/* Most of what --output can be, another option does. */
static enum status apply_output(struct invocation *inv, const struct command_call *row, struct error *err)
{
	const struct command *command = inv->command;
	const char *output = inv->options[OPT_OUTPUT];

	print_yaml(output && str_eq(output, "yaml"));
	print_wide(inv->options[OPT_WIDE] || (output && str_eq(output, "wide")));
	if (!output)
		return STATUS_OK;
	if (str_eq(output, "json") || str_eq(output, "yaml"))
		inv->options[OPT_JSON] = "";
	else if (str_eq(output, "wide") && (row->rows || (command->options & OPTION_BIT(OPT_VERBOSE))))
		inv->options[OPT_VERBOSE] = "";
	else if (str_eq(output, "wide"))
		return usage_error(inv, err, "--output wide is for tables; %s prints no table",
				   command->path);
	else if (!str_eq(output, "name"))
		return usage_error(inv, err, "--output is json, yaml, wide or name, not '%s'", output);
	else if (!is_list(row))
		return usage_error(inv, err, "--output name is for lists; %s prints no list", command->path);
	return STATUS_OK;
}

enum status command_run(struct invocation *inv, struct error *err)
{
	const struct command *command = inv->command;
	const struct command_call *row;
	struct error ignored;

	assert(command);
	row = inv->n_args == 0 && command->list.method ? &command->list : &command->call;
	TRY(apply_output(inv, row, err));
	if (!command_in_group(command->path, "context"))
		(void)context_apply(inv, &ignored); /* who connects finds the error again */
	return command->run ? command->run(inv, err) : run_call(inv, row, err);
}
