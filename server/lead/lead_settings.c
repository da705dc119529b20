/* SPDX-License-Identifier: Apache-2.0 */
#include "lead/lead_settings.h"

#include "base/cleanup.h"
#include "base/credential.h"
#include "base/id.h"
#include "base/str.h"
#include "etcd/client.h"
#include "rpc/address.h"

enum { LEASE_MIN_S = 2, LEASE_MAX_S = 60 };

#define TEXT(member) \
	.offset = offsetof(struct lead_settings, member), .size = sizeof(((struct lead_settings *)0)->member)

static const struct conf_field fields[] = {
	{.key = "endpoints",
	 .type = CONF_STRINGS,
	 .offset = offsetof(struct lead_settings, endpoints),
	 .size = LEAD_ENDPOINT_SIZE,
	 .max = LEAD_ENDPOINTS_MAX,
	 .required = true},
	{.key = "ca", .type = CONF_PATH, TEXT(ca)},
	{.key = "certificate", .type = CONF_PATH, TEXT(certificate)},
	{.key = "key", .type = CONF_PATH, TEXT(key)},
	{.key = "prefix", .type = CONF_STRING, TEXT(prefix)},
	{.key = "name", .type = CONF_STRING, TEXT(name), .required = true},
	{.key = "advertise", .type = CONF_STRING, TEXT(advertise)},
	{.key = "lease",
	 .type = CONF_DURATION,
	 .offset = offsetof(struct lead_settings, lease_us),
	 .min = LEASE_MIN_S * USEC_PER_SEC,
	 .max = LEASE_MAX_S * USEC_PER_SEC},
};

enum status lead_settings_bind(const struct conf *conf, const char *label, json_t *body,
			       struct lead_settings *settings, struct error *err)
{
	struct rpc_address address;

	if (!label || !str_eq(label, "etcd"))
		return conf_error(conf, body, NULL, err,
				  "store \"%.64s\": \"etcd\" is wanted; without the block the store is in "
				  "sqlite, in data_dir",
				  label ? label : "");
	TRY(conf_bind(conf, body, fields, ARRAY_SIZE(fields), settings, err));
	if (settings->endpoints[0][0] == '\0')
		return conf_error(conf, body, "endpoints", err, "endpoints: at least one is wanted");
	for (size_t i = 0; i < LEAD_ENDPOINTS_MAX && settings->endpoints[i][0] != '\0'; i++)
		if (!etcd_is_endpoint(settings->endpoints[i]))
			return conf_error(conf, body, "endpoints", err,
					  "endpoints: '%s' is no https://HOST:PORT or unix:/PATH",
					  settings->endpoints[i]);
	if (settings->advertise[0] != '\0' && rpc_address_parse(settings->advertise, &address) < 0)
		return conf_error(conf, body, "advertise", err,
				  "advertise: '%s' is not an address: HOST:PORT, [V6ADDRESS]:PORT",
				  settings->advertise);
	if (!id_is_name(settings->name, sizeof(settings->name) - 1))
		return conf_error(conf, body, "name", err,
				  "'%s' is not a server's name (A-Z a-z 0-9 _ and -)", settings->name);
	if (settings->lease_us % USEC_PER_SEC != 0)
		return conf_error(conf, body, "lease", err, "lease: whole seconds are wanted");
	return STATUS_OK;
}

void lead_settings_complete(struct lead_settings *settings, const char *cluster)
{
	if (settings->prefix[0] == '\0')
		(void)str_format(settings->prefix, sizeof(settings->prefix), "/holdfast/%s", cluster);
	(void)credential_choose("holdfast.etcd.key", "/etc/holdfast/tls/etcd.key", settings->key,
				sizeof(settings->key));
}
