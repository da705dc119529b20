/* SPDX-License-Identifier: Apache-2.0 */
#include "settings.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/path.h"
#include "base/str.h"
#include "conf/conf.h"
#include "rpc/scrape.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

enum { KEY_TEXT_SIZE = 2 * ORDER_KEY_SIZE + 1 };

/* While the file is read. */
struct reading {
	struct settings settings;
	char keys[SETTINGS_KEYS_MAX][KEY_TEXT_SIZE];
};

#define MEMBER(key_, type_, member)                                                          \
	.key = (key_), .type = (type_), .offset = offsetof(struct reading, settings.member), \
	.size = sizeof(((struct reading *)0)->settings.member)
#define LIST(key_, member)                                                                                \
	{                                                                                                 \
		.key = (key_), .type = CONF_STRINGS, .offset = offsetof(struct reading, settings.member), \
		.size = sizeof(((struct reading *)0)->settings.member[0]),                                \
		.max = ARRAY_SIZE(((struct reading *)0)->settings.member)                                 \
	}
#define TIMEOUT(key_, member)                                                                              \
	{                                                                                                  \
		.key = (key_), .type = CONF_DURATION, .offset = offsetof(struct reading, settings.member), \
		.min = 100 * USEC_PER_MSEC, .max = 3600 * USEC_PER_SEC                                     \
	}

static const struct conf_field infra_fields[] = {
	{MEMBER("image", CONF_STRING, infra_image), .required = true},
	LIST("command", infra_command),
};

#define PLUGIN_LIST(key_, member)                                                                        \
	{                                                                                                \
		.key = (key_), .type = CONF_STRINGS, .offset = offsetof(struct settings_plugin, member), \
		.size = sizeof(((struct settings_plugin *)0)->member[0]),                                \
		.max = ARRAY_SIZE(((struct settings_plugin *)0)->member)                                 \
	}

static const struct conf_field plugin_fields[] = {
	PLUGIN_LIST("images", images),
	PLUGIN_LIST("capabilities", capabilities),
	{.key = "privileged", .type = CONF_BOOL, .offset = offsetof(struct settings_plugin, privileged)},
};

static enum status bind_plugin(const struct conf *conf, const char *label, json_t *body, void *target,
			       struct error *err)
{
	struct settings *s = &((struct reading *)target)->settings;
	struct settings_plugin *plugin = s->csi_plugins;

	while (plugin < s->csi_plugins + SETTINGS_PLUGINS_MAX && plugin->id[0] != '\0')
		plugin++;
	if (plugin == s->csi_plugins + SETTINGS_PLUGINS_MAX)
		return conf_error(conf, conf_root(conf), "csi_plugin", err,
				  "csi_plugin: more than %d of them", SETTINGS_PLUGINS_MAX);
	if (!label || !id_is_plugin(label))
		return conf_error(
			conf, conf_root(conf), "csi_plugin", err,
			"csi_plugin \"ID\" { }: ID is the plugin's, 1 to 63 of a-z, 0-9, - and, inside, "
			"dots");
	(void)str_copy(plugin->id, sizeof(plugin->id), label);
	return conf_bind(conf, body, plugin_fields, ARRAY_SIZE(plugin_fields), plugin, err);
}

const struct settings_plugin *settings_plugin(const struct settings *settings, const char *id)
{
	for (size_t i = 0; i < SETTINGS_PLUGINS_MAX && settings->csi_plugins[i].id[0] != '\0'; i++)
		if (str_eq(settings->csi_plugins[i].id, id))
			return &settings->csi_plugins[i];
	return NULL;
}

uint32_t settings_stop_seconds(const struct settings *settings, uint32_t ms)
{
	uint64_t us = ms * USEC_PER_MSEC;

	us = us < settings->max_stop_timeout_us ? us : settings->max_stop_timeout_us;
	return (uint32_t)((us + USEC_PER_SEC - 1) / USEC_PER_SEC);
}

