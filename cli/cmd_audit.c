/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "output.h"
#include "trail.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "model/volume.h"

#include <errno.h>
#include <inttypes.h>
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
		return error_set(err, status_from_errno(errno), errno, "open %s", path);
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
		return error_set(err, status_from_errno(errno), errno, "read %s", path);
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

static enum status show_json(const struct trail_record *record, struct error *err)
{
	json_t *json = trail_to_json(record);
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

	json_decref(json);
	if (!text)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "print a record");
	(void)printf("%s\n", text);
	free(text);
	return STATUS_OK;
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
	return show->is_json ? show_json(record, err) : show_row(show, record, err);
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

/* What can only be said after the last record. */
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

enum status cmd_audit_show(struct invocation *inv, struct error *err)
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

static enum status verify_file(const char *path, struct trail_check *check, struct error *err)
{
	cleanup(close_trail) FILE *file = NULL;
	enum status status = open_trail(path, &file, err);
	char line[TRAIL_LINE_MAX + 1];
	bool is_complete;
	size_t n;

	while (status == STATUS_OK && trail_read_line(file, line, &n, &is_complete))
		trail_check_line(check, line, n, is_complete);
	return status == STATUS_OK ? read_failed(path, file, err) : status;
}

static enum status show_check(const struct invocation *inv, const struct trail_check *check, char **paths,
			      size_t n, struct error *err)
{
	json_t *files;

	if (inv->options[OPT_JSON]) {
		files = json_array();
		for (size_t i = 0; i < n; i++)
			(void)json_array_append_new(files, json_string(paths[i]));
		return print_json(
			json_pack("{so sb sI sI sI ss sI ss ss}", "files", files, "intact",
				  check->faults == 0, "records", (json_int_t)check->records, "unfinished",
				  (json_int_t)check->torn, "faults", (json_int_t)check->faults,
				  "first_fault_file", check->faults ? paths[check->fault_file] : "",
				  "first_fault_line", (json_int_t)check->fault_line, "first_fault",
				  check->faults ? trail_fault_text(check->fault) : "", "head", check->head),
			err);
	}
	print_line("%s%s%s: %" PRIu64 " records, %s", paths[0], n > 1 ? " to " : "",
		   n > 1 ? paths[n - 1] : "", check->records,
		   check->faults ? "NOT INTACT" : "the chain is intact");
	if (check->torn && check->faults == 0)
		print_line("%" PRIu64
			   " lines were never finished, as a crash leaves them; the records after them "
			   "vouch for them",
			   check->torn);
	print_line("head %s", check->head);
	return STATUS_OK;
}

enum status cmd_audit_verify(struct invocation *inv, struct error *err)
{
	const char *head = inv->options[OPT_HEAD];
	char want[TRAIL_HASH_SIZE];
	struct trail_check check = TRAIL_CHECK_INIT(inv->options[OPT_ROTATED] != NULL, head ? want : NULL);
	unsigned char digest[(TRAIL_HASH_SIZE - 1) / 2];
	enum status status = STATUS_OK;
	char **paths;
	size_t n = trail_paths(inv, &paths);

	if (head && hex_decode(digest, sizeof(digest), head) < 0)
		return usage_error(inv, err, "--head must be 64 hex digits");
	if (head)
		hex_encode(want, digest, sizeof(digest));
	for (size_t i = 0; i < n && status == STATUS_OK; i++) {
		if (i > 0)
			trail_check_next_file(&check);
		status = verify_file(paths[i], &check, err);
	}
	if (status != STATUS_OK)
		return status;
	trail_check_end(&check);
	status = show_check(inv, &check, paths, n, err);
	if (status != STATUS_OK || check.faults == 0)
		return status;
	return error_set(err, STATUS_DATA_LOSS, 0, "%s:%" PRIu64 ": %s%s", paths[check.fault_file],
			 check.fault_line, trail_fault_text(check.fault),
			 check.faults > 1 ? " (the first of several faults)" : "");
}
