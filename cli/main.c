#include "command.h"
#include "output.h"

#include "base/str.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>

enum { EXIT_USAGE = 2 };

static void complain(const struct command *command, const struct error *err)
{
	(void)fputs("holdfast: ", stderr);
	if (command)
		(void)fprintf(stderr, "%s: ", command->path);
	print_text(stderr, err->msg);
}

static int usage_failed(const struct invocation *inv, const struct error *err)
{
	complain(NULL, err);
	if (inv->command)
		(void)fprintf(stderr, "usage: holdfast %s [options] %s\n", inv->command->path,
			      inv->command->args);
	else if (inv->group)
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

/* A full disk or a closed pipe must not look like success. */
static enum status flush_output(struct error *err)
{
	if (fflush(stdout) != 0 || ferror(stdout))
		return error_set(err, STATUS_INTERNAL, errno, "write the output");
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
	if (inv.command->run)
		status = inv.command->run(&inv, &err);
	else
		status = error_set(&err, STATUS_UNIMPLEMENTED, 0, "not built yet (unimplemented)");
	if (status == STATUS_OK)
		status = flush_output(&err);
	if (status == STATUS_OK)
		return EXIT_SUCCESS;
	(void)fflush(stdout);
	complain(inv.command, &err);
	return inv.is_usage_error ? EXIT_USAGE : EXIT_FAILURE;
}
