/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/trail.h"

#include "base/cleanup.h"
#include "base/names.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

static const char zeroes[TRAIL_HASH_SIZE] =
	"0000000000000000000000000000000000000000000000000000000000000000";

static bool is_key(const char *s)
{
	return *s && strspn(s, "abcdefghijklmnopqrstuvwxyz_") == strlen(s);
}

static bool is_hash(const char *s)
{
	return strlen(s) == TRAIL_HASH_SIZE - 1 && strspn(s, "0123456789abcdef") == TRAIL_HASH_SIZE - 1;
}

/* The beginning of a hash: its line was never finished. */
static bool is_cut_hash(const char *s)
{
	return strlen(s) < TRAIL_HASH_SIZE - 1 && strspn(s, "0123456789abcdef") == strlen(s);
}

static bool add_field(struct trail_record *record, char *word)
{
	char *equals = strchr(word, '=');

	if (!equals || record->n == TRAIL_FIELDS_MAX)
		return false;
	*equals = '\0';
	if (!is_key(word))
		return false;
	for (size_t i = 0; i < record->n; i++)
		if (str_eq(record->fields[i].key, word))
			return false;
	record->fields[record->n++] = (struct trail_field){.key = word, .value = equals + 1};
	return true;
}

bool trail_parse(char *line, struct trail_record *ret)
{
	struct trail_record record = {.n = 0};

	for (char *word = line; word;) {
		char *next = strchr(word, ' ');

		if (next)
			*next++ = '\0';
		if (!add_field(&record, word))
			return false;
		word = next;
	}
	if (!str_eq(record.fields[0].key, "ts") || !str_eq(record.fields[record.n - 1].key, "prev"))
		return false;
	*ret = record;
	return true;
}

const char *trail_get(const struct trail_record *record, const char *key)
{
	for (size_t i = 0; i < record->n; i++)
		if (str_eq(record->fields[i].key, key))
			return record->fields[i].value;
	return "";
}

json_t *trail_to_json(const struct trail_record *record)
{
	json_t *json = json_object();

	for (size_t i = 0; json && i < record->n; i++) {
		/* values are ASCII by the helper's rules; text that is not UTF-8 fails here as lack of memory
		 * does */
		if (json_object_set_new(json, record->fields[i].key, json_string(record->fields[i].value)) ==
		    0)
			continue;
		json_decref(json);
		return NULL;
	}
	return json;
}

bool trail_matches(const struct trail_record *record, const struct trail_filter *filter)
{
	if (filter->volume && !str_eq(trail_get(record, "vol"), filter->volume))
		return false;
	if (filter->alloc && !str_starts_with(trail_get(record, "alloc"), filter->alloc))
		return false;
	if (filter->result && !str_eq(trail_get(record, "res"), filter->result))
		return false;
	if (filter->operation && !str_eq(trail_get(record, "op"), filter->operation))
		return false;
	/* all times are written alike, in UTC: their order is that of the text */
	if (filter->since && strcmp(trail_get(record, "ts"), filter->since) < 0)
		return false;
	return !filter->until || strncmp(trail_get(record, "ts"), filter->until, strlen(filter->until)) <= 0;
}

/* Returns the common fields of an intent and its result. Instances may share everything but the volume, on
 * which only one works at a time. NULL when memory is short. */
static char *operation_key(const struct trail_record *record)
{
	static const char *const keys[] = {"node", "peer_pid", "seq", "op", "vol", "alloc", "slot"};
	struct strbuf key = STRBUF_INIT(TRAIL_LINE_MAX + 1);

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		strbuf_printf(&key, "%s ", trail_get(record, keys[i]));
	return strbuf_take(&key);
}

/* Take out intent @i; frees its key. */
static char *take_intent(struct trail_open *open, size_t i)
{
	char *line = open->intents[i].line;

	free(open->intents[i].key);
	open->n--;
	memmove(&open->intents[i], &open->intents[i + 1], (open->n - i) * sizeof(open->intents[0]));
	return line;
}

char *trail_open_take(struct trail_open *open)
{
	return open->n > 0 ? take_intent(open, 0) : NULL;
}

