/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/credential.h"
#include "base/id.h"
#include "base/str.h"
#include "conf/conf.h"
#include "rpc/address.h"
#include "state/schema.h"

#include <string.h>
#include <unistd.h>

enum {
	TICKET_TTL_MIN_S = 10,
	TICKET_TTL_DEFAULT_S = 120,
	TICKET_TTL_MAX_S = 3600,
	HEARTBEAT_MIN_S = 1,
	FENCE_RATE_DEFAULT = 3,
	FENCE_RATE_MAX = 60,
	HEARTBEAT_DEFAULT_S = 5,
	HEARTBEAT_MAX_S = 300,
	NODE_DOWN_MIN_S = 10,
	NODE_DOWN_DEFAULT_S = 300,
	NODE_DOWN_MAX_S = 7 * 24 * 3600,
	CONTROLLER_TIMEOUT_MIN_S = 1,
	CONTROLLER_TIMEOUT_MAX_S = 3600,
	RESERVATION_TTL_MIN_S = 1,
	RESERVATION_TTL_DEFAULT_S = 300,
	RESERVATION_TTL_MAX_S = 86400,
	RELEASE_SWEEP_MIN_S = 1,
	RELEASE_SWEEP_DEFAULT_S = 60,
	RELEASE_SWEEP_MAX_S = 3600,
	GC_INTERVAL_MIN_S = 10,
	GC_INTERVAL_DEFAULT_S = 300,
	GC_AFTER_MIN_S = 60,
	GC_AFTER_DEFAULT_S = 24 * 3600,
	PORT_DEFAULT = 4656,
	DISK_RESERVE_MIN = 16 << 20,
	DISK_RESERVE_DEFAULT = 64 << 20,
	DISK_RESERVE_MAX = 1 << 30,
	NAMESPACE_MEMORY_MIN = 16 << 20,
	NAMESPACE_MEMORY_DEFAULT = 1 << 30,
	AUDIT_KEEP_MIN = 1000,
	AUDIT_KEEP_DEFAULT = 100000,
	AUDIT_KEEP_MAX = 100000000,
	AUDIT_KEEP_FOR_DEFAULT_DAYS = 90,
	AUDIT_KEEP_FOR_MAX_DAYS = 36500,
	LIFE_MIN_S = 10,
	LIFE_MAX_DAYS = 365,
	NODE_LIFE_DEFAULT_DAYS = 7,
	OPERATOR_LIFE_DEFAULT_S = 12 * 3600,
	SERVER_LIFE_DEFAULT_DAYS = 120, /* renewed before the warning of 30 days */
};

#define USEC_PER_DAY (UINT64_C(24) * 3600 * USEC_PER_SEC)

void config_init(struct config *config)
{
	*config = (struct config){
		.cluster = "holdfast",
		.data_dir = "/var/lib/holdfast/server",
		.host = "127.0.0.1",
		.port = PORT_DEFAULT,
		.socket = "/run/holdfast-server/server.sock",
		.disk_reserve = DISK_RESERVE_DEFAULT,
		.ca = "/etc/holdfast/tls/ca.pem",
		.cert = "/etc/holdfast/tls/server.pem",
		.ticket_ttl_us = TICKET_TTL_DEFAULT_S * USEC_PER_SEC,
		.heartbeat_us = HEARTBEAT_DEFAULT_S * USEC_PER_SEC,
		.fence_max_per_minute = FENCE_RATE_DEFAULT,
		.node_down_after_us = NODE_DOWN_DEFAULT_S * USEC_PER_SEC,
		.gc_interval_us = GC_INTERVAL_DEFAULT_S * USEC_PER_SEC,
		.gc_after_us = GC_AFTER_DEFAULT_S * USEC_PER_SEC,
		.controller_timeout_us = CONFIG_CONTROLLER_TIMEOUT_MS * USEC_PER_MSEC,
		.reservation_ttl_us = RESERVATION_TTL_DEFAULT_S * USEC_PER_SEC,
		.release_sweep_us = RELEASE_SWEEP_DEFAULT_S * USEC_PER_SEC,
		.namespace_memory = NAMESPACE_MEMORY_DEFAULT,
		.audit_keep = AUDIT_KEEP_DEFAULT,
		.audit_keep_for_us = AUDIT_KEEP_FOR_DEFAULT_DAYS * USEC_PER_DAY,
		.authority = {.node_life_us = NODE_LIFE_DEFAULT_DAYS * USEC_PER_DAY,
			      .operator_life_us = OPERATOR_LIFE_DEFAULT_S * USEC_PER_SEC,
			      .server_life_us = SERVER_LIFE_DEFAULT_DAYS * USEC_PER_DAY},
		.acl = true,
		.etcd = LEAD_SETTINGS_INIT(SCHEMA_VERSION),
	};
}

