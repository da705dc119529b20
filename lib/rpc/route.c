/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/route.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/str.h"
#include "rpc/pbjson.h"
#include "rpc/request_head.h"
#include "rpc/target.h"
#include "rpc/unpack.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum { FIELD_NAME_SIZE = 64, SHOWN_SIZE = 64, METHODS_N = 4 };

static const char *const method_names[METHODS_N] = {"GET", "PUT", "POST", "DELETE"};

static unsigned int method_bit(const char *name)
{
	for (unsigned int i = 0; i < METHODS_N; i++)
		if (str_eq(method_names[i], name))
			return 1U << i;
	return 0;
}

char *route_allow(unsigned int methods, char text[static ROUTE_ALLOW_SIZE])
{
	size_t n = 0;

	text[0] = '\0';
	for (unsigned int i = 0; i < METHODS_N; i++)
		if (methods & 1U << i)
			n += (size_t)str_format(text + n, ROUTE_ALLOW_SIZE - n, "%s%s", n > 0 ? ", " : "",
						method_names[i]);
	return text;
}

/* Does @target begin with the first segment of @pattern? */
static bool is_near(const char *pattern, const char *target)
{
	size_t n = 1 + strcspn(pattern + 1, "/");

	return strncmp(pattern, target, n) == 0 && strchr("/?", target[n]) != NULL;
}

const struct rpc_route *route_find(const struct rpc_route *routes, size_t n, const char *method,
				   const char *target, unsigned int *ret_allow, bool *ret_near)
{
	struct pattern_match match;

	*ret_allow = 0;
	*ret_near = false;
	for (size_t i = 0; i < n; i++) {
		*ret_near |= is_near(routes[i].pattern, target);
		if (!pattern_match(routes[i].pattern, target, target_path_length(target), &match))
			continue;
		if (str_eq(routes[i].method, method))
			return &routes[i];
		*ret_allow |= method_bit(routes[i].method);
	}
	return NULL;
}

/* One request in the making. */
struct form {
	const struct rpc_route *route;
	const ProtobufCMessageDescriptor *descriptor;
	json_t *root; /* borrowed */
	struct error *err;
};

static enum status unknown_parameter(const struct form *form, const char *name)
{
	char shown[SHOWN_SIZE];

	str_copy_text(shown, sizeof(shown), name);
	return error_set(form->err, STATUS_INVALID_ARGUMENT, 0, "%s %s has no parameter \"%s\"",
			 form->route->method, form->route->pattern, shown);
}

static enum status no_memory(const struct form *form)
{
	return error_set(form->err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "read a request");
}

/* The object in @object that holds the fields of a message within; made when it is not there. */
static json_t *inner_object(json_t *object, const char *name)
{
	json_t *inner = json_object_get(object, name);

	if (inner)
		return inner;
	return json_object_set_new(object, name, json_object()) == 0 ? json_object_get(object, name) : NULL;
}

/* Walk @name, "volume.id", to its field. NULL if no text could fill it; then *@ret_object is NULL without
 * memory. */
static const ProtobufCFieldDescriptor *find_field(const struct form *form, const char *name,
						  json_t **ret_object)
{
	const ProtobufCMessageDescriptor *descriptor = form->descriptor;
	json_t *object = form->root;
	char part[FIELD_NAME_SIZE];

	for (;; name += strlen(part) + 1) {
		const ProtobufCFieldDescriptor *field;

		if (str_format(part, sizeof(part), "%.*s", (int)strcspn(name, "."), name) < 0)
			break;
		field = protobuf_c_message_descriptor_get_field_by_name(descriptor, part);
		if (!field || name[strlen(part)] == '\0') {
			*ret_object = object;
			return field && field->type != PROTOBUF_C_TYPE_MESSAGE ? field : NULL;
		}
		if (field->type != PROTOBUF_C_TYPE_MESSAGE || field->label == PROTOBUF_C_LABEL_REPEATED)
			break;
		descriptor = field->descriptor;
		object = inner_object(object, part);
		if (!object) {
			*ret_object = NULL;
			return NULL;
		}
	}
	*ret_object = form->root;
	return NULL;
}

