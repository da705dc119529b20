#include "trail.h"

#include "base/cleanup.h"
#include "base/names.h"
#include "base/parse.h"
#include "base/str.h"

#include <openssl/evp.h>
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
		/* values are ASCII by the helper's rules; what is not UTF-8 fails here as lack of memory does
		 */
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
	/* all times are written alike, in UTC: their order is that of the text */
	return !filter->since || strcmp(trail_get(record, "ts"), filter->since) >= 0;
}

const char *trail_fault_text(enum trail_fault fault)
{
	static const char *const texts[] = {
		[TRAIL_INTACT] = "the chain is intact",
		[TRAIL_CHANGED] = "the line before it was changed, removed or inserted",
		[TRAIL_GAP] = "its number does not follow the one of the record before it",
		[TRAIL_START] = "the beginning of the trail is missing (--rotated allows that)",
		[TRAIL_UNVOUCHED] = "two unfinished lines in a row, nothing vouches for the first",
		[TRAIL_TOO_LONG] = "the line is longer than any record",
		[TRAIL_CUT] = "the line has no end, it was cut off or never finished",
		[TRAIL_HEAD] = "the last record is not the expected one, later records were removed or added",
	};
	const char *text = names_get(texts, ARRAY_SIZE(texts), (int)fault);

	return text ? text : "unknown";
}

static void note(struct trail_check *check, enum trail_fault fault)
{
	if (check->faults++ > 0)
		return;
	check->fault = fault;
	check->fault_line = check->lines;
}

static void hash(const char *line, size_t n, char ret[static TRAIL_HASH_SIZE])
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int length = 0;

	if (EVP_Digest(line, n, digest, &length, EVP_sha256(), NULL) != 1)
		length = 0; /* no memory: the empty hash matches nothing */
	hex_encode(ret, digest, length);
}

/* Numbers count up; they may begin anew where a helper started. */
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

	if (!is_hash(prev) || (!is_first && !str_eq(prev, check->head)))
		note(check, TRAIL_CHANGED);
	if (is_first && !check->rotated && is_hash(prev) && !str_eq(prev, zeroes))
		note(check, TRAIL_START);
	if (parse_u64(trail_get(record, "rec"), 1, UINT64_MAX, &rec) < 0 || !follows(check, record, rec))
		note(check, TRAIL_GAP);
	check->rec = rec;
	check->records++;
}

/* A torn line cannot tell its place; the next record vouches for it by its prev. When its number got written,
 * the next record counts on from there. */
static void check_torn(struct trail_check *check, const char *line)
{
	const char *at = strstr(line, " rec=");
	char digits[24];
	uint64_t rec;
	size_t n;

	if (check->is_torn)
		note(check, TRAIL_UNVOUCHED);
	check->torn++;
	if (!at)
		return;
	at += strlen(" rec=");
	n = strspn(at, "0123456789");
	if (at[n] == ' ' && str_format(digits, sizeof(digits), "%.*s", (int)n, at) >= 0 &&
	    parse_u64(digits, 1, UINT64_MAX, &rec) == 0 && (check->rec == 0 || rec == check->rec + 1))
		check->rec = rec;
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
	is_whole = strlen(copy) == n && trail_parse(copy, &record);
	if (!complete) /* said first: what is missing explains what else is wrong with the line */
		note(check, TRAIL_CUT);
	if (is_whole)
		check_record(check, &record);
	else if (complete)
		check_torn(check, line);
	check->is_torn = !is_whole;
	hash(line, n, check->head);
}

void trail_check_end(struct trail_check *check, const char *head)
{
	if (check->lines == 0)
		memcpy(check->head, zeroes, sizeof(check->head));
	if (head && !str_eq(check->head, head))
		note(check, TRAIL_HEAD);
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
