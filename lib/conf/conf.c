/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/conf.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/closest.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/str.h"
#include "base/utf8.h"
#include "conf/hcl.h"
#include "conf/lines.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define cleanup_json cleanup(json_decrefp)

/* Goes through text that jansson has accepted, in step with the tree made of it: jansson keeps members in the
 * order of the text. */
struct walker {
	const char *at;
	unsigned int line, depth;
	const char *file;
	struct lines *lines;
	struct error *err;
};

static enum status walk(struct walker *w, const json_t *json);

static void skip_blanks(struct walker *w)
{
	for (; strchr(" \t\r\n", w->at[0]) && w->at[0]; w->at++)
		w->line += w->at[0] == '\n';
}

static void skip_string(struct walker *w)
{
	for (w->at++; w->at[0] != '"'; w->at++)
		if (w->at[0] == '\\')
			w->at++;
	w->at++;
}

/* Passes over @sign and the blanks around it if it comes next. */
static bool skip_sign(struct walker *w, char sign)
{
	bool is_there;

	skip_blanks(w);
	is_there = w->at[0] == sign;
	if (is_there)
		w->at++;
	skip_blanks(w);
	return is_there;
}

static enum status note(struct walker *w, const json_t *object, const char *key)
{
	struct line here = {.file = w->file, .number = w->line, .kind = LINE_VALUE};

	return lines_set(w->lines, object, key, &here) < 0 ? line_no_memory(w->file, w->err) : STATUS_OK;
}

static enum status walk_object(struct walker *w, const json_t *object)
{
	/* iteration changes nothing, yet takes a plain pointer */
	json_t *members = (json_t *)(uintptr_t)object;
	enum status status = note(w, object, NULL);

	(void)skip_sign(w, '{');
	for (void *at = json_object_iter(members); at && status == STATUS_OK;
	     at = json_object_iter_next(members, at)) {
		status = note(w, object, json_object_iter_key(at));
		skip_string(w);
		(void)skip_sign(w, ':');
		if (status == STATUS_OK)
			status = walk(w, json_object_iter_value(at));
		(void)skip_sign(w, ',');
	}
	(void)skip_sign(w, '}');
	return status;
}

static enum status walk_list(struct walker *w, const json_t *list)
{
	enum status status = STATUS_OK;

	(void)skip_sign(w, '[');
	for (size_t i = 0; i < json_array_size(list) && status == STATUS_OK; i++) {
		status = walk(w, json_array_get(list, i));
		(void)skip_sign(w, ',');
	}
	(void)skip_sign(w, ']');
	return status;
}

static enum status walk(struct walker *w, const json_t *json)
{
	enum status status;

	if (json_is_string(json)) {
		skip_string(w);
		return STATUS_OK;
	}
	if (!json_is_object(json) && !json_is_array(json)) {
		w->at += strcspn(w->at, ",]} \t\r\n");
		return STATUS_OK;
	}
	if (w->depth > CONF_DEPTH_MAX)
		return line_error(w->file, w->line, w->err, "nested deeper than %d levels", CONF_DEPTH_MAX);
	w->depth++;
	status = json_is_object(json) ? walk_object(w, json) : walk_list(w, json);
	w->depth--;
	return status;
}

/* @text  an object
 * @file   from lines_file()
 * @ret    owned by the caller, json_decref(); the places of its members are in @lines */
static enum status json_parse(const char *text, const char *file, struct lines *lines, json_t **ret,
			      struct error *err)
{
	struct walker w = {.at = text, .line = 1, .file = file, .lines = lines, .err = err};
	cleanup_json json_t *json = NULL;
	json_error_t why;
	enum status status;

	json = json_loads(text, JSON_REJECT_DUPLICATES, &why);
	if (!json && json_error_code(&why) == json_error_out_of_memory)
		return line_no_memory(file, err);
	if (!json) { /* the text there may be a secret */
		const char *near = strstr(why.text, " near '");

		return line_error(file, why.line > 0 ? (unsigned int)why.line : 1, err, "%.*s",
				  near ? (int)(near - why.text) : -1, why.text);
	}
	assert(json_is_object(json));
	skip_blanks(&w);
	status = walk(&w, json);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(json);
	return status;
}

struct conf {
	const char *name; /* of the first file; borrowed from lines */
	json_t *root;
	/* Values that later files replaced. They stay, so that no node of another tree gets their address and
	 * with it their lines. */
	json_t *replaced;
	struct lines *lines;
	enum conf_templates templates;
	bool keeps_mistakes; /* for conf_mistakes() */
	enum status status;  /* of the mistakes */
	struct error mistakes;
};

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