/* The JSON that pbjson takes for @text; a flag without a value is set. */
static json_t *scalar(const ProtobufCFieldDescriptor *field, const char *text)
{
	bool flag = true;

	if (field->type == PROTOBUF_C_TYPE_BOOL && (text[0] == '\0' || parse_bool(text, &flag) == 0))
		return json_boolean(flag);
	return json_string(text);
}

/* @name is that of a parameter or of a field. */
static enum status set_field(const struct form *form, const char *name, const char *text)
{
	const ProtobufCFieldDescriptor *field;
	json_t *object = NULL;
	json_t *list;

	field = find_field(form, name, &object);
	if (!field)
		return object ? unknown_parameter(form, name) : no_memory(form);
	if (field->label != PROTOBUF_C_LABEL_REPEATED) {
		if (json_object_get(object, field->name))
			return error_set(form->err, STATUS_INVALID_ARGUMENT, 0, "%s is given twice", name);
		return json_object_set_new(object, field->name, scalar(field, text)) == 0 ? STATUS_OK
											  : no_memory(form);
	}
	list = json_object_get(object, field->name);
	if (!list && json_object_set_new(object, field->name, json_array()) == 0)
		list = json_object_get(object, field->name);
	return json_array_append_new(list, scalar(field, text)) == 0 ? STATUS_OK : no_memory(form);
}

static enum status parse_path(const struct form *form, const char *target)
{
	size_t length = target_path_length(target);
	char value[REQUEST_PATH_MAX + 1];
	char name[FIELD_NAME_SIZE];
	struct pattern_match match;
	bool found = pattern_match(form->route->pattern, target, length, &match);

	assert(found);
	for (size_t i = 0; found && i < match.n; i++) {
		const struct pattern_field *field = &match.fields[i];

		(void)str_format(name, sizeof(name), "%.*s", (int)field->name_len, field->name);
		if (percent_decode(value, field->value, field->value_len, false) < 0)
			return error_set(form->err, STATUS_INVALID_ARGUMENT, 0,
					 "the %s in the path cannot be read: escape it as %%XX, in UTF-8",
					 name);
		TRY(set_field(form, name, value));
	}
	return STATUS_OK;
}

/* Written out: "force=false" asks for nothing. */
static enum status refuse_parameter(const struct form *form, const struct target_param *param)
{
	bool asks = true;

	if (param->value[0] != '\0' && parse_bool(param->value, &asks) == 0 && !asks)
		return STATUS_OK;
	return error_set(form->err, STATUS_INVALID_ARGUMENT, 0, "%s: %s", param->name,
			 form->route->refuses.instead);
}

static enum status parse_query(const struct form *form, const struct target *target, bool *ret_pretty)
{
	const struct rpc_route_name *renamed = &form->route->name;
	bool pretty = false;

	for (size_t i = 0; i < target->n_params; i++) {
		const struct target_param *param = &target->params[i];
		const char *field = param->name;

		if (str_eq(field, "pretty")) {
			pretty = true;
			continue;
		}
		if (form->route->refuses.parameter && str_eq(field, form->route->refuses.parameter)) {
			TRY(refuse_parameter(form, param));
			continue;
		}
		if (renamed->parameter && str_eq(field, renamed->parameter))
			field = renamed->field;
		TRY(form->descriptor ? set_field(form, field, param->value) : unknown_parameter(form, field));
	}
	*ret_pretty = pretty;
	return STATUS_OK;
}

static enum status bad_secrets(const struct form *form, const char *what)
{
	return error_set(form->err, STATUS_INVALID_ARGUMENT, 0, "x-nomad-csi-secrets: %s", what);
}

