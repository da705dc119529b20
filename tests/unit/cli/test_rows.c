/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables and pages: each of their paths exists, and texts show the values at the paths. */

#include "unit.h"

#include "command/command.h"
#include "pb/reflect.h"
#include "show/show.h"

#include <ctype.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern const struct rows __start_show_rows[], __stop_show_rows[];

static const ProtobufCFieldDescriptor *find(const ProtobufCMessageDescriptor *of, const char *path, size_t n)
{
	const ProtobufCFieldDescriptor *field = of ? reflect_path(of, path, n) : NULL;

	assert_msg(field, "%s has no %.*s", of ? of->name : "nothing", (int)n, path);
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
	Holdfast__V1__Drain drain = V1(drain, .deadline_ms = 4000);
	Holdfast__V1__NodePlugin first = HOLDFAST__V1__NODE_PLUGIN__INIT, last = first;
	Holdfast__V1__NodePlugin *plugins[] = {&first, &last};
	Holdfast__V1__Node node =
		V1(node, .id = (char *)(uintptr_t) "worker", .status = HOLDFAST__V1__NODE_STATUS__READY,
		   .plugins = plugins, .n_plugins = 2);

	last.plugin_id = (char *)(uintptr_t) "ebs";
	last.class_ = HOLDFAST__V1__SOURCE_CLASS__SOURCE_CLASS_UNSPECIFIED;
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

/* --- at 80 columns --- */

enum { TERMINAL = 80, LINES = 3 };

/* A terminal of 80 columns in the place of standard output. Returns its other end. */
static int use_terminal(int *ret_stdout)
{
	const struct winsize size = {.ws_row = 24, .ws_col = TERMINAL};
	int ends[2];

	assert_int_equal(openpty(&ends[0], &ends[1], NULL, NULL, &size), 0);
	(void)fflush(stdout);
	*ret_stdout = dup(STDOUT_FILENO);
	assert_int_equal(dup2(ends[1], STDOUT_FILENO), STDOUT_FILENO);
	(void)close(ends[1]);
	return ends[0];
}

static size_t read_terminal(int fd, int saved, char *text, size_t size)
{
	size_t n = 0;
	ssize_t got;

	(void)fflush(stdout);
	assert_int_equal(dup2(saved, STDOUT_FILENO), STDOUT_FILENO);
	(void)close(saved);
	while (n < size - 1 && (got = read(fd, text + n, size - 1 - n)) > 0)
		n += (size_t)got;
	(void)close(fd);
	text[n] = '\0';
	return n;
}

/* Colours take no room. */
static size_t longest_line(char *text)
{
	size_t longest = 0;

	for (char *line = strtok(text, "\r\n"); line; line = strtok(NULL, "\r\n")) {
		size_t n = 0;

		for (const char *at = line; *at != '\0'; at++) {
			if (*at == '\033')
				at += strcspn(at, "m");
			else
				n++;
		}
		while (n > 0 && line[strlen(line) - 1] == ' ') {
			line[strlen(line) - 1] = '\0';
			n--;
		}
		longest = n > longest ? n : longest;
	}
	return longest;
}

static bool is_table(const struct rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		if (!rows->columns[i].name || rows->columns[i].rows)
			return false;
	return rows->n > 0 && rows->n <= 16; /* longer ones are pages */
}

static void check_width(const struct rows *rows)
{
	static const char *const cells[LINES] = {
		"0192f3a0-0000-7000-8000-00000000000", "0192f3a0-0000-7000-8000-00000000001",
		"a-name-as-long-as-names-may-be-0123456789-0123456789-0123456789-"};
	static char text[1 << 16];
	struct error err = {.msg = ""};
	int saved;
	int fd = use_terminal(&saved);
	struct table *table = show_table_new(rows, false);

	for (int line = 0; line < LINES; line++) {
		char copies[32][80];
		const char *given[32];

		for (size_t i = 0; i < rows->n && i < 32; i++) {
			(void)snprintf(copies[i], sizeof(copies[i]), "%s%c", cells[line],
				       (char)('a' + i % 6));
			given[i] = rows->columns[i].is_number ? "1234567" : copies[i];
		}
		table_add(table, given);
	}
	assert_int_equal(table_print(table, "title", &err), STATUS_OK);
	table_free(table);
	(void)read_terminal(fd, saved, text, sizeof(text));
	assert_msg(longest_line(text) <= TERMINAL, "a table of %s is %zu columns wide",
		   rows->descriptor->name, longest_line(text));
}

TEST(every_table_fits_a_terminal_of_80_columns_with_long_names)
{
	size_t n = 0;

	for (const struct rows *rows = __start_show_rows; rows < __stop_show_rows; rows++)
		if (is_table(rows)) {
			check_width(rows);
			n++;
		}
	assert_true(n >= 20);
}

TEST(ids_are_shortened_until_they_are_unique_in_the_table)
{
	static const struct column columns[] = {COL("ID", ""), COL("TEXT", "")};
	static char text[4096];
	struct error err = {.msg = ""};
	int saved;
	int fd = use_terminal(&saved);
	struct table *table = table_new(columns, 2);

	table_add(table,
		  (const char *[]){"0192f3a0-0000-7000-8000-00000000000a",
				   "seventy bytes of text make this table wider than the terminal is...."});
	table_add(table, (const char *[]){"0192f3a0-0000-7111-8000-00000000000a", "x"});
	assert_int_equal(table_print(table, NULL, &err), STATUS_OK);
	table_free(table);
	(void)read_terminal(fd, saved, text, sizeof(text));
	assert_non_null(strstr(text, "0192f3a0-0000-70 "));
	assert_non_null(strstr(text, "0192f3a0-0000-71 "));
	assert_null(strstr(text, "0192f3a0-0000-700"));
}

/* Takes what comes out of @fd, of which this process has no use. */
static pid_t drain(int fd)
{
	static char bytes[1 << 16];
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	(void)close(STDOUT_FILENO); /* the end comes when the last one has closed it */
	while (read(fd, bytes, sizeof(bytes)) > 0) {
	}
	_exit(0);
}

TEST(a_hundred_thousand_lines_are_fitted_in_linear_time)
{
	static const struct column columns[] = {COL("ID", ""), COL_STATE("STATE", ""), COL("TEXT", "")};
	struct error err = {.msg = ""};
	int saved;
	int fd = use_terminal(&saved);
	pid_t pid = drain(fd);
	struct table *table = table_new(columns, 3);

	for (unsigned int i = 0; i < 100000; i++) {
		char id[40];

		(void)snprintf(id, sizeof(id), "0192f3a0-0000-7000-8000-%012u", i);
		table_add(table, (const char *[]){id, "running", "a text that makes it wider than it fits"});
	}
	assert_int_equal(table_print(table, NULL, &err), STATUS_OK);
	table_free(table);
	(void)fflush(stdout);
	assert_int_equal(dup2(saved, STDOUT_FILENO), STDOUT_FILENO);
	(void)close(saved);
	(void)close(fd);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

TEST(the_first_column_is_cut_after_all_others)
{
	static const struct column columns[] = {COL("ID", ""), COL("TEXT", ""), COL("MORE", "")};
	static char text[4096];
	struct error err = {.msg = ""};
	int saved;
	int fd = use_terminal(&saved);
	struct table *table = table_new(columns, 3);

	table_add(table, (const char *[]){"a-name-of-thirty-eight-bytes-0123456789",
					  "a text of more than forty bytes, which is cut", "a text too"});
	assert_int_equal(table_print(table, NULL, &err), STATUS_OK);
	table_free(table);
	(void)read_terminal(fd, saved, text, sizeof(text));
	assert_non_null(strstr(text, "a-name-of-thirty-eight-bytes-0123456789 a text of more"));
	assert_null(strstr(text, "which is cut"));
}
