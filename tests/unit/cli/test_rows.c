/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables and pages: each of their paths exists, and texts show the values at the paths. */

#include "unit.h"

#include "command/command.h"
#include "pb/reflect.h"
#include "show/show.h"

#include <ctype.h>
#include <holdfast/v1/nodes.pb-c.h>

extern const struct rows __start_show_rows[], __stop_show_rows[];

static const ProtobufCFieldDescriptor *find(const ProtobufCMessageDescriptor *of, const char *path, size_t n)
{
	const ProtobufCFieldDescriptor *field = of ? reflect_path(of, path, n) : NULL;

	if (!field)
		fail_msg("%s has no %.*s", of ? of->name : "nothing", (int)n, path);
	return field;
}

static void check_piece(const struct rows *rows, const char *piece)
{
	bool is_outer = piece[0] == '^';
	const char *path = piece + is_outer;
	size_t n = strcspn(path, ":?}");
	const char *format = path + n + 1;
	const ProtobufCFieldDescriptor *field;

	if (path[0] == '#')
		return;
	field = find(is_outer ? rows->of : rows->descriptor, path, n);
	if (path[n] != ':')
		return;
	if (isdigit((unsigned char)format[0]))
		assert_int_equal(field->type, PROTOBUF_C_TYPE_STRING);
	else if (!show_has_format(format, strcspn(format, "}")) || !reflect_is_number(field->type))
		fail_msg("{%.*s}: no such format", (int)strcspn(piece, "}"), piece);
}

static void check_text(const struct rows *rows, const char *text)
{
	int depth = 0;

	for (const char *at = text; at && *at; at++) {
		depth += (*at == '{') - (*at == '}');
		if (*at == '{')
			check_piece(rows, at + 1);
	}
	assert_int_equal(depth, 0);
}

static void check_column(const struct rows *rows, const struct column *column)
{
	check_text(rows, column->when);
	if (column->rows)
		assert_ptr_equal(find(rows->descriptor, column->text, strlen(column->text))->descriptor,
				 column->rows->descriptor);
	else
		check_text(rows, column->text);
	assert_true(column->text || column->put);
}

TEST(each_path_of_each_row_exists)
{
	size_t n = 0;

	assert_true(command_count() > 0); /* links all commands, and with them their rows */
	for (const struct rows *rows = __start_show_rows; rows < __stop_show_rows; rows++, n++)
		for (size_t i = 0; i < rows->n; i++)
			check_column(rows, &rows->columns[i]);
	assert_in_range(n, 50, 200);
}

static void check_call(const struct command_call *call)
{
	const ProtobufCMessageDescriptor *input;
	struct rows request = {.columns = NULL};

	if (!call->method)
		return;
	input = protobuf_c_service_descriptor_get_method_by_name(call->service, call->method)->input;
	request.descriptor = input;
	check_text(&request, call->question);
	for (const struct command_field *field = call->fields; field->name; field++)
		(void)find(input, field->name, strlen(field->name));
	assert_true(call->show || call->rows);
}

TEST(each_field_and_question_of_a_command_is_of_its_request)
{
	for (size_t i = 0; i < command_count(); i++) {
		check_call(&command_at(i)->call);
		check_call(&command_at(i)->list);
	}
}

/* Shows the second node of a list. */
static void expect_text(const Holdfast__V1__Node *node, const char *text, const char *expected)
{
	const Holdfast__V1__GetNodeResponse of = {.base = {&holdfast__v1__get_node_response__descriptor},
						  .index = 7};
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(256);

	show_text(
		&(struct shown){
			.message = node ? &node->base : NULL, .of = &of.base, .i = 1, .now_ms = 10000},
		text, &sb);
	assert_string_equal(sb.data ? sb.data : "", expected);
}

TEST(a_text_shows_the_values_at_its_paths)
{
	Holdfast__V1__Drain drain = HOLDFAST__V1__DRAIN__INIT;
	Holdfast__V1__NodePlugin first = HOLDFAST__V1__NODE_PLUGIN__INIT, last = first;
	Holdfast__V1__NodePlugin *plugins[] = {&first, &last};
	Holdfast__V1__Node node = HOLDFAST__V1__NODE__INIT;

	node.id = (char *)(uintptr_t) "worker";
	node.status = HOLDFAST__V1__NODE_STATUS__READY;
	node.plugins = plugins;
	node.n_plugins = 2;
	last.plugin_id = (char *)(uintptr_t) "ebs";
	last.class_ = HOLDFAST__V1__SOURCE_CLASS__SOURCE_CLASS_UNSPECIFIED;
	drain.deadline_ms = 4000;
	expect_text(&node, "{id} is {status}, {ineligible}", "worker is ready, no");
	expect_text(&node, "{id:4}{ineligible?no|{id?yes}}{address?at {address}}", "workyes");
	expect_text(&node, "{plugins}: {plugins.plugin_id} {plugins.class}[{#}] {^index}", "2: ebs [] 7");
	expect_text(&node, "{#?second|first}", "second");
	expect_text(&node, "<{drain.deadline_ms}>{drain?y|n}", "<>n");
	node.drain = &drain;
	expect_text(&node, "{drain.deadline_ms:age}{drain.deadline_ms:overdue} {drain.started_ms:age}",
		    "6s, overdue ");
	expect_text(&node, "{drain.started_ms} {drain.deadline_ms:time}", "0 1970-01-01T00:00:04.000Z");
	expect_text(NULL, "<{id}{id?y|n}>", "<n>");
}
