/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/trail.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "call/connect.h"
#include "command/commands.h"
#include "model/node.h"
#include "model/volume.h"
#include "show/output.h"
#include "show/table.h"

#include <errno.h>
#include <holdfast/v1/operator.pb-c.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Both spellings of a volume: as the trail has it, and the one it has towards the helper. */
struct show {
	struct trail_filter filter;
	char wire_volume[WIRE_VOLUME_SIZE];
	char since[CLOCK_TEXT_SIZE];
	char until[CLOCK_TEXT_SIZE];
	bool is_json;
	bool is_unfinished; /* only intents without a result, which the end shows */
	struct trail_open open;
	struct table *table; /* NULL for JSON */
	size_t rows;	     /* in it */
	uint64_t shown;
	uint64_t unreadable; /* lines that are no records */
};

enum { ROWS = 1000 }; /* printed at a time, so that a trail may be of any length */

static char default_path[] = HOLDFAST_TRAIL_PATH;
static char *default_paths[] = {default_path};

/* The files to read. Returns how many. */
static size_t trail_paths(struct invocation *inv, char ***ret)
{
	*ret = inv->n_args > 0 ? inv->args : default_paths;
	return inv->n_args > 0 ? (size_t)inv->n_args : 1;
}

static enum status open_trail(const char *path, FILE **ret, struct error *err)
{
	FILE *file = str_eq(path, "-") ? stdin : fopen(path, "re");

	if (!file)
		return error_set(err, status_from_errno(errno), errno, "cannot open %s", path);
	*ret = file;
	return STATUS_OK;
}

static void close_trail(FILE **file)
{
	if (*file && *file != stdin)
		(void)fclose(*file);
}

static enum status read_failed(const char *path, FILE *file, struct error *err)
{
	if (ferror(file))
		return error_set(err, status_from_errno(errno), errno, "cannot read %s", path);
	return STATUS_OK;
}

static enum status check_result(struct invocation *inv, struct error *err)
{
	const char *word = inv->options[OPT_RESULT];

	if (!word || str_eq(word, "success") || str_eq(word, "failed"))
		return STATUS_OK;
	return usage_error(inv, err, "'%s' is no result: success, failed", word);
}

/* "2h" ago, or a time as it is written in the trail, or its beginning. */
static enum status parse_time(struct invocation *inv, enum option_id option, const char **ret,
			      char buf[static CLOCK_TEXT_SIZE], struct error *err)
{
	const char *text = inv->options[option];
	uint64_t ago_us;

	if (!text)
		return STATUS_OK;
	*ret = buf;
	if (parse_duration(text, &ago_us) == 0) {
		(void)clock_format(clock_realtime_ms() - (int64_t)(ago_us / USEC_PER_MSEC), buf);
		return STATUS_OK;
	}
	if (strspn(text, "0123456789") < 4 || strspn(text, "0123456789-:.TZ") != strlen(text) ||
	    str_copy(buf, CLOCK_TEXT_SIZE, text) < 0)
		return usage_error(inv, err,
				   "'%s' is neither a duration (2h) nor a UTC time (2025-01-31T12:00)", text);
	return STATUS_OK;
}

static bool is_wanted(const struct show *show, const struct trail_record *record)
{
	struct trail_filter filter = show->filter;

	if (trail_matches(record, &filter))
		return true;
	if (!filter.volume)
		return false;
	filter.volume = show->wire_volume;
	return trail_matches(record, &filter);
}

static struct table *new_table(void)
{
	static const struct column columns[] = {
		{.name = "TIME"},	{.name = "REC", .is_number = true},
		{.name = "NODE"},	{.name = "OPERATION"},
		{.name = "PHASE"},	{.name = "VOLUME"},
		{.name = "ALLOCATION"}, {.name = "RESULT", .is_state = true},
		{.name = "REASON"},
	};

	return table_new(columns, ARRAY_SIZE(columns));
}

/* Print the rows that have gathered. */
static enum status print_rows(struct show *show, struct error *err)
{
	enum status status = STATUS_OK;

	if (show->rows > 0)
		status = table_print(show->table, NULL, err);
	table_free(show->table);
	show->table = NULL;
	show->rows = 0;
	return status;
}

static enum status show_row(struct show *show, const struct trail_record *record, struct error *err)
{
	const char *reason = trail_get(record, "reason");

