#pragma once
/* The commands and their options: one table drives parsing, usage, completion and the manual's skeleton. */

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum option_id {
	OPT_HELP,
	OPT_VERSION,
	OPT_JSON,
	OPT_ADDRESS,
	OPT_CA,
	OPT_CERT,
	OPT_KEY,
	OPT_SERVER_URI,
	OPT_DEV_DIR,
	OPT_SOCKET,
	OPT_NAMESPACE,
	OPT_WHY,
	OPT_ATTEST,
	OPT_NODE,
	OPT_ID,
	OPT_NO_WAIT,
	OPT_TIMEOUT,
	OPT_VOLUME,
	OPT_ALLOC,
	OPT_RESULT,
	OPT_OPERATION,
	OPT_SINCE,
	OPT_UNTIL,
	OPT_UNFINISHED,
	OPT_HEAD,
	OPT_ROTATED,
	OPT_DAYS,
	OPT_OUT,
	OPT_HOST,
	OPT_MANAGEMENT,
	OPT_WHO,
	OPT_OBJECT,
	OPT_UID, /* from here to the last one: of policy explain, given on to holdfast-policy */
	OPT_PROFILE,
	OPT_BY_ID,
	OPT_TMPFS_SIZE,
	OPT_INODES,
	OPT_SERVER,
	OPT_EXPORT,
	OPT_HOSTVOL,
	OPT_READ_ONLY,
	OPT_EXEC,
	OPT_PROPAGATION,
	OPT_SLOT,
	OPT_DETACH,
	OPTION_N,
};

#define OPTION_BIT(id) (UINT64_C(1) << (id))

struct option_info {
	const char *name; /* long form, without dashes */
	char letter;	  /* short form, or NUL */
	const char *arg;  /* what its argument is called; NULL for a flag */
	const char *help;
};

extern const struct option_info command_options[OPTION_N];

struct invocation;

/** Run a command. Prints its result; an error is for the caller to print. */
typedef enum status command_fn(struct invocation *inv, struct error *err);

struct command {
	const char *path; /* words divided by one space */
	const char *args; /* for the usage */
	const char *help;
	uint64_t options; /* bits of option_id beside those that every command has */
	int min_args;
	int max_args;
	command_fn *run; /* NULL: not built yet */
};

enum { ANY_ARGS = 1 << 20 };

extern const struct command commands[];
extern const size_t n_commands;

/** Options that every command takes. */
extern const uint64_t common_options;

/* A parsed command line. Everything is borrowed from argv. */
struct invocation {
	const struct command *command; /* NULL for "holdfast --help" and "holdfast GROUP --help" */
	const char *group;	       /* "volume" when only that much was given */
	const char *options[OPTION_N]; /* NULL: not given; flags are "" */
	int n_args;
	char **args;
	bool is_usage_error; /* set by usage_error(): the exit code is 2 */
};

/** Parse a command line; options may stand anywhere. Unknown commands and options, options of another command
 * and wrong numbers of arguments are STATUS_INVALID_ARGUMENT; @ret->command is filled as far as it is known.
 * @argv is reordered. */
enum status command_parse(int argc, char **argv, struct invocation *ret, struct error *err);

/** Fill @err for a mistake in the command line found while running. Returns STATUS_INVALID_ARGUMENT. */
enum status usage_error(struct invocation *inv, struct error *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** Value of an option for a request, "" when it is not given. Not to be written to: requests only lack the
 * const. */
char *option_text(const struct invocation *inv, enum option_id id);

/** Put the value of a given option into a string field of a specification; a file that says something else is
 * a usage error. */
enum status option_apply(struct invocation *inv, enum option_id id, char **field, struct error *err);

/** Usage of one command. */
void command_usage(FILE *out, const struct command *command);

/** The commands of @group, or all when it is NULL, a line each. */
void command_list(FILE *out, const char *group);

/** Does @path begin with the whole word @group? NULL is the group of all. */
bool command_in_group(const char *path, const char *group);
