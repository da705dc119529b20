/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the file in its order. A key is written, renamed or left out by its row in keys.c; one that changes
 * its form has a function here. */
#include "nomad/import.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "model/reference.h"
#include "model/task_text.h"
#include "nomad/value.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define cleanup_json cleanup(json_decrefp)

enum { NAME_MAX_BYTES = 63, TEXT_MAX = 1 << 20, REMARK_SIZE = 512 };

#define DAY_US (UINT64_C(24) * 3600 * USEC_PER_SEC)

struct writer {
	const struct conf *conf;
	struct nomad_scope scope;
	struct strbuf out;
	unsigned int depth;
	struct nomad_import *result;
	bool is_short; /* of memory */
	const char *job_type;
	const json_t *job;
	const json_t *group; /* whose tasks are written */
	const char *network; /* of the group: a mode of Holdfast; NULL: it has no block */
	json_t *host_paths;  /* of the task; borrowed */
};

/* A member of a block that is being written. */
struct item {
	struct writer *w;
	enum nomad_block block; /* NOMAD_NONE: env */
	const json_t *object;	/* that it is a member of */
	const char *key;
	const json_t *value;
};

static void remark(struct writer *w, const json_t *object, const char *key, enum nomad_fate fate,
		   const char *fmt, ...) __attribute__((format(printf, 5, 6)));

static void remark(struct writer *w, const json_t *object, const char *key, enum nomad_fate fate,
		   const char *fmt, ...)
{
	struct nomad_import *r = w->result;
	struct nomad_remark *more = reallocarray(r->remarks, r->n_remarks + 1, sizeof(*more));
	char text[REMARK_SIZE];
	va_list args;

	if (!more) {
		w->is_short = true;
		return;
	}
	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	r->remarks = more;
	r->remarks[r->n_remarks] = (struct nomad_remark){
		.line = conf_line(w->conf, object, key), .fate = fate, .text = strdup(text)};
	w->is_short = w->is_short || !r->remarks[r->n_remarks].text;
	r->n_remarks++;
	r->n_refused += fate == NOMAD_REFUSED;
}

#define item_remark(item, fate, ...) remark((item)->w, (item)->object, (item)->key, (fate), __VA_ARGS__)

/* "datacenters is dropped: a cluster is one pool" */
static void remark_row(const struct item *item, const struct nomad_key *row)
{
	static const char *const words[] = {"taken", "changed", "dropped", "refused"};

	item_remark(item, row->fate, "%.64s is %s: %s", item->key, words[row->fate], row->text);
}

/* --- output --- */

static void begin_line(struct writer *w)
{
	for (unsigned int i = 0; i < w->depth; i++)
		strbuf_puts(&w->out, "  ");
}

/* A key or label of the file may have any character: it must not end the quotes that it is in. */
static void put_quoted(struct writer *w, const char *name)
{
	cleanup_json json_t *value = json_string(name);
	cleanup_free char *text = value ? nomad_print(value) : NULL;

	w->is_short = w->is_short || !text;
	strbuf_puts(&w->out, text ? text : "");
}

static void write_json(struct writer *w, const char *key, const json_t *value)
{
	cleanup_free char *text = value ? nomad_print(value) : NULL;
	bool is_name = str_is_made_of(key, "_-") && !strchr("0123456789-", key[0]);

	w->is_short = w->is_short || !text;
	begin_line(w);
	if (is_name)
		strbuf_puts(&w->out, key);
	else
		put_quoted(w, key);
	strbuf_printf(&w->out, " = %s\n", text ? text : "null");
}

static void write_text(struct writer *w, const char *key, const char *text)
{
	cleanup_json json_t *value = json_string(text);

	write_json(w, key, value);
}

static void write_number(struct writer *w, const char *key, json_int_t number)
{
	cleanup_json json_t *value = json_integer(number);

	write_json(w, key, value);
}

/* @label may be NULL. */
static void begin_block(struct writer *w, const char *key, const char *label)
{
	begin_line(w);
	strbuf_printf(&w->out, "%s ", key);
	if (label)
		put_quoted(w, label);
	strbuf_puts(&w->out, label ? " {\n" : "{\n");
	w->depth++;
}

static void end_block(struct writer *w)
{
	assert(w->depth > 0);
	w->depth--;
	begin_line(w);
	strbuf_puts(&w->out, "}\n");
}

/* --- values --- */

/* Replaces expressions. NULL: it is refused, with a remark. Owned by the caller, json_decref(). */
static json_t *evaluate(const struct item *item)
{
	char why[NOMAD_WHY_SIZE];
	json_t *value;

	item->w->scope.references = item->block == NOMAD_NONE	  ? NOMAD_ALL_REFERENCES
				    : item->block == NOMAD_CONFIG ? NOMAD_OWN_REFERENCES
								  : NOMAD_NO_REFERENCES;
	value = nomad_value(&item->w->scope, item->value, why);
	if (!value)
		item_remark(item, NOMAD_REFUSED, "%.64s is refused: %s", item->key, why);
	return value;
}

/* The same, converted. */
static json_t *read_value(const struct item *item, enum nomad_type type)
{
	static const char *const names[] = {"a text in quotes", "a number", "true or false",
					    "a list of texts"};
	cleanup_json json_t *value = evaluate(item);
	json_t *typed = value ? nomad_convert(value, type) : NULL;

	if (!value)
		return NULL;
	if (!typed)
		item_remark(item, NOMAD_REFUSED, "%.64s is refused: it is not %s", item->key, names[type]);
	else if (!json_equal((json_t *)(uintptr_t)item->value, value))
		item_remark(item, NOMAD_CHANGED,
			    "%.64s is changed: its expressions are replaced by their values", item->key);
	else if (!json_equal(value, typed))
		item_remark(item, NOMAD_CHANGED, "%.64s is changed: it is %s", item->key, names[type]);
	return typed;
}

/* The same of member @key of @object; NULL also if it is missing. */
static json_t *read_member(struct writer *w, enum nomad_block block, const json_t *object, const char *key,
			   enum nomad_type type)
{
	const struct item item = {w, block, object, key, json_object_get(object, key)};

	return item.value ? read_value(&item, type) : NULL;
}

