/* SPDX-License-Identifier: Apache-2.0 */
#include "model/alloc.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/names.h"
#include "base/str.h"
#include "model/task.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const desired_names[DESIRED_N] = {
	[DESIRED_UNSPECIFIED] = "unspecified",
	[DESIRED_RUN] = "run",
	[DESIRED_STOP] = "stop",
};

static const char *const client_names[CLIENT_N] = {
	[CLIENT_UNSPECIFIED] = "unspecified", [CLIENT_PENDING] = "pending", [CLIENT_RUNNING] = "running",
	[CLIENT_COMPLETE] = "complete",	      [CLIENT_FAILED] = "failed",   [CLIENT_LOST] = "lost",
};

static const char *const csi_plugin_type_names[CSI_PLUGIN_TYPE_N] = {
	[CSI_PLUGIN_NONE] = "unspecified",
	[CSI_PLUGIN_CONTROLLER] = "controller",
	[CSI_PLUGIN_NODE] = "node",
	[CSI_PLUGIN_MONOLITH] = "monolith",
};

const char *desired_status_name(enum desired_status status)
{
	const char *name = names_get(desired_names, DESIRED_N, (int)status);

	return name ? name : "invalid";
}

const char *client_status_name(enum client_status status)
{
	const char *name = names_get(client_names, CLIENT_N, (int)status);

	return name ? name : "invalid";
}

const char *csi_plugin_type_name(enum csi_plugin_type type)
{
	const char *name = names_get(csi_plugin_type_names, CSI_PLUGIN_TYPE_N, (int)type);

	return name ? name : "invalid";
}

void alloc_note_times(struct alloc *alloc, enum client_status before, int64_t now_ms)
{
	if (alloc->client_status == CLIENT_RUNNING && before != CLIENT_RUNNING)
		alloc->running_time_ms = now_ms;
	if (alloc_is_client_terminal(alloc) && alloc->end_time_ms == 0)
		alloc->end_time_ms = now_ms;
}

bool alloc_is_client_terminal(const struct alloc *alloc)
{
	return alloc->client_status == CLIENT_COMPLETE || alloc->client_status == CLIENT_FAILED ||
	       alloc->client_status == CLIENT_LOST;
}

/* A copy of @n entries of @size bytes; NULL for none. False when memory is short. */
static bool copy_list(const void *from, uint32_t n, size_t size, void *ret)
{
	void *copy = n > 0 ? reallocarray(NULL, n, size) : NULL;

	if (copy)
		memcpy(copy, from, n * size);
	memcpy(ret, &copy, sizeof(copy));
	return copy || n == 0;
}

/* A copy of its own, unless there is none. False when memory is short. */
static bool own_text(char **text)
{
	bool has_text = *text != NULL;

	if (has_text)
		*text = strdup(*text);
	return !has_text || *text;
}

bool alloc_own(struct alloc *alloc)
{
	bool has_volumes =
		copy_list(alloc->volumes, alloc->n_volumes, sizeof(*alloc->volumes), &alloc->volumes);
	bool has_published =
		copy_list(alloc->published, alloc->n_published, sizeof(*alloc->published), &alloc->published);
	bool has_plugins = copy_list(alloc->more_plugins, alloc->n_more_plugins, sizeof(*alloc->more_plugins),
				     &alloc->more_plugins);
	bool has_unit = own_text(&alloc->unit);
	bool has_description = own_text(&alloc->client_description);
	bool has_wait_node = own_text(&alloc->wait_node_id);

	alloc->tasks = message_list_ref(alloc->tasks);
	alloc->task_status = message_list_ref(alloc->task_status);
	alloc->events = message_list_ref(alloc->events);
	if (has_volumes && has_published && has_plugins && has_unit && has_description && has_wait_node)
		return true;
	alloc_release(alloc);
	return false;
}

