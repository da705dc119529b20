/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/credential.h"
#include "base/id.h"
#include "base/names.h"
#include "base/str.h"
#include "conf/conf.h"
#include "helper/client.h"
#include "plugins/plugins.h"
#include "rpc/scrape.h"
#include "status/volume_usage.h"

#include <stddef.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#define KEY_DEFAULT "/etc/holdfast/tls/node.key"

enum {
	PORT_DEFAULT = 4656,
	START_TIMEOUT_DEFAULT_S = 5,
	REQUEST_TIMEOUT_DEFAULT_S = 60,
	CLAIM_TIMEOUT_DEFAULT_S = 30,
	CONNECT_TIMEOUT_DEFAULT_S = 10,
	TIMEOUT_MIN_MS = 100,
	TIMEOUT_MAX_S = 3600,
	LEVEL_SIZE = 16,
	PLUGIN_MESSAGE_MIN = 64 << 10,
	PLUGIN_MESSAGE_MAX = 64 << 20,
	DISK_RESERVE_MIN = 1 << 20,
	DISK_RESERVE_DEFAULT = 16 << 20,
	DISK_RESERVE_MAX = 1 << 30,
};

/* While the file is read. */
struct reading {
	struct config config;
	char log_level[LEVEL_SIZE];
	const json_t *root;
};

#define FIELD_SIZE(member) sizeof(((struct reading *)0)->config.member)
#define TEXT(key_, type_, member)                                                          \
	.key = (key_), .type = (type_), .offset = offsetof(struct reading, config.member), \
	.size = FIELD_SIZE(member)
#define TIMEOUT(key_, member)                                                                            \
	{                                                                                                \
		.key = (key_), .type = CONF_DURATION, .offset = offsetof(struct reading, config.member), \
		.min = TIMEOUT_MIN_MS * USEC_PER_MSEC, .max = TIMEOUT_MAX_S * USEC_PER_SEC               \
	}

static const struct conf_field server_fields[] = {
	{TEXT("host", CONF_STRING, server.host), .required = true},
	{.key = "port",
	 .type = CONF_U32,
	 .offset = offsetof(struct reading, config.server.port),
	 .min = 1,
	 .max = 65535},
	{TEXT("server_uri", CONF_STRING, server.server_uri), .required = true},
};

static const struct conf_field tls_fields[] = {
	{TEXT("ca", CONF_PATH, tls.ca)},
	{TEXT("cert", CONF_PATH, tls.cert)},
	{TEXT("key", CONF_PATH, tls.key)},
};

static const struct conf_field helper_fields[] = {
	{TEXT("path", CONF_PATH, helper.path)},
	{TEXT("socket", CONF_PATH, helper.socket)},
	{.key = "instances",
	 .type = CONF_U32,
	 .offset = offsetof(struct reading, config.helper.instances),
	 .min = 1,
	 .max = HELPER_POOL_MAX},
	TIMEOUT("start_timeout", helper.start_timeout_us),
	TIMEOUT("request_timeout", helper.request_timeout_us),
};

static const struct conf_field task_fields[] = {
	{.key = "systemd_units",
	 .type = CONF_STRINGS,
	 .offset = offsetof(struct reading, config.task.systemd_units),
	 .size = sizeof(task_unit_name),
	 .max = TASK_UNITS_MAX},
};

static enum status bind_task(const struct conf *conf, const char *label, json_t *body, void *target,
			     struct error *err)
{
	const struct reading *reading = target;
	enum status status = conf_bind(conf, body, task_fields, ARRAY_SIZE(task_fields), target, err);

	for (size_t i = 0; status == STATUS_OK && i < TASK_UNITS_MAX; i++) {
		const char *unit = reading->config.task.systemd_units[i];

		if (unit[0] != '\0' && !id_is_service_unit(unit))
			return conf_error(
				conf, body, "systemd_units", err,
				"'%.64s' is not the full name of a service that can be started, as in "
				"postgresql@15-main.service; there are no patterns",
				unit);
	}
	return status;
}

/* meta { rack = "r1" } */
static enum status bind_meta(const struct conf *conf, const char *label, json_t *body, void *target,
			     struct error *err)
{
	struct reading *reading = target;
	struct config *config = &reading->config;
	const char *key;
	json_t *value;

