/* SPDX-License-Identifier: Apache-2.0 */
#include "model/alloc.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/names.h"
#include "base/str.h"

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

bool alloc_is_client_terminal(const struct alloc *alloc)
{
	return alloc->client_status == CLIENT_COMPLETE || alloc->client_status == CLIENT_FAILED ||
	       alloc->client_status == CLIENT_LOST;
}

bool alloc_is_pending(const struct alloc *alloc)
{
	return alloc->node_id[0] == '\0' && alloc->desired_status == DESIRED_RUN &&
	       alloc->client_status == CLIENT_PENDING;
}

/* A copy of @n entries of @size bytes; NULL if @n is 0. False without memory. */
static bool copy_list(const void *from, uint32_t n, size_t size, void *ret)
{
	void *copy = n > 0 ? reallocarray(NULL, n, size) : NULL;

	if (copy)
		memcpy(copy, from, n * size);
	memcpy(ret, &copy, sizeof(copy));
	return copy || n == 0;
}

/* A copy of its own, if there is a text. False without memory. */
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
	bool has_plugins =
		copy_list(alloc->plugins, alloc->n_plugins, sizeof(*alloc->plugins), &alloc->plugins);
	bool has_unit = own_text(&alloc->unit);
	bool has_description = own_text(&alloc->client_description);
	bool has_wait_node = own_text(&alloc->wait_node_id);

	alloc->tasks = message_list_ref(alloc->tasks);
	alloc->constraints = message_list_ref(alloc->constraints);
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
	free(alloc->plugins);
	free(alloc->unit);
	free(alloc->client_description);
	free(alloc->wait_node_id);
	message_list_unref(alloc->tasks);
	message_list_unref(alloc->constraints);
	message_list_unref(alloc->task_status);
	message_list_unref(alloc->events);
	alloc->tasks = alloc->constraints = alloc->task_status = alloc->events = NULL;
	alloc->volumes = NULL;
	alloc->published = NULL;
	alloc->plugins = NULL;
	alloc->unit = NULL;
	alloc->client_description = NULL;
	alloc->wait_node_id = NULL;
	alloc->n_volumes = alloc->n_published = alloc->n_plugins = 0;
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

const struct volume_request *alloc_find_volume(const struct alloc *alloc, const char *name)
{
	for (uint32_t i = 0; i < alloc->n_volumes; i++)
		if (str_eq(alloc->volumes[i].name, name))
			return &alloc->volumes[i];
	return NULL;
}

const struct volume_request *alloc_asks_for(const struct alloc *alloc, const struct claim *claim)
{
	if (alloc->adopted || !str_eq(alloc->node_id, claim->node_id) ||
	    !str_eq(alloc->namespace, claim->namespace))
		return NULL;
	for (uint32_t i = 0; i < alloc->n_volumes; i++)
		if (str_eq(alloc->volumes[i].source, claim->volume_id) &&
		    volume_request_mode(&alloc->volumes[i]) == claim->mode)
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

const struct csi_plugin *alloc_find_plugin(const struct alloc *alloc, const char *id)
{
	for (uint32_t i = 0; i < alloc->n_plugins; i++)
		if (str_eq(alloc->plugins[i].id, id))
			return &alloc->plugins[i];
	return NULL;
}

bool alloc_plugins_eq(const struct alloc *a, const struct alloc *b)
{
	bool is_same = a->n_plugins == b->n_plugins;

	for (uint32_t i = 0; is_same && i < a->n_plugins; i++)
		is_same = csi_plugin_eq(&a->plugins[i], &b->plugins[i]);
	return is_same;
}

void alloc_plugins_text(const struct alloc *alloc, const bool *only, char text[ALLOC_PLUGINS_TEXT_SIZE])
{
	size_t n = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < alloc->n_plugins; i++)
		if (!only || only[i])
			n += (size_t)str_format(text + n, ALLOC_PLUGINS_TEXT_SIZE - n, "%s%s",
						n > 0 ? ", " : "", alloc->plugins[i].id);
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

struct capability volume_request_capability(const struct volume_request *request)
{
	return (struct capability){request->access_mode, request->attachment_mode};
}