/* Keys that take no text, or have another name here. */
static const struct form {
	enum nomad_block block;
	const char *key;
	enum nomad_type type;
	const char *name; /* NULL: the same */
} forms[] = {
	{NOMAD_GROUP, "count", NOMAD_INTEGER, NULL},
	{NOMAD_TASK, "kill_signal", NOMAD_TEXT, "stop_signal"},
	{NOMAD_VOLUME, "per_alloc", NOMAD_BOOL, NULL},
	{NOMAD_VOLUME_MOUNT, "read_only", NOMAD_BOOL, NULL},
	{NOMAD_VOLUME_MOUNT, "propagation_mode", NOMAD_TEXT, "propagation"},
	{NOMAD_RESCHEDULE, "attempts", NOMAD_INTEGER, NULL},
	{NOMAD_RESCHEDULE, "unlimited", NOMAD_BOOL, NULL},
	{NOMAD_RESTART, "attempts", NOMAD_INTEGER, NULL},
	{NOMAD_RESOURCES, "cpu", NOMAD_INTEGER, "cpu_shares"},
	{NOMAD_RESOURCES, "memory", NOMAD_INTEGER, NULL},
	{NOMAD_RESOURCES, "memory_max", NOMAD_INTEGER, "memory"},
	{NOMAD_LOGS, "disabled", NOMAD_BOOL, NULL},
	{NOMAD_CONFIG, "privileged", NOMAD_BOOL, NULL},
	{NOMAD_CONFIG, "init", NOMAD_BOOL, NULL},
	{NOMAD_CONFIG, "args", NOMAD_TEXTS, NULL},
	{NOMAD_CONFIG, "entrypoint", NOMAD_TEXTS, "command"},
	{NOMAD_CONFIG, "readonly_rootfs", NOMAD_BOOL, "read_only_root"},
};

/* Writes a key that is taken, or is changed into one. */
static void write_value(const struct item *item)
{
	const struct nomad_key *row = nomad_find_key(item->block, item->key);
	struct form form = {.type = NOMAD_TEXT};
	cleanup_json json_t *value = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
		if (forms[i].block == item->block && str_eq(forms[i].key, item->key))
			form = forms[i];
	value = read_value(item, form.type);
	if (value && row->fate != NOMAD_TAKEN)
		remark_row(item, row);
	if (value)
		write_json(item->w, form.name ? form.name : item->key, value);
}

/* Nomad's names have other letters too. @ret is the name here. */
static void write_name(const char *name, char ret[static NAME_MAX_BYTES + 1])
{
	size_t n = 0;

	for (; *name != '\0' && n < NAME_MAX_BYTES; name++) {
		int c = tolower((unsigned char)*name);
		bool is_right = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');

		ret[n++] = (char)(is_right ? c : '-');
	}
	while (n > 0 && ret[n - 1] == '-')
		n--;
	ret[n] = '\0';
}

static void begin_named(struct writer *w, const char *kind, const json_t *object, const char *label)
{
	char name[NAME_MAX_BYTES + 1];

	write_name(label, name);
	if (!str_eq(name, label))
		remark(w, object, label, NOMAD_CHANGED,
		       "%s \"%.64s\" is changed: its name is %s, of a-z, 0-9 and -", kind, label, name);
	begin_block(w, kind, name);
}

/* --- blocks --- */

typedef void write_fn(const struct item *item);

static write_fn *find_writer(enum nomad_block block, const char *key);

static void write_item(const struct item *item)
{
	const struct nomad_key *row = nomad_find_key(item->block, item->key);
	write_fn *write = find_writer(item->block, item->key);

	if (write)
		write(item);
	else if (!row)
		item_remark(item, NOMAD_REFUSED, "%.64s is refused: Nomad has no such key here", item->key);
	else if (row->fate == NOMAD_TAKEN || row->fate == NOMAD_CHANGED)
		write_value(item);
	else
		remark_row(item, row);
}

static bool is_block(const struct item *item)
{
	if (!json_is_object(item->value))
		item_remark(item, NOMAD_REFUSED, "%.64s is refused: it must be one block", item->key);
	return json_is_object(item->value);
}

static void write_members(struct writer *w, enum nomad_block block, const json_t *object)
{
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)object, key, value) {
		const struct item item = {w, block, object, key, value};

		write_item(&item);
	}
}

/* Calls @write for the block @value, or for each of them. */
static void each_block(const struct item *item, void (*write)(struct writer *w, const json_t *body))
{
	struct item one = *item;
	json_t *body;
	size_t i;

	if (!json_is_array(item->value) && is_block(item))
		write(item->w, item->value);
	json_array_foreach (item->value, i, body) {
		one.value = body;
		if (is_block(&one))
			write(item->w, body);
	}
}

/* Calls @write for each block with a label. */
static void each_labelled(const struct item *item,
			  void (*write)(const struct item *item, const char *label, const json_t *body))
{
	const char *label;
	json_t *body;

	if (!json_is_object(item->value))
		item_remark(item, NOMAD_REFUSED, "%.64s is refused: it must be a block with a name",
			    item->key);
	json_object_foreach ((json_t *)(uintptr_t)item->value, label, body) {
		if (json_is_object(body))
			write(item, label, body);
		else
			item_remark(item, NOMAD_REFUSED, "%.64s is refused: it must be a block with a name",
				    item->key);
	}
}

/* --- durations --- */

/* "1h30m" in microseconds; Holdfast takes one unit. */
static bool read_duration(const char *text, uint64_t *ret_us)
{
	uint64_t sum = 0;

	while (*text != '\0') {
		size_t n = strspn(text, "0123456789"), unit = strspn(text + n, "abcdefghijklmnopqrstuvwxyz");
		char part[32];
		uint64_t us;

		if (str_format(part, sizeof(part), "%.*s", (int)(n + unit), text) < 0 ||
		    parse_duration(part, &us) < 0 || us > UINT64_MAX / 2 - sum)
			return false;
		sum += us;
		text += n + unit;
	}
	*ret_us = sum;
	return true;
}

/* Written as @name; nothing for 0, which is no time. */
static void write_duration(const struct item *item, const char *name, uint64_t max_us)
{
	cleanup_json json_t *value = read_value(item, NOMAD_TEXT);
	char text[32];
	uint64_t us, simple;

	if (!value)
		return;
	if (!read_duration(json_string_value(value), &us)) {
		item_remark(item, NOMAD_REFUSED, "%.64s is refused: it is no duration", item->key);
		return;
	}
	if (us == 0) {
		item_remark(item, NOMAD_DROPPED, "%.64s is dropped: without it there is no such time",
			    item->key);
		return;
	}
	if (us > max_us)
		item_remark(item, NOMAD_CHANGED, "%.64s is changed: it is at most 24h", item->key);
	if (us <= max_us && parse_duration(json_string_value(value), &simple) == 0) {
		write_text(item->w, name, json_string_value(value));
		return;
	}
	if (us <= max_us)
		item_remark(item, NOMAD_CHANGED, "%.64s is changed: a duration has one unit", item->key);
	us = us > max_us ? max_us : us;
	(void)str_format(text, sizeof(text), us % USEC_PER_SEC == 0 ? "%" PRIu64 "s" : "%" PRIu64 "ms",
			 us % USEC_PER_SEC == 0 ? us / USEC_PER_SEC : us / USEC_PER_MSEC);
	write_text(item->w, name, text);
}

static void write_any_duration(const struct item *item)
{
	write_duration(item, item->key, UINT64_MAX);
}

static void write_interval(const struct item *item)
{
	write_duration(item, item->key, DAY_US);
}

static void write_stop_timeout(const struct item *item)
{
	remark_row(item, nomad_find_key(item->block, item->key));
	write_duration(item, "stop_timeout", DAY_US);
}

/* --- file and job --- */

