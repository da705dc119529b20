/* SPDX-License-Identifier: Apache-2.0 */
#include "model/reference.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <inttypes.h>
#include <string.h>

enum { TEXT_MAX = 64 << 10, SHORT_ID = 8, INDEX_SIZE = 16 };

typedef Holdfast__Driver__V1__TaskConfig task_config;

/* In the place of a text that is not known yet. */
static const char unknown[] = "x";

static const char *const attributes_known[] = {
	"attr.cpu.arch",	  "attr.cpu.numcores", "attr.kernel.name", "attr.kernel.version",
	"attr.memory.totalbytes", "attr.os.name",      "attr.os.version",
};

static const char *const names[] = {
	"HOLDFAST_ALLOC_ID", "HOLDFAST_ALLOC_INDEX", "HOLDFAST_ALLOC_NAME", "HOLDFAST_GROUP",
	"HOLDFAST_JOB",	     "HOLDFAST_NAMESPACE",   "HOLDFAST_NODE_ID",    "HOLDFAST_TASK",
	"NOMAD_ALLOC_ID",    "NOMAD_ALLOC_INDEX",    "NOMAD_ALLOC_NAME",    "NOMAD_GROUP_NAME",
	"NOMAD_JOB_ID",	     "NOMAD_JOB_NAME",	     "NOMAD_NAMESPACE",	    "NOMAD_SHORT_ALLOC_ID",
	"NOMAD_TASK_NAME",   "node.unique.id",	     "node.unique.name",
};

bool node_attribute_name_is_valid(const char *name)
{
	return (str_starts_with(name, "attr.") || str_starts_with(name, "meta.")) && name[5] != '\0' &&
	       strlen(name) <= NODE_ATTRIBUTE_NAME_MAX && str_is_made_of(name, "._-");
}

bool node_attribute_value_is_valid(const char *value)
{
	return strlen(value) <= NODE_ATTRIBUTE_VALUE_MAX && str_is_made_of(value, " ._-+:~()");
}

const char *node_attribute(const struct message_list *attributes, const char *name)
{
	for (size_t i = 0; i < message_list_n(attributes); i++) {
		const Holdfast__Driver__V1__KeyValue *one = (const void *)attributes->messages[i];

		if (str_eq(one->key, name))
			return one->value;
	}
	return NULL;
}

bool reference_is_of_node(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(attributes_known); i++)
		if (str_eq(attributes_known[i], name))
			return true;
	return str_starts_with(name, "meta.") && node_attribute_name_is_valid(name);
}

bool reference_is_known(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_eq(names[i], name))
			return true;
	return reference_is_of_node(name);
}

/* The task whose references are replaced. */
struct replacing {
	const task_config *task;
	const struct alloc *alloc;
	const struct message_list *attributes;
	bool is_check;
	bool is_env;
	struct error *err;
};

static const char *or_unknown(const struct replacing *r, const char *text)
{
	return r->is_check && text[0] == '\0' ? unknown : text;
}