#define PATH(member)                                                                          \
	{                                                                                     \
		.key = #member, .type = CONF_PATH, .offset = offsetof(struct config, member), \
		.size = sizeof(((struct config *)0)->member)                                  \
	}

static const struct conf_field listen_fields[] = {
	{.key = "host",
	 .type = CONF_STRING,
	 .offset = offsetof(struct config, host),
	 .size = sizeof(((struct config *)0)->host)},
	{.key = "port", .type = CONF_U32, .offset = offsetof(struct config, port), .min = 1, .max = 65535},
	PATH(socket),
	{.key = "operators",
	 .type = CONF_STRINGS,
	 .offset = offsetof(struct config, operators),
	 .size = sizeof(((struct config *)0)->operators[0]),
	 .max = LOCAL_OPERATORS_MAX},
};

static const struct conf_field authority_fields[] = {
	{.key = "certificate",
	 .type = CONF_PATH,
	 .offset = offsetof(struct config, authority.certificate),
	 .size = sizeof(((struct config *)0)->authority.certificate),
	 .required = true},
	{.key = "key",
	 .type = CONF_PATH,
	 .offset = offsetof(struct config, authority.key),
	 .size = sizeof(((struct config *)0)->authority.key)},
	{.key = "node_life",
	 .type = CONF_DURATION,
	 .offset = offsetof(struct config, authority.node_life_us),
	 .min = LIFE_MIN_S * USEC_PER_SEC,
	 .max = LIFE_MAX_DAYS * USEC_PER_DAY},
	{.key = "operator_life",
	 .type = CONF_DURATION,
	 .offset = offsetof(struct config, authority.operator_life_us),
	 .min = LIFE_MIN_S * USEC_PER_SEC,
	 .max = LIFE_MAX_DAYS * USEC_PER_DAY},
	{.key = "server_life",
	 .type = CONF_DURATION,
	 .offset = offsetof(struct config, authority.server_life_us),
	 .min = LIFE_MIN_S * USEC_PER_SEC,
	 .max = LIFE_MAX_DAYS * USEC_PER_DAY},
};

static const struct conf_field tls_fields[] = {PATH(ca), PATH(cert), PATH(key)};

/* The address and the names are checked here, as a reload takes settings that a start would refuse. */
static enum status bind_listen(const struct conf *conf, const char *label, json_t *body, void *target,
			       struct error *err)
{
	struct config *config = target;

	TRY(conf_bind(conf, body, listen_fields, ARRAY_SIZE(listen_fields), config, err));
	if (!rpc_is_numeric_host(config->host))
		return conf_error(conf, body, "host", err, "host: '%s' is no IPv4 or IPv6 address",
				  config->host);
	for (size_t i = 0; i < LOCAL_OPERATORS_MAX && config->operators[i][0] != '\0'; i++)
		if (!id_is_name(config->operators[i], NODE_ID_MAX))
			return conf_error(conf, body, "operators", err,
					  "operators: '%s' is no name of a user (A-Z a-z 0-9 _ and -)",
					  config->operators[i]);
	return STATUS_OK;
}

static enum status bind_store(const struct conf *conf, const char *label, json_t *body, void *target,
			      struct error *err)
{
	struct config *config = target;

	return lead_settings_bind(conf, label, body, &config->etcd, err);
}