	if (label)
		return conf_error(conf, body, NULL, err, "meta: it is one block without a name");
	json_object_foreach (body, key, value) {
		struct node_meta *meta = &config->meta[config->n_meta];
		const char *text = json_string_value(value);

		if (config->n_meta == NODE_META_MAX)
			return conf_error(conf, body, key, err, "meta: it has more than %d entries",
					  NODE_META_MAX);
		if (str_format(meta->name, sizeof(meta->name), "meta.%s", key) < 0 ||
		    !node_attribute_name_is_valid(meta->name))
			return conf_error(conf, body, key, err,
					  "meta: a name is 1 to %d letters, digits and . _ -",
					  NODE_ATTRIBUTE_NAME_MAX - (int)strlen("meta."));
		if (!text || !node_attribute_value_is_valid(text) ||
		    str_copy(meta->value, sizeof(meta->value), text) < 0)
			return conf_error(conf, body, key, err,
					  "meta: the value of '%s' is a text of at most %d letters, digits, "
					  "blanks and . _ - + "
					  ": ~ ( )",
					  key, NODE_ATTRIBUTE_VALUE_MAX);
		config->n_meta++;
	}
	return STATUS_OK;
}

/* --- fence "PLUGIN" { parameters { } secrets { } } --- */

static enum status bind_args_of(const struct conf *conf, const char *label, json_t *body,
				struct fence_args *args, bool is_secret, struct error *err)
{
	const char *name;
	json_t *value;

	if (label)
		return conf_error(conf, body, NULL, err, "parameters and secrets have no name");
	json_object_foreach (body, name, value) {
		const char *text = json_string_value(value);
		struct fence_arg *arg = &args->rows[args->n];

		if (args->n == FENCE_ARGS_MAX)
			return conf_error(conf, body, name, err,
					  "more than %d parameters and secrets of one plugin",
					  FENCE_ARGS_MAX);
		*arg = (struct fence_arg){.is_secret = is_secret};
		if (str_copy(arg->name, sizeof(arg->name), name) < 0 || !text ||
		    str_copy(arg->value, sizeof(arg->value), text) < 0)
			return conf_error(conf, body, name, err,
					  "'%.64s': a name has up to %d bytes, a value is a text of up to %d",
					  name, FENCE_ARG_NAME_SIZE - 1, FENCE_ARG_VALUE_SIZE - 1);
		if (is_secret && (text[0] == '\0' || text[0] == '.' || strchr(text, '/')))
			return conf_error(
				conf, body, name, err,
				"'%.64s' is not the name of a credential, as in LoadCredential=", text);
		args->n++;
	}
	return STATUS_OK;
}

static enum status bind_parameters(const struct conf *conf, const char *label, json_t *body, void *target,
				   struct error *err)
{
	return bind_args_of(conf, label, body, target, false, err);
}

static enum status bind_secrets(const struct conf *conf, const char *label, json_t *body, void *target,
				struct error *err)
{
	return bind_args_of(conf, label, body, target, true, err);
}

static const struct conf_field fence_fields[] = {
	{.key = "parameters", .type = CONF_BLOCKS, .block = bind_parameters},
	{.key = "secrets", .type = CONF_BLOCKS, .block = bind_secrets},
};

static enum status bind_fence(const struct conf *conf, const char *label, json_t *body, void *target,
			      struct error *err)
{
	struct config *config = &((struct reading *)target)->config;
	struct fence_args *args = &config->fences[config->n_fences];

	if (!label || !id_is_plugin(label))
		return conf_error(conf, body, NULL, err, "fence \"PLUGIN\": the id of a plugin is needed");
	if (config->n_fences == FENCE_ARGS_PLUGINS_MAX)
		return conf_error(conf, body, NULL, err, "more than %d blocks fence", FENCE_ARGS_PLUGINS_MAX);
	(void)str_copy(args->plugin_id, sizeof(args->plugin_id), label);
	config->n_fences++;
	return conf_bind(conf, body, fence_fields, ARRAY_SIZE(fence_fields), args, err);
}

