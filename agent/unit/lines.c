/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/lines.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/str.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { CGROUP_MAX = 4096 };

/* Before /usr/lib, systemd has folders that only its own tools write; those are here as well. */
static const char *const folders[] = {
	"/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient",
	"/etc/systemd/system",	       "/run/systemd/system",	      "/usr/local/lib/systemd/system",
	"/usr/lib/systemd/system",     "/lib/systemd/system",
};

/* A drop-in, by the name that decides its place. */
struct dropin {
	char name[NAME_MAX + 1];
	char path[PATH_MAX];
};

struct search {
	const char *const *options;
	struct unit_line *lines; /* one for each option; number 0: not set */
	struct dropin *dropins;
	size_t n_dropins;
};

static bool is_in_force(const struct unit_line *line)
{
	static const char *const words[] = {"", "0", "n", "no", "f", "false", "off"};

	if (line->number == 0)
		return false;
	if (strstr(line->option, "Capabilit")) /* nothing is a set as well: the empty one */
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcasecmp(line->value, words[i]) == 0)
			return false;
	return true;
}

static const char *trim(char *text)
{
	char *end = text + strlen(text);

	while (end > text && strchr(" \t\r", end[-1]))
		*--end = '\0';
	return text + strspn(text, " \t");
}

static void parse_line(struct search *search, const char *path, unsigned int number, char *line)
{
	char *equals = strchr(line, '=');
	const char *key;

	if (!equals || line[0] == '#' || line[0] == ';')
		return;
	*equals = '\0';
	key = trim(line);
	for (size_t i = 0; search->options[i]; i++) {
		struct unit_line *found = &search->lines[i];

		if (!str_eq(key, search->options[i]))
			continue;
		found->number = number;
		found->option = search->options[i];
		str_copy_text(found->value, sizeof(found->value), trim(equals + 1));
		(void)str_copy(found->path, sizeof(found->path), path); /* it was opened by that name */
	}
}

/* False: there is no such file. */
static bool read_unit_file(struct search *search, const char *root, const char *path)
{
	cleanup_free char *text = NULL;
	char full[PATH_MAX];
	unsigned int number = 0;
	char *rest;

	if (str_format(full, sizeof(full), "%s%s", root, path) < 0 ||
	    file_read(full, UNIT_FILE_MAX, &text, NULL) < 0)
		return false;
	rest = text;
	while (rest) {
		char *line = strsep(&rest, "\n");

		parse_line(search, path, ++number, line);
	}
	return true;
}

static void add_dropin(struct search *search, const char *folder, const char *unit, const char *name)
{
	const char *suffix = strrchr(name, '.');
	struct dropin *dropin = &search->dropins[search->n_dropins];

	if (search->n_dropins == UNIT_DROPINS_MAX || !suffix || !str_eq(suffix, ".conf"))
		return;
	for (size_t i = 0; i < search->n_dropins; i++)
		if (str_eq(search->dropins[i].name, name))
			return; /* one of a folder that comes first */
	if (str_copy(dropin->name, sizeof(dropin->name), name) == 0 &&
	    str_format(dropin->path, sizeof(dropin->path), "%s/%s.d/%s", folder, unit, name) > 0)
		search->n_dropins++;
}

static void list_dropins(struct search *search, const char *root, const char *folder, const char *unit)
{
	char path[PATH_MAX];
	const struct dirent *entry;
	cleanup_closedir DIR *dir = NULL;

	if (str_format(path, sizeof(path), "%s%s/%s.d", root, folder, unit) < 0)
		return;
	dir = opendir(path);
	while (dir && folder_next(dir, &entry) > 0)
		add_dropin(search, folder, unit, entry->d_name);
}

static int compare_dropins(const void *a, const void *b)
{
	const struct dropin *x = a;
	const struct dropin *y = b;

	return strcmp(x->name, y->name);
}

static void read_fragment(struct search *search, const char *root, const char *unit)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (str_format(path, sizeof(path), "%s/%s", folders[i], unit) > 0 &&
		    read_unit_file(search, root, path))
			return;
}

static void read_all(struct search *search, const char *root, const char *unit, const char *alias)
{
	/* the last is for every unit of its kind */
	const char *const names[] = {unit, alias, "service"};

	read_fragment(search, root, unit);
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		for (size_t j = 0; j < ARRAY_SIZE(names); j++)
			if (names[j])
				list_dropins(search, root, folders[i], names[j]);
	qsort(search->dropins, search->n_dropins, sizeof(search->dropins[0]), compare_dropins);
	for (size_t i = 0; i < search->n_dropins; i++)
		(void)read_unit_file(search, root, search->dropins[i].path);
}

bool unit_lines_find(const char *root, const char *unit, const char *alias, const char *const *options,
		     struct unit_line *ret)
{
	cleanup_free struct unit_line *lines = NULL;
	cleanup_free struct dropin *dropins = calloc(UNIT_DROPINS_MAX + 1, sizeof(*dropins));
	struct search search = {.options = options, .dropins = dropins};
	size_t n = 0;

	while (options[n])
		n++;
	lines = calloc(n + 1, sizeof(*lines));
	if (!lines || !dropins)
		return false;
	search.lines = lines;
	read_all(&search, root, unit, alias);
	for (size_t i = 0; i < n; i++) {
		if (!is_in_force(&lines[i]))
			continue;
		*ret = lines[i];
		return true;
	}
	return false;
}

bool unit_of_self(char ret[static UNIT_NAME_SIZE])
{
	cleanup_free char *text = NULL;
	char *line;
	char *name;

	if (file_read("/proc/self/cgroup", CGROUP_MAX, &text, NULL) < 0)
		return false;
	line = strstr(text, "0::");
	if (!line)
		return false;
	line[strcspn(line, "\n")] = '\0';
	name = strrchr(line, '/');
	return name && strstr(name, ".service") && str_copy(ret, UNIT_NAME_SIZE, name + 1) == 0;
}