bool trail_open_add(struct trail_open *open, const char *line, const struct trail_record *record,
		    char **ret_line)
{
	bool is_intent = str_eq(trail_get(record, "phase"), "intent");
	char *key;
	size_t i = 0;

	*ret_line = NULL;
	if (!is_intent && !str_eq(trail_get(record, "phase"), "result"))
		return true;
	key = operation_key(record);
	if (!key)
		return false;
	while (i < open->n && !str_eq(open->intents[i].key, key))
		i++;
	if (!is_intent) {
		free(key);
		free(i < open->n ? take_intent(open, i) : NULL);
		return true;
	}
	if (i < open->n || i == TRAIL_OPEN_MAX)
		*ret_line = take_intent(open, i < open->n ? i : 0);
	open->intents[open->n] = (struct trail_intent){.key = key, .line = strdup(line)};
	return open->intents[open->n++].line != NULL;
}

const char *trail_fault_text(enum trail_fault fault)
{
	static const char *const texts[] = {
		[TRAIL_INTACT] = "the chain is intact",
		[TRAIL_CHANGED] = "the line before it was changed, removed or inserted",
		[TRAIL_GAP] = "its number does not follow the one of the record before it",
		[TRAIL_START] = "the beginning of the trail is missing (--rotated allows that)",
		[TRAIL_JOINT] = "it does not continue the file before it",
		[TRAIL_MISMATCH] = "the mount helper found records missing here that it had written",
		[TRAIL_UNVOUCHED] = "an unfinished line has no record after it that vouches for it",
		[TRAIL_TOO_LONG] = "the line is longer than any record",
		[TRAIL_CUT] = "the line has no end, it was cut off or never finished",
		[TRAIL_HEAD] = "no record has the expected hash, the last ones were removed",
	};
	const char *text = names_get(texts, ARRAY_SIZE(texts), (int)fault);

	return text ? text : "unknown";
}

static void note(struct trail_check *check, enum trail_fault fault)
{
	if (check->faults++ > 0)
		return;
	check->fault = fault;
	check->fault_file = check->files;
	check->fault_line = check->lines;
}

/* A fault that was noted before may be of the same line. */
static void note_unvouched(struct trail_check *check)
{
	if (check->is_torn && check->faults == 0)
		note(check, TRAIL_UNVOUCHED);
}

/* The new file follows the last record before a helper wrote on in the old one. */
static void continue_at_joint(struct trail_check *check)
{
	if (check->is_moved)
		note_unvouched(check);
	memcpy(check->head, check->joint, sizeof(check->head));
	check->rec = check->joint_rec;
	check->is_moved = false;
}

static void hash(const char *line, size_t n, char ret[static TRAIL_HASH_SIZE])
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int length = 0;

	if (EVP_Digest(line, n, digest, &length, EVP_sha256(), NULL) != 1)
		length = 0; /* no memory: the empty hash matches nothing */
	hex_encode(ret, digest, length);
}

/* Returns whether @rec follows: numbers count up; they may restart at 1 where a helper started. */
static bool follows(const struct trail_check *check, const struct trail_record *record, uint64_t rec)
{
	return check->rec == 0 || rec == check->rec + 1 ||
	       (rec == 1 && str_eq(trail_get(record, "op"), "start"));
}

/* The record's place in the chain. */
static void check_record(struct trail_check *check, const struct trail_record *record)
{
	const char *prev = trail_get(record, "prev");
	uint64_t rec = 0;
	bool is_first = check->lines == 1;
	bool is_beginning = is_first && check->files == 0;

	if (check->is_moved && str_eq(trail_get(record, "head"), "rotated"))
		continue_at_joint(check); /* two files in one */
	if (!is_hash(prev) || (!is_first && !str_eq(prev, check->head)))
		note(check, TRAIL_CHANGED);
	else if (is_beginning && !check->rotated && !str_eq(prev, zeroes))
		note(check, TRAIL_START);
	else if (is_first && !is_beginning && !str_eq(prev, check->head))
		note(check, TRAIL_JOINT);
	if (str_eq(trail_get(record, "head"), "mismatch"))
		note(check, TRAIL_MISMATCH);
	check->is_moved = check->is_moved || str_eq(trail_get(record, "head"), "moved");
	if (parse_u64(trail_get(record, "rec"), 1, UINT64_MAX, &rec) < 0 || !follows(check, record, rec))
		note(check, TRAIL_GAP);
	check->rec = rec;
	check->records++;
}