/* A value of the allocation itself; NULL: no such name. @buffer is used when needed. */
static const char *own_value(const struct replacing *r, const char *name, char buffer[static INDEX_SIZE])
{
	const struct alloc *alloc = r->alloc;
	const struct {
		const char *name;
		const char *value;
	} rows[] = {
		{"ALLOC_ID", alloc->id},	 {"ALLOC_NAME", alloc->name},
		{"GROUP", alloc->job_group},	 {"GROUP_NAME", alloc->job_group},
		{"JOB", alloc->job_id},		 {"JOB_ID", alloc->job_id},
		{"JOB_NAME", alloc->job_id},	 {"NAMESPACE", alloc->namespace},
		{"NODE_ID", alloc->node_id},	 {"TASK", r->task->task},
		{"TASK_NAME", r->task->task},	 {"unique.id", alloc->node_id},
		{"unique.name", alloc->node_id},
	};
	const char *behind = strpbrk(name, "_.");

	if (!behind)
		return NULL;
	(void)str_format(buffer, INDEX_SIZE, "%" PRIu32, alloc->job_index);
	if (str_eq(behind + 1, "ALLOC_INDEX"))
		return buffer;
	if (str_eq(behind + 1, "SHORT_ALLOC_ID")) {
		(void)str_format(buffer, INDEX_SIZE, "%.*s", SHORT_ID, alloc->id);
		return or_unknown(r, buffer);
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (str_eq(rows[i].name, behind + 1))
			return or_unknown(r, rows[i].value);
	return NULL;
}

static enum status refuse_of_node(const struct replacing *r, const char *name)
{
	return error_set(
		r->err, STATUS_INVALID_ARGUMENT, 0,
		"${%.63s} is reported by the node, and only for env; ${node.unique.name} is the node's id",
		name);
}

/* A text that is no name may be a part of a secret, and refusals are on record. */
static enum status refuse_unknown(const struct replacing *r, const char *name)
{
	return error_set(r->err, STATUS_INVALID_ARGUMENT, 0,
			 "there is no reference ${%.63s}; write $${ for the characters ${",
			 str_is_made_of(name, "._-") ? name : "...");
}

static enum status value_of(const struct replacing *r, const char *name, char buffer[static INDEX_SIZE],
			    const char **ret)
{
	if (!reference_is_known(name))
		return refuse_unknown(r, name);
	if (!reference_is_of_node(name)) {
		*ret = own_value(r, name, buffer);
		return *ret ? STATUS_OK
			    : error_set(r->err, STATUS_INTERNAL, 0, "reference %s has no value", name);
	}
	if (!r->is_env)
		return refuse_of_node(r, name);
	*ret = r->is_check ? unknown : node_attribute(r->attributes, name);
	if (!*ret)
		return error_set(r->err, STATUS_FAILED_PRECONDITION, 0, "node %s has no %s",
				 r->alloc->node_id, name);
	return STATUS_OK;
}

/* The name in the reference at @p, which begins with "${". Returns its end, or NULL if it is no
 * reference. */
static const char *read_name(const char *p, char ret[static NODE_ATTRIBUTE_NAME_MAX + 1])
{
	const char *end = memchr(p + 2, '}', strnlen(p + 2, NODE_ATTRIBUTE_NAME_MAX + 1));
	size_t n = end ? (size_t)(end - (p + 2)) : 0;

	if (!end)
		return NULL;
	memcpy(ret, p + 2, n);
	ret[n] = '\0';
	return end + 1;
}

static bool is_doubled(const char *p)
{
	return (p[0] == '$' || p[0] == '%') && p[1] == p[0] && p[2] == '{';
}

static enum status write_text(const struct replacing *r, const char *p, struct strbuf *out)
{
	while (*p != '\0') {
		char name[NODE_ATTRIBUTE_NAME_MAX + 1], buffer[INDEX_SIZE];
		const char *value = NULL, *end;

		if (is_doubled(p)) {
			strbuf_put(out, p + 1, 2);
			p += 3;
		} else if (str_starts_with(p, "${")) {
			end = read_name(p, name);
			if (!end)
				return error_set(r->err, STATUS_INVALID_ARGUMENT, 0,
						 "a ${ has no }; write $${ for the characters ${");
			TRY(value_of(r, name, buffer, &value));
			strbuf_puts(out, value);
			p = end;
		} else {
			strbuf_put(out, p++, 1);
		}
	}
	return STATUS_OK;
}

static enum status replace_text(const struct replacing *r, const char *field, char **text)
{
	cleanup_strbuf struct strbuf out = STRBUF_INIT(TEXT_MAX);
	cleanup_free char *whole = NULL;
	enum status status;

	if (!strpbrk(*text, "$%"))
		return STATUS_OK;
	status = write_text(r, *text, &out);
	if (status != STATUS_OK) {
		if (r->err)
			(void)error_prefix(r->err, "%.63s", field);
		return status;
	}
	whole = strbuf_take(&out);
	return whole && message_set_text(text, whole) ? STATUS_OK
						      : error_no_memory(r->err, "the text of a task");
}

static enum status replace_config(const struct replacing *r, Holdfast__Driver__V1__ConfigValue *value)
{
	enum status status = replace_text(r, value->key, &value->text);

	for (size_t i = 0; status == STATUS_OK && i < value->n_list; i++)
		status = replace_text(r, value->key, &value->list[i]);
	for (size_t i = 0; status == STATUS_OK && i < value->n_map; i++)
		status = replace_text(r, value->key, &value->map[i]->value);
	return status;
}

enum status reference_replace(task_config *task, const struct alloc *alloc,
			      const struct message_list *attributes, bool is_check, struct error *err)
{
	struct replacing r = {task, alloc, attributes, is_check, false, err};
	enum status status = STATUS_OK;

	for (size_t i = 0; status == STATUS_OK && i < task->n_config; i++)
		status = replace_config(&r, task->config[i]);
	r.is_env = true;
	for (size_t i = 0; status == STATUS_OK && i < task->n_env; i++)
		status = replace_text(&r, task->env[i]->key, &task->env[i]->value);
	return status;
}

static bool has_want(const struct reference_wants *wants, const char *name)
{
	for (size_t i = 0; i < wants->n; i++)
		if (str_eq(wants->list[i].name, name))
			return true;
	return false;
}

static enum status collect_text(const char *task, const char *p, struct reference_wants *ret,
				struct error *err)
{
	char name[NODE_ATTRIBUTE_NAME_MAX + 1];

	for (; (p = strpbrk(p, "$%")); p++) {
		if (is_doubled(p)) {
			p += 2;
			continue;
		}
		if (!str_starts_with(p, "${") || !read_name(p, name) || has_want(ret, name) ||
		    !reference_is_of_node(name))
			continue;
		if (ret->n == REFERENCE_WANTS_MAX)
			return error_set(
				err, STATUS_INVALID_ARGUMENT, 0,
				"task %.63s: env: ${%s} is one more than the %d values of their node "
				"that the tasks of an allocation may name",
				task, name, REFERENCE_WANTS_MAX);
		ret->list[ret->n].task = task;
		(void)str_copy(ret->list[ret->n++].name, sizeof(name), name);
	}
	return STATUS_OK;
}

enum status reference_collect(const struct alloc *alloc, struct reference_wants *ret, struct error *err)
{
	ret->n = 0;
	for (size_t i = 0; i < message_list_n(alloc->tasks); i++) {
		const task_config *task = (const void *)alloc->tasks->messages[i];

		for (size_t k = 0; k < task->n_env; k++)
			TRY(collect_text(task->task, task->env[k]->value, ret, err));
	}
	return STATUS_OK;
}
