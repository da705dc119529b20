/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/json_parse.h"

#include "base/cleanup.h"
#include "conf/conf.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define cleanup_json cleanup(json_decrefp)

/* Goes through text that jansson has accepted, in step with the tree made of it: jansson keeps members in the
 * order of the text. */
struct walker {
	const char *at;
	unsigned int line;
	unsigned int depth;
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

/* Pass over @sign and the blanks around it if it comes next. */
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

enum status json_parse(const char *text, const char *file, struct lines *lines, json_t **ret,
		       struct error *err)
{
	struct walker w = {.at = text, .line = 1, .file = file, .lines = lines, .err = err};
	cleanup_json json_t *json = NULL;
	json_error_t why;
	enum status status;

	json = json_loads(text, JSON_REJECT_DUPLICATES, &why);
	if (!json && json_error_code(&why) == json_error_out_of_memory)
		return line_no_memory(file, err);
	if (!json)
		return line_error(file, why.line > 0 ? (unsigned int)why.line : 1, err, "%s", why.text);
	assert(json_is_object(json));
	skip_blanks(&w);
	status = walk(&w, json);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(json);
	return status;
}
