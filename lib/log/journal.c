/* SPDX-License-Identifier: Apache-2.0 */
/* no CODE_FILE= and CODE_LINE= */
#define SD_JOURNAL_SUPPRESS_LOCATION

#include "log/journal.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/str.h"
#include "log/logfmt.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>

enum {
	FIXED_FIELDS = 3, /* MESSAGE, PRIORITY, SYSLOG_IDENTIFIER */
	ENTRY_FIELDS_MAX = FIXED_FIELDS + LOG_FIELDS_MAX + LOG_MADE_N,
	ENTRY_SIZE = 16384,
};

bool journal_is_stream(const char *journal_stream, dev_t dev, ino_t ino)
{
	char dev_text[32];
	const char *colon = journal_stream ? strchr(journal_stream, ':') : NULL;
	uint64_t stream_dev;
	uint64_t stream_ino;

	if (!colon || (size_t)(colon - journal_stream) >= sizeof(dev_text))
		return false;
	memcpy(dev_text, journal_stream, (size_t)(colon - journal_stream));
	dev_text[colon - journal_stream] = '\0';
	return parse_u64(dev_text, 0, UINT64_MAX, &stream_dev) == 0 &&
	       parse_u64(colon + 1, 0, UINT64_MAX, &stream_ino) == 0 && stream_dev == dev &&
	       stream_ino == ino;
}

/* The fields of an entry and the text they point into. */
struct entry {
	struct iovec fields[ENTRY_FIELDS_MAX];
	int n;
	size_t used;
	char text[ENTRY_SIZE];
};

/* "NAME=value"; a field that finds no room is left out. */
static void add(struct entry *entry, const char *name, const char *value)
{
	char *at = entry->text + entry->used;
	size_t left = sizeof(entry->text) - entry->used;
	int n = str_format(at, left, "%s=", name);

	if (n < 0)
		return;
	n += (int)log_escape(at + n, left - (size_t)n, value);
	entry->fields[entry->n] = (struct iovec){.iov_base = at, .iov_len = (size_t)n};
	entry->n++;
	entry->used += (size_t)n;
}

static void add_number(struct entry *entry, const char *name, int number)
{
	char text[16];

	(void)str_format(text, sizeof(text), "%d", number);
	add(entry, name, text);
}

int journal_send(const char *ident, int priority, const struct log_ctx *ctx, const char *message)
{
	struct entry entry = {.n = 0};

	/* what matters most comes first: room is limited */
	add_number(&entry, "PRIORITY", priority);
	add(&entry, "MESSAGE", message);
	add(&entry, "SYSLOG_IDENTIFIER", ident);
	for (size_t i = 0; ctx && i < LOG_FIELDS_MAX; i++) {
		const char *value = log_field_value(&log_fields[i], ctx);

		if (value)
			add(&entry, log_fields[i].journal, value);
	}
	for (enum log_made made = 0; ctx && made < LOG_MADE_N; made++) {
		char number[LOG_NUMBER_SIZE];
		const char *value = log_made_value(made, ctx, number);

		if (value)
			add(&entry, log_made_fields[made].journal, value);
	}
	return sd_journal_sendv(entry.fields, entry.n);
}