/* Parses one file into the lines of @conf. */
static enum status parse(struct conf *conf, const char *text, const char *name, const char **ret_file,
			 json_t **ret, struct error *err)
{
	struct lines *lines = conf->lines;
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
		status = hcl_parse(text, file, conf->templates, lines, ret, err);
	*ret_file = file;
	if (status != STATUS_INVALID_ARGUMENT || !conf->keeps_mistakes)
		return status;
	conf->status = status;
	conf->mistakes = *err;
	if (!*ret)
		*ret = json_object();
	return *ret ? STATUS_OK : line_no_memory(file, err);
}

static enum status move(struct lines *lines, const char *name, const json_t *to, const json_t *from,
			const char *key, struct error *err)
{
	const struct line *line = lines_find(lines, from, key);

	if (line && lines_set(lines, to, key, line) < 0)
		return line_no_memory(name, err);
	return STATUS_OK;
}

/* Puts the members of @from into @to: objects are merged, anything else is replaced. */
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

	TRY(parse(conf, text, name, &file, &root, err));
	if (!conf->name) { /* the first file is the document, the others change it */
		conf->name = file;
		json_decref(conf->root);
		conf->root = TAKE_PTR(root);
		return STATUS_OK;
	}
	enum status status = merge(conf, file, conf->root, root, err);
	if (json_array_append(conf->replaced, root) < 0 && status == STATUS_OK)
		status = line_no_memory(file, err);
	return status;
}

/* @fd of the file; negative: it is opened */
static enum status add_file(struct conf *conf, int fd, const char *path, struct error *err)
{
	bool is_stdin = str_eq(path, "-");
	const char *name = is_stdin ? "standard input" : path;
	cleanup_free char *text = NULL;
	size_t n = 0;
	int r = is_stdin  ? fd_read_all(STDIN_FILENO, CONF_SIZE_MAX, &text, &n)
		: fd >= 0 ? fd_read_all(fd, CONF_SIZE_MAX, &text, &n)
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

enum status conf_parse_whole(const char *text, const char *name, enum conf_templates templates,
			     struct conf **ret, struct error *err)
{
	cleanup_conf struct conf *conf = conf_new();

	if (!conf)
		return line_no_memory(name, err);
	conf->templates = templates;
	conf->keeps_mistakes = true;
	TRY(add_text(conf, text, name, err));
	*ret = TAKE_PTR(conf);
	return STATUS_OK;
}

enum status conf_load_whole(const char *path, enum conf_templates templates, struct conf **ret,
			    struct error *err)
{
	return conf_load_open(-EBADF, path, templates, ret, err);
}

enum status conf_load_open(int fd, const char *path, enum conf_templates templates, struct conf **ret,
			   struct error *err)
{
	cleanup_conf struct conf *conf = conf_new();

	if (!conf)
		return line_no_memory(path, err);
	conf->templates = templates;
	conf->keeps_mistakes = true;
	TRY(add_file(conf, fd, path, err));
	*ret = TAKE_PTR(conf);
	return STATUS_OK;
}

enum status conf_mistakes(const struct conf *conf, struct error *err)
{
	if (conf->status != STATUS_OK && err)
		*err = conf->mistakes;
	return conf->status;
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
	status = add_file(conf, -EBADF, path, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(conf);
	return status;
}

enum status conf_read_trusted(const char *path, const char *what, char **ret, struct error *err)
{
	cleanup_close int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	cleanup_close int fd = -EBADF;
	int r;

	if (!path_is_normal(path))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s is no absolute path", path);
	fd = path_open_trusted_file(root_fd, path, 0, O_RDONLY, 0);
	if (fd == -EPERM)
		return error_set(
			err, STATUS_PERMISSION_DENIED, 0,
			"%s %s, and others than root can change it: it and the folders above it must "
			"be root's, and writable only by root",
			path, what);
	r = fd < 0 ? fd : fd_read_all(fd, CONF_SIZE_MAX, ret, NULL);
	return r < 0 ? error_set(err, status_from_errno(r), r, "read %s", path) : STATUS_OK;
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

/* Compares bytes, independent of the locale: the order must be the same on every machine. */
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
			status = add_file(conf, -EBADF, path, err);
		free(entries[i]);
	}
	free(entries);
	return status;
}

enum status conf_load_merged(const char *path, const char *dropin_dir, struct conf **ret, struct error *err)
{
	cleanup_conf struct conf *conf = NULL;

