/* SPDX-License-Identifier: Apache-2.0 */
#include "command/request.h"

#include "command/secrets.h"
#include "rpc/pbjson.h"

#include <errno.h>
#include <string.h>

enum status request_make(const ProtobufCMessageDescriptor *descriptor, json_t *json, void *ret,
			 struct error *err)
{
	ProtobufCMessage *message = NULL;
	enum status status;

	if (!json)
		return error_no_memory(err, "a request");
	status = pbjson_decode(descriptor, json, 0, &message, err);
	json_decref(json);
	if (status == STATUS_OK)
		*(ProtobufCMessage **)ret = message;
	return status;
}

static enum status add_pair(struct invocation *inv, enum option_id id, const char *pair, json_t *object,
			    struct error *err)
{
	const char *equals = strchr(pair, '=');
	char key[256];
	size_t n;

	if (!equals || equals == pair)
		return usage_error(inv, err, "--%s: '%s' is not KEY=VALUE", command_options[id].name, pair);
	n = (size_t)(equals - pair);
	if (n >= sizeof(key))
		return usage_error(inv, err, "--%s: the key is too long", command_options[id].name);
	memcpy(key, pair, n);
	key[n] = '\0';
	if (json_object_get(object, key))
		return usage_error(inv, err, "--%s: '%s' is given twice", command_options[id].name, key);
	if (json_object_set_new(object, key, json_string(equals + 1)) < 0)
		return usage_error(inv, err, "--%s: '%s' is not UTF-8", command_options[id].name, key);
	return STATUS_OK;
}

enum status request_pairs(struct invocation *inv, enum option_id id, json_t **ret, struct error *err)
{
	json_t *object = json_object();
	enum status status = object ? STATUS_OK : error_no_memory(err, "a request");
	const char *pair;
	size_t at = 0;

	while (status == STATUS_OK && (pair = option_next(inv, id, &at)) != NULL)
		status = add_pair(inv, id, pair, object, err);
	if (status == STATUS_OK)
		*ret = object;
	else
		json_decref(object);
	return status;
}

enum status request_secrets(struct invocation *inv, json_t **ret, struct error *err)
{
	const char *path = inv->options[OPT_SECRETS_FILE];
	json_t *object;

	if (path)
		return secrets_load(-EBADF, path, ret, err);
	object = json_object();
	if (!object)
		return error_no_memory(err, "a request");
	*ret = object;
	return STATUS_OK;
}
