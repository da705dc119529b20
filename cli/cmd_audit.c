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
	bool is_json;
	struct table *table; /* NULL for JSON */
	uint64_t shown;
	uint64_t unreadable; /* lines that are no records */
};

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
static enum status parse_since(struct invocation *inv, struct show *show, struct error *err)
{
	const char *text = inv->options[OPT_SINCE];
	uint64_t ago_us;

	if (!text)
		return STATUS_OK;
	show->filter.since = show->since;
	if (parse_duration(text, &ago_us) == 0) {
		(void)clock_format(clock_realtime_ms() - (int64_t)(ago_us / USEC_PER_MSEC), show->since);
		return STATUS_OK;
	}
	if (strspn(text, "0123456789") < 4 || strspn(text, "0123456789-:.TZ") != strlen(text) ||
	    str_copy(show->since, sizeof(show->since), text) < 0)
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

static enum status show_json(struct show *show, const struct trail_record *record, struct error *err)
{
	json_t *json = trail_to_json(record);
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

	json_decref(json);
	if (!text)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "print a record");
	(void)printf("%s\n  %s", show->shown ? "," : "", text);
	free(text);
	return STATUS_OK;
}

static void show_row(struct show *show, const struct trail_record *record)
{
	const char *result = trail_get(record, "res");
	const char *reason = trail_get(record, "reason");
	const char *why = str_eq(reason, "none") ? "" : reason;

	table_add(show->table,
		  (const char *const[]){trail_get(record, "ts"), trail_get(record, "rec"),
					trail_get(record, "node"), trail_get(record, "op"),
					trail_get(record, "phase"), trail_get(record, "vol"),
					trail_get(record, "alloc"), result[0] ? result : "", why});
}

static enum status show_file(struct show *show, const char *path, struct error *err)
{
	cleanup(close_trail) FILE *file = NULL;
	enum status status = open_trail(path, &file, err);
	char line[TRAIL_LINE_MAX + 1];
	struct trail_record record;
	bool is_complete;
	size_t n;

	while (status == STATUS_OK && trail_read_line(file, line, &n, &is_complete)) {
		if (n > TRAIL_LINE_MAX || strlen(line) != n || !trail_parse(line, &record)) {
			show->unreadable++;
			continue;
		}
		if (!is_wanted(show, &record))
			continue;
		if (show->is_json)
			status = show_json(show, &record, err);
		else
			show_row(show, &record);
		show->shown++;
	}
	return status == STATUS_OK ? read_failed(path, file, err) : status;
}

static enum status end_show(struct show *show, struct error *err)
{
	enum status status = STATUS_OK;

	if (!show->is_json && show->shown == 0)
		print_line("no records");
	else if (!show->is_json)
		status = table_print(show->table, NULL, err);
	if (status == STATUS_OK && show->unreadable)
		(void)fprintf(stderr, "holdfast: %" PRIu64 " lines are no records (holdfast audit verify)\n",
			      show->unreadable);
	return status;
}

enum status cmd_audit_show(struct invocation *inv, struct error *err)
{
	static const struct column columns[] = {
		{.name = "TIME"},	{.name = "REC", .is_number = true},
		{.name = "NODE"},	{.name = "OPERATION"},
		{.name = "PHASE"},	{.name = "VOLUME"},
		{.name = "ALLOCATION"}, {.name = "RESULT", .is_state = true},
		{.name = "REASON"},
	};
	cleanup(table_freep) struct table *table = NULL;
	const char *namespace = inv->options[OPT_NAMESPACE];
	struct show show = {
		.filter = {.volume = inv->options[OPT_VOLUME],
			   .alloc = inv->options[OPT_ALLOC],
			   .result = inv->options[OPT_RESULT]},
		.is_json = inv->options[OPT_JSON] != NULL,
	};
	enum status status = check_result(inv, err);

	if (status == STATUS_OK)
		status = parse_since(inv, &show, err);

	if (status != STATUS_OK)
		return status;
	if (show.filter.volume)
		volume_wire_name(namespace ? namespace : "default", show.filter.volume, show.wire_volume);
	if (show.is_json)
		(void)putchar('[');
	else
		table = table_new(columns, ARRAY_SIZE(columns));
	show.table = table;
	for (int i = 0; i < inv->n_args && status == STATUS_OK; i++)
		status = show_file(&show, inv->args[i], err);
	if (show.is_json) /* what was printed is JSON even when the rest could not be read */
		(void)printf("%s]\n", show.shown ? "\n" : "");
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

static enum status show_check(const struct invocation *inv, const struct trail_check *check,
			      struct error *err)
{
	const char *path = inv->args[0];

	if (inv->options[OPT_JSON])
		return print_json(
			json_pack("{ss sb sI sI sI sI sI ss ss}", "file", path, "intact", check->faults == 0,
				  "records", (json_int_t)check->records, "lines", (json_int_t)check->lines,
				  "unfinished", (json_int_t)check->torn, "faults", (json_int_t)check->faults,
				  "first_fault_line", (json_int_t)check->fault_line, "first_fault",
				  check->faults ? trail_fault_text(check->fault) : "", "head", check->head),
			err);
	print_line("%s: %" PRIu64 " records, %s", path, check->records,
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
	struct trail_check check = TRAIL_CHECK_INIT(inv->options[OPT_ROTATED] != NULL);
	const char *head = inv->options[OPT_HEAD];
	unsigned char digest[(TRAIL_HASH_SIZE - 1) / 2];
	enum status status;

	if (head && hex_decode(digest, sizeof(digest), head) < 0)
		return usage_error(inv, err, "--head must be 64 hex digits");
	status = verify_file(inv->args[0], &check, err);
	if (status != STATUS_OK)
		return status;
	trail_check_end(&check, head);
	status = show_check(inv, &check, err);
	if (status != STATUS_OK || check.faults == 0)
		return status;
	return error_set(err, STATUS_DATA_LOSS, 0, "%s:%" PRIu64 ": %s%s", inv->args[0], check.fault_line,
			 trail_fault_text(check.fault),
			 check.faults > 1 ? " (the first of several faults)" : "");
}
