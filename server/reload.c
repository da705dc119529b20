/* SPDX-License-Identifier: Apache-2.0 */
#include "reload.h"

#include "ca_change.h"
#include "certificate.h"
#include "key_rotation.h"
#include "server.h"

#include "access/audit.h"
#include "access/revocations.h"
#include "base/cleanup.h"
#include "base/credential.h"
#include "base/str.h"
#include "identity/authority.h"
#include "log/log.h"
#include "node/down.h"
#include "rpc/timer.h"
#include "state/change.h"

#include <stddef.h>
#include <string.h>

static const uint64_t LOOK_US = 5 * USEC_PER_SEC;

struct setting {
	const char *name;
	size_t offset;
	size_t size;
	bool is_text;
};

#define NUMBER(name_, member)                                               \
	{                                                                   \
		.name = (name_), .offset = offsetof(struct config, member), \
		.size = sizeof(((struct config *)0)->member)                \
	}
#define TEXT(name_, member)                                                                 \
	{                                                                                   \
		.name = (name_), .offset = offsetof(struct config, member), .is_text = true \
	}

/* Settings that are read each time they are needed. */
static const struct setting at_run_time[] = {
	NUMBER("acl", acl),
	NUMBER("audit_keep", audit_keep),
	NUMBER("audit_keep_for", audit_keep_for_us),
	NUMBER("ticket_ttl", ticket_ttl_us),
	NUMBER("heartbeat", heartbeat_us),
	NUMBER("node_down_after", node_down_after_us),
	NUMBER("fence_max_per_minute", fence_max_per_minute),
	NUMBER("controller_timeout", controller_timeout_us),
	NUMBER("reservation_ttl", reservation_ttl_us),
	NUMBER("release_sweep", release_sweep_us),
	NUMBER("gc_interval", gc_interval_us),
	NUMBER("gc_after", gc_after_us),
	NUMBER("namespace_memory", namespace_memory),
	NUMBER("attest_forbidden_plugins", attest_forbidden),
	NUMBER("kit_certificate", kit_certificate),
	NUMBER("ca.certificate", authority.certificate),
	NUMBER("ca.key", authority.key),
	NUMBER("ca.node_life", authority.node_life_us),
	NUMBER("ca.operator_life", authority.operator_life_us),
	NUMBER("ca.server_life", authority.server_life_us),
};

/* Something was opened by them. */
static const struct setting at_start[] = {
	TEXT("cluster", cluster),
	TEXT("data_dir", data_dir),
	TEXT("mark_file", mark_file),
	NUMBER("disk_reserve", disk_reserve),
	TEXT("ticket_key", ticket_key),
	TEXT("listen.host", host),
	NUMBER("listen.port", port),
	TEXT("listen.socket", socket),
	NUMBER("listen.operators", operators),
	TEXT("tls.ca", ca),
	TEXT("tls.cert", cert),
	TEXT("tls.key", key),
	NUMBER("controller", controller_nodes),
	NUMBER("plugin", parameters),
	NUMBER("fencer", fence_bindings),
	NUMBER("store", etcd),
};

static bool differs(const struct setting *setting, const struct config *a, const struct config *b)
{
	const char *x = (const char *)a + setting->offset;
	const char *y = (const char *)b + setting->offset;

	return setting->is_text ? !str_eq(x, y) : memcmp(x, y, setting->size) != 0;
}

static void reload_certificates(struct server *server)
{
	const struct config *config = &server->config;
	struct error err;

	if (certificate_use(server, &err) == STATUS_OK) {
		log_line(LOG_NOTICE, "%s, %s and %s loaded again, for new connections", server->in_use.ca,
			 server->in_use.cert, server->in_use.key);
	} else {
		log_ctx(LOG_ERR, &(struct log_ctx){.err = &err}, "the old certificates stay%s",
			credential_is_one(config->key) ? " (the key is a credential, which is handed over at "
							 "a start: systemctl restart "
							 "holdfast-server)"
						       : "");
	}
}

/* Audits a change of settings for access and for retention. */
static void record(struct server *server, const char *setting)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	char object[AUDIT_OBJECT_SIZE];
	struct error err;

	if (!server->is_serving) /* a follower; the leader's own are what counts */
		return;
	(void)str_format(object, sizeof(object), "setting %s", setting);
	audit_own(server, &change, "Server.Reload", object, server->config.path);
	if (change_commit(server, &change, NULL, NULL, &err) != STATUS_OK)
		log_ctx(LOG_ERR, &(struct log_ctx){.err = &err}, "a change of %s could not be recorded",
			setting);
}

static void reload_config(struct server *server)
{
	struct config *config = &server->config;
	cleanup_free struct config *fresh = malloc(sizeof(*fresh));
	struct error err;

	if (!fresh)
		return;
	config_init(fresh);
	if (config_load(config->path, fresh, &err) != STATUS_OK) {
		log_ctx(LOG_ERR, &(struct log_ctx){.err = &err}, "the old settings stay");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(at_run_time); i++) {
		const struct setting *setting = &at_run_time[i];

		if (!differs(setting, config, fresh))
			continue;
		memcpy((char *)config + setting->offset, (const char *)fresh + setting->offset,
		       setting->size);
		record(server, setting->name);
	}
	if (server->is_serving)
		node_down_rearm(server);
	for (size_t i = 0; i < ARRAY_SIZE(at_start); i++)
		if (differs(&at_start[i], config, fresh))
			log_line(LOG_WARNING,
				 "%s: a change of %s takes effect at the next start: systemctl restart "
				 "holdfast-server",
				 config->path, at_start[i].name);
	log_line(LOG_NOTICE, "%s loaded again", config->path);
}

/* New connections use replaced certificates without a signal. */
static int on_look(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct server *server = userdata;

	if (certificate_is_replaced(server))
		reload_certificates(server);
	ca_change_look(server);
	revocations_end_expired(server);
	certificate_renew_due(server);
	key_rotation_look(server);
	(void)timer_arm(server->event, &server->reload, certificate_wait_us(server, LOOK_US), on_look,
			server); /* it exists: cannot fail */
	return 0;
}

enum status server_reload_watch(struct server *server, struct error *err)
{
	int r = timer_arm(server->event, &server->reload, LOOK_US, on_look, server);

	return r < 0 ? error_set(err, status_from_errno(r), r, "look after the certificates") : STATUS_OK;
}

void server_reload(struct server *server)
{
	struct error err;

	reload_certificates(server);
	if (server->config.path[0] != '\0')
		reload_config(server);
	if (authority_open(server, &err) != STATUS_OK)
		log_ctx(LOG_ERR, &(struct log_ctx){.err = &err}, "the CA stays as it was");
	certificate_count_cas(server);
}