static void write_type(const struct item *item)
{
	cleanup_json json_t *value = read_value(item, NOMAD_TEXT);

	if (value &&
	    (str_eq(json_string_value(value), "service") || str_eq(json_string_value(value), "batch") ||
	     str_eq(json_string_value(value), "system")))
		write_json(item->w, "type", value);
	else if (value)
		item_remark(item, NOMAD_REFUSED,
			    "type is refused: %.32s does not exist; use batch, or system for one member on "
			    "each node",
			    json_string_value(value));
}

/* Each group writes those of the job, each task those of the group. */
static void check_block(const struct item *item)
{
	(void)is_block(item);
}

static void write_nothing(const struct item *item)
{
	/* another function does */
}

static void remark_check(struct writer *w, const json_t *service)
{
	if (json_object_get(service, "check"))
		remark(w, service, "check", NOMAD_DROPPED,
		       "check is dropped: write a command that checks it into health of the task");
}

static void drop_service(const struct item *item)
{
	remark_row(item, nomad_find_key(item->block, item->key));
	each_block(item, remark_check);
}

/* Members of @key in @inner, and those that only @outer has. */
static void write_merged(struct writer *w, enum nomad_block block, const char *key, const json_t *inner,
			 const json_t *outer)
{
	json_t *of_inner = json_object_get(inner, key), *of_outer = json_object_get(outer, key), *value;
	const char *name;

	json_object_foreach (of_outer, name, value)
		if (!json_object_get(of_inner, name)) {
			const struct item item = {w, block, of_outer, name, value};

			write_item(&item);
		}
	write_members(w, block, of_inner);
}

/* Both have defaults in a block that exists, which differ: those of Nomad are written. */
static void write_default(struct writer *w, const json_t *group, const char *block, const char *key,
			  const char *value)
{
	const json_t *of_group = json_object_get(group, block), *of_job = json_object_get(w->job, block);

	if (json_object_get(of_group, key) || json_object_get(of_job, key))
		return;
	write_text(w, key, value);
	remark(w, of_group ? of_group : of_job, NULL, NOMAD_CHANGED,
	       "%s is changed: %s = \"%s\" is Nomad's default", block, key, value);
}

static void write_policies(struct writer *w, const json_t *group)
{
	bool is_batch = str_eq(w->job_type, "batch");

	if (!is_batch && (json_object_get(group, "update") || json_object_get(w->job, "update"))) {
		begin_block(w, "update", NULL);
		write_merged(w, NOMAD_UPDATE, "update", group, w->job);
		write_default(w, group, "update", "min_healthy_time", "10s");
		write_default(w, group, "update", "healthy_deadline", "5m");
		end_block(w);
	}
	if (json_object_get(group, "reschedule") || json_object_get(w->job, "reschedule")) {
		begin_block(w, "reschedule", NULL);
		write_merged(w, NOMAD_RESCHEDULE, "reschedule", group, w->job);
		write_default(w, group, "reschedule", "delay", is_batch ? "5s" : "30s");
		end_block(w);
	}
}

static void write_max_parallel(const struct item *item)
{
	cleanup_json json_t *value = read_value(item, NOMAD_INTEGER);

	if (json_integer_value(value) > 0)
		write_json(item->w, item->key, value);
	else if (value)
		item_remark(item, NOMAD_CHANGED, "max_parallel is changed: 0 is 1, one member at a time");
}

/* --- groups --- */

static void write_count(const struct item *item)
{
	if (!str_eq(item->w->job_type, "system"))
		write_value(item);
	else
		item_remark(item, NOMAD_DROPPED,
			    "count is dropped: a job of type system has one member on each node");
}

/* Numbers of the ports of a group, for NOMAD_PORT_http. */
static void note_ports(struct writer *w, const json_t *network)
{
	const char *label;
	json_t *port;

	json_object_foreach (json_object_get(network, "port"), label, port) {
		cleanup_json json_t *to = read_member(w, NOMAD_NETWORK, port, "to", NOMAD_INTEGER);
		cleanup_json json_t *fixed = read_member(w, NOMAD_NETWORK, port, "static", NOMAD_INTEGER);
		json_t *number = json_integer_value(to) > 0 ? to : fixed;

		if (number && json_object_set(w->scope.ports, label, number) < 0)
			w->is_short = true;
	}
}

/* The mode that member @key of @object gives. NULL: it is missing or refused. */
static const char *network_mode(struct writer *w, enum nomad_block block, const json_t *object,
				const char *key)
{
	static const char *const modes[] = {"host", "none", "bridge"};
	cleanup_json json_t *mode = read_member(w, block, object, key, NOMAD_TEXT);

	for (size_t i = 0; mode && i < ARRAY_SIZE(modes); i++)
		if (str_eq(json_string_value(mode), modes[i]))
			return modes[i];
	if (mode)
		remark(w, object, key, NOMAD_REFUSED,
		       "%s is refused: %.32s does not exist; use host or isolated", key,
		       json_string_value(mode));
	return NULL;
}

/* The mode that write_network() writes, or NULL. */
static const char *group_network(struct writer *w, const json_t *network)
{
	const char *mode = network_mode(w, NOMAD_NETWORK, network, "mode");
	bool is_host = mode ? str_eq(mode, "bridge")
			    : json_object_get(network, "port") && !json_object_get(network, "mode");

	return is_host ? "host" : mode;
}

static void write_mode(const struct item *item)
{
	const char *mode = network_mode(item->w, item->block, item->object, item->key);

	if (mode && str_eq(mode, "bridge"))
		remark_row(item, nomad_find_key(item->block, item->key));
}

static void write_network(const struct item *item)
{
	struct writer *w = item->w;

	if (!is_block(item))
		return;
	write_members(w, NOMAD_NETWORK, item->value);
	if (!w->network)
		return;
	if (!json_object_get(item->value, "mode"))
		remark(w, item->value, NULL, NOMAD_CHANGED,
		       "network is changed: mode is host, so that its ports are those of the node");
	begin_block(w, "network", NULL);
	write_text(w, "mode", w->network);
	end_block(w);
}

static void drop_port(const struct item *item, const char *label, const json_t *body)
{
	remark(item->w, item->value, label, NOMAD_DROPPED, "port \"%.64s\" is dropped: %s", label,
	       nomad_find_key(NOMAD_NETWORK, "port")->text);
}

static void drop_ports(const struct item *item)
{
	each_labelled(item, drop_port);
}

enum { OPERATOR_SIZE = 16 };

/* The operator here of @given of Nomad; @value moves behind that of a version, ">= 1.2". NULL: there is no
 * such. */