	if (!show->table)
		show->table = new_table();
	table_add(show->table, (const char *const[]){trail_get(record, "ts"), trail_get(record, "rec"),
						     trail_get(record, "node"), trail_get(record, "op"),
						     trail_get(record, "phase"), trail_get(record, "vol"),
						     trail_get(record, "alloc"), trail_get(record, "res"),
						     str_eq(reason, "none") ? "" : reason});
	return ++show->rows == ROWS ? print_rows(show, err) : STATUS_OK;
}

static enum status show_record(struct show *show, const struct trail_record *record, struct error *err)
{
	if (!is_wanted(show, record))
		return STATUS_OK;
	show->shown++;
	return show->is_json ? print_json_line(trail_to_json(record), err) : show_row(show, record, err);
}

/* An intent that has turned out to have no result; frees the @line. */
static enum status show_unfinished(struct show *show, char *line, struct error *err)
{
	struct trail_record record;
	enum status status = STATUS_OK;

	if (line && trail_parse(line, &record))
		status = show_record(show, &record, err);
	free(line);
	return status;
}

static enum status show_line(struct show *show, char *line, struct error *err)
{
	char copy[TRAIL_LINE_MAX + 1];
	struct trail_record record;
	char *unfinished;

	(void)str_copy(copy, sizeof(copy), line);
	if (!trail_parse(line, &record)) {
		show->unreadable++;
		return STATUS_OK;
	}
	if (!show->is_unfinished)
		return show_record(show, &record, err);
	if (!trail_open_add(&show->open, copy, &record, &unfinished))
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "remember an intent");
	return show_unfinished(show, unfinished, err);
}

static enum status show_file(struct show *show, const char *path, struct error *err)
{
	cleanup(close_trail) FILE *file = NULL;
	enum status status = open_trail(path, &file, err);
	char line[TRAIL_LINE_MAX + 1];
	bool is_complete;
	size_t n;

	while (status == STATUS_OK && trail_read_line(file, line, &n, &is_complete)) {
		if (n > TRAIL_LINE_MAX || strlen(line) != n)
			show->unreadable++;
		else
			status = show_line(show, line, err);
	}
	return status == STATUS_OK ? read_failed(path, file, err) : status;
}

/* Prints the results that are known only after the last record. */
static enum status end_show(struct show *show, struct error *err)
{
	enum status status = STATUS_OK;
	char *line;

	while (status == STATUS_OK && (line = trail_open_take(&show->open)))
		status = show_unfinished(show, line, err);
	if (status == STATUS_OK && !show->is_json && show->shown == 0)
		print_line("no records");
	if (status == STATUS_OK)
		status = print_rows(show, err);
	if (status == STATUS_OK && show->unreadable)
		(void)fprintf(stderr, "holdfast: %" PRIu64 " lines are no records (holdfast audit verify)\n",
			      show->unreadable);
	return status;
}

static void show_release(struct show *show)
{
	char *line;

	while ((line = trail_open_take(&show->open)))
		free(line);
	table_free(show->table);
}

static enum status cmd_audit_show(struct invocation *inv, struct error *err)
{
	const char *namespace = inv->options[OPT_NAMESPACE];
	cleanup(show_release) struct show show = {
		.filter = {.volume = inv->options[OPT_VOLUME],
			   .alloc = inv->options[OPT_ALLOC],
			   .result = inv->options[OPT_RESULT],
			   .operation = inv->options[OPT_OPERATION]},
		.is_json = inv->options[OPT_JSON] != NULL,
		.is_unfinished = inv->options[OPT_UNFINISHED] != NULL,
	};
	enum status status = check_result(inv, err);
	char **paths;
	size_t n = trail_paths(inv, &paths);

	if (status == STATUS_OK)
		status = parse_time(inv, OPT_SINCE, &show.filter.since, show.since, err);
	if (status == STATUS_OK)
		status = parse_time(inv, OPT_UNTIL, &show.filter.until, show.until, err);
	if (show.filter.volume)
		volume_wire_name(namespace ? namespace : "default", show.filter.volume, show.wire_volume);
	for (size_t i = 0; i < n && status == STATUS_OK; i++)
		status = show_file(&show, paths[i], err);
	return status == STATUS_OK ? end_show(&show, err) : status;
}

/* --- verify --- */

struct verifying {
	struct trail_check check;
	struct trail_heads heads; /* with --server */
	char node[NODE_ID_MAX + 1];
	char **paths;
	size_t n;
};