static const struct conf_field top_fields[] = {
	{TEXT("cluster", CONF_STRING, cluster), .required = true},
	{TEXT("node_id", CONF_STRING, node_id), .required = true},
	{TEXT("data_dir", CONF_PATH, data_dir)},
	{.key = "disk_reserve",
	 .type = CONF_SIZE,
	 .offset = offsetof(struct reading, config.disk_reserve),
	 .min = DISK_RESERVE_MIN,
	 .max = DISK_RESERVE_MAX},
	{TEXT("socket", CONF_PATH, socket)},
	{TEXT("metrics", CONF_STRING, metrics)},
	{TEXT("plugin_dir", CONF_PATH, plugin_dir)},
	{TEXT("driver_dir", CONF_PATH, driver_dir)},
	TIMEOUT("plugin_probe_interval", plugin_probe_interval_us),
	TIMEOUT("plugin_wait", plugin_wait_us),
	TIMEOUT("plugin_call_timeout", plugin_call_timeout_us),
	{.key = "plugin_message_max",
	 .type = CONF_SIZE,
	 .offset = offsetof(struct reading, config.plugin_message_max),
	 .min = PLUGIN_MESSAGE_MIN,
	 .max = PLUGIN_MESSAGE_MAX},
	{.key = "volume_stats",
	 .type = CONF_DURATION,
	 .offset = offsetof(struct reading, config.volume_stats_us),
	 .max = TIMEOUT_MAX_S * USEC_PER_SEC},
	{.key = "log_level",
	 .type = CONF_STRING,
	 .offset = offsetof(struct reading, log_level),
	 .size = LEVEL_SIZE},
	TIMEOUT("claim_timeout", claim_timeout_us),
	TIMEOUT("connect_timeout", connect_timeout_us),
	{.key = "server",
	 .type = CONF_BLOCKS,
	 .fields = server_fields,
	 .n_fields = ARRAY_SIZE(server_fields)},
	{.key = "servers",
	 .type = CONF_STRINGS,
	 .offset = offsetof(struct reading, config.servers),
	 .size = RPC_SERVER_NAME_SIZE,
	 .max = RPC_SERVERS_MAX},
	{.key = "tls", .type = CONF_BLOCKS, .fields = tls_fields, .n_fields = ARRAY_SIZE(tls_fields)},
	{.key = "helper",
	 .type = CONF_BLOCKS,
	 .fields = helper_fields,
	 .n_fields = ARRAY_SIZE(helper_fields)},
	{.key = "task", .type = CONF_BLOCKS, .block = bind_task},
	{.key = "meta", .type = CONF_BLOCKS, .block = bind_meta},
	{.key = "fence", .type = CONF_BLOCKS, .block = bind_fence},
};

static const char *const level_names[LOG_DEBUG + 1] = {
	[LOG_ERR] = "error", [LOG_WARNING] = "warning", [LOG_NOTICE] = "notice",
	[LOG_INFO] = "info", [LOG_DEBUG] = "debug",
};

int config_log_level(const char *word)
{
	return names_find(level_names, ARRAY_SIZE(level_names), word);
}

void config_init(struct config *config)
{
	*config = (struct config){
		.data_dir = "/var/lib/holdfast/agent",
		.disk_reserve = DISK_RESERVE_DEFAULT,
		.socket = "/run/holdfast/agent.sock",
		.plugin_dir = "/run/holdfast/plugins",
		.driver_dir = "/run/holdfast/drivers",
		.plugin_probe_interval_us = PLUGIN_PROBE_INTERVAL_DEFAULT_MS * USEC_PER_MSEC,
		.plugin_wait_us = PLUGIN_WAIT_DEFAULT_MS * USEC_PER_MSEC,
		.plugin_call_timeout_us = PLUGIN_CALL_TIMEOUT_DEFAULT_MS * USEC_PER_MSEC,
		.plugin_message_max = CSI_MESSAGE_MAX,
		.volume_stats_us = VOLUME_USAGE_DEFAULT_MS * USEC_PER_MSEC,
		.log_level = LOG_INFO,
		.claim_timeout_us = CLAIM_TIMEOUT_DEFAULT_S * USEC_PER_SEC,
		.connect_timeout_us = CONNECT_TIMEOUT_DEFAULT_S * USEC_PER_SEC,
		.server = {.port = PORT_DEFAULT},
		.tls = {.ca = "/etc/holdfast/tls/ca.pem", .cert = "/etc/holdfast/tls/node.pem"},
		.helper = {.path = HOLDFAST_MOUNTHELPER_PATH,
			   .instances = HELPER_POOL_DEFAULT,
			   .start_timeout_us = START_TIMEOUT_DEFAULT_S * USEC_PER_SEC,
			   .request_timeout_us = REQUEST_TIMEOUT_DEFAULT_S * USEC_PER_SEC},
	};
}

