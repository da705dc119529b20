/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mountinfo.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/sys.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* The kernel's escapes for characters that would end a field, a line or an escape. */
static const struct {
	char code[5];
	char c;
} escapes[] = {{"\\040", ' '}, {"\\011", '\t'}, {"\\012", '\n'}, {"\\134", '\\'}, {"\\043", '#'}};

/* The character at *@p, which is moved behind it. Any other backslash is a file system's own and stays. */
static char parse_char(char **p)
{
	for (size_t i = 0; **p == '\\' && i < ARRAY_SIZE(escapes); i++) {
		if (strncmp(*p, escapes[i].code, 4) == 0) {
			*p += 4;
			return escapes[i].c;
		}
	}
	return *(*p)++;
}

/* The next field of the line, unescaped in place. NULL at the end of the line. */
static char *next_field(char **p)
{
	char *start = *p;
	char *out = start;
	char *in = start;

	if (*start == '\0')
		return NULL;
	while (*in != '\0' && *in != ' ')
		*out++ = parse_char(&in);
	*p = *in == ' ' ? in + 1 : in;
	*out = '\0';
	return start;
}

static int parse_device(char *text, struct mount_entry *entry)
{
	char *colon = strchr(text, ':');

	if (!colon)
		return -EBADMSG;
	*colon = '\0';
	if (parse_u32(text, 0, UINT32_MAX, &entry->dev_major) < 0 ||
	    parse_u32(colon + 1, 0, UINT32_MAX, &entry->dev_minor) < 0)
		return -EBADMSG;
	return 0;
}

/* "shared:N", "master:N", "propagate_from:N", "unbindable" up to the lone dash. */
static int parse_optional(char **p, struct mount_entry *entry)
{
	for (;;) {
		char *field = next_field(p);

		if (!field)
			return -EBADMSG;
		if (str_eq(field, "-"))
			return 0;
		if (str_starts_with(field, "shared:") &&
		    parse_u64(field + 7, 1, UINT64_MAX, &entry->peer_group) < 0)
			return -EBADMSG;
		if (str_starts_with(field, "master:") &&
		    parse_u64(field + 7, 1, UINT64_MAX, &entry->master) < 0)
			return -EBADMSG;
	}
}

int mountinfo_parse(char *line, struct mount_entry *ret)
{
	struct mount_entry entry = {0};
	char *p = line;
	char *id = next_field(&p);
	char *parent = id ? next_field(&p) : NULL;
	char *device = parent ? next_field(&p) : NULL;

	if (!device || parse_u64(id, 0, UINT64_MAX, &entry.id) < 0 ||
	    parse_u64(parent, 0, UINT64_MAX, &entry.parent) < 0 || parse_device(device, &entry) < 0)
		return -EBADMSG;
	entry.root = next_field(&p);
	entry.point = entry.root ? next_field(&p) : NULL;
	entry.options = entry.point ? next_field(&p) : NULL;
	if (!entry.options || parse_optional(&p, &entry) < 0)
		return -EBADMSG;
	entry.type = next_field(&p);
	entry.source = entry.type ? next_field(&p) : NULL; /* may be empty */
	entry.super_options = entry.source ? next_field(&p) : NULL;
	if (!entry.super_options || *p != '\0')
		return -EBADMSG;
	*ret = entry;
	return 0;
}

bool mount_option_is_set(const char *options, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = options;; p++) {
		size_t n = strcspn(p, ",");

		if (n == len && memcmp(p, word, n) == 0)
			return true;
		p += n;
		if (*p == '\0')
			return false;
	}
}

bool mount_options_show_stop(const char *super_options)
{
	return mount_option_is_set(super_options, "emergency_ro") ||
	       mount_option_is_set(super_options, "shutdown");
}

void mountinfo_rewind(struct mountinfo *mi)
{
	mi->offset = 0;
	mi->have = mi->at = 0;
}

/* Shortens each field of an unfinished line, so that what follows can be read. */
static void cut_fields(struct mountinfo *mi)
{
	size_t len = 0, have = mi->have;

	mi->have = 0;
	for (size_t i = 0; i < have; i++) {
		len = mi->buf[i] == ' ' ? 0 : len + 1;
		if (len <= MOUNTINFO_CUT_FIELD)
			mi->buf[mi->have++] = mi->buf[i];
	}
}

/* Moves the unparsed bytes to the front and reads on. Returns 1, 0 at the end, or a negative errno. */
static int read_on(struct mountinfo *mi)
{
	ssize_t n;

	mi->have -= mi->at;
	memmove(mi->buf, mi->buf + mi->at, mi->have);
	mi->at = 0;
	if (mi->have == sizeof(mi->buf))
		cut_fields(mi);
	if (mi->have == sizeof(mi->buf))
		return -EMSGSIZE;
	do {
		n = sys_pread(mi->fd, mi->buf + mi->have, sizeof(mi->buf) - mi->have, mi->offset);
	} while (n == -EINTR);
	if (n <= 0)
		return n == 0 && mi->have > 0 ? -EBADMSG : (int)n;
	mi->offset += n;
	mi->have += (size_t)n;
	return 1;
}

int mountinfo_next(struct mountinfo *mi, struct mount_entry *ret)
{
	assert(mi->fd >= 0 && mi->at <= mi->have);

	char *line, *end;
	int r;

	while (!(end = memchr(mi->buf + mi->at, '\n', mi->have - mi->at))) {
		r = read_on(mi);
		if (r <= 0)
			return r;
	}
	line = mi->buf + mi->at;
	mi->at += (size_t)(end - line) + 1;
	if (memchr(line, '\0', (size_t)(end - line)))
		return -EBADMSG;
	*end = '\0';
	r = mountinfo_parse(line, ret);
	return r < 0 ? r : 1;
}

int mountinfo_at(struct mountinfo *mi, const char *point, uint64_t *ret_id)
{
	struct mount_entry entry;
	uint64_t id = 0;
	int r;

	mountinfo_rewind(mi);
	while ((r = mountinfo_next(mi, &entry)) > 0) {
		if (str_eq(entry.point, point))
			id = entry.id;
	}
	if (r == 0)
		*ret_id = id;
	return r;
}
