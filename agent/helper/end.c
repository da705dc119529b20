/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/end.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct start_row {
	int code;
	const char *word;
	const char *sentence;
};

#define START_ROW(name, code_, word_, sentence_) \
	[name] = {.code = (code_), .word = (word_), .sentence = (sentence_)},
static const struct start_row starts[START_N] = {MH_STARTS(START_ROW)};

#define TRAIL_ROW(name, word, sentence) [name] = word ": " sentence,
static const char *const trails[TRAIL_N] = {MH_TRAILS(TRAIL_ROW)};

static const struct {
	enum mh_exit code;
	const char *text;
} served[] = {
	{MH_EXIT_CLOSED, "it took the connection for closed, or its policy was replaced"},
	{MH_EXIT_VIOLATION,
	 "it reports that this agent broke the protocol; install both from the same release"},
	{MH_EXIT_INTERNAL, "it found another mount than the one that it had made; see its trail"},
	{MH_EXIT_REFUSALS, "it has refused too many requests; its trail has them, with the reasons"},
	{MH_EXIT_SEND, "it could not deliver its replies"},
	{MH_EXIT_ASSERTION, "it found a fault of its own; its trail names the place: please report it"},
};

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

const char *helper_end_fill_in(const char *sentence, uint32_t number, char ret[static HELPER_SENTENCE_SIZE])
{
	size_t n = 0;

	for (const char *p = sentence; *p && n + 1 < HELPER_SENTENCE_SIZE; p++) {
		bool is_number = *p == 'N' && (p == sentence || !is_letter(p[-1])) && !is_letter(p[1]);
		int r;

		if (!is_number) {
			ret[n++] = *p;
			continue;
		}
		r = str_format(ret + n, HELPER_SENTENCE_SIZE - n, "%" PRIu32, number);
		n += r > 0 ? (size_t)r : 0;
	}
	ret[n] = '\0';
	return ret;
}

const char *helper_end_trail_fault(enum mh_trail fault)
{
	return fault > TRAIL_GOOD && fault < TRAIL_N ? trails[fault] : NULL;
}

void helper_end_describe_failure(const struct mh_failure *failure, struct error *ret)
{
	const struct start_row *row = &starts[failure->word < START_N ? failure->word : START_OK];
	char sentence[HELPER_SENTENCE_SIZE];

	if (!row->word || failure->word == START_OK || failure->word >= START_N) {
		(void)error_set(ret, STATUS_UNAVAILABLE, failure->sys_errno,
				"the mount helper does not start, for a reason of number %u that this agent "
				"does not know: install both from the same release",
				failure->word);
		return;
	}
	(void)error_set(ret, STATUS_UNAVAILABLE, failure->sys_errno,
			"the mount helper does not start: %s%s%s: %s", row->word,
			failure->detail[0] ? ": " : "", failure->detail,
			helper_end_fill_in(row->sentence, failure->number, sentence));
}

static size_t count_rows(int code, const struct start_row **ret_first)
{
	size_t n = 0;

	for (size_t i = 1; i < START_N; i++) {
		if (starts[i].code != code)
			continue;
		if (n++ == 0)
			*ret_first = &starts[i];
	}
	return n;
}

/* Lists the failures that share an exit code: only the helper itself could distinguish them. */
static void list_words(int code, char ret[static HELPER_SENTENCE_SIZE])
{
	const char *sep = "one of: ";
	size_t n = 0;

	for (size_t i = 1; i < START_N; i++) {
		int r;

		if (starts[i].code != code)
			continue;
		r = str_format(ret + n, HELPER_SENTENCE_SIZE - n, "%s%s", sep, starts[i].word);
		n += r > 0 ? (size_t)r : 0;
		sep = ", ";
	}
	(void)str_format(ret + n, HELPER_SENTENCE_SIZE - n, " (see holdfast-mounthelper(8))");
}

static const char *served_text(int code)
{
	for (size_t i = 0; i < ARRAY_SIZE(served); i++) {
		if ((int)served[i].code == code)
			return served[i].text;
	}
	return NULL;
}

void helper_end_describe_exit(pid_t pid, int code, const char *line, struct error *ret)
{
	const struct start_row *first = NULL;
	size_t n = count_rows(code, &first);
	const char *reason = served_text(code);
	char text[HELPER_SENTENCE_SIZE];

	/* the agent is not root: the second failure of this code does not apply */
	if (n == 1 || code == starts[START_NOT_PRIVILEGED].code) {
		reason = first->sentence;
	} else if (n > 1) {
		list_words(code, text);
		reason = text;
	}
	(void)error_set(ret, STATUS_UNAVAILABLE, 0,
			"the mount helper (pid %d) ended with exit code %d%s%s%s%s", pid, code,
			line[0] ? ": " : "", line, reason ? ": " : "", reason ? reason : "");
}