static enum status bind_controller(const struct conf *conf, const char *label, json_t *body, void *target,
				   struct error *err)
{
	struct config *config = target;

	return controller_nodes_bind(conf, label, body, &config->controller_nodes, err);
}

static enum status bind_plugin(const struct conf *conf, const char *label, json_t *body, void *target,
			       struct error *err)
{
	struct config *config = target;

	return parameters_bind(conf, label, body, &config->parameters, err);
}

static enum status bind_fencer(const struct conf *conf, const char *label, json_t *body, void *target,
			       struct error *err)
{
	struct config *config = target;

	return fence_bindings_bind(conf, label, body, &config->fence_bindings, err);
}

static enum status check_forbidden(const struct conf *conf, const struct config *config, struct error *err)
{
	for (size_t i = 0; i < CONFIG_FORBIDDEN_MAX && config->attest_forbidden[i][0] != '\0'; i++)
		if (!id_is_plugin(config->attest_forbidden[i]))
			return conf_error(conf, conf_root(conf), "attest_forbidden_plugins", err,
					  "attest_forbidden_plugins: '%s' is no plugin id",
					  config->attest_forbidden[i]);
	return STATUS_OK;
}

static const struct conf_field top_fields[] = {
	{.key = "cluster",
	 .type = CONF_STRING,
	 .offset = offsetof(struct config, cluster),
	 .size = sizeof(((struct config *)0)->cluster),
	 .required = true},
	PATH(data_dir),
	PATH(mark_file),
	{.key = "disk_reserve",
	 .type = CONF_SIZE,
	 .offset = offsetof(struct config, disk_reserve),
	 .min = DISK_RESERVE_MIN,
	 .max = DISK_RESERVE_MAX},
	PATH(ticket_key),
	PATH(kit_certificate),
	{.key = "ticket_ttl",
	 .type = CONF_DURATION,
	 .offset = offsetof(struct config, ticket_ttl_us),
	 .min = TICKET_TTL_MIN_S * USEC_PER_SEC,
	 .max = TICKET_TTL_MAX_S * USEC_PER_SEC},
	{.key = "heartbeat",
	 .type = CONF_DURATION,
	 .offset = offsetof(struct config, heartbeat_us),
	 .min = HEARTBEAT_MIN_S * USEC_PER_SEC,
	 .max = HEARTBEAT_MAX_S * USEC_PER_SEC},
	{.key = "node_down_after",
	 .type = CONF_DURATION,
	 .offset = offsetof(struct config, node_down_after_us),
	 .min = NODE_DOWN_MIN_S * USEC_PER_SEC,
	 .max = NODE_DOWN_MAX_S * USEC_PER_SEC},
	{.key = "fence_max_per_minute",
	 .type = CONF_U32,
	 .offset = offsetof(struct config, fence_max_per_minute),
	 .max = FENCE_RATE_MAX},
	{.key = "controller_timeout",
	 .type = CONF_DURATION,
	 .offset = offsetof(struct config, controller_timeout_us),
	 .min = CONTROLLER_TIMEOUT_MIN_S * USEC_PER_SEC,
	 .max = CONTROLLER_TIMEOUT_MAX_S * USEC_PER_SEC},
	{.key = "reservation_ttl",
	 .type = CONF_DURATION,
	 .offset = offsetof(struct config, reservation_ttl_us),
	 .min = RESERVATION_TTL_MIN_S * USEC_PER_SEC,
	 .max = RESERVATION_TTL_MAX_S * USEC_PER_SEC},
	{.key = "release_sweep",
	 .type = CONF_DURATION,
	 .offset = offsetof(struct config, release_sweep_us),
	 .min = RELEASE_SWEEP_MIN_S * USEC_PER_SEC,
	 .max = RELEASE_SWEEP_MAX_S * USEC_PER_SEC},
	{.key = "namespace_memory",
	 .type = CONF_SIZE,
	 .offset = offsetof(struct config, namespace_memory),
	 .min = NAMESPACE_MEMORY_MIN,
	 .max = UINT64_C(1) << 40},
	{.key = "audit_keep",
	 .type = CONF_U64,
	 .offset = offsetof(struct config, audit_keep),
	 .min = AUDIT_KEEP_MIN,
	 .max = AUDIT_KEEP_MAX},
	{.key = "audit_keep_for",
	 .type = CONF_DURATION,
	 .offset = offsetof(struct config, audit_keep_for_us),
	 .min = USEC_PER_DAY,
	 .max = AUDIT_KEEP_FOR_MAX_DAYS * USEC_PER_DAY},
	{.key = "attest_forbidden_plugins",
	 .type = CONF_STRINGS,
	 .offset = offsetof(struct config, attest_forbidden),
	 .size = sizeof(((struct config *)0)->attest_forbidden[0]),
	 .max = CONFIG_FORBIDDEN_MAX},
	{.key = "acl", .type = CONF_BOOL, .offset = offsetof(struct config, acl)},
	{.key = "gc_interval",
	 .type = CONF_DURATION,
	 .offset = offsetof(struct config, gc_interval_us),
	 .min = GC_INTERVAL_MIN_S * USEC_PER_SEC,
	 .max = USEC_PER_DAY},
	{.key = "gc_after",
	 .type = CONF_DURATION,
	 .offset = offsetof(struct config, gc_after_us),
	 .min = GC_AFTER_MIN_S * USEC_PER_SEC,
	 .max = 365 * USEC_PER_DAY},
	{.key = "listen", .type = CONF_BLOCKS, .block = bind_listen},
	{.key = "tls", .type = CONF_BLOCKS, .fields = tls_fields, .n_fields = ARRAY_SIZE(tls_fields)},
	{.key = "ca",
	 .type = CONF_BLOCKS,
	 .fields = authority_fields,
	 .n_fields = ARRAY_SIZE(authority_fields)},
	{.key = "controller", .type = CONF_BLOCKS, .block = bind_controller},
	{.key = "plugin", .type = CONF_BLOCKS, .block = bind_plugin},
	{.key = "fencer", .type = CONF_BLOCKS, .block = bind_fencer},
	{.key = "store", .type = CONF_BLOCKS, .block = bind_store},
};

