/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/conf.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/utf8.h"
#include "conf/conf_internal.h"
#include "conf/hcl_parse.h"
#include "conf/json_parse.h"

#include <assert.h>
#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>

DEFINE_CLEANUP(struct conf, conf_free)

#define cleanup_conf cleanup(conf_freep)
#define cleanup_json cleanup(json_decrefp)

void conf_free(struct conf *conf)
{
	if (!conf)
		return;
	json_decref(conf->root);
	json_decref(conf->replaced);
	lines_free(conf->lines);
	free(conf);
}

json_t *conf_root(const struct conf *conf)
{
	return conf->root;
}

static struct conf *conf_new(void)
{
	cleanup_conf struct conf *conf = calloc(1, sizeof(*conf));

	if (!conf)
		return NULL;
	conf->root = json_object();
	conf->replaced = json_array();
	conf->lines = lines_new();
	if (!conf->root || !conf->replaced || !conf->lines)
		return NULL;
	return TAKE_PTR(conf);
}

/* Line of the first byte that is not UTF-8: the text is valid up to there and not beyond. */
static unsigned int bad_line(const char *text)
{
	unsigned int line = 1;

	for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1, line++)
		if (!utf8_is_valid(text, (size_t)(end - text)))
			break;
	return line;
}

/* Parse one file into @lines. */
static enum status parse(const char *text, const char *name, struct lines *lines, const char **ret_file,
			 json_t **ret, struct error *err)
{
	const char *file = lines_file(lines, name);
	size_t n = strnlen(text, CONF_SIZE_MAX + 1);
	enum status status;

	if (!file)
		return line_no_memory(name, err);
	if (n > CONF_SIZE_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: longer than %d bytes", name,
				 CONF_SIZE_MAX);
	if (!utf8_is_valid(text, n))
		return line_error(file, bad_line(text), err, "the text is not UTF-8");
	if (text[strspn(text, " \t\r\n")] == '{')
		status = json_parse(text, file, lines, ret, err);
	else
		status = hcl_parse(text, file, lines, ret, err);
	if (status == STATUS_OK)
		*ret_file = file;
	return status;
}

static enum status move(struct lines *lines, const char *name, const json_t *to, const json_t *from,
			const char *key, struct error *err)
{
	const struct line *line = lines_find(lines, from, key);

	if (line && lines_set(lines, to, key, line) < 0)
		return line_no_memory(name, err);
	return STATUS_OK;
}

/* Put the members of @from into @to: objects are merged, anything else is replaced. */
static enum status merge(struct conf *conf, const char *name, json_t *to, json_t *from, struct error *err)
{
	const char *key;
	json_t *value;

	json_object_foreach (from, key, value) {
		json_t *there = json_object_get(to, key);
		enum status status;

		if (json_is_object(there) && json_is_object(value)) {
			status = merge(conf, name, there, value, err);
		} else {
			if (there && json_array_append(conf->replaced, there) < 0)
				return line_no_memory(name, err);
			if (json_object_set_nocheck(to, key, value) < 0)
				return line_no_memory(name, err);
			status = move(conf->lines, name, to, from, key, err);
		}
		if (status != STATUS_OK)
			return status;
	}
	return STATUS_OK;
}

static enum status add_text(struct conf *conf, const char *text, const char *name, struct error *err)
{
	cleanup_json json_t *root = NULL;
	const char *file = NULL;
	enum status status = parse(text, name, conf->lines, &file, &root, err);

	if (status != STATUS_OK)
		return status;
	if (!conf->name) { /* the first file is the document, the others change it */
		conf->name = file;
		json_decref(conf->root);
		conf->root = TAKE_PTR(root);
		return STATUS_OK;
	}
	status = merge(conf, file, conf->root, root, err);
	if (json_array_append(conf->replaced, root) < 0 && status == STATUS_OK)
		status = line_no_memory(file, err);
	return status;
}

