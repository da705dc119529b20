/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/lines.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <bsd/sys/tree.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/queue.h>

struct entry {
	RB_ENTRY(entry) node;
	const json_t *object; /* compared, never followed; a reference of it is held if there is no key */
	char *key;	      /* owned; NULL: the object itself */
	struct line line;
};

struct file {
	SLIST_ENTRY(file) next;
	char name[];
};

RB_HEAD(entries, entry);

struct lines {
	struct entries entries;
	SLIST_HEAD(, file) files;
};

static int compare(const struct entry *a, const struct entry *b)
{
	uintptr_t left = (uintptr_t)a->object;
	uintptr_t right = (uintptr_t)b->object;

	if (left != right)
		return left < right ? -1 : 1;
	if (!a->key || !b->key)
		return (a->key != NULL) - (b->key != NULL);
	return strcmp(a->key, b->key);
}

/* RB_GENERATE_STATIC wants a macro __unused, which the C library does not have. */
RB_GENERATE_INTERNAL(entries, entry, node, compare, static __attribute__((__unused__)))

struct lines *lines_new(void)
{
	struct lines *lines = malloc(sizeof(*lines));

	if (!lines)
		return NULL;
	RB_INIT(&lines->entries);
	SLIST_INIT(&lines->files);
	return lines;
}

void lines_free(struct lines *lines)
{
	struct entry *entry;
	struct file *file;

	if (!lines)
		return;
	while ((entry = RB_ROOT(&lines->entries)) != NULL) {
		RB_REMOVE(entries, &lines->entries, entry);
		if (!entry->key)
			json_decref((json_t *)(uintptr_t)entry->object);
		free(entry->key);
		free(entry);
	}
	while ((file = SLIST_FIRST(&lines->files)) != NULL) {
		SLIST_REMOVE_HEAD(&lines->files, next);
		free(file);
	}
	free(lines);
}

const char *lines_file(struct lines *lines, const char *name)
{
	size_t n = strlen(name) + 1;
	struct file *file = malloc(sizeof(*file) + n);

	if (!file)
		return NULL;
	memcpy(file->name, name, n);
	SLIST_INSERT_HEAD(&lines->files, file, next);
	return file->name;
}

int lines_set(struct lines *lines, const json_t *object, const char *key, const struct line *line)
{
	struct entry *entry = calloc(1, sizeof(*entry));
	struct entry *there;

	if (!entry)
		return -ENOMEM;
	entry->object = object;
	entry->line = *line;
	entry->key = key ? strdup(key) : NULL;
	if (key && !entry->key) {
		free(entry);
		return -ENOMEM;
	}
	there = RB_INSERT(entries, &lines->entries, entry);
	if (there) {
		there->line = *line;
		free(entry->key);
		free(entry);
	} else if (!key) {
		(void)json_incref((json_t *)(uintptr_t)object);
	}
	return 0;
}

const struct line *lines_find(const struct lines *lines, const json_t *object, const char *key)
{
	struct entry *at = RB_ROOT(&lines->entries);

	while (at) {
		/* the key is only read */
		struct entry wanted = {.object = object, .key = (char *)(uintptr_t)key};
		int order = compare(&wanted, at);

		if (order == 0)
			return &at->line;
		at = order < 0 ? RB_LEFT(at, node) : RB_RIGHT(at, node);
	}
	return NULL;
}

enum status line_error(const char *file, unsigned int number, struct error *err, const char *fmt, ...)
{
	char message[ERROR_MSG_MAX], shown[ERROR_MSG_MAX];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	str_copy_text(shown, sizeof(shown), message); /* a key with a line break makes no line of a list */
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s:%u: %s", file, number, shown);
}

enum status line_no_memory(const char *file, struct error *err)
{
	return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "%s: out of memory", file);
}