static const char *operator_of(const char *given, const char **value)
{
	static const struct {
		const char *nomad;
		const char *here;
	} rows[] = {
		{"=", "="},
		{"==", "="},
		{"is", "="},
		{"!=", "!="},
		{"not", "!="},
		{"<", "<"},
		{"<=", "<="},
		{">", ">"},
		{">=", ">="},
		{"is_set", "is_set"},
		{"is_not_set", "is_not_set"},
	};
	bool is_version = str_eq(given, "version") || str_eq(given, "semver");
	size_t n = strspn(*value, "<>=!~");
	char first[OPERATOR_SIZE];

	if (is_version && strchr(*value, ','))
		return NULL;
	if (is_version) {
		if (str_format(first, sizeof(first), "%.*s", (int)n, *value) < 0)
			return NULL;
		given = n > 0 ? first : "=";
		*value += n + strspn(*value + n, " ");
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (str_eq(rows[i].nomad, given))
			return rows[i].here;
	return NULL;
}

static void refuse_constraint(struct writer *w, const json_t *body, const char *key, const char *why)
{
	remark(w, body, key, NOMAD_REFUSED, "constraint is refused: %s", why);
}

/* The attribute of a constraint as it is called here; NULL: there is no such. */
static const char *attribute_of(const char *text, char ret[static NODE_ATTRIBUTE_NAME_MAX + 1])
{
	size_t n = strcspn(text, "}");

	if (!str_starts_with(text, "${") || !str_eq(text + n, "}") ||
	    str_format(ret, NODE_ATTRIBUTE_NAME_MAX + 1, "%.*s", (int)n - 2, text + 2) < 0)
		return NULL;
	if (str_eq(ret, "attr.unique.hostname"))
		(void)str_copy(ret, NODE_ATTRIBUTE_NAME_MAX + 1, "node.unique.name");
	if (str_eq(ret, "attr.arch"))
		(void)str_copy(ret, NODE_ATTRIBUTE_NAME_MAX + 1, "attr.cpu.arch");
	return reference_is_of_node(ret) || str_starts_with(ret, "node.unique.") ? ret : NULL;
}

/* Each form of its value has one remark: "false" is no condition. */
static void write_distinct_hosts(struct writer *w, const json_t *body, const char *key)
{
	const struct item item = {w, NOMAD_CONSTRAINT, body, key, json_object_get(body, key)};
	cleanup_json json_t *value = item.value ? evaluate(&item) : json_true();
	cleanup_json json_t *is_wanted = value ? nomad_convert(value, NOMAD_BOOL) : NULL;

	if (value && !is_wanted)
		item_remark(&item, NOMAD_REFUSED, "%s is refused: it is not true or false", key);
	if (!is_wanted)
		return;
	if (json_is_false(is_wanted)) {
		remark(w, body, NULL, NOMAD_DROPPED, "constraint is dropped: distinct_hosts is false");
		return;
	}
	remark(w, body, NULL, NOMAD_CHANGED,
	       "constraint is changed: distinct_hosts is an operator without value");
	begin_block(w, "constraint", NULL);
	write_text(w, "operator", "distinct_hosts");
	end_block(w);
}

/* Refuses keys and operators that have no form here. */
static void check_constraint(struct writer *w, const json_t *body, const char *given)
{
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)body, key, value)
		if (!nomad_find_key(NOMAD_CONSTRAINT, key))
			remark(w, body, key, NOMAD_REFUSED, "%.64s is refused: Nomad has no such key here",
			       key);
	for (size_t i = 0; i < nomad_key_count(); i++) {
		const struct nomad_key *row = nomad_key_at(i);
		bool is_version = str_eq(row->key, "version") || str_eq(row->key, "semver");

		if (row->block == NOMAD_CONSTRAINT && row->fate == NOMAD_REFUSED &&
		    (json_object_get(body, row->key) || (str_starts_with(given, row->key) && !is_version)))
			remark(w, body, json_object_get(body, row->key) ? row->key : "operator",
			       NOMAD_REFUSED, "%s is refused: %s", row->key, row->text);
	}
}

static void write_constraint(struct writer *w, const json_t *body)
{
	size_t n_refused = w->result->n_refused;
	cleanup_json json_t *operator= read_member(w, NOMAD_CONSTRAINT, body, "operator", NOMAD_TEXT);
	const char *given = operator? json_string_value(operator) : "=", *here, *at;
	bool is_operator = str_eq(given, "distinct_hosts");
	bool is_distinct = is_operator || json_object_get(body, "distinct_hosts");
	cleanup_json json_t *value =
		is_distinct ? NULL : read_member(w, NOMAD_CONSTRAINT, body, "value", NOMAD_TEXT);
	/* a reference, which stays */
	const char *attribute = json_string_value(json_object_get(body, "attribute"));
	char name[NODE_ATTRIBUTE_NAME_MAX + 1], reference[NODE_ATTRIBUTE_NAME_MAX + 4];

	check_constraint(w, body, given);
	if (w->result->n_refused > n_refused)
		return;
	if (is_distinct) {
		write_distinct_hosts(w, body, is_operator ? "value" : "distinct_hosts");
		return;
	}
	at = value ? json_string_value(value) : "";
	here = operator_of(given, &at);
	if (!here) {
		refuse_constraint(w, body, "operator", nomad_find_key(NOMAD_CONSTRAINT, "operator")->text);
		return;
	}
	if (!attribute || !attribute_of(attribute, name)) {
		refuse_constraint(w, body, "attribute",
				  "nodes do not report the attribute; give them an entry of meta, and write "
				  "${meta.NAME}");
		return;
	}
	(void)str_format(reference, sizeof(reference), "${%s}", name);
	if (!str_eq(reference, attribute) || !str_eq(here, given) ||
	    (value && at != json_string_value(value)))
		remark(w, body, NULL, NOMAD_CHANGED, "constraint is changed: %s %s %s", reference, here, at);
	begin_block(w, "constraint", NULL);
	write_text(w, "attribute", reference);
	write_text(w, "operator", here);
	if (*at != '\0')
		write_text(w, "value", at);
	end_block(w);
}

static void write_constraints(const struct item *item)
{
	each_block(item, write_constraint);
}

/* Those of its tasks are of the group. */
static void write_task_constraints(struct writer *w, const json_t *group)
{
	const char *label;
	json_t *task;

	json_object_foreach (json_object_get(group, "task"), label, task) {
		json_t *value = json_object_get(task, "constraint");
		const struct item item = {w, NOMAD_TASK, task, "constraint", value};

		if (!value)
			continue;
		remark_row(&item, nomad_find_key(NOMAD_TASK, "constraint"));
		each_block(&item, write_constraint);
	}
}

/* Holdfast wants an access mode of each volume, which Nomad does not of a volume of the host. Writes
 * read_only too. */
static void write_access(struct writer *w, const json_t *body)
{
	cleanup_json json_t *mode = read_member(w, NOMAD_VOLUME, body, "access_mode", NOMAD_TEXT);
	cleanup_json json_t *read_only = read_member(w, NOMAD_VOLUME, body, "read_only", NOMAD_BOOL);
	const char *text = mode ? json_string_value(mode) : "";
	bool is_reader = str_eq(text, "multi-node-reader-only") || str_eq(text, "single-node-reader-only");

	if (!json_object_get(body, "access_mode")) {
		write_text(w, "access_mode",
			   json_is_true(read_only) ? "multi-node-reader-only" : "single-node-multi-writer");
		remark(w, body, NULL, NOMAD_CHANGED,
		       "volume is changed: access_mode is added; register the volume with this capability");
	}
	if (is_reader && !json_is_true(read_only))
		remark(w, body, "access_mode", NOMAD_CHANGED,
		       "volume is changed: read_only = true is added, because of its mode");
	if (is_reader || read_only)
		write_json(w, "read_only", is_reader ? json_true() : read_only);
}