void alloc_release(struct alloc *alloc)
{
	free(alloc->volumes);
	free(alloc->published);
	free(alloc->more_plugins);
	free(alloc->unit);
	free(alloc->client_description);
	free(alloc->wait_node_id);
	message_list_unref(alloc->tasks);
	message_list_unref(alloc->task_status);
	message_list_unref(alloc->events);
	alloc->tasks = alloc->task_status = alloc->events = NULL;
	alloc->volumes = NULL;
	alloc->published = NULL;
	alloc->more_plugins = NULL;
	alloc->unit = NULL;
	alloc->client_description = NULL;
	alloc->wait_node_id = NULL;
	alloc->n_volumes = alloc->n_published = alloc->n_more_plugins = 0;
}

const char *alloc_description(const struct alloc *alloc)
{
	return alloc->client_description ? alloc->client_description : "";
}

const char *alloc_wait_node(const struct alloc *alloc)
{
	return alloc->wait_node_id ? alloc->wait_node_id : "";
}

const char *alloc_unit(const struct alloc *alloc)
{
	return alloc->unit ? alloc->unit : "";
}

void alloc_default(struct alloc *alloc)
{
	if (alloc->namespace[0] == '\0')
		(void)str_copy(alloc->namespace, sizeof(alloc->namespace), NAMESPACE_DEFAULT);
	if (alloc->driver[0] == '\0')
		(void)str_copy(alloc->driver, sizeof(alloc->driver), DRIVER_NONE);
	for (uint32_t i = 0; i < alloc->n_volumes; i++)
		if (alloc->volumes[i].attachment_mode == ATTACHMENT_MODE_UNSPECIFIED)
			alloc->volumes[i].attachment_mode = ATTACHMENT_FILE_SYSTEM;
}

static enum status validate_request(const struct volume_request *request, struct error *err)
{
	char field[ERROR_FIELD_SIZE];
	bool is_block = request->attachment_mode == ATTACHMENT_BLOCK_DEVICE;

	if (!id_is_name(request->name, PROFILE_MAX))
		return error_invalid(
			err, "volume",
			"'%.64s': a volume's name within an allocation is 1 to %d of A-Z a-z 0-9 _ and -",
			request->name, PROFILE_MAX);
	(void)str_format(field, sizeof(field), "volume %s", request->name);
	if (!volume_id_is_valid(request->source))
		return error_invalid(err, field, "source '%.64s' is not a volume id", request->source);
	if (request->access_mode == ACCESS_MODE_UNSPECIFIED)
		return error_invalid(err, field, "access_mode is missing");
	if (!access_mode_is_writer(request->access_mode) && !request->read_only)
		return error_invalid(err, field,
				     "access_mode %s contradicts read_only = false; set read_only = true",
				     access_mode_name(request->access_mode));
	if (request->propagation == PROPAGATION_BIDIRECTIONAL && request->read_only)
		return error_invalid(err, field, "propagation bidirectional contradicts read_only = true");
	if (is_block && request->propagation != PROPAGATION_PRIVATE)
		return error_invalid(
			err, field,
			"propagation contradicts attachment_mode block-device, which is no mount; "
			"leave it out");
	if (is_block && request->exec)
		return error_invalid(err, field,
				     "exec = true contradicts attachment_mode block-device, which is no "
				     "mount; leave it out");
	return STATUS_OK;
}

static enum status validate_unique(const struct alloc *alloc, uint32_t i, struct error *err)
{
	const struct volume_request *request = &alloc->volumes[i];
	char field[ERROR_FIELD_SIZE];

	(void)str_format(field, sizeof(field), "volume %s", request->name);
	for (uint32_t k = 0; k < i; k++) {
		if (str_eq(alloc->volumes[k].name, request->name))
			return error_invalid(err, field, "it is given twice");
		if (str_eq(alloc->volumes[k].source, request->source))
			return error_invalid(
				err, field, "it has the same source as volume %s: %s; one request per volume",
				alloc->volumes[k].name, request->source);
	}
	return STATUS_OK;
}

