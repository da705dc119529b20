/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/parameters.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"
#include "model/plain_options.h"

static const struct parameters_list *find(const struct parameters_lists *lists, const char *label)
{
	for (size_t i = 0; i < lists->n_lists; i++)
		if (str_eq(lists->lists[i].plugin_id, label))
			return &lists->lists[i];
	return NULL;
}

static const struct parameters_list *find_for(const struct parameters_lists *lists, const char *plugin_id)
{
	const struct parameters_list *list = find(lists, plugin_id);

	return list ? list : find(lists, PARAMETERS_ANY);
}

static const struct conf_field fields[] = {
	{.key = "fs_type",
	 .type = CONF_STRING,
	 .offset = offsetof(struct parameters_list, fs_type),
	 .size = VOLUME_FS_TYPE_MAX + 1},
	{.key = "parameters",
	 .type = CONF_STRINGS,
	 .offset = offsetof(struct parameters_list, keys[PARAMETERS_OF_CALLS]),
	 .size = PARAMETERS_KEY_SIZE,
	 .max = PARAMETERS_KEYS_MAX},
	{.key = "secrets",
	 .type = CONF_STRINGS,
	 .offset = offsetof(struct parameters_list, keys[PARAMETERS_SECRETS]),
	 .size = PARAMETERS_KEY_SIZE,
	 .max = PARAMETERS_KEYS_MAX},
};

enum status parameters_bind(const struct conf *conf, const char *label, json_t *body,
			    struct parameters_lists *lists, struct error *err)
{
	struct parameters_list list = {.plugin_id = ""};

	if (!label || (!str_eq(label, PARAMETERS_ANY) && !id_is_plugin(label)))
		return conf_error(conf, body, NULL, err,
				  "plugin: '%.64s' is no plugin id; write plugin \"ID\" { }, or "
				  "\"" PARAMETERS_ANY "\" for all that have no block of their own",
				  label ? label : "");
	if (lists->n_lists == PARAMETERS_LISTS_MAX)
		return conf_error(conf, body, NULL, err, "plugin: more than %d blocks", PARAMETERS_LISTS_MAX);
	TRY(conf_bind(conf, body, fields, ARRAY_SIZE(fields), &list, err));
	if (!fs_type_is_plain(list.fs_type))
		return conf_error(conf, body, "fs_type", err,
				  "fs_type: '%s' is no file system that holdfast-volume(5) lists",
				  list.fs_type);
	(void)str_copy(list.plugin_id, sizeof(list.plugin_id), label);
	lists->lists[lists->n_lists++] = list;
	return STATUS_OK;
}

static bool is_listed(const struct parameters_list *list, enum parameters_kind kind, const char *key)
{
	for (size_t i = 0; list && i < PARAMETERS_KEYS_MAX && list->keys[kind][i][0] != '\0'; i++)
		if (str_eq(list->keys[kind][i], key) || str_eq(list->keys[kind][i], PARAMETERS_ANY))
			return true;
	return false;
}

const char *parameters_find_unlisted(const struct parameters_lists *lists, const char *plugin_id,
				     enum parameters_kind kind, struct message_text_entry *const *map,
				     size_t n)
{
	const struct parameters_list *list = find_for(lists, plugin_id);

	for (size_t i = 0; i < n; i++)
		if (!is_listed(list, kind, map[i]->key))
			return map[i]->key;
	return NULL;
}

const char *parameters_fs_type(const struct parameters_lists *lists, const char *plugin_id)
{
	const struct parameters_list *list = find(lists, plugin_id);

	if (!list || list->fs_type[0] == '\0')
		list = find(lists, PARAMETERS_ANY);
	return list ? list->fs_type : "";
}