static const struct conf_field top_fields[] = {
	{MEMBER("cluster", CONF_STRING, cluster), .required = true},
	{MEMBER("node_id", CONF_STRING, node_id), .required = true},
	{.key = "ticket_keys",
	 .type = CONF_STRINGS,
	 .offset = offsetof(struct reading, keys),
	 .size = KEY_TEXT_SIZE,
	 .max = SETTINGS_KEYS_MAX,
	 .required = true},
	{MEMBER("agent_user", CONF_STRING, agent_user)},
	{MEMBER("socket", CONF_PATH, socket)},
	{MEMBER("engine", CONF_PATH, engine_socket), .required = true},
	{MEMBER("metrics", CONF_STRING, metrics)},
	{MEMBER("publish_dir", CONF_PATH, publish_dir)},
	{MEMBER("state_dir", CONF_PATH, state_dir)},
	{MEMBER("plugin_dir", CONF_PATH, plugin_dir)},
	{MEMBER("stage_dir", CONF_PATH, stage_dir)},
	TIMEOUT("engine_timeout", engine_timeout_us),
	TIMEOUT("pull_timeout", pull_timeout_us),
	TIMEOUT("max_stop_timeout", max_stop_timeout_us),
	LIST("images", images),
	{.key = "users",
	 .type = CONF_STRINGS,
	 .offset = offsetof(struct reading, settings.users),
	 .size = SETTINGS_USER_SIZE,
	 .max = SETTINGS_LIST_MAX,
	 .required = true},
	LIST("capabilities", capabilities),
	LIST("host_paths", host_paths),
	LIST("networks", networks),
	{MEMBER("privileged", CONF_BOOL, privileged)},
	{MEMBER("pull", CONF_BOOL, pull)},
	{MEMBER("old_runc", CONF_STRING, old_runc)},
	{MEMBER("nofile", CONF_U32, nofile)},
	{MEMBER("nproc", CONF_U32, nproc)},
	{MEMBER("max_memory", CONF_SIZE, max_memory), .max = INT64_MAX / 2},
	{MEMBER("max_pids", CONF_U32, max_pids)},
	{.key = "infra", .type = CONF_BLOCKS, .fields = infra_fields, .n_fields = ARRAY_SIZE(infra_fields)},
	{.key = "csi_plugin", .type = CONF_BLOCKS, .block = bind_plugin},
};

static void set_defaults(struct settings *s)
{
	*s = (struct settings){
		.agent_user = "holdfast",
		.socket = "/run/holdfast/drivers/container/driver.sock",
		.publish_dir = "/run/holdfast-mount/publish",
		.state_dir = "/var/lib/holdfast-driver",
		.plugin_dir = "/run/holdfast/plugins",
		.stage_dir = "/run/holdfast-mount/stage",
		.engine_timeout_us = 30 * USEC_PER_SEC,
		.pull_timeout_us = 600 * USEC_PER_SEC,
		.max_stop_timeout_us = 3600 * USEC_PER_SEC,
		.networks = {"none", "isolated"},
		.old_runc = "refuse",
		.infra_command = {"/bin/sleep", "2147483647"},
	};
}

static enum status apply_keys(struct reading *reading, const struct conf *conf, struct error *err)
{
	struct settings *s = &reading->settings;

	for (size_t i = 0; i < SETTINGS_KEYS_MAX && reading->keys[i][0] != '\0'; i++)
		if (hex_decode(s->keys[s->n_keys++], ORDER_KEY_SIZE, reading->keys[i]) < 0)
			return conf_error(conf, conf_root(conf), "ticket_keys", err,
					  "ticket_keys: '%.8s...' is no public key of %d hex digits",
					  reading->keys[i], 2 * ORDER_KEY_SIZE);
	if (s->n_keys == 0)
		return conf_error(conf, conf_root(conf), "ticket_keys", err,
				  "ticket_keys: names no key, so that no order could be taken");
	return STATUS_OK;
}

static enum status check_answer(const struct conf *conf, const char *key, const char *value,
				struct error *err)
{
	if (str_eq(value, "refuse") || str_eq(value, "accept"))
		return STATUS_OK;
	return conf_error(conf, conf_root(conf), key, err, "%s: '%s' is neither refuse nor accept", key,
			  value);
}

