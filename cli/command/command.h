/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The commands and their options: one table drives parsing, usage, completion and the manual's skeleton. */

#include "base/error.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum option_id {
	OPT_HELP,
	OPT_VERSION,
	OPT_JSON,
	OPT_OUTPUT,
	OPT_WIDE,
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
	OPT_FENCE,
	OPT_WITHOUT_PLUGIN,
	OPT_UNCONFIRMED,
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
	OPT_HEADS,
	OPT_TOKEN_FILE,
	OPT_VERBOSE,
	OPT_FILTER,
	OPT_ALL,
	OPT_LIMIT,
	OPT_PLUGIN,
	OPT_TYPE,
	OPT_REASON,
	OPT_DRY_RUN,
	OPT_YES,
	OPT_DEADLINE,
	OPT_CANCEL,
	OPT_ENABLE,
	OPT_DISABLE,
	OPT_VALID,
	OPT_PARAMETER,
	OPT_SECRETS_FILE,
	OPT_CAPACITY_MAX,
	OPT_OLDER_THAN,
	OPT_OTHER_CLUSTER,
	OPT_UNKNOWN,
	OPT_INDEX,
	OPT_DAYS,
	OPT_OUT,
	OPT_HOST,
	OPT_MANAGEMENT,
	OPT_SECRET_ONLY,
	OPT_CIDR,
	OPT_BIND_NAMESPACE,
	OPT_NOW,
	OPT_WHO,
	OPT_OBJECT,
	OPT_CLUSTER,
	OPT_TICKET_KEY,
	OPT_KIT,
	OPT_PASSPHRASE_FILE,
	OPT_KEY_FILE,
	OPT_UID, /* from here to OPT_DETACH: of policy explain, given on to holdfast-policy */
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
	OPT_INTERACTIVE,
	OPT_TTY,
	OPT_USER,
	OPT_FOLLOW,
	OPT_STDERR,
	OPT_STDOUT,
	OPT_TAIL,
	OPT_INTERVAL,
	OPT_PURGE,
	OPT_CONFIG,
	OPT_TEMPLATE,
	OPT_WAIT,
	OPT_VAR,
	OPT_ALIVE,
	OPT_TEST,
	OPT_KEEP_CERTIFICATE,
	OPT_DIFF,
	OPT_PRUNE,
	OPT_TTL,
	OPT_FOR,
	OPT_NETWORK,
	OPT_LIFT,
	OPT_CONTEXT,
	OPT_FILENAME,
	OPT_OUTSIDE,
	OPTION_N,
};

/* A set of them: there are more than 64. */
__extension__ typedef unsigned __int128 option_set;

#define OPTION_BIT(id) ((option_set)1 << (id))

/* The offers of completion for an argument. */
enum word_kind {
	WORD_NONE,
	WORD_FILE,
	WORD_VOLUME,
	WORD_NODE,
	WORD_PLUGIN,
	WORD_ALLOC,
	WORD_JOB,
	WORD_CONTEXT,
	WORD_KIND_N,
};

struct option_info {
	const char *name; /* long form, without dashes */
	char letter;	  /* short form, or NUL */
	const char *arg;  /* what its argument is called; NULL for a flag */
	const char *help;
	bool repeats;		 /* may be given several times: option_next() */
	enum word_kind arg_kind; /* of the argument */
};

extern const struct option_info command_options[OPTION_N];

struct invocation;

/** Run a command that is more than one call. */
typedef enum status command_fn(struct invocation *inv, struct error *err);

struct call;

/** Fill a call's request, of the method's input. */
typedef enum status call_fill_fn(struct call *call, void *request, struct error *err);

/** Print a call's answer, of the method's output. */
typedef enum status call_show_fn(struct call *call, const void *answer, struct error *err);

/** Add to the error of a refused call. Returns @status. */
typedef enum status call_refused_fn(struct call *call, enum status status, struct error *err);

enum call_pages {
	PAGES_NONE,
	PAGES_LIST,  /* a List: as many pages as --limit asks for */
	PAGES_WHOLE, /* a Get whose object has lists in pages: all of them */
};

/* Where the value of a request's field is from. */
enum field_source {
	FIELD_GIVEN,  /* the text as it is given, or whether the option is */
	FIELD_REASON, /* the text as it is given, which must be a reason */
	FIELD_VOLUME, /* the rest are looked up: the volume that the first argument and --namespace mean */
	FIELD_JOB,    /* likewise the job */
	FIELD_NODE,   /* the id that begins so */
	FIELD_KNOWN_NODE, /* likewise, or as it is given: it may be gone while its volumes are not */
	FIELD_PLUGIN,
	FIELD_KNOWN_PLUGIN,
	FIELD_ALLOC,
	FIELD_PAIRS,   /* a map of KEY=VALUE */
	FIELD_SECRETS, /* a map from a file */
};

