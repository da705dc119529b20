/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "command/command.h"
#include "show/output.h"
#include "show/table.h"

#include <errno.h>
#include <holdfast/v1/explain.pb-c.h>
#include <inttypes.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_USAGE = 2 };

enum { NODES_SHOWN_MAX = 100, NODE_LINE_SIZE = 1024 };

/* Prints the details of the server's error: the claims in the way, and why each node is unsuitable. */
static void complain_details(const Holdfast__V1__ErrorDetails *details, const struct error *err)
{
	size_t columns = columns_of(STDERR_FILENO);

	for (size_t i = 0; i < details->n_claims; i++)
		if (details->claims[i]->text[0] && !strstr(err->msg, details->claims[i]->text))
			print_reasons(stderr, details->claims[i]->text, columns);
	for (size_t i = 0; i < details->n_nodes && i < NODES_SHOWN_MAX; i++) {
		char line[NODE_LINE_SIZE];

		if (details->n_nodes == 1 && strstr(err->msg, details->nodes[i]->reason))
			continue; /* the node that was named: the message has it */
		(void)snprintf(line, sizeof(line), "  %s: %s", details->nodes[i]->node_id,
			       details->nodes[i]->reason);
		print_text(stderr, line);
	}
	if (details->more_nodes > 0)
		(void)fprintf(stderr, "  and %" PRIu32 " more nodes\n", details->more_nodes);
}

static void complain(const struct command *command, const struct error *err)
{
	(void)fputs("holdfast: ", stderr);
	if (command)
		(void)fprintf(stderr, "%s: ", command->path);
	print_reasons(stderr, err->msg, columns_of(STDERR_FILENO));
}

static int usage_failed(const struct invocation *inv, const struct error *err)
{
	if (inv->options[OPT_JSON]) {
		print_error_json(err, NULL);
		return EXIT_USAGE;
	}
	complain(NULL, err);
	if (inv->command)
		(void)fprintf(stderr, "usage: holdfast %s [options] %s\n", inv->command->path,
			      inv->command->args);
	else if (inv->group[0])
		command_list(stderr, inv->group);
	else
		(void)fputs("holdfast --help lists the commands\n", stderr);
	return EXIT_USAGE;
}

static int help(const struct invocation *inv)
{
	if (inv->command) {
		command_usage(stdout, inv->command);
	} else {
		(void)fputs("usage: holdfast COMMAND [options]\n\n", stdout);
		command_list(stdout, inv->group);
		(void)fputs("\nholdfast COMMAND --help shows the options of a command.\n", stdout);
	}
	return EXIT_SUCCESS;
}

static void fail(struct invocation *inv, const struct error *err)
{
	if (inv->options[OPT_JSON]) {
		print_error_json(err, inv->details);
	} else {
		complain(inv->command, err);
		if (inv->details)
			complain_details((const Holdfast__V1__ErrorDetails *)(const void *)inv->details, err);
	}
	protobuf_c_message_free_unpacked(inv->details, NULL);
	inv->details = NULL;
}

/* A full disk or a closed pipe must not look like success. */
static enum status flush_output(struct error *err)
{
	if (fflush(stdout) != 0 || ferror(stdout))
		return error_set(err, STATUS_INTERNAL, errno, "cannot write the output");
	return STATUS_OK;
}

int main(int argc, char **argv)
{
	struct invocation inv;
	struct error err = {.msg = ""};
	enum status status;

	/* only for the width of characters: numbers and times are the same everywhere */
	(void)setlocale(LC_CTYPE, "");
	status = command_parse(argc, argv, &inv, &err);
	if (status != STATUS_OK)
		return usage_failed(&inv, &err);
	if (inv.options[OPT_HELP])
		return help(&inv);
	status = command_run(&inv, &err);
	json_decref(inv.context);
	if (status == STATUS_OK)
		status = flush_output(&err);
	if (status == STATUS_OK)
		return EXIT_SUCCESS;
	(void)fflush(stdout);
	fail(&inv, &err);
	if (inv.is_usage_error)
		return EXIT_USAGE;
	return inv.exit_code ? inv.exit_code : EXIT_FAILURE;
}