/* Refuses values that never match anything. */
static enum status check_lists(const struct settings *s, const struct conf *conf, struct error *err)
{
	for (size_t i = 0; i < SETTINGS_LIST_MAX && s->host_paths[i][0] != '\0'; i++)
		if (!path_is_normal(s->host_paths[i]) || str_eq(s->host_paths[i], "/"))
			return conf_error(conf, conf_root(conf), "host_paths", err,
					  "host_paths: '%.64s' is no absolute path below /",
					  s->host_paths[i]);
	if (s->metrics[0] != '\0' && !scrape_address_is_valid(s->metrics))
		return conf_error(conf, conf_root(conf), "metrics", err,
				  "metrics: '%s' is neither HOST:PORT nor the path of a socket", s->metrics);
	TRY(check_answer(conf, "old_runc", s->old_runc, err));
	for (size_t i = 0; i < ARRAY_SIZE(s->networks) && s->networks[i][0] != '\0'; i++)
		if (!str_eq(s->networks[i], "host") && !str_eq(s->networks[i], "none") &&
		    !str_eq(s->networks[i], "isolated"))
			return conf_error(conf, conf_root(conf), "networks", err,
					  "networks: '%s' is none of host, none and isolated",
					  s->networks[i]);
	return STATUS_OK;
}

/* Refuses a beginning that may end within the name of a registry. */
static enum status check_images(const char (*list)[SETTINGS_TEXT_SIZE], size_t max, const struct conf *conf,
				struct error *err)
{
	for (size_t i = 0; i < max && list[i][0] != '\0'; i++) {
		size_t n = strlen(list[i]) - 1;

		if (list[i][n] == '*' && n > 0 && !strchr(list[i], '/') && list[i][n - 1] != ':' &&
		    list[i][n - 1] != '@')
			return conf_error(
				conf, conf_root(conf), "images", err,
				"images: '%s' also allows '%.*s.example.net/x', another registry: end "
				"it with '/*', ':*' or '@*'",
				list[i], (int)n, list[i]);
	}
	return STATUS_OK;
}

static enum status check_capabilities(const char list[][SETTINGS_CAPABILITY_SIZE], const struct conf *conf,
				      struct error *err)
{
	for (size_t i = 0; i < SETTINGS_CAPABILITIES_MAX && list[i][0] != '\0'; i++)
		if (!str_starts_with(list[i], "CAP_"))
			return conf_error(conf, conf_root(conf), "capabilities", err,
					  "capabilities: '%s' is not written as in CAP_NET_BIND_SERVICE",
					  list[i]);
	return STATUS_OK;
}

enum status settings_parse(const char *text, const char *name, struct settings *ret, struct error *err)
{
	cleanup(conf_freep) struct conf *conf = NULL;
	cleanup_free struct reading *reading = calloc(1, sizeof(*reading));
	enum status status;

	if (!reading)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "read %s", name);
	set_defaults(&reading->settings);
	status = conf_parse(text, name, &conf, err);
	if (status == STATUS_OK)
		status = conf_bind(conf, conf_root(conf), top_fields, ARRAY_SIZE(top_fields), reading, err);
	if (status == STATUS_OK)
		status = apply_keys(reading, conf, err);
	if (status == STATUS_OK)
		status = check_lists(&reading->settings, conf, err);
	if (status == STATUS_OK)
		status = check_images(reading->settings.images, SETTINGS_LIST_MAX, conf, err);
	if (status == STATUS_OK)
		status = check_capabilities(reading->settings.capabilities, conf, err);
	for (size_t i = 0; i < SETTINGS_PLUGINS_MAX && status == STATUS_OK; i++) {
		const struct settings_plugin *plugin = &reading->settings.csi_plugins[i];

		status = check_images(plugin->images, SETTINGS_PLUGIN_IMAGES_MAX, conf, err);
		if (status == STATUS_OK)
			status = check_capabilities(plugin->capabilities, conf, err);
	}
	if (status != STATUS_OK)
		return status;
	if (!id_is_name(reading->settings.node_id, sizeof(reading->settings.node_id) - 1))
		return conf_error(conf, conf_root(conf), "node_id", err, "node_id: is no name of a node");
	(void)str_copy(reading->settings.path, sizeof(reading->settings.path), name);
	*ret = reading->settings;
	return STATUS_OK;
}

enum status settings_load(const char *path, struct settings *ret, struct error *err)
{
	cleanup_free char *text = NULL;

	TRY(conf_read_trusted(path, "is the limit of what tasks may do", &text, err));
	return settings_parse(text, path, ret, err);
}