struct command_field {
	const char *name; /* NULL: the end */
	int given;	  /* an option_id, or ARG(i) */
	enum field_source source;
};

#define ARG(i) (OPTION_N + (i))

enum { COMMAND_FIELDS_MAX = 5 };

/* A call of one method. The server decides whether it is allowed. */
struct command_call {
	const ProtobufCServiceDescriptor *service;	 /* that of the agent is called at its socket */
	const char *method;				 /* NULL: there is no call */
	struct command_field fields[COMMAND_FIELDS_MAX]; /* the id of the first is handled by: */
	const char *whole;				 /* "delete": the command that takes whole ids only */
	const char *question;	  /* asked before the call; a text of show/rows.h about the request */
	call_fill_fn *load;	  /* values of the command line and of files; nothing is connected yet */
	call_fill_fn *fill;	  /* the rest: ids that are completed, a question to the person */
	call_show_fn *show;	  /* --json is the dispatcher's; NULL: it shows the rows */
	const struct rows *rows;  /* of what the answer lists, or of the answer itself */
	call_refused_fn *refused; /* NULL: the error stays as it is */
	const char *doing;	  /* "creating volume": it takes long, with progress and --timeout */
	uint64_t timeout_us;	  /* 0: CALL_TIMEOUT_US */
	enum call_pages pages;
	bool shows_json; /* show() does --json too: it has more than the method's answer */
};

enum {
	ANY_ARGS = 1 << 20,
	ARG_KINDS_MAX = 2,
};

struct command {
	const char *path; /* words divided by one space */
	const char *args; /* for the usage */
	const char *help;
	const char *example; /* arguments of a call that makes sense; NULL: no example */
	option_set options;  /* bits of option_id in addition to those that every command has */
	int min_args;
	int max_args;
	enum word_kind arg_kinds[ARG_KINDS_MAX]; /* of its first arguments; the last one is that of all that
						    follow */
	command_fn *run;			 /* NULL: it is a call */
	struct command_call call;
	struct command_call list; /* without arguments; no method: as with them */
};

/* The commands of one module. */
struct command_table {
	const struct command *rows;
	size_t n;
};

size_t command_count(void);

/** The @n-th of all commands, in the order of the help. */
const struct command *command_at(size_t n);

/** Options that every command takes. */
extern const option_set common_options;

enum { OPTION_REPEATS_MAX = 64 };

struct repeated_option {
	enum option_id id;
	const char *value;
};

enum { COMMAND_GROUP_SIZE = 64 };

/* A parsed command line. Everything in it is borrowed from argv. */
struct invocation {
	const struct command *command;	/* NULL for "holdfast --help" and "holdfast GROUP --help" */
	char group[COMMAND_GROUP_SIZE]; /* "volume", "operator cert" when only that much was given; else empty
					 */
	const char *options[OPTION_N];	/* NULL: not given; flags are "", of repeated ones the last.
					   command_run() sets those that --output implies */
	struct repeated_option repeated[OPTION_REPEATS_MAX];
	size_t n_repeated;
	int n_args;
	char **args;
	int n_behind;		   /* of these, arguments behind "--"; -1: there was no "--" */
	bool is_usage_error;	   /* set by usage_error(): the exit code is 2 */
	int exit_code;		   /* of a failure that has one of its own; 0: 1 */
	struct json_t *context;	   /* whose texts are among the options, or NULL; owned, of main() */
	ProtobufCMessage *details; /* ErrorDetails of the server's refusal, or NULL; owned, of main() */
};

/** Run the command of @inv. Prints its result; an error is for the caller to print. */
enum status command_run(struct invocation *inv, struct error *err);

/** Parses a command line; options may be anywhere. Unknown commands and options, options of another command
 * and wrong numbers of arguments are STATUS_INVALID_ARGUMENT; @ret->command is filled as far as it is known.
 * @argv is reordered. */
enum status command_parse(int argc, char **argv, struct invocation *ret, struct error *err);

/** Fill @err for a mistake in the command line found while running. Returns STATUS_INVALID_ARGUMENT. */
enum status usage_error(struct invocation *inv, struct error *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** Returns the next value of a repeated option; @at begins at 0. NULL: there are no further values. */
const char *option_next(const struct invocation *inv, enum option_id id, size_t *at);

/** Value of an option for a request, "" when it is not given. Not to be written to: requests only lack the
 * const. */
char *option_text(const struct invocation *inv, enum option_id id);

/** Puts the value of a given option into a string field of a specification; a file with another value is a
 * usage error. */
enum status option_apply(struct invocation *inv, enum option_id id, char **field, struct error *err);

/** Usage of one command. */
void command_usage(FILE *out, const struct command *command);

/** The commands of @group, or all when it is NULL or empty, a line each. */
void command_list(FILE *out, const char *group);

/** Returns whether @path begins with the whole words @group. NULL and "" are the group of all. */
bool command_in_group(const char *path, const char *group);