/* The index of the mode that @mount asks for, if it is of @volume. */
static size_t propagation_of_mount(struct writer *w, const json_t *mount, const char *volume,
				   const char *const *modes, size_t n)
{
	cleanup_json json_t *of = read_member(w, NOMAD_VOLUME_MOUNT, mount, "volume", NOMAD_TEXT);
	cleanup_json json_t *mode = read_member(w, NOMAD_VOLUME_MOUNT, mount, "propagation_mode", NOMAD_TEXT);

	for (size_t i = 0; of && mode && i < n; i++)
		if (str_eq(json_string_value(of), volume) && str_eq(json_string_value(mode), modes[i]))
			return i;
	return 0;
}

/* The most that a volume_mount of any task asks for. */
static const char *propagation_of(struct writer *w, const json_t *group, const char *volume)
{
	static const char *const modes[] = {"private", "host-to-task", "bidirectional"};
	size_t most = 0, i;
	const char *label;
	json_t *task, *mount;

	json_object_foreach (json_object_get(group, "task"), label, task) {
		json_t *mounts = json_object_get(task, "volume_mount");
		cleanup_json json_t *list =
			json_is_array(mounts) ? json_incref(mounts) : json_pack("[O]", mounts);

		json_array_foreach (list, i, mount) {
			size_t one = propagation_of_mount(w, mount, volume, modes, ARRAY_SIZE(modes));

			most = one > most ? one : most;
		}
	}
	return most > 0 ? modes[most] : NULL;
}

static void write_volume(const struct item *item, const char *label, const json_t *body)
{
	const char *propagation = propagation_of(item->w, item->object, label);

	begin_block(item->w, "volume", label);
	write_members(item->w, NOMAD_VOLUME, body);
	write_access(item->w, body);
	if (propagation)
		write_text(item->w, "propagation", propagation);
	end_block(item->w);
}

static void write_volumes(const struct item *item)
{
	each_labelled(item, write_volume);
}

/* Nomad's defaults of a batch job, where the block lacks the key. */
static void write_batch_default(struct writer *w, const json_t *task, const json_t *group, const char *key)
{
	const json_t *of_task = json_object_get(task, "restart"),
		     *of_group = json_object_get(group, "restart");
	bool is_attempts = str_eq(key, "attempts");

	if (!str_eq(w->job_type, "batch") || json_object_get(of_task, key) || json_object_get(of_group, key))
		return;
	if (is_attempts)
		write_number(w, key, 3);
	else
		write_text(w, key, "24h");
	remark(w, of_task ? of_task : of_group, NULL, NOMAD_CHANGED,
	       "restart is changed: %s = %s is Nomad's default of a batch job", key,
	       is_attempts ? "3" : "\"24h\"");
}

static void write_restart(struct writer *w, const json_t *task, const json_t *group)
{
	if (!json_object_get(task, "restart") && !json_object_get(group, "restart"))
		return;
	begin_block(w, "restart", NULL);
	write_merged(w, NOMAD_RESTART, "restart", task, group);
	write_batch_default(w, task, group, "attempts");
	write_batch_default(w, task, group, "interval");
	end_block(w);
}

static void write_group_restart(const struct item *item)
{
	if (is_block(item))
		remark_row(item, nomad_find_key(item->block, item->key));
}

/* A delay that is left out has a default. */
static void write_restart_delay(const struct item *item)
{
	cleanup_json json_t *value = read_value(item, NOMAD_TEXT);
	uint64_t us;

	if (value && read_duration(json_string_value(value), &us) && us == 0)
		write_text(item->w, item->key, "1ms");
	else if (value)
		write_interval(item);
}

static void write_task(const struct item *item, const char *label, const json_t *body)
{
	begin_named(item->w, "task", item->value, label);
	write_members(item->w, NOMAD_TASK, body);
	write_restart(item->w, body, item->object);
	end_block(item->w);
}

static void write_tasks(const struct item *item)
{
	each_labelled(item, write_task);
}

static bool is_engine(const char *driver)
{
	return str_eq(driver, "docker") || str_eq(driver, "podman");
}

static bool is_of_engine(struct writer *w, const json_t *task)
{
	cleanup_json json_t *driver = read_member(w, NOMAD_TASK, task, "driver", NOMAD_TEXT);

	return driver && is_engine(json_string_value(driver));
}

/* Nomad puts a task on the engine's bridge if the file gives no other network. */
static void remark_bridge(const struct item *groups, const char *label, const json_t *group)
{
	const char *name, *mode;
	json_t *task;
	bool is_on_bridge = false;

	json_object_foreach (json_object_get(group, "task"), name, task) {
		mode = network_mode(groups->w, NOMAD_CONFIG, json_object_get(task, "config"), "network_mode");
		is_on_bridge =
			is_on_bridge || ((!mode || str_eq(mode, "bridge")) && is_of_engine(groups->w, task));
	}
	if (is_on_bridge && !groups->w->network)
		remark(groups->w, groups->value, label, NOMAD_CHANGED,
		       "group \"%.64s\" is changed: there is no bridge, a task without network has only a "
		       "loopback interface; write network { mode = \"host\" } for the network of the node",
		       label);
}

static void write_group(const struct item *item, const char *label, const json_t *body)
{
	struct writer *w = item->w;
	json_t *network = json_object_get(body, "network");
	cleanup_json json_t *ports = json_object();

	w->scope.ports = ports;
	note_ports(w, network);
	w->group = body;
	w->network = group_network(w, network);
	begin_named(w, "group", item->value, label);
	write_members(w, NOMAD_GROUP, body);
	write_policies(w, body);
	write_task_constraints(w, body);
	remark_bridge(item, label, body);
	end_block(w);
	w->scope.ports = NULL;
}

static void write_groups(const struct item *item)
{
	each_labelled(item, write_group);
}

/* --- tasks --- */

static void write_driver(const struct item *item)
{
	cleanup_json json_t *value = read_value(item, NOMAD_TEXT);
	const char *name = json_string_value(value);

	if (!value)
		return;
	if (is_engine(name)) {
		remark_row(item, nomad_find_key(item->block, item->key));
		write_text(item->w, "driver", "container");
		return;
	}
	item_remark(item, NOMAD_REFUSED,
		    "driver is refused: %.32s does not exist; use an image and \"container\", or a unit and "
		    "driver systemd",
		    name);
	write_json(item->w, "driver", value);
}

