/* SPDX-License-Identifier: Apache-2.0 */
#include "policy.h"

#include "container.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "model/task_limits.h"
#include "model/task_mounts.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#define USER_OF_IMAGE "image"

static bool is_listed(const char *list, size_t n, size_t size, const char *text)
{
	for (size_t i = 0; i < n && list[i * size] != '\0'; i++)
		if (str_eq(list + i * size, text))
			return true;
	return false;
}
#define IS_LISTED(list, text) is_listed((list)[0], ARRAY_SIZE(list), sizeof((list)[0]), (text))

static bool is_image_listed(const char (*list)[SETTINGS_TEXT_SIZE], size_t max, const char *image)
{
	for (size_t i = 0; i < max && list[i][0] != '\0'; i++)
		if (task_limits_allow(list[i], image))
			return true;
	return false;
}

static enum status refuse(const struct settings *settings, const char **ret_reason, const char *setting,
			  const char *asked, struct error *err)
{
	*ret_reason = setting;
	return error_set(err, STATUS_PERMISSION_DENIED, 0,
			 "%s of '%.128s' is not allowed on this node: root allows it by %s in %s", setting,
			 asked, setting, settings->path);
}

bool policy_names_root(const struct settings *settings)
{
	return IS_LISTED(settings->users, "0") || IS_LISTED(settings->users, "root");
}

/* Checks the user against the list. A keyword, which is no valid user name, lists the image's own user. */
static enum status check_user(const struct settings *settings, const char *user, const char **ret_reason,
			      struct error *err)
{
	if (!str_eq(user, USER_OF_IMAGE) &&
	    IS_LISTED(settings->users, user[0] != '\0' ? user : USER_OF_IMAGE))
		return STATUS_OK;
	return refuse(settings, ret_reason, "users", user[0] != '\0' ? user : "the image's user", err);
}

/* @plugin NULL: not a plugin */
static enum status check_config(const struct settings *settings, const struct task_spec *spec,
				const struct settings_plugin *plugin, const char **ret_reason,
				struct error *err)
{
	for (size_t i = 0; spec->cap_add && i < spec->cap_add->n_list; i++)
		if (!IS_LISTED(settings->capabilities, spec->cap_add->list[i]) &&
		    !(plugin && IS_LISTED(plugin->capabilities, spec->cap_add->list[i])))
			return refuse(settings, ret_reason, "capabilities", spec->cap_add->list[i], err);
	for (size_t i = 0; spec->host_paths && i < spec->host_paths->n_map; i++)
		if (!IS_LISTED(settings->host_paths, spec->host_paths->map[i]->key))
			return refuse(settings, ret_reason, "host_paths", spec->host_paths->map[i]->key, err);
	if (spec->privileged && spec->privileged->flag && !settings->privileged &&
	    !(plugin && plugin->privileged))
		return refuse(settings, ret_reason, "privileged", "true", err);
	return STATUS_OK;
}

enum status policy_check_network(const struct settings *settings, Holdfast__Driver__V1__NetworkMode mode,
				 const char **ret_reason, struct error *err)
{
	const char *name = mode == HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_HOST       ? "host"
			   : mode == HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED ? "isolated"
											       : "none";

	if (!IS_LISTED(settings->networks, name))
		return refuse(settings, ret_reason, "networks", name, err);
	if (str_eq(name, "isolated") && settings->infra_image[0] == '\0')
		return refuse(settings, ret_reason, "infra", "an isolated network", err);
	return STATUS_OK;
}

/* An order could be older than the server's own check, and only the driver knows a plugin's folder. */
static enum status check_mounts(const struct settings *settings, const Holdfast__Driver__V1__TaskConfig *task,
				const char **ret_reason, struct error *err)
{
	bool has_stage = task->csi_plugin && task->csi_plugin->mounts;
	char stage[PATH_MAX];
	enum status status;

	if (has_stage && !container_stage(settings, task->csi_plugin->id, stage))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "stage_dir is too long");
	status = task_mounts_check(task, true, has_stage ? stage : NULL, err);
	if (status != STATUS_OK)
		*ret_reason = "propagation";
	return status;
}

enum status policy_check_task(const struct settings *settings, const struct task_spec *spec,
			      const char **ret_reason, struct error *err)
{
	assert(spec->image);

	const Holdfast__Driver__V1__CsiPluginMount *asked = spec->task->csi_plugin;
	const struct settings_plugin *plugin = asked ? settings_plugin(settings, asked->id) : NULL;

	if (asked && !plugin)
		return refuse(settings, ret_reason, "csi_plugin", asked->id, err);
	if (plugin ? !is_image_listed(plugin->images, SETTINGS_PLUGIN_IMAGES_MAX, spec->image->text)
		   : !is_image_listed(settings->images, SETTINGS_LIST_MAX, spec->image->text))
		return refuse(settings, ret_reason, "images", spec->image->text, err);
	TRY(check_user(settings, spec->task->user, ret_reason, err));
	TRY(policy_check_network(settings, spec->task->network, ret_reason, err));
	TRY(check_mounts(settings, spec->task, ret_reason, err));
	return check_config(settings, spec, plugin, ret_reason, err);
}

enum status policy_check_exec(const struct settings *settings, const char *user, const char **ret_reason,
			      struct error *err)
{
	return user[0] == '\0' ? STATUS_OK : check_user(settings, user, ret_reason, err);
}