/* One "key=value" of @n bytes. No message repeats it. */
static enum status parse_secret(const struct form *form, json_t *to, const char *item, size_t n)
{
	const char *equals = memchr(item, '=', n);
	char key[REQUEST_SECRETS_MAX + 1];
	json_t *value;

	if (!equals || equals == item)
		return bad_secrets(form, "each secret is KEY=VALUE, with commas in between");
	(void)str_format(key, sizeof(key), "%.*s", (int)(equals - item), item);
	if (json_object_get(to, key))
		return bad_secrets(form, "a key is given twice");
	value = json_stringn(equals + 1, n - (size_t)(equals + 1 - item));
	if (!value)
		return bad_secrets(form, "a value is not UTF-8");
	return json_object_set_new(to, key, value) == 0 ? STATUS_OK : bad_secrets(form, "a key is not UTF-8");
}

static enum status parse_secrets(const struct form *form, const char *text)
{
	json_t *to;

	if (!text || text[0] == '\0')
		return STATUS_OK;
	if (!form->route->secrets)
		return bad_secrets(form, "nothing here takes secrets from a header; give them in the body");
	to = inner_object(form->root, form->route->secrets);
	if (!to)
		return no_memory(form);
	for (;;) {
		size_t n = strcspn(text, ",");
		enum status status = parse_secret(form, to, text, n);

		if (status != STATUS_OK || text[n] == '\0')
			return status;
		text += n + 1;
	}
}

/* Lay the fields of @body over those of @object. As deep as the objects that the path has made. */
static enum status merge(const struct form *form, json_t *object, json_t *body) // NOLINT(misc-no-recursion)
{
	const char *key;
	json_t *value;

	json_object_foreach (body, key, value) {
		json_t *there = json_object_get(object, key);
		enum status status = STATUS_OK;

		if (json_is_object(there) && json_is_object(value))
			status = merge(form, there, value);
		else if (there && !json_equal(there, value))
			status = error_set(form->err, STATUS_INVALID_ARGUMENT, 0,
					   "%s is given in the address and in the body, and not the same",
					   key);
		else if (json_object_set(object, key, value) != 0)
			status = no_memory(form);
		if (status != STATUS_OK)
			return status;
	}
	return STATUS_OK;
}

static enum status parse_body(const struct form *form, const struct route_body *body)
{
	cleanup(json_decrefp) json_t *json = NULL;

	if (body->n == 0)
		return STATUS_OK;
	if (str_eq(form->route->method, "GET") || !form->descriptor)
		return error_set(form->err, STATUS_INVALID_ARGUMENT, 0, "%s %s takes no body",
				 form->route->method, form->route->pattern);
	TRY(unpack_json("the body", body->text, body->n, &json, form->err));
	if (!json_is_object(json))
		return error_set(form->err, STATUS_INVALID_ARGUMENT, 0, "the body is no JSON object");
	return merge(form, form->root, json);
}

enum status route_request(const struct rpc_route *route, const char *target,
			  const ProtobufCMessageDescriptor *descriptor, const struct route_body *body,
			  bool *ret_pretty, ProtobufCMessage **ret, struct error *err)
{
	cleanup(json_decrefp) json_t *root = json_object();
	const struct form form = {.route = route, .descriptor = descriptor, .root = root, .err = err};
	struct target parts;
	bool pretty = false;

	if (!root)
		return no_memory(&form);
	TRY(target_read(target, &parts, err));
	if (descriptor)
		TRY(parse_path(&form, target));
	TRY(parse_query(&form, &parts, &pretty));
	TRY(parse_secrets(&form, body->secrets));
	TRY(parse_body(&form, body));
	if (descriptor)
		TRY(pbjson_decode(descriptor, root, PBJSON_SPEC, ret, err));
	if (!descriptor)
		*ret = NULL;
	*ret_pretty = pretty;
	return STATUS_OK;
}