/* Nomad makes texts of numbers and of true and false. */
static void write_env(const struct item *item)
{
	const char *name;
	json_t *value;

	if (!is_block(item))
		return;
	begin_block(item->w, "env", NULL);
	json_object_foreach ((json_t *)(uintptr_t)item->value, name, value) {
		const struct item one = {item->w, NOMAD_NONE, item->value, name, value};
		cleanup_json json_t *text = read_value(&one, NOMAD_TEXT);

		if (!task_text_is_right(TASK_TEXT_ENV_NAME, name))
			item_remark(&one, NOMAD_REFUSED, "%.64s is refused: it is not %s", name,
				    task_text_rule(TASK_TEXT_ENV_NAME));
		else if (text)
			write_json(item->w, name, text);
	}
	end_block(item->w);
}

/* No task waits for another here, but one that runs on can start before or after it. */
static void write_lifecycle(const struct item *item)
{
	cleanup_json json_t *hook = read_member(item->w, item->block, item->value, "hook", NOMAD_TEXT);
	cleanup_json json_t *sidecar = read_member(item->w, item->block, item->value, "sidecar", NOMAD_BOOL);

	if (hook && json_is_true(sidecar) && !str_eq(json_string_value(hook), "poststop") &&
	    !str_eq(item->w->job_type, "batch"))
		item_remark(item, NOMAD_DROPPED,
			    "lifecycle is dropped: tasks start in the order of the file");
	else
		remark_row(item, nomad_find_key(item->block, item->key));
}

/* Tasks of the group that do not run before or after the others. */
static size_t count_together(struct writer *w)
{
	const char *label;
	json_t *task;
	size_t n = 0;

	json_object_foreach (json_object_get(w->group, "task"), label, task) {
		json_t *lifecycle = json_object_get(task, "lifecycle");
		cleanup_json json_t *sidecar = read_member(w, NOMAD_TASK, lifecycle, "sidecar", NOMAD_BOOL);

		n += !lifecycle || json_is_true(sidecar);
	}
	return n;
}

/* Nomad stops the other tasks when the leader ends, without which a batch job may have no end. */
static void write_leader(const struct item *item)
{
	bool is_needed = str_eq(item->w->job_type, "batch") && count_together(item->w) > 1;
	cleanup_json json_t *leader = is_needed ? read_value(item, NOMAD_BOOL) : NULL;

	if (json_is_true(leader))
		item_remark(item, NOMAD_REFUSED,
			    "leader is refused: a batch job ends when all its tasks have ended, and "
			    "no task is stopped for the leader; let the others end by themselves");
	else
		remark_row(item, nomad_find_key(item->block, item->key));
}

static void write_mount(struct writer *w, const json_t *body)
{
	begin_block(w, "volume_mount", NULL);
	write_members(w, NOMAD_VOLUME_MOUNT, body);
	end_block(w);
}

static void write_mounts(const struct item *item)
{
	each_block(item, write_mount);
}

static void write_plugin(struct writer *w, const json_t *body)
{
	begin_block(w, "csi_plugin", NULL);
	write_members(w, NOMAD_CSI_PLUGIN, body);
	end_block(w);
}

static void write_plugins(const struct item *item)
{
	each_block(item, write_plugin);
}

static void write_resources(struct writer *w, const json_t *body)
{
	begin_block(w, "resources", NULL);
	write_members(w, NOMAD_RESOURCES, body);
	end_block(w);
}

static void write_all_resources(const struct item *item)
{
	each_block(item, write_resources);
}

static void write_logs(struct writer *w, const json_t *body)
{
	begin_block(w, "logs", NULL);
	write_members(w, NOMAD_LOGS, body);
	end_block(w);
}

static void write_all_logs(const struct item *item)
{
	each_block(item, write_logs);
}

static void write_cores(const struct item *item)
{
	cleanup_json json_t *value = read_value(item, NOMAD_INTEGER);

	remark_row(item, nomad_find_key(item->block, item->key));
	if (value)
		write_number(item->w, "cpu_millis", json_integer_value(value) * 1000);
}

/* The limit is memory_max, unless it is 0, which is Nomad's default. */
static void write_memory(const struct item *item)
{
	cleanup_json json_t *max =
		read_member(item->w, item->block, item->object, "memory_max", NOMAD_INTEGER);
	bool is_max = str_eq(item->key, "memory_max");

	if ((json_integer_value(max) > 0) == is_max)
		write_value(item);
	else
		item_remark(item, NOMAD_DROPPED, "%s is dropped: %s is the limit", item->key,
			    is_max ? "memory" : "memory_max");
}

static void write_enabled(const struct item *item)
{
	cleanup_json json_t *value = read_value(item, NOMAD_BOOL);

	remark_row(item, nomad_find_key(item->block, item->key));
	if (value)
		write_json(item->w, "disabled", json_boolean(json_is_false(value)));
}

/* --- config of docker and podman --- */

/* The image's entry point gets both as its arguments. */
static void write_args(const struct item *item)
{
	cleanup_json json_t *args = read_value(item, NOMAD_TEXTS);
	cleanup_json json_t *first = read_member(item->w, item->block, item->object, "command", NOMAD_TEXT);

	if (!args)
		return;
	if (first && json_array_insert(args, 0, first) < 0)
		item->w->is_short = true;
	write_json(item->w, "args", args);
}

static void write_command(const struct item *item)
{
	cleanup_json json_t *text = read_value(item, NOMAD_TEXT), *args = NULL;

	remark_row(item, nomad_find_key(item->block, item->key));
	if (json_object_get(item->object, "args") || !text)
		return;
	args = json_pack("[O]", text);
	write_json(item->w, "args", args);
}

/* "net_admin" is CAP_NET_ADMIN. */
static void write_capabilities(const struct item *item)
{
	cleanup_json json_t *list = read_value(item, NOMAD_TEXTS), *full = json_array();
	bool is_changed = false;
	json_t *one;
	size_t i;

	json_array_foreach (list, i, one) {
		const char *given = json_string_value(one);
		char name[NAME_MAX_BYTES + 1];
		size_t n = 0;

		(void)str_format(name, sizeof(name), "%s%.32s",
				 strncasecmp(given, "CAP_", 4) == 0 ? "" : "CAP_", given);
		for (; name[n] != '\0'; n++)
			name[n] = (char)toupper((unsigned char)name[n]);
		is_changed = is_changed || !str_eq(name, given);
		if (json_array_append_new(full, json_string(name)) < 0)
			item->w->is_short = true;
	}
	if (is_changed)
		remark_row(item, nomad_find_key(item->block, item->key));
	if (list)
		write_json(item->w, "cap_add", full);
}

/* Behind the second colon: "ro,z". */
struct bind_options {
	bool is_read_only;
	char label[2];	/* z or Z */
	char other[32]; /* one that changes what the task sees, or the host */
};

/* A host path has the propagation private, and nothing is mounted below it. */
static void read_options(const char *text, struct bind_options *ret)
{
	*ret = (struct bind_options){.is_read_only = false};
	for (size_t n; *text != '\0'; text += n + (text[n] == ',')) {
		char one[sizeof(ret->other)];

		n = strcspn(text, ",");
		(void)snprintf(one, sizeof(one), "%.*s", (int)n, text);
		if (str_eq(one, "ro"))
			ret->is_read_only = true;
		else if (str_eq(one, "z") || str_eq(one, "Z"))
			(void)str_copy(ret->label, sizeof(ret->label), one);
		else if (!str_eq(one, "private") && !str_eq(one, "rprivate"))
			(void)str_copy(ret->other, sizeof(ret->other), one);
	}
}