static enum status verify_file(struct verifying *v, const char *path, struct error *err)
{
	cleanup(close_trail) FILE *file = NULL;
	enum status status = open_trail(path, &file, err);
	char line[TRAIL_LINE_MAX + 1];
	bool is_complete;
	size_t n;

	while (status == STATUS_OK && trail_read_line(file, line, &n, &is_complete)) {
		trail_check_line(&v->check, line, n, is_complete);
		trail_heads_look(&v->heads, &v->check);
	}
	return status == STATUS_OK ? read_failed(path, file, err) : status;
}

/* Finds the node of the files from their first record, or from --node. */
static enum status find_node(struct invocation *inv, struct verifying *v, struct error *err)
{
	cleanup(close_trail) FILE *file = NULL;
	const char *given = inv->options[OPT_NODE];
	char line[TRAIL_LINE_MAX + 1];
	struct trail_record record;
	enum status status = STATUS_OK;
	bool is_complete;
	size_t n;

	if (str_eq(v->paths[0], "-")) { /* which can be read only once */
		if (!given)
			return usage_error(inv, err, "--server needs --node ID when it reads from -");
	} else {
		status = open_trail(v->paths[0], &file, err);
	}
	while (status == STATUS_OK && file && v->node[0] == '\0' &&
	       trail_read_line(file, line, &n, &is_complete))
		if (n <= TRAIL_LINE_MAX && strlen(line) == n && trail_parse(line, &record))
			(void)str_copy(v->node, sizeof(v->node), trail_get(&record, "node"));
	if (status != STATUS_OK)
		return status;
	if (given && v->node[0] != '\0' && !str_eq(v->node, given))
		return error_set(err, STATUS_DATA_LOSS, 0,
				 "%s is the trail of node %s. Next: give the trail of node %s", v->paths[0],
				 v->node, given);
	if (given && str_copy(v->node, sizeof(v->node), given) < 0)
		return usage_error(inv, err, "--node: '%s' is no name of a node", given);
	if (v->node[0] == '\0')
		return error_set(
			err, STATUS_DATA_LOSS, 0,
			"no record in %s names the node. Next: give --node ID, to compare with the server",
			v->paths[0]);
	return STATUS_OK;
}

static int compare_shown(const void *a, const void *b)
{
	const struct trail_shown *one = a, *other = b;

	return one->record < other->record ? -1 : one->record > other->record;
}

static void add_shown(struct trail_heads *heads, const Holdfast__V1__TrailHead *head)
{
	struct trail_shown *shown = &heads->shown[heads->n];

	if (!head || heads->n == TRAIL_HEADS_MAX || head->sha256.len != (TRAIL_HASH_SIZE - 1) / 2)
		return;
	*shown = (struct trail_shown){.record = head->record, .time_ms = head->time_ms};
	hex_encode(shown->sha256, head->sha256.data, head->sha256.len);
	heads->n++;
}

/* Before the files are read: what a live trail gets meanwhile is no fault. */
static enum status fetch_heads(struct invocation *inv, struct verifying *v, struct error *err)
{
	Holdfast__V1__ListTrailsRequest request = HOLDFAST__V1__LIST_TRAILS_REQUEST__INIT;
	cleanup_message Holdfast__V1__ListTrailsResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	enum status status = connect_server(inv, &connection, err);

	request.prefix = v->node;
	if (status == STATUS_OK)
		status = connection_call(connection, &holdfast__v1__operator__descriptor, "ListTrails",
					 &request.base, CALL_TIMEOUT_US, &answer, err);
	if (status != STATUS_OK)
		return status;
	/* the first one is the shortest name with this beginning */
	if (answer->n_trails > 0 && str_eq(answer->trails[0]->node_id, v->node)) {
		const Holdfast__V1__NodeTrail *trail = answer->trails[0];

		for (size_t i = 0; i < trail->n_breaks; i++)
			add_shown(&v->heads, trail->breaks[i]->kept);
		for (size_t i = 0; i < trail->n_heads; i++)
			add_shown(&v->heads, trail->heads[i]);
	}
	qsort(v->heads.shown, v->heads.n, sizeof(v->heads.shown[0]), compare_shown);
	return STATUS_OK;
}

static const char *const verdict_words[] = {
	[TRAIL_AGREES] = "agrees", [TRAIL_UNKNOWN] = "unknown", [TRAIL_EARLIER] = "earlier",
	[TRAIL_SHORT] = "cut",	   [TRAIL_REWOUND] = "rewound", [TRAIL_REPLACED] = "replaced",
};

