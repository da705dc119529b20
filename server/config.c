#include "config.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "conf/conf.h"

#include <string.h>

enum {
	TICKET_TTL_MIN_S = 10,
	TICKET_TTL_DEFAULT_S = 120,
	TICKET_TTL_MAX_S = 3600,
	HEARTBEAT_MIN_S = 1,
	HEARTBEAT_DEFAULT_S = 5,
	HEARTBEAT_MAX_S = 300,
	PORT_DEFAULT = 4656,
	AUDIT_KEEP_MIN = 1000,
	AUDIT_KEEP_DEFAULT = 100000,
	AUDIT_KEEP_MAX = 100000000,
	AUDIT_KEEP_FOR_DEFAULT_DAYS = 90,
	AUDIT_KEEP_FOR_MAX_DAYS = 36500,
};

#define USEC_PER_DAY (24 * 3600 * USEC_PER_SEC)

void config_init(struct config *config)
{
	*config = (struct config){
		.cluster = "holdfast",
		.data_dir = "/var/lib/holdfast/server",
		.host = "127.0.0.1",
		.port = PORT_DEFAULT,
		.ca = "/etc/holdfast/tls/ca.pem",
		.cert = "/etc/holdfast/tls/server.pem",
		.key = "/etc/holdfast/tls/server.key",
		.ticket_key = "/etc/holdfast/ticket.key",
		.ticket_ttl_us = TICKET_TTL_DEFAULT_S * USEC_PER_SEC,
		.heartbeat_us = HEARTBEAT_DEFAULT_S * USEC_PER_SEC,
		.audit_keep = AUDIT_KEEP_DEFAULT,
		.audit_keep_for_us = AUDIT_KEEP_FOR_DEFAULT_DAYS * USEC_PER_DAY,
		.acl = true,
	};
}

static const struct conf_field listen_fields[] = {
	{.key = "host",
	 .type = CONF_STRING,
	 .offset = offsetof(struct config, host),
	 .size = sizeof(((struct config *)0)->host)},
	{.key = "port", .type = CONF_U32, .offset = offsetof(struct config, port), .min = 1, .max = 65535},
};

#define TLS_PATH(member)                                                                      \
	{                                                                                     \
		.key = #member, .type = CONF_PATH, .offset = offsetof(struct config, member), \
		.size = sizeof(((struct config *)0)->member)                                  \
	}

static const struct conf_field tls_fields[] = {TLS_PATH(ca), TLS_PATH(cert), TLS_PATH(key)};

static enum status bind_listen(const struct conf *conf, const char *label, json_t *body, void *target,
			       struct error *err)
{
	(void)label;
	return conf_bind(conf, body, listen_fields, ARRAY_SIZE(listen_fields), target, err);
}

static enum status bind_tls(const struct conf *conf, const char *label, json_t *body, void *target,
			    struct error *err)
{
	(void)label;
	return conf_bind(conf, body, tls_fields, ARRAY_SIZE(tls_fields), target, err);
}

static const struct conf_field top_fields[] = {
	{.key = "cluster",
	 .type = CONF_STRING,
	 .offset = offsetof(struct config, cluster),
	 .size = sizeof(((struct config *)0)->cluster),
	 .required = true},
	TLS_PATH(data_dir),
	TLS_PATH(ticket_key),
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
	{.key = "acl", .type = CONF_BOOL, .offset = offsetof(struct config, acl)},
	{.key = "listen", .type = CONF_BLOCKS, .block = bind_listen},
	{.key = "tls", .type = CONF_BLOCKS, .block = bind_tls},
};

static void release_conf(struct conf **conf)
{
	conf_free(*conf);
}

enum status config_load(const char *path, struct config *config, struct error *err)
{
	cleanup(release_conf) struct conf *conf = NULL;
	char dropins[PATH_MAX];
	enum status st = conf_dropin_dir(path, dropins, err);

	if (st == STATUS_OK)
		st = conf_load_merged(path, dropins, &conf, err);
	if (st != STATUS_OK)
		return st;
	st = conf_bind(conf, conf_root(conf), top_fields, ARRAY_SIZE(top_fields), config, err);
	if (st != STATUS_OK)
		return st;
	(void)str_copy(config->path, sizeof(config->path), path); /* it was opened, so it fits */
	if (!id_is_name(config->cluster, sizeof(config->cluster) - 1))
		return conf_error(conf, conf_root(conf), "cluster", err,
				  "'%s' is not a cluster's name (A-Z a-z 0-9 _ and -)", config->cluster);
	return STATUS_OK;
}