static enum status add_file(struct conf *conf, const char *path, struct error *err)
{
	bool is_stdin = str_eq(path, "-");
	const char *name = is_stdin ? "standard input" : path;
	cleanup_free char *text = NULL;
	size_t n = 0;
	int r = is_stdin ? fd_read_all(STDIN_FILENO, CONF_SIZE_MAX, &text, &n)
			 : file_read(path, CONF_SIZE_MAX, &text, &n);

	if (r == -EFBIG)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: longer than %d bytes", name,
				 CONF_SIZE_MAX);
	if (r == -EINVAL && !is_stdin)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: not a regular file", name);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "read %s", name);
	if (strlen(text) != n) {
		unsigned int line = 1;

		for (const char *p = text; *p; p++)
			line += *p == '\n';
		return line_error(name, line, err, "the file holds a NUL byte");
	}
	return add_text(conf, text, name, err);
}

enum status conf_parse(const char *text, const char *name, struct conf **ret, struct error *err)
{
	cleanup_conf struct conf *conf = conf_new();
	enum status status;

	if (!conf)
		return line_no_memory(name, err);
	status = add_text(conf, text, name, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(conf);
	return status;
}

enum status conf_load(const char *path, struct conf **ret, struct error *err)
{
	cleanup_conf struct conf *conf = conf_new();
	enum status status;

	if (!conf)
		return line_no_memory(path, err);
	status = add_file(conf, path, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(conf);
	return status;
}

bool conf_is_dropin(const char *name)
{
	const char *suffix = strrchr(name, '.');

	return name[0] != '.' && suffix && (str_eq(suffix, ".hcl") || str_eq(suffix, ".json"));
}

static int is_dropin(const struct dirent *entry)
{
	return conf_is_dropin(entry->d_name);
}

/* By bytes, whatever the locale: the order must be the same on every machine. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static enum status add_dropins(struct conf *conf, const char *dir, struct error *err)
{
	struct dirent **entries = NULL;
	enum status status = STATUS_OK;
	int n = scandir(dir, &entries, is_dropin, by_name);

	if (n < 0 && errno == ENOENT)
		return STATUS_OK;
	if (n < 0)
		return error_set(err, status_from_errno(errno), errno, "read %s", dir);
	if (n > CONF_DROPINS_MAX)
		status = error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: more than %d files", dir,
				   CONF_DROPINS_MAX);
	for (int i = 0; i < n; i++) {
		char path[PATH_MAX];

		if (status == STATUS_OK &&
		    str_format(path, sizeof(path), "%s/%s", dir, entries[i]->d_name) < 0)
			status = error_set(err, STATUS_INVALID_ARGUMENT, ENAMETOOLONG, "%s/%s", dir,
					   entries[i]->d_name);
		if (status == STATUS_OK)
			status = add_file(conf, path, err);
		free(entries[i]);
	}
	free(entries);
	return status;
}

enum status conf_load_merged(const char *path, const char *dropin_dir, struct conf **ret, struct error *err)
{
	cleanup_conf struct conf *conf = NULL;
	enum status status = conf_load(path, &conf, err);

	if (status != STATUS_OK)
		return status;
	assert(conf);
	status = add_dropins(conf, dropin_dir, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(conf);
	return status;
}

enum status conf_dropin_dir(const char *path, char ret[static PATH_MAX], struct error *err)
{
	const size_t suffix = strlen(".hcl");
	size_t n = strlen(path);

	if (n > suffix && str_eq(path + n - suffix, ".hcl"))
		n -= suffix;
	if (str_format(ret, PATH_MAX, "%.*s.d", (int)n, path) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, ENAMETOOLONG, "the path '%.64s...'", path);
	return STATUS_OK;
}

enum status conf_error(const struct conf *conf, const json_t *object, const char *key, struct error *err,
		       const char *fmt, ...)
{
	const struct line *line = lines_find(conf->lines, object, key);
	char message[ERROR_MSG_MAX];
	va_list args;

	if (!line) /* a missing member is the fault of its block */
		line = lines_find(conf->lines, object, NULL);
	va_start(args, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	if (!line)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: %s", conf->name, message);
	return line_error(line->file, line->number, err, "%s", message);
}
