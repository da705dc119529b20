/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/nfs_list.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* For this process's own network namespace: /proc/net is a link to it. */
#define LIST_PATH "/proc/self/net/nfsfs/volumes"
#define HEADER "NV SERVER   PORT DEV          FSID"

enum { COLUMN_VERSION, COLUMN_SERVER, COLUMN_PORT, COLUMN_DEVICE, COLUMN_FSID, COLUMN_N };

/* "0:45" */
static bool parse_device(char *text, uint32_t *ret_major, uint32_t *ret_minor)
{
	char *colon = strchr(text, ':');

	if (!colon)
		return false;
	*colon = '\0';
	return parse_u32(text, 0, UINT32_MAX, ret_major) == 0 &&
	       parse_u32(colon + 1, 0, UINT32_MAX, ret_minor) == 0;
}

/* "v4 7f000001 0801 0:45         ab:0                              no ". Text after the known columns may be
 * anything. False: not such a line. */
static bool parse_line(char line[static NFS_LIST_LINE_MAX + 1], uint32_t *ret_major, uint32_t *ret_minor)
{
	char *columns[COLUMN_N], *rest = line;

	for (int i = 0; i < COLUMN_N; i++) {
		rest += strspn(rest, " ");
		columns[i] = rest;
		rest += strcspn(rest, " ");
		if (rest == columns[i])
			return false;
		if (*rest != '\0')
			*rest++ = '\0';
	}
	return columns[COLUMN_VERSION][0] == 'v' && strchr(columns[COLUMN_FSID], ':') &&
	       parse_device(columns[COLUMN_DEVICE], ret_major, ret_minor);
}

static enum status malformed(struct error *err)
{
	return error_set(err, STATUS_INTERNAL, EBADMSG,
			 "the kernel's list of NFS file systems (" LIST_PATH
			 ") is not of the form that this agent knows");
}

enum status nfs_list_find(const char *text, size_t n, uint32_t dev_major, uint32_t dev_minor, bool *ret,
			  struct error *err)
{
	const char *end = text + n;
	bool is_header = true, is_found = false;

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t length = newline ? (size_t)(newline - text) : 0;
		char line[NFS_LIST_LINE_MAX + 1] = {0};
		uint32_t line_major, line_minor;

		if (!newline || length > NFS_LIST_LINE_MAX || memchr(text, '\0', length))
			return malformed(err);
		memcpy(line, text, length);
		text = newline + 1;
		if (is_header && !str_starts_with(line, HEADER))
			return malformed(err);
		if (!is_header && !parse_line(line, &line_major, &line_minor))
			return malformed(err);
		is_found = is_found || (!is_header && line_major == dev_major && line_minor == dev_minor);
		is_header = false;
	}
	if (is_header)
		return malformed(err);
	*ret = is_found;
	return STATUS_OK;
}

struct list_text {
	char *text;
	size_t n;
};

static enum status read_once(struct list_text *list, struct error *err)
{
	int r;

	free(list->text);
	*list = (struct list_text){0};
	r = file_read(LIST_PATH, NFS_LIST_MAX, &list->text, &list->n);
	if (r == -ENOENT)
		return error_set(err, STATUS_NOT_FOUND, r,
				 "there is no " LIST_PATH
				 ": the kernel's module nfs is not loaded (modprobe nfs), or "
				 "ProcSubset= hides it from this agent");
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "cannot read " LIST_PATH);
	return STATUS_OK;
}

/* The kernel gives it in pieces, and continues by position: with one taken away in between another one would
 * be left out. Two reads that are the same saw no such thing. */
static enum status read_steady(struct list_text lists[static 2], struct error *err)
{
	enum status status = read_once(&lists[0], err);

	for (int i = 1; i < NFS_LIST_READS_MAX && status == STATUS_OK; i++) {
		status = read_once(&lists[i % 2], err);
		if (status == STATUS_OK && lists[0].n == lists[1].n &&
		    memcmp(lists[0].text, lists[1].text, lists[0].n) == 0)
			return STATUS_OK;
	}
	return status != STATUS_OK
		       ? status
		       : error_set(err, STATUS_UNAVAILABLE, 0,
				   LIST_PATH
				   " changes faster than it can be read: NFS file systems come and go");
}

enum status nfs_list_has(uint32_t dev_major, uint32_t dev_minor, bool *ret, struct error *err)
{
	struct list_text lists[2] = {0};
	enum status status = read_steady(lists, err);

	if (status == STATUS_OK)
		status = nfs_list_find(lists[0].text, lists[0].n, dev_major, dev_minor, ret, err);
	free(lists[0].text);
	free(lists[1].text);
	return status;
}