/* `csi.sock`: it is put behind the plugin's folder. */
static bool is_socket_name(const char *name)
{
	static const char tail[] = ".sock";
	size_t n = strlen(name);

	if (n < sizeof(tail) || !str_eq(name + n - (sizeof(tail) - 1), tail))
		return false;
	return name[0] != '.' && name[0] != '-' &&
	       strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == n;
}

static enum status validate_csi_plugin(const struct csi_plugin *plugin, const char *field, struct error *err)
{
	if (plugin->id[0] == '\0')
		return error_invalid(err, field, "id is missing: the plugin_id that volumes name");
	if (!id_is_label(plugin->id) || str_eq(plugin->id, PLUGIN_NATIVE))
		return error_invalid(err, field,
				     "id '%s' is not the id of a CSI plugin: 1 to %d of a-z 0-9 and -, "
				     "not " PLUGIN_NATIVE,
				     plugin->id, CSI_PLUGIN_ID_MAX);
	if (plugin->type == CSI_PLUGIN_NONE)
		return error_invalid(err, field,
				     "id '%s' is given and type is missing: controller, node or "
				     "monolith",
				     plugin->id);
	if (plugin->socket[0] != '\0' && !is_socket_name(plugin->socket))
		return error_invalid(err, field,
				     "socket '%s' is not a plain file name that ends in .sock; it is "
				     "looked for in the plugin's folder",
				     plugin->socket);
	if (plugin->health_timeout_ms > CSI_PLUGIN_HEALTH_TIMEOUT_MAX_MS)
		return error_invalid(err, field, "health_timeout of %" PRIu32 " ms is more than %d ms",
				     plugin->health_timeout_ms, CSI_PLUGIN_HEALTH_TIMEOUT_MAX_MS);
	return STATUS_OK;
}

/* Each by itself, and no id twice. */
static enum status validate_csi_plugins(const struct alloc *alloc, struct error *err)
{
	static const struct csi_plugin none = {.type = CSI_PLUGIN_NONE};
	enum status st = STATUS_OK;

	if (alloc->n_more_plugins == 0 && csi_plugin_eq(&alloc->csi_plugin, &none))
		return STATUS_OK;
	for (uint32_t i = 0; i <= alloc->n_more_plugins; i++) {
		const struct csi_plugin *plugin = i > 0 ? &alloc->more_plugins[i - 1] : &alloc->csi_plugin;
		char field[ERROR_FIELD_SIZE] = "csi_plugin";
		struct error one;
		enum status valid;

		if (i > 0)
			(void)str_format(field, sizeof(field), "csi_plugin[%" PRIu32 "]", i);
		valid = validate_csi_plugin(plugin, field, &one);
		if (valid == STATUS_OK && st == STATUS_OK && alloc_find_plugin(alloc, plugin->id) != plugin)
			valid = error_invalid(&one, field,
					      "id '%s' is that of two blocks: an allocation runs each plugin "
					      "once",
					      plugin->id);
		st = error_collect(st, valid, &one, err);
	}
	return st;
}

static enum status validate_volumes(const struct alloc *alloc, struct error *err)
{
	enum status st = STATUS_OK;

	if (alloc->n_volumes == 0 && alloc->csi_plugin.type == CSI_PLUGIN_NONE && !alloc->tasks)
		return error_invalid(
			err, "volume", "an allocation with driver %s needs at least one volume block%s",
			alloc->driver,
			str_eq(alloc->driver, DRIVER_NONE) ? ", or a csi_plugin or task block" : "");
	for (uint32_t i = 0; i < alloc->n_volumes; i++) {
		struct error one;
		enum status valid = validate_request(&alloc->volumes[i], &one);

		if (valid == STATUS_OK)
			valid = validate_unique(alloc, i, &one);
		st = error_collect(st, valid, &one, err);
	}
	return st;
}

