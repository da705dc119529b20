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
	for (size_t i = 0; i < ARRAY_SIZE(escapes); i++) {
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

static int visit_line(char *line, size_t n, mount_visit_fn *visit, void *userdata)
{
	struct mount_entry entry;
	int r;

	if (memchr(line, '\0', n))
		return -EBADMSG;
	line[n] = '\0';
	r = mountinfo_parse(line, &entry);
	return r < 0 ? r : visit(&entry, userdata);
}

/* Visits the whole lines among the @have bytes, moves the rest to the front and sets *@have to its size. */
static int visit_lines(char *buf, size_t *have, mount_visit_fn *visit, void *userdata)
{
	char *line = buf;
	char *newline;

	while ((newline = memchr(line, '\n', *have - (size_t)(line - buf)))) {
		int r = visit_line(line, (size_t)(newline - line), visit, userdata);

		if (r != 0)
			return r;
		line = newline + 1;
	}
	*have -= (size_t)(line - buf);
	memmove(buf, line, *have);
	return 0;
}

int mountinfo_each(struct mountinfo *mi, mount_visit_fn *visit, void *userdata)
{
	assert(mi->fd >= 0);
	off_t offset = 0;
	size_t have = 0;

	for (;;) {
		ssize_t n;
		int r;

		if (have == sizeof(mi->buf))
			return -EMSGSIZE;
		n = sys_pread(mi->fd, mi->buf + have, sizeof(mi->buf) - have, offset);
		if (n == -EINTR)
			continue;
		if (n < 0)
			return (int)n;
		if (n == 0)
			return have == 0 ? 0 : -EBADMSG;
		offset += n;
		have += (size_t)n;
		r = visit_lines(mi->buf, &have, visit, userdata);
		if (r != 0)
			return r;
	}
}

struct finding {
	const char *point;
	uint64_t id;
};

static int visit_point(const struct mount_entry *entry, void *userdata)
{
	struct finding *finding = userdata;

	if (str_eq(entry->point, finding->point))
		finding->id = entry->id;
	return 0;
}

int mountinfo_at(struct mountinfo *mi, const char *point, uint64_t *ret_id)
{
	struct finding finding = {.point = point};
	int r = mountinfo_each(mi, visit_point, &finding);

	if (r == 0)
		*ret_id = finding.id;
	return r;
}