	TRY(conf_load(path, &conf, err));
	assert(conf);
	enum status status = add_dropins(conf, dropin_dir, err);
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

/* A missing member is the fault of its block. */
static const struct line *find_line(const struct conf *conf, const json_t *object, const char *key)
{
	const struct line *line = lines_find(conf->lines, object, key);

	return line ? line : lines_find(conf->lines, object, NULL);
}

unsigned int conf_line(const struct conf *conf, const json_t *object, const char *key)
{
	const struct line *line = find_line(conf, object, key);

	return line ? line->number : 0;
}

bool conf_is_labelled(const struct conf *conf, const json_t *object, const char *key)
{
	const struct line *line = lines_find(conf->lines, object, key);

	return line && line->kind == LINE_LABELLED;
}

enum status conf_error(const struct conf *conf, const json_t *object, const char *key, struct error *err,
		       const char *fmt, ...)
{
	const struct line *line = find_line(conf, object, key);
	char message[ERROR_MSG_MAX];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	if (!line)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: %s", conf->name, message);
	return line_error(line->file, line->number, err, "%s", message);
}

/* One member that is being bound. */
struct binding {
	const struct conf *conf;
	json_t *object;
	const struct conf_field *field;
	json_t *value;
	void *target; /* the struct */
	struct error *err;
};

static void *member(const struct binding *b)
{
	return (char *)b->target + b->field->offset;
}

#define bind_error(b, ...) conf_error((b)->conf, (b)->object, (b)->field->key, (b)->err, __VA_ARGS__)

static enum status bind_string(const struct binding *b)
{
	const char *text = json_string_value(b->value);

	if (!text)
		return bind_error(b, "'%s' must be a string", b->field->key);
	if (b->field->type == CONF_PATH && !path_is_normal(text))
		return bind_error(b, "'%s' must be an absolute path without '.', '..' and doubled slashes",
				  b->field->key);
	if (strlen(text) != json_string_length(b->value))
		return bind_error(b, "'%s' holds a NUL byte", b->field->key);
	if (strlen(text) >= b->field->size)
		return bind_error(b, "'%s' may have %zu bytes at most", b->field->key, b->field->size - 1);
	return str_copy(member(b), b->field->size, text) < 0 ? STATUS_INTERNAL : STATUS_OK;
}

static enum status bind_strings(const struct binding *b)
{
	size_t n = json_array_size(b->value), i;
	char *list = member(b);
	json_t *item;

	if (!json_is_array(b->value))
		return bind_error(b, "'%s' must be a list of strings", b->field->key);
	if (n > b->field->max)
		return bind_error(b, "'%s' may have %" PRIu64 " entries at most", b->field->key,
				  b->field->max);
	memset(list, 0, b->field->max * b->field->size);
	json_array_foreach (b->value, i, item) {
		const char *text = json_string_value(item);

		if (!text || text[0] == '\0' || strlen(text) != json_string_length(item))
			return bind_error(b, "'%s' must be a list of strings that are not empty",
					  b->field->key);
		if (str_copy(list + i * b->field->size, b->field->size, text) < 0)
			return bind_error(b, "an entry of '%s' may have %zu bytes at most", b->field->key,
					  b->field->size - 1);
	}
	return STATUS_OK;
}

static enum status bind_bool(const struct binding *b)
{
	if (!json_is_boolean(b->value))
		return bind_error(b, "'%s' must be true or false", b->field->key);
	*(bool *)member(b) = json_is_true(b->value);
	return STATUS_OK;
}

static enum status bind_number(const struct binding *b, uint64_t type_max)
{
	uint64_t max = b->field->max && b->field->max < type_max ? b->field->max : type_max;
	uint64_t number = (uint64_t)json_integer_value(b->value); /* below zero: above every maximum */

	if (!json_is_integer(b->value))
		return bind_error(b, "'%s' must be a whole number", b->field->key);
	if (number < b->field->min || number > max)
		return bind_error(b, "'%s' must be %" PRIu64 " to %" PRIu64, b->field->key, b->field->min,
				  max);
	if (b->field->type == CONF_U32)
		*(uint32_t *)member(b) = (uint32_t)number;
	else
		*(uint64_t *)member(b) = number;
	return STATUS_OK;
}

static enum status bind_size(const struct binding *b)
{
	uint64_t max = b->field->max ? b->field->max : UINT64_MAX;
	uint64_t size = 0;
	bool ok;

	if (json_is_string(b->value)) {
		ok = parse_size(json_string_value(b->value), &size) == 0;
	} else {
		ok = json_is_integer(b->value) && json_integer_value(b->value) >= 0;
		size = ok ? (uint64_t)json_integer_value(b->value) : 0;
	}
	if (!ok)
		return bind_error(b, "'%s' must be a size, a number of bytes or as in \"10GiB\"",
				  b->field->key);
	if (size < b->field->min || size > max)
		return bind_error(b, "'%s' must be %" PRIu64 " to %" PRIu64 " bytes", b->field->key,
				  b->field->min, max);
	*(uint64_t *)member(b) = size;
	return STATUS_OK;
}

static enum status bind_duration(const struct binding *b)
{
	uint64_t max = b->field->max ? b->field->max : UINT64_MAX;
	uint64_t duration = 0;
	char low[CLOCK_TEXT_SIZE], high[CLOCK_TEXT_SIZE];