static enum status validate_without_unit(const struct alloc *alloc, struct error *err)
{
	if (alloc_unit(alloc)[0] != '\0')
		return error_invalid(err, "unit",
				     "'%.64s' contradicts driver \"%s\", which starts nothing; use driver = "
				     "\"" DRIVER_SYSTEMD "\", or leave unit out",
				     alloc_unit(alloc), alloc->driver);
	if (alloc->stop_timeout_ms > 0)
		return error_invalid(err, "stop_timeout",
				     "contradicts driver \"%s\", which stops nothing; use driver = "
				     "\"" DRIVER_SYSTEMD "\" with a unit, or leave stop_timeout out",
				     alloc->driver);
	return STATUS_OK;
}

static enum status validate_unit(const struct alloc *alloc, struct error *err)
{
	if (alloc_unit(alloc)[0] == '\0')
		return error_invalid(err, "unit",
				     "is missing, which driver \"" DRIVER_SYSTEMD
				     "\" is to start: the name of "
				     "a .service of the node");
	if (!id_is_service_unit(alloc_unit(alloc)))
		return error_invalid(
			err, "unit",
			"'%.64s' is not the full name of a service that can be started, up to %d "
			"characters, as in postgresql@15-main.service",
			alloc_unit(alloc), ID_UNIT_MAX);
	if (alloc->csi_plugin.type != CSI_PLUGIN_NONE)
		return error_invalid(err, "csi_plugin",
				     "contradicts driver \"" DRIVER_SYSTEMD "\": a plugin is started by the "
				     "node itself; use driver = \"" DRIVER_NONE "\"");
	if (alloc->stop_timeout_ms > ALLOC_STOP_TIMEOUT_MAX_MS)
		return error_invalid(err, "stop_timeout", "%" PRIu32 " ms are more than %d ms",
				     alloc->stop_timeout_ms, ALLOC_STOP_TIMEOUT_MAX_MS);
	return STATUS_OK;
}

static enum status validate_driver(const struct alloc *alloc, struct error *err)
{
	if (str_eq(alloc->driver, DRIVER_NONE))
		return validate_without_unit(alloc, err);
	if (str_eq(alloc->driver, DRIVER_SYSTEMD))
		return validate_unit(alloc, err);
	return error_set(err, STATUS_UNIMPLEMENTED, 0,
			 "driver: '%s' is not known; use driver = \"" DRIVER_NONE "\", or \"" DRIVER_SYSTEMD
			 "\" with a unit",
			 alloc->driver);
}

static enum status validate_mount_timeout(const struct alloc *alloc, struct error *err)
{
	if (alloc->mount_timeout_ms > 0 && alloc->n_volumes == 0)
		return error_invalid(err, "mount_timeout",
				     "contradicts an allocation without volume; leave it out");
	if (alloc->mount_timeout_ms > ALLOC_MOUNT_TIMEOUT_MAX_MS)
		return error_invalid(err, "mount_timeout", "%" PRIu32 " ms are more than %d ms",
				     alloc->mount_timeout_ms, ALLOC_MOUNT_TIMEOUT_MAX_MS);
	return STATUS_OK;
}

static enum status validate_names(const struct alloc *alloc, struct error *err)
{
	if (alloc->id[0] != '\0' && !id_is_uuid(alloc->id))
		return error_invalid(err, "id", "'%s' is not a lower-case UUID", alloc->id);
	if (!id_is_name(alloc->namespace, NAMESPACE_MAX))
		return error_invalid(err, "namespace", "'%.64s' is not a namespace", alloc->namespace);
	if (!id_is_name(alloc->name, ALLOC_NAME_MAX))
		return error_invalid(err, "name",
				     "'%.64s' is not an allocation's name (A-Z a-z 0-9 _ and -, up to %d)",
				     alloc->name, ALLOC_NAME_MAX);
	if (alloc->node_id[0] != '\0' && !id_is_name(alloc->node_id, NODE_ID_MAX))
		return error_invalid(err, "node", "'%.64s' is not a node id", alloc->node_id);
	return STATUS_OK;
}