#define MISSING_RECORDS                                                                                    \
	"Keep them as they are; what is missing or was changed may be in the kernel's audit of the node: " \
	"ausearch -m TRUSTED_APP"

/* Is there what the server was shown? */
static enum status classify_heads(const struct verifying *v, struct error *err)
{
	const struct trail_shown *good, *bad;
	const struct trail_heads *heads = &v->heads;
	char good_time[CLOCK_TEXT_SIZE], bad_time[CLOCK_TEXT_SIZE];
	enum trail_verdict verdict = trail_heads_classify(heads, &good, &bad);
	uint64_t record = 0; /* that is bad */

	if (good)
		(void)clock_format(good->time_ms, good_time);
	if (bad) {
		record = bad->record;
		(void)clock_format(bad->time_ms, bad_time);
	}
	switch (verdict) {
	case TRAIL_AGREES:
		return STATUS_OK;
	case TRAIL_UNKNOWN:
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "the server has no head of the trail of node %s, so its length is unknown. "
				 "Next: holdfast operator trail",
				 v->node);
	case TRAIL_EARLIER:
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the files begin with record %" PRIu64 ", after record %" PRIu64
				 ", the last that node %s has shown. Next: add the older files",
				 heads->first, heads->shown[heads->n - 1].record, v->node);
	case TRAIL_SHORT:
		return error_set(err, STATUS_DATA_LOSS, 0,
				 "%s: the trail of node %s is cut: the server saw record %" PRIu64
				 " at %s, but the files end with record %" PRIu64
				 ". If the copy is older than that, copy them again. " MISSING_RECORDS,
				 v->paths[v->n - 1], v->node, record, bad_time, heads->last);
	case TRAIL_REWOUND:
		return error_set(
			err, STATUS_DATA_LOSS, 0,
			"%s: the trail of node %s was rewound: record %" PRIu64
			", which the server saw at %s, is missing%s%s; later ones follow. " MISSING_RECORDS,
			v->paths[v->n - 1], v->node, record, bad_time,
			good ? "; it was last as it is here at " : "", good ? good_time : "");
	case TRAIL_REPLACED:
		break;
	}
	return error_set(err, STATUS_DATA_LOSS, 0,
			 "%s: the trail of node %s was replaced, or its agent lied: it has no record that "
			 "the server saw. The first missing one is record %" PRIu64
			 ", seen at %s. " MISSING_RECORDS,
			 v->paths[v->n - 1], v->node, record, bad_time);
}

static json_t *heads_to_json(const struct verifying *v)
{
	static const char *const words[] = {
		[SHOWN_MISSING] = "missing", [SHOWN_AGREES] = "agrees", [SHOWN_DIFFERS] = "differs"};
	const struct trail_shown *good, *bad;
	enum trail_verdict verdict = trail_heads_classify(&v->heads, &good, &bad);
	json_t *list = json_array();

	for (size_t i = 0; i < v->heads.n; i++) {
		const struct trail_shown *shown = &v->heads.shown[i];
		bool is_older = shown->is == SHOWN_MISSING && shown->record < v->heads.first;

		(void)json_array_append_new(
			list, json_pack("{sI ss sI ss}", "record", (json_int_t)shown->record, "sha256",
					shown->sha256, "time_ms", (json_int_t)shown->time_ms, "is",
					is_older ? "not-covered" : words[shown->is]));
	}
	return json_pack("{ss ss sI sI so}", "node", v->node, "verdict", verdict_words[verdict],
			 "first_record", (json_int_t)v->heads.first, "last_record", (json_int_t)v->heads.last,
			 "heads", list);
}

static enum status show_check_json(const struct invocation *inv, const struct verifying *v, struct error *err)
{
	const struct trail_check *check = &v->check;
	json_t *files = json_array();
	json_t *json;

	for (size_t i = 0; i < v->n; i++)
		(void)json_array_append_new(files, json_string(v->paths[i]));
	json = json_pack("{so sb sI sI sI ss sI ss ss}", "files", files, "intact", check->faults == 0,
			 "records", (json_int_t)check->records, "unfinished", (json_int_t)check->torn,
			 "faults", (json_int_t)check->faults, "first_fault_file",
			 check->faults ? v->paths[check->fault_file] : "", "first_fault_line",
			 (json_int_t)check->fault_line, "first_fault",
			 check->faults ? trail_fault_text(check->fault) : "", "head", check->head);
	if (json && inv->options[OPT_HEADS])
		(void)json_object_set_new(json, "server", heads_to_json(v));
	return print_json(json, err);
}