static void refuse_engine_volume(const struct item *item, const char *source)
{
	item_remark(item, NOMAD_REFUSED,
		    "%.64s is refused: %.64s: data written there is lost with the container; register a "
		    "volume, and write a volume block and volume_mount",
		    item->key, source);
}

/* Is @source a path? Two bare names are folders of a task of Nomad, others may be volumes of the engine. */
static bool is_path(const char *source)
{
	return strchr(source, '/') || str_eq(source, "local") || str_eq(source, "secrets");
}

static void add_host_path(const struct item *item, const char *source, const char *target,
			  const struct bind_options *options)
{
	const struct nomad_key *row = nomad_find_key(item->block, item->key);
	const char *other = json_string_value(json_object_get(item->w->host_paths, source));

	if (path_is_within(source, "/dev")) {
		item_remark(item, NOMAD_REFUSED,
			    "%.64s is refused: %.64s: omit it, a privileged CSI plugin has /dev; devices are "
			    "not assigned to other tasks",
			    item->key, source);
	} else if (!is_path(source)) {
		refuse_engine_volume(item, source);
	} else if (source[0] != '/') {
		item_remark(item, NOMAD_DROPPED,
			    "%.64s is dropped: %.64s is no path of the host; put the file into the image or "
			    "onto a volume",
			    item->key, source);
	} else if (!options->is_read_only) {
		item_remark(item, NOMAD_REFUSED, "%.64s is refused: %.64s: %s", item->key, source, row->text);
	} else if (options->other[0] != '\0') {
		item_remark(
			item, NOMAD_REFUSED,
			"%.64s is refused: %.64s: host_paths has no option %s; use a volume of class bind",
			item->key, source, options->other);
	} else if (other && !str_eq(other, target)) {
		item_remark(item, NOMAD_REFUSED, "%.64s is refused: %.64s: host_paths has one target for it",
			    item->key, source);
	} else {
		item_remark(item, NOMAD_CHANGED, "%.64s is changed: %.64s: %s", item->key, source, row->text);
		if (options->label[0] != '\0')
			item_remark(item, NOMAD_DROPPED,
				    "%s is dropped: %.64s: on nodes with SELinux, give it the type "
				    "container_file_t",
				    options->label, source);
		if (json_object_set_new(item->w->host_paths, source, json_string(target)) < 0)
			item->w->is_short = true;
	}
}

/* "/etc/ssl:/etc/ssl:ro" */
static void write_binds(const struct item *item)
{
	cleanup_json json_t *list = read_value(item, NOMAD_TEXTS);
	json_t *one;
	size_t i;

	json_array_foreach (list, i, one) {
		const char *text = json_string_value(one);
		size_t n_source = strcspn(text, ":"), n_target;
		char source[REMARK_SIZE], target[REMARK_SIZE];
		const char *behind = text[n_source] == ':' ? text + n_source + 1 : "";
		struct bind_options options;

		n_target = strcspn(behind, ":");
		if (str_format(source, sizeof(source), "%.*s", (int)n_source, text) < 0 ||
		    str_format(target, sizeof(target), "%.*s", (int)n_target, behind) < 0 ||
		    target[0] == '\0')
			item_remark(item, NOMAD_REFUSED, "%.64s is refused: it is no list of SOURCE:TARGET",
				    item->key);
		else {
			read_options(behind + n_target + (behind[n_target] == ':'), &options);
			add_host_path(item, source, target, &options);
		}
	}
}

static void write_bind(struct writer *w, const json_t *body)
{
	const struct item item = {w, NOMAD_CONFIG, body, "mount", body};
	cleanup_json json_t *type = read_member(w, NOMAD_CONFIG, body, "type", NOMAD_TEXT);
	cleanup_json json_t *source = read_member(w, NOMAD_CONFIG, body, "source", NOMAD_TEXT);
	cleanup_json json_t *target = read_member(w, NOMAD_CONFIG, body, "target", NOMAD_TEXT);
	cleanup_json json_t *read_only = read_member(w, NOMAD_CONFIG, body, "readonly", NOMAD_BOOL);
	const struct bind_options options = {.is_read_only = json_is_true(read_only)};
	size_t n_known = 3 + (read_only != NULL);

	if (!type || str_eq(json_string_value(type), "volume"))
		refuse_engine_volume(&item, source ? json_string_value(source) : "a volume without a name");
	else if (source && target && str_eq(json_string_value(type), "bind") &&
		 json_object_size(body) == n_known)
		add_host_path(&item, json_string_value(source), json_string_value(target), &options);
	else
		item_remark(&item, NOMAD_REFUSED,
			    "mount is refused: use a volume block; of class tmpfs it is in memory");
}

static void write_binds_of_blocks(const struct item *item)
{
	each_block(item, write_bind);
}

/* Behind the block config. */
static void write_network_mode(const struct item *item)
{
	const char *mode = network_mode(item->w, item->block, item->object, item->key);
	const char *group = item->w->network;
	bool is_bridge = mode && str_eq(mode, "bridge");

	if (!mode)
		return;
	if (group && !str_eq(is_bridge ? "host" : mode, group))
		item_remark(item, NOMAD_REFUSED,
			    "network_mode is refused: network of the group is of all its tasks, and is %s",
			    group);
	else if (group)
		item_remark(item, NOMAD_DROPPED, "network_mode is dropped: network of the group is it");
	else
		remark_row(item, nomad_find_key(item->block, item->key));
	if (!group && !is_bridge)
		write_text(item->w, "network", mode);
}

static void write_config(const struct item *item)
{
	json_t *mode = json_object_get(item->value, "network_mode");
	const struct item of_mode = {item->w, NOMAD_CONFIG, item->value, "network_mode", mode};
	cleanup_json json_t *paths = json_object();

	if (!is_of_engine(item->w, item->object)) {
		item_remark(item, NOMAD_DROPPED, "config is dropped: it is of a driver that does not exist");
		return;
	}
	if (!is_block(item))
		return;
	item->w->host_paths = paths;
	begin_block(item->w, "config", NULL);
	write_members(item->w, NOMAD_CONFIG, item->value);
	if (json_object_size(paths) > 0)
		write_json(item->w, "host_paths", paths);
	end_block(item->w);
	item->w->host_paths = NULL;
	if (mode)
		write_network_mode(&of_mode);
}

/* --- all of it --- */