enum status alloc_validate(const struct alloc *alloc, struct error *err)
{
	static enum status (*const checks[])(const struct alloc *alloc, struct error *err) = {
		validate_names,		validate_driver,  validate_csi_plugins,
		validate_mount_timeout, validate_volumes, alloc_validate_tasks,
	};
	enum status st = STATUS_OK;
	struct error all = {.msg = ""};

	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		struct error one;

		st = error_collect(st, checks[i](alloc, &one), &one, &all);
		if (st != STATUS_OK && st != STATUS_INVALID_ARGUMENT)
			break;
	}
	if (st != STATUS_OK && err)
		*err = all;
	return st;
}

const struct volume_request *alloc_find_volume(const struct alloc *alloc, const char *name)
{
	for (uint32_t i = 0; i < alloc->n_volumes; i++)
		if (str_eq(alloc->volumes[i].name, name))
			return &alloc->volumes[i];
	return NULL;
}

bool volume_request_eq(const struct volume_request *a, const struct volume_request *b)
{
	return str_eq(a->name, b->name) && str_eq(a->source, b->source) && a->access_mode == b->access_mode &&
	       a->attachment_mode == b->attachment_mode && a->read_only == b->read_only &&
	       a->propagation == b->propagation && a->exec == b->exec;
}

bool csi_plugin_eq(const struct csi_plugin *a, const struct csi_plugin *b)
{
	return str_eq(a->id, b->id) && a->type == b->type && a->health_timeout_ms == b->health_timeout_ms &&
	       str_eq(a->socket, b->socket);
}

uint32_t alloc_n_plugins(const struct alloc *alloc)
{
	return alloc->csi_plugin.type == CSI_PLUGIN_NONE ? 0 : 1 + alloc->n_more_plugins;
}

const struct csi_plugin *alloc_plugin(const struct alloc *alloc, uint32_t i)
{
	assert(i < alloc_n_plugins(alloc));
	return i == 0 ? &alloc->csi_plugin : &alloc->more_plugins[i - 1];
}

const struct csi_plugin *alloc_find_plugin(const struct alloc *alloc, const char *id)
{
	for (uint32_t i = 0; i < alloc_n_plugins(alloc); i++)
		if (str_eq(alloc_plugin(alloc, i)->id, id))
			return alloc_plugin(alloc, i);
	return NULL;
}

bool alloc_plugins_eq(const struct alloc *a, const struct alloc *b)
{
	bool is_same =
		csi_plugin_eq(&a->csi_plugin, &b->csi_plugin) && a->n_more_plugins == b->n_more_plugins;

	for (uint32_t i = 0; is_same && i < a->n_more_plugins; i++)
		is_same = csi_plugin_eq(&a->more_plugins[i], &b->more_plugins[i]);
	return is_same;
}

void alloc_plugins_text(const struct alloc *alloc, const bool *only, char text[ALLOC_PLUGINS_TEXT_SIZE])
{
	size_t n = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < alloc_n_plugins(alloc); i++)
		if (!only || only[i])
			n += (size_t)str_format(text + n, ALLOC_PLUGINS_TEXT_SIZE - n, "%s%s",
						n > 0 ? ", " : "", alloc_plugin(alloc, i)->id);
}

const char *csi_plugin_socket(const struct csi_plugin *plugin)
{
	return plugin->socket[0] != '\0' ? plugin->socket : CSI_PLUGIN_SOCKET;
}

bool csi_plugin_has_controller(const struct csi_plugin *plugin)
{
	return plugin->type == CSI_PLUGIN_CONTROLLER || plugin->type == CSI_PLUGIN_MONOLITH;
}

bool csi_plugin_has_node(const struct csi_plugin *plugin)
{
	return plugin->type == CSI_PLUGIN_NODE || plugin->type == CSI_PLUGIN_MONOLITH;
}

enum claim_mode volume_request_mode(const struct volume_request *request)
{
	return request->read_only ? CLAIM_READ : CLAIM_WRITE;
}
