/* SPDX-License-Identifier: Apache-2.0 */
/* The table of events and the catalogue that explains them, both ways. */

#include "journal_events.h"
#include "unit.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "log/events.h"
#include "log/log.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

enum { CATALOGUE_MAX = 1 << 20, ID_DIGITS = 32 };

struct row {
	const char *name, *id, *result;
	int level, end;
};

#define EVENT_ROW(symbol, name, id, result, level, end) {name, id, result, LOG_##level, LOG_##end},
static const struct row server[] = {JOURNAL_EVENTS_SERVER(EVENT_ROW)};
static const struct row agent[] = {JOURNAL_EVENTS_AGENT(EVENT_ROW)};
static const struct row mounthelper[] = {JOURNAL_EVENTS_HELPER(EVENT_ROW)};

static const struct component {
	const char *catalogue;
	const struct row *rows;
	size_t n;
} components[] = {
	{HOLDFAST_CATALOGUES "/holdfast-server.catalog", server, ARRAY_SIZE(server)},
	{HOLDFAST_CATALOGUES "/holdfast-agent.catalog", agent, ARRAY_SIZE(agent)},
	{HOLDFAST_CATALOGUES "/holdfast-mounthelper.catalog", mounthelper, ARRAY_SIZE(mounthelper)},
};

static void read_catalogue(const struct component *component, char **ret)
{
	assert_int_equal(file_read(component->catalogue, CATALOGUE_MAX, ret, NULL), 0);
}

static int count(const char *text, const char *word)
{
	int n = 0;

	for (const char *at = text; (at = strstr(at, word)); at++)
		n++;
	return n;
}

TEST(ids_are_128_bits_in_lower_case_hex)
{
	for (size_t c = 0; c < ARRAY_SIZE(components); c++) {
		for (size_t i = 0; i < components[c].n; i++) {
			const char *id = components[c].rows[i].id;

			assert_int_equal(strlen(id), ID_DIGITS);
			assert_int_equal(strspn(id, "0123456789abcdef"), ID_DIGITS);
			assert_true(strspn(id, "0") < ID_DIGITS);
		}
	}
}

/* Of all programs: one id has one meaning in a journal. */
TEST(ids_and_names_are_unique)
{
	size_t n = ARRAY_SIZE(server) + ARRAY_SIZE(agent) + ARRAY_SIZE(mounthelper);
	cleanup_free struct row *all = NON_NULL(calloc(n, sizeof(*all)));
	size_t at = 0;

	for (size_t c = 0; c < ARRAY_SIZE(components); c++)
		for (size_t i = 0; i < components[c].n; i++)
			all[at++] = components[c].rows[i];
	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < i; j++) {
			assert_string_not_equal(all[i].id, all[j].id);
			assert_string_not_equal(all[i].name, all[j].name);
		}
	}
}

TEST(an_event_has_the_row_of_its_name)
{
	assert_null(log_event_info(LOG_EVENT_NONE));
	assert_null(log_event_info(LOG_EVENT_N));
	assert_string_equal(log_event_info(LOG_EVENT_CLAIM_GRANTED)->name, "claim-granted");
	assert_string_equal(log_event_info(LOG_EVENT_JOURNAL_BROKEN)->name, "journal-broken");
	for (size_t i = 0; i < ARRAY_SIZE(server); i++)
		assert_string_equal(log_event_info((enum log_event)(i + 1))->id, server[i].id);
	for (enum log_event event = LOG_EVENT_NONE + 1; event < LOG_EVENT_N; event++) {
		const char *result = log_event_info(event)->result;

		assert_true(!result || str_eq(result, "success") || str_eq(result, "failed"));
	}
}

static bool is_refusal(const char *name)
{
	return str_eq(name, "claim-refused") || str_eq(name, "request-refused");
}

/* See Levels in monitoring.md. Nothing of the program has failed when it refuses a request. */
TEST(every_event_has_a_level_that_fits_its_result)
{
	for (enum log_event event = LOG_EVENT_NONE + 1; event < LOG_EVENT_N; event++) {
		const struct log_event_info *info = log_event_info(event);
		bool has_failed = info->result && str_eq(info->result, "failed");
		bool is_good = info->result && str_eq(info->result, "success");

		assert_msg(info->level >= LOG_CRIT && info->end <= LOG_INFO && info->level <= info->end,
			   "%s has no level", info->name);
		if (has_failed)
			assert_msg((info->level <= LOG_WARNING) != is_refusal(info->name),
				   "%s fails at level %d", info->name, info->level);
		if (is_good)
			assert_msg(info->level >= LOG_NOTICE, "%s is good at level %d", info->name,
				   info->level);
		if (info->level != info->end)
			assert_msg(!info->result && info->end == LOG_NOTICE, "%s has two levels", info->name);
	}
}

TEST(a_line_has_the_level_of_its_event)
{
	log_set_level(LOG_NOTICE);
	for (enum log_event event = LOG_EVENT_NONE + 1; event < LOG_EVENT_N; event++) {
		const struct log_event_info *info = log_event_info(event);

		for (int priority = LOG_EMERG; priority <= LOG_DEBUG; priority++)
			assert_int_equal(log_event_priority(event, priority),
					 priority == info->end ? info->end : info->level);
		assert_int_equal(log_would_drop(LOG_EMERG, &(struct log_ctx){.event = event}),
				 info->level > LOG_NOTICE);
	}
	assert_int_equal(log_event_priority(LOG_EVENT_NONE, LOG_DEBUG), LOG_DEBUG);
}

/* "# NAME", "-- ID", Subject:, Defined-By:, Documentation:, an empty line, text. */
TEST(every_event_is_explained_in_its_programs_catalogue)
{
	for (size_t c = 0; c < ARRAY_SIZE(components); c++) {
		cleanup_free char *text = NULL;

		read_catalogue(&components[c], &text);
		for (size_t i = 0; i < components[c].n; i++) {
			char head[256];
			const char *at, *end, *body;

			(void)str_format(head, sizeof(head),
					 "\n\n# %s\n-- %s\nSubject: ", components[c].rows[i].name,
					 components[c].rows[i].id);
			at = NON_NULL(strstr(text, head));
			end = strstr(at + strlen(head), "\n-- ");
			body = NON_NULL(
				strstr(at + strlen(head), "\nDefined-By: holdfast\nDocumentation: man:"));
			assert_true(!end || body < end);
			body = strstr(body, "\n\n");
			assert_true(body && (!end || body + 60 < end));
			assert_true(isupper((unsigned char)body[2]) || body[2] == '@');
		}
	}
}

TEST(the_catalogue_explains_nothing_else)
{
	for (size_t c = 0; c < ARRAY_SIZE(components); c++) {
		cleanup_free char *text = NULL;

		read_catalogue(&components[c], &text);
		assert_int_equal(count(text, "\n-- "), components[c].n);
		assert_int_equal(count(text, "\nSubject: "), components[c].n);
	}
}