	if (!json_is_string(b->value) || parse_duration(json_string_value(b->value), &duration) < 0)
		return bind_error(b, "'%s' must be a duration with its unit, as in \"90s\"", b->field->key);
	if (duration < b->field->min || duration > max)
		return bind_error(b, "'%s' must be %s to %s", b->field->key,
				  clock_format_duration(b->field->min, low),
				  clock_format_duration(max, high));
	*(uint64_t *)member(b) = duration;
	return STATUS_OK;
}

/* JSON knows no labels: there, members that are all objects are taken for labelled blocks. */
static bool is_labelled(const struct binding *b)
{
	const struct line *line = lines_find(b->conf->lines, b->object, b->field->key);
	const char *key;
	json_t *value;

	if (line && line->kind != LINE_VALUE)
		return line->kind == LINE_LABELLED;
	json_object_foreach (b->value, key, value) {
		if (!json_is_object(value))
			return false;
	}
	return json_object_size(b->value) > 0;
}

static enum status bind_block(const struct binding *b, const char *label, json_t *body)
{
	const struct conf_field *field = b->field;

	return field->block ? field->block(b->conf, label, body, b->target, b->err)
			    : conf_bind(b->conf, body, field->fields, field->n_fields, b->target, b->err);
}

static enum status bind_blocks(const struct binding *b)
{
	const char *label;
	json_t *body;
	size_t i;
	enum status status = STATUS_OK;

	if (json_is_array(b->value)) {
		json_array_foreach (b->value, i, body) {
			if (status != STATUS_OK)
				break;
			if (!json_is_object(body))
				return bind_error(b, "'%s' must be a block", b->field->key);
			status = bind_block(b, NULL, body);
		}
		return status;
	}
	if (!json_is_object(b->value))
		return bind_error(b, "'%s' must be a block", b->field->key);
	if (!is_labelled(b))
		return bind_block(b, NULL, b->value);
	json_object_foreach (b->value, label, body) {
		if (status == STATUS_OK)
			status = bind_block(b, label, body);
	}
	return status;
}

static enum status bind_member(const struct binding *b)
{
	switch (b->field->type) {
	case CONF_STRING:
	case CONF_PATH:
		return bind_string(b);
	case CONF_BOOL:
		return bind_bool(b);
	case CONF_U32:
		return bind_number(b, UINT32_MAX);
	case CONF_U64:
		return bind_number(b, INT64_MAX); /* what a file can express */
	case CONF_SIZE:
		return bind_size(b);
	case CONF_DURATION:
		return bind_duration(b);
	case CONF_STRINGS:
		return bind_strings(b);
	case CONF_BLOCKS:
		return bind_blocks(b);
	}
	assert(false);
	return STATUS_INTERNAL;
}

enum status conf_unknown_key(const struct conf *conf, const json_t *object, const char *key,
			     const char *const *known, size_t n, struct error *err)
{
	const char *meant = closest(key, known, n);

	if (meant)
		return conf_error(conf, object, key, err, "unknown key '%.64s', did you mean '%s'?", key,
				  meant);
	return conf_error(conf, object, key, err, "unknown key '%.64s'", key);
}

static enum status check_keys(const struct conf *conf, json_t *object, const struct conf_field *fields,
			      size_t n_fields, struct error *err)
{
	const char *known[CONF_FIELDS_MAX], *key;
	json_t *value;

	assert(n_fields <= CONF_FIELDS_MAX);
	for (size_t i = 0; i < n_fields; i++)
		known[i] = fields[i].key;
	json_object_foreach (object, key, value) {
		size_t i = 0;

		while (i < n_fields && !str_eq(key, known[i]))
			i++;
		if (i == n_fields)
			return conf_unknown_key(conf, object, key, known, n_fields, err);
	}
	return STATUS_OK;
}

enum status conf_bind(const struct conf *conf, json_t *object, const struct conf_field *fields,
		      size_t n_fields, void *target, struct error *err)
{
	enum status status = check_keys(conf, object, fields, n_fields, err);

	for (size_t i = 0; i < n_fields && status == STATUS_OK; i++) {
		struct binding b = {
			.conf = conf,
			.object = object,
			.field = &fields[i],
			.value = json_object_get(object, fields[i].key),
			.target = target,
			.err = err,
		};

		if (b.value && !json_is_null(b.value))
			status = bind_member(&b);
		else if (fields[i].required)
			status = conf_error(conf, object, fields[i].key, err, "'%s' is missing",
					    fields[i].key);
	}
	return status;
}