static enum status show_check(const struct invocation *inv, const struct verifying *v, struct error *err)
{
	const struct trail_check *check = &v->check;
	const struct trail_shown *good, *bad;

	if (inv->options[OPT_JSON])
		return show_check_json(inv, v, err);
	print_line("%s%s%s: %" PRIu64 " records, %s", v->paths[0], v->n > 1 ? " to " : "",
		   v->n > 1 ? v->paths[v->n - 1] : "", check->records,
		   check->faults ? "NOT INTACT" : "the chain is intact");
	if (check->torn && check->faults == 0)
		print_line("%" PRIu64
			   " lines were never finished, as a crash leaves them; the records after them "
			   "vouch for them",
			   check->torn);
	print_line("head %s", check->head);
	if (inv->options[OPT_HEADS] && trail_heads_classify(&v->heads, &good, &bad) == TRAIL_AGREES)
		print_line("node %s: whole up to record %" PRIu64 ", which was shown to the server last",
			   v->node, good->record);
	return STATUS_OK;
}

static enum status read_files(struct invocation *inv, struct verifying *v, struct error *err)
{
	enum status status = STATUS_OK;

	if (inv->options[OPT_HEADS])
		status = find_node(inv, v, err);
	if (status == STATUS_OK && inv->options[OPT_HEADS])
		status = fetch_heads(inv, v, err);
	for (size_t i = 0; i < v->n && status == STATUS_OK; i++) {
		if (i > 0)
			trail_check_next_file(&v->check);
		status = verify_file(v, v->paths[i], err);
	}
	return status;
}

static enum status cmd_audit_verify(struct invocation *inv, struct error *err)
{
	const char *head = inv->options[OPT_HEAD];
	char want[TRAIL_HASH_SIZE];
	struct verifying v = {
		.check = TRAIL_CHECK_INIT(inv->options[OPT_ROTATED] != NULL, head ? want : NULL),
	};
	const struct trail_check *check = &v.check;
	unsigned char digest[(TRAIL_HASH_SIZE - 1) / 2];
	enum status status;

	v.n = trail_paths(inv, &v.paths);
	if (inv->options[OPT_NODE] && !inv->options[OPT_HEADS])
		return usage_error(inv, err,
				   "--node names the node whose heads are compared: it needs --server");
	if (head && hex_decode(digest, sizeof(digest), head) < 0)
		return usage_error(inv, err, "--head must be 64 hex digits");
	if (head)
		hex_encode(want, digest, sizeof(digest));
	TRY(read_files(inv, &v, err));
	trail_check_end(&v.check);
	status = show_check(inv, &v, err);
	if (status == STATUS_OK && inv->options[OPT_HEADS])
		status = classify_heads(&v, err);
	if (status != STATUS_OK || check->faults == 0)
		return status;
	return error_set(err, STATUS_DATA_LOSS, 0, "%s:%" PRIu64 ": %s%s", v.paths[check->fault_file],
			 check->fault_line, trail_fault_text(check->fault),
			 check->faults > 1 ? " (the first of several faults)" : "");
}

static const struct command commands[] = {
	{.path = "audit show",
	 .args = "[FILE...]",
	 .help = "Show records of the mount helper's trail",
	 .example = "--result failed --since 24h",
	 .arg_kinds = {WORD_FILE},
	 .options = OPTION_BIT(OPT_VOLUME) | OPTION_BIT(OPT_ALLOC) | OPTION_BIT(OPT_RESULT) |
		    OPTION_BIT(OPT_OPERATION) | OPTION_BIT(OPT_SINCE) | OPTION_BIT(OPT_UNTIL) |
		    OPTION_BIT(OPT_UNFINISHED),
	 .max_args = ANY_ARGS,
	 .run = cmd_audit_show},
	{.path = "audit verify",
	 .args = "[FILE...]",
	 .help = "Check that no record of a trail was changed, removed or inserted",
	 .example = "",
	 .arg_kinds = {WORD_FILE},
	 .options = OPTION_BIT(OPT_HEAD) | OPTION_BIT(OPT_ROTATED) | OPTION_BIT(OPT_HEADS) |
		    OPTION_BIT(OPT_NODE),
	 .max_args = ANY_ARGS,
	 .run = cmd_audit_verify},
};

const struct command_table audit_commands = {commands, ARRAY_SIZE(commands)};