static void release_conf(struct conf **conf)
{
	conf_free(*conf);
}

enum status config_load(const char *path, struct config *config, struct error *err)
{
	cleanup(release_conf) struct conf *conf = NULL;
	char dropins[PATH_MAX];
	enum status status = conf_dropin_dir(path, dropins, err);

	if (status == STATUS_OK)
		status = conf_load_merged(path, dropins, &conf, err);
	if (status == STATUS_NOT_FOUND && access(path, F_OK) < 0)
		return error_set(
			err, status, 0,
			"there is no file %s: write it, see holdfast-server.hcl(5); then: systemctl restart "
			"holdfast-server",
			path);
	if (status != STATUS_OK)
		return status;
	TRY(conf_bind(conf, conf_root(conf), top_fields, ARRAY_SIZE(top_fields), config, err));
	TRY(check_forbidden(conf, config, err));
	(void)str_copy(config->path, sizeof(config->path), path); /* it was opened, so it fits */
	config->key_is_default = credential_choose(CONFIG_KEY_CREDENTIAL, "/etc/holdfast/tls/server.key",
						   config->key, sizeof(config->key));
	config->ticket_key_is_default =
		credential_choose(CONFIG_TICKET_CREDENTIAL, "/etc/holdfast/ticket.key", config->ticket_key,
				  sizeof(config->ticket_key));
	if (config->authority.certificate[0] != '\0')
		(void)credential_choose(CONFIG_CA_CREDENTIAL, "/etc/holdfast/tls/ca.key",
					config->authority.key, sizeof(config->authority.key));
	lead_settings_complete(&config->etcd, config->cluster);
	if (!id_is_name(config->cluster, sizeof(config->cluster) - 1))
		return conf_error(conf, conf_root(conf), "cluster", err,
				  "'%s' is not a cluster's name (A-Z a-z 0-9 _ and -)", config->cluster);
	return STATUS_OK;
}