static enum status check_server(const struct conf *conf, const struct reading *reading,
				const char *uri_prefix, struct error *err)
{
	const struct config *config = &reading->config;
	json_t *block = json_object_get(reading->root, "server");

	if (!block)
		return conf_error(
			conf, reading->root, NULL, err,
			"no server is named: servers = [\"HOST:PORT\", ...], or a block server { }");
	if (!str_starts_with(config->server.server_uri, uri_prefix))
		return conf_error(conf, block, "server_uri", err,
				  "server_uri '%s': the server's identity begins with '%s'",
				  config->server.server_uri, uri_prefix);
	if (config->server.host[0] == '\0')
		return conf_error(conf, block, "host", err, "host: the server's address or name is missing");
	return STATUS_OK;
}

/* Any server of the cluster is meant. */
static enum status check_servers(const struct conf *conf, struct reading *reading, const char *uri_prefix,
				 struct error *err)
{
	struct config *config = &reading->config;
	struct rpc_address address;

	if (json_object_get(reading->root, "server"))
		return conf_error(conf, reading->root, "servers", err,
				  "servers: a list, or a block server { }, not both");
	for (size_t i = 0; i < RPC_SERVERS_MAX && config->servers[i][0] != '\0'; i++)
		if (rpc_address_parse(config->servers[i], &address) < 0)
			return conf_error(conf, reading->root, "servers", err,
					  "servers: '%s' is not an address: HOST:PORT, [V6ADDRESS]:PORT",
					  config->servers[i]);
	(void)str_copy(config->server.server_uri, sizeof(config->server.server_uri), uri_prefix);
	return STATUS_OK;
}

/* Checks the conditions that the table of fields does not express. */
static enum status config_check(const struct conf *conf, struct reading *reading, struct error *err)
{
	struct config *config = &reading->config;
	char uri_prefix[CONFIG_HOST_SIZE];
	enum status status;

	if (!id_is_name(config->cluster, CONFIG_NAME_SIZE - 1))
		return conf_error(conf, reading->root, "cluster", err,
				  "cluster '%s': a name is 1 to %d of A-Z a-z 0-9 _ and -", config->cluster,
				  CONFIG_NAME_SIZE - 1);
	if (!id_is_name(config->node_id, CONFIG_NAME_SIZE - 1))
		return conf_error(conf, reading->root, "node_id", err,
				  "node_id '%s': a name is 1 to %d of A-Z a-z 0-9 _ and -, as in the node's "
				  "certificate",
				  config->node_id, CONFIG_NAME_SIZE - 1);
	/* any certificate of the CA would do otherwise: that of another node too */
	(void)str_format(uri_prefix, sizeof(uri_prefix), "holdfast://%s/server/", config->cluster);
	if (config->servers[0][0] != '\0')
		status = check_servers(conf, reading, uri_prefix, err);
	else
		status = check_server(conf, reading, uri_prefix, err);
	if (status != STATUS_OK)
		return status;
	if (config->metrics[0] != '\0' && !scrape_address_is_valid(config->metrics))
		return conf_error(conf, reading->root, "metrics", err,
				  "metrics: '%s' is neither HOST:PORT nor the path of a socket",
				  config->metrics);
	if (reading->log_level[0] == '\0')
		return STATUS_OK;
	config->log_level = config_log_level(reading->log_level);
	if (config->log_level < 0)
		return conf_error(conf, reading->root, "log_level", err,
				  "log_level '%s': it is error, warning, notice, info or debug",
				  reading->log_level);
	return STATUS_OK;
}

enum status config_load(const char *path, struct config *ret, struct error *err)
{
	cleanup(conf_freep) struct conf *conf = NULL;
	struct reading reading = {0};
	char folder[PATH_MAX];
	enum status status;

	status = conf_dropin_dir(path, folder, err);
	if (status == STATUS_OK)
		status = conf_load_merged(path, folder, &conf, err);
	if (status == STATUS_NOT_FOUND && access(path, F_OK) < 0)
		return error_set(err, status, 0,
				 "there is no file %s: write it, see holdfast-agent.hcl(5); then start "
				 "it again",
				 path);
	if (status != STATUS_OK)
		return status;
	config_init(&reading.config);
	reading.root = conf_root(conf);
	TRY(conf_bind(conf, conf_root(conf), top_fields, ARRAY_SIZE(top_fields), &reading, err));
	TRY(config_check(conf, &reading, err));
	reading.config.tls.key_is_default = credential_choose(
		CONFIG_KEY_CREDENTIAL, KEY_DEFAULT, reading.config.tls.key, sizeof(reading.config.tls.key));
	(void)str_copy(reading.config.path, sizeof(reading.config.path), path); /* for messages */
	*ret = reading.config;
	return STATUS_OK;
}