static write_fn *find_writer(enum nomad_block block, const char *key)
{
	static const struct {
		enum nomad_block block;
		const char *key;
		write_fn *write;
	} rows[] = {
		{NOMAD_JOB, "type", write_type},
		{NOMAD_JOB, "group", write_groups},
		{NOMAD_JOB, "constraint", write_constraints},
		{NOMAD_GROUP, "constraint", write_constraints},
		{NOMAD_TASK, "constraint", write_nothing},
		{NOMAD_JOB, "update", check_block},
		{NOMAD_JOB, "reschedule", check_block},
		{NOMAD_GROUP, "count", write_count},
		{NOMAD_GROUP, "update", check_block},
		{NOMAD_GROUP, "reschedule", check_block},
		{NOMAD_GROUP, "network", write_network},
		{NOMAD_GROUP, "volume", write_volumes},
		{NOMAD_GROUP, "service", drop_service},
		{NOMAD_GROUP, "task", write_tasks},
		{NOMAD_NETWORK, "mode", write_mode},
		{NOMAD_NETWORK, "port", drop_ports},
		{NOMAD_UPDATE, "max_parallel", write_max_parallel},
		{NOMAD_UPDATE, "min_healthy_time", write_any_duration},
		{NOMAD_UPDATE, "healthy_deadline", write_any_duration},
		{NOMAD_RESCHEDULE, "interval", write_interval},
		{NOMAD_RESCHEDULE, "delay", write_any_duration},
		{NOMAD_GROUP, "restart", write_group_restart},
		{NOMAD_TASK, "restart", check_block},
		{NOMAD_RESTART, "interval", write_interval},
		{NOMAD_RESTART, "delay", write_restart_delay},
		{NOMAD_VOLUME, "read_only", write_nothing},
		{NOMAD_TASK, "driver", write_driver},
		{NOMAD_TASK, "config", write_config},
		{NOMAD_TASK, "env", write_env},
		{NOMAD_TASK, "service", drop_service},
		{NOMAD_TASK, "volume_mount", write_mounts},
		{NOMAD_TASK, "csi_plugin", write_plugins},
		{NOMAD_TASK, "resources", write_all_resources},
		{NOMAD_TASK, "logs", write_all_logs},
		{NOMAD_TASK, "lifecycle", write_lifecycle},
		{NOMAD_TASK, "leader", write_leader},
		{NOMAD_TASK, "kill_timeout", write_stop_timeout},
		{NOMAD_CSI_PLUGIN, "health_timeout", write_any_duration},
		{NOMAD_RESOURCES, "cores", write_cores},
		{NOMAD_RESOURCES, "memory", write_memory},
		{NOMAD_RESOURCES, "memory_max", write_memory},
		{NOMAD_LOGS, "enabled", write_enabled},
		{NOMAD_CONFIG, "args", write_args},
		{NOMAD_CONFIG, "command", write_command},
		{NOMAD_CONFIG, "cap_add", write_capabilities},
		{NOMAD_CONFIG, "network_mode", write_nothing},
		{NOMAD_CONFIG, "volumes", write_binds},
		{NOMAD_CONFIG, "mount", write_binds_of_blocks},
		{NOMAD_CONFIG, "mounts", write_binds_of_blocks},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].block == block && str_eq(rows[i].key, key))
			return rows[i].write;
	return NULL;
}

/* A remark for each member of the file but the job. */
static void remark_file(struct writer *w, const json_t *root)
{
	const char *key, *label;
	json_t *value, *block;

	json_object_foreach ((json_t *)(uintptr_t)root, key, value) {
		const struct item item = {w, NOMAD_FILE, root, key, value};
		const struct nomad_key *row = nomad_find_key(NOMAD_FILE, key);

		if (!row)
			item_remark(&item, NOMAD_REFUSED, "%.64s is refused: Nomad has no such block here",
				    key);
		else if (conf_is_labelled(w->conf, root, key) && row->fate != NOMAD_TAKEN)
			json_object_foreach (value, label, block)
				remark(w, value, label, row->fate, "%s \"%.64s\" is changed: %s", key, label,
				       row->text);
		else if (row->fate != NOMAD_TAKEN)
			remark_row(&item, row);
	}
}

static int by_line(const void *a, const void *b)
{
	const struct nomad_remark *x = a, *y = b;

	return x->line != y->line ? (x->line > y->line) - (x->line < y->line) : strcmp(x->text, y->text);
}

/* Removes repeated remarks, of a merged block or of a value that is read for two keys. */
static void sort_remarks(struct nomad_import *import)
{
	size_t n = 0;

	if (import->n_remarks > 0)
		qsort(import->remarks, import->n_remarks, sizeof(*import->remarks), by_line);
	for (size_t i = 0; i < import->n_remarks; i++) {
		if (n > 0 && by_line(&import->remarks[i], &import->remarks[n - 1]) == 0)
			free(import->remarks[i].text);
		else
			import->remarks[n++] = import->remarks[i];
	}
	import->n_remarks = n;
	import->n_refused = 0;
	for (size_t i = 0; i < n; i++)
		import->n_refused += import->remarks[i].fate == NOMAD_REFUSED;
}

static enum status find_job(const struct conf *conf, const char **ret_id, json_t **ret_job, struct error *err)
{
	json_t *root = conf_root(conf), *jobs = json_object_get(root, "job");

	if (json_object_get(root, "Job"))
		return conf_error(conf, root, "Job", err,
				  "JSON of Nomad's API is not read; give the HCL file");
	if (!json_is_object(jobs) || json_object_size(jobs) != 1 ||
	    !json_is_object(json_object_iter_value(json_object_iter(jobs))))
		return conf_error(conf, root, "job", err,
				  "the file has no block job \"ID\" { }, or more than one");
	*ret_id = json_object_iter_key(json_object_iter(jobs));
	*ret_job = json_object_iter_value(json_object_iter(jobs));
	return STATUS_OK;
}

enum status nomad_import(const struct conf *conf, const json_t *values, struct nomad_import *ret,
			 struct error *err)
{
	cleanup(nomad_import_release) struct nomad_import import = {.text = NULL};
	json_t *root = conf_root(conf);
	struct writer w = {.conf = conf,
			   .scope = {.variables = json_object_get(root, "variable"),
				     .locals = json_object_get(root, "locals"),
				     .values = values},
			   .out = STRBUF_INIT(TEXT_MAX),
			   .result = &import};
	cleanup_json json_t *type = NULL;
	const char *id = NULL;
	json_t *job = NULL;

	TRY(find_job(conf, &id, &job, err));
	assert(id && job);
	type = read_member(&w, NOMAD_JOB, job, "type", NOMAD_TEXT);
	w.job = job;
	w.job_type = type ? json_string_value(type) : "service";
	remark_file(&w, root);
	begin_named(&w, "job", json_object_get(root, "job"), id);
	write_members(&w, NOMAD_JOB, job);
	end_block(&w);
	import.text = strbuf_take(&w.out);
	if (!import.text || w.is_short)
		return error_no_memory(err, "the job");
	sort_remarks(&import);
	*ret = import;
	import = (struct nomad_import){.text = NULL};
	return STATUS_OK;
}

void nomad_import_release(struct nomad_import *import)
{
	for (size_t i = 0; i < import->n_remarks; i++)
		free(import->remarks[i].text);
	free(import->remarks);
	free(import->text);
	*import = (struct nomad_import){.text = NULL};
}