void trail_check_line(struct trail_check *check, const char *line, size_t n, bool complete)
{
	char copy[TRAIL_LINE_MAX + 1];
	struct trail_record record;
	bool is_whole;

	check->lines++;
	if (n > TRAIL_LINE_MAX) {
		note(check, TRAIL_TOO_LONG);
		check->head[0] = '\0';
		return;
	}
	memcpy(copy, line, n);
	copy[n] = '\0';
	is_whole =
		strlen(copy) == n && trail_parse(copy, &record) && !is_cut_hash(trail_get(&record, "prev"));
	if (!complete) /* noted first: the missing part explains the other faults of the line */
		note(check, TRAIL_CUT);
	if (is_whole)
		check_record(check, &record);
	else if (complete && check->is_torn)
		note(check, TRAIL_UNVOUCHED);
	/* a torn line has no number; the next record vouches for it by its prev */
	check->torn += !is_whole && complete;
	check->is_torn = !is_whole;
	hash(line, n, check->head);
	if (!check->is_moved) {
		check->joint_rec = check->rec;
		memcpy(check->joint, check->head, sizeof(check->joint));
	}
	check->is_found = check->is_found || (check->want && str_eq(check->head, check->want));
}

void trail_check_next_file(struct trail_check *check)
{
	if (check->files == 0 && check->lines == 0)
		memcpy(check->joint, zeroes, sizeof(check->joint));
	continue_at_joint(check);
	check->files++;
	check->lines = 0;
}

void trail_check_end(struct trail_check *check)
{
	if (check->lines == 0 && check->files == 0)
		memcpy(check->head, zeroes, sizeof(check->head));
	note_unvouched(check);
	if (check->want && !check->is_found && !str_eq(check->head, check->want))
		note(check, TRAIL_HEAD);
}

void trail_heads_look(struct trail_heads *heads, const struct trail_check *check)
{
	if (check->is_torn || check->rec == 0)
		return;
	if (heads->first == 0)
		heads->first = check->rec;
	heads->last = check->rec;
	for (size_t i = 0; i < heads->n; i++) {
		struct trail_shown *shown = &heads->shown[i];

		/* of two lines with one number, as helpers leave them that write to a file after it was
		 * rotated, either may be the one */
		if (shown->record == check->rec && shown->is != SHOWN_AGREES)
			shown->is = str_eq(shown->sha256, check->head) ? SHOWN_AGREES : SHOWN_DIFFERS;
	}
}

enum trail_verdict trail_heads_classify(const struct trail_heads *heads, const struct trail_shown **ret_good,
					const struct trail_shown **ret_bad)
{
	const struct trail_shown *good = NULL, *bad = NULL, *latest = NULL;

	for (size_t i = 0; i < heads->n; i++) {
		const struct trail_shown *shown = &heads->shown[i];

		if (shown->is == SHOWN_AGREES && !bad)
			good = shown;
		if (shown->is == SHOWN_AGREES && (!latest || shown->time_ms > latest->time_ms))
			latest = shown;
		if (shown->is != SHOWN_AGREES && !bad && shown->record >= heads->first)
			bad = shown;
	}
	*ret_good = good;
	*ret_bad = bad;
	if (heads->n == 0)
		return TRAIL_UNKNOWN;
	if (!bad)
		return good ? TRAIL_AGREES : TRAIL_EARLIER;
	if (bad->record > heads->last && (!latest || latest->time_ms <= bad->time_ms))
		return TRAIL_SHORT;
	return latest ? TRAIL_REWOUND : TRAIL_REPLACED;
}

bool trail_read_line(FILE *file, char *line, size_t *ret_length, bool *ret_complete)
{
	size_t n = 0;
	int c;

	while ((c = getc_unlocked(file)) != EOF && c != '\n') {
		if (n < TRAIL_LINE_MAX)
			line[n] = (char)c;
		if (n <= TRAIL_LINE_MAX)
			n++;
	}
	if (c == EOF && n == 0)
		return false;
	line[n < TRAIL_LINE_MAX ? n : TRAIL_LINE_MAX] = '\0';
	*ret_length = n;
	*ret_complete = c == '\n';
	return true;
}
