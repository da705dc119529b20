/* SPDX-License-Identifier: Apache-2.0 */
#include "model/alloc_validate.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"
#include "model/constraint.h"
#include "model/task.h"

#include <inttypes.h>
#include <string.h>

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
	if (!id_is_plugin(plugin->id) || str_eq(plugin->id, PLUGIN_NATIVE))
		return error_invalid(
			err, field,
			"id '%s' is not the id of a CSI plugin: 1 to %d of a-z 0-9 - and, inside, "
			"dots, "
			"not " PLUGIN_NATIVE,
			plugin->id, PLUGIN_ID_MAX);
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
	enum status status = STATUS_OK;

	for (uint32_t i = 0; i < alloc->n_plugins; i++) {
		const struct csi_plugin *plugin = &alloc->plugins[i];
		char field[ERROR_FIELD_SIZE] = "csi_plugin";
		struct error one;
		enum status valid;

		if (i > 0)
			(void)str_format(field, sizeof(field), "csi_plugin[%" PRIu32 "]", i);
		valid = validate_csi_plugin(plugin, field, &one);
		if (valid == STATUS_OK && status == STATUS_OK &&
		    alloc_find_plugin(alloc, plugin->id) != plugin)
			valid = error_invalid(&one, field,
					      "id '%s' is that of two blocks: an allocation runs each plugin "
					      "once",
					      plugin->id);
		status = error_collect(status, valid, &one, err);
	}
	return status;
}

static enum status validate_volumes(const struct alloc *alloc, struct error *err)
{
	enum status status = STATUS_OK;

	if (alloc->n_volumes == 0 && alloc->n_plugins == 0 && !alloc->tasks)
		return error_invalid(
			err, "volume", "an allocation with driver %s needs at least one volume block%s",
			alloc->driver,
			str_eq(alloc->driver, DRIVER_NONE) ? ", or a csi_plugin or task block" : "");
	for (uint32_t i = 0; i < alloc->n_volumes; i++) {
		struct error one;
		enum status valid = validate_request(&alloc->volumes[i], &one);

		if (valid == STATUS_OK)
			valid = validate_unique(alloc, i, &one);
		status = error_collect(status, valid, &one, err);
	}
	return status;
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
				     "\" starts: the name of a .service of the node");
	if (!id_is_service_unit(alloc_unit(alloc)))
		return error_invalid(
			err, "unit",
			"'%.64s' is not the full name of a service that can be started, up to %d "
			"characters, as in postgresql@15-main.service",
			alloc_unit(alloc), ID_UNIT_MAX);
	if (alloc->n_plugins > 0)
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
		validate_names,	  validate_driver,	validate_csi_plugins,	    validate_mount_timeout,
		validate_volumes, alloc_validate_tasks, alloc_validate_constraints,
	};
	enum status status = STATUS_OK;
	struct error all = {.msg = ""};

	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		struct error one;

		status = error_collect(status, checks[i](alloc, &one), &one, &all);
		if (status != STATUS_OK && status != STATUS_INVALID_ARGUMENT)
			break;
	}
	if (status != STATUS_OK && err)
		*err = all;
	return status;
}
