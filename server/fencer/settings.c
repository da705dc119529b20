/* SPDX-License-Identifier: Apache-2.0 */
/* The fencer's file, and its closed alphabets. */

#include "fencer/settings.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/credential.h"
#include "base/id.h"
#include "base/str.h"
#include "conf/conf.h"

#include <stdlib.h>
#include <string.h>

enum {
	KEY_TEXT_SIZE = 2 * FENCE_ORDER_KEY_SIZE + 1,
	TIMEOUT_DEFAULT_S = 60,
	TIMEOUT_MAX_S = 120, /* two actions end before the server gives an order up */
	CHECK_DEFAULT_S = 300,
};

#define KEY_DEFAULT "/etc/holdfast/tls/fencer.key"
#define AGENT_PREFIX "fence_"

/* While the file is read. */
struct reading {
	struct fencer_settings settings;
	char servers[RPC_SERVERS_MAX][RPC_SERVER_NAME_SIZE], keys[FENCER_KEYS_MAX][KEY_TEXT_SIZE];
};

#define MEMBER(key_, type_, member)                                                          \
	.key = (key_), .type = (type_), .offset = offsetof(struct reading, settings.member), \
	.size = sizeof(((struct reading *)0)->settings.member)
#define LIST(key_, member)                                                                       \
	{                                                                                        \
		.key = (key_), .type = CONF_STRINGS, .offset = offsetof(struct reading, member), \
		.size = sizeof(((struct reading *)0)->member[0]),                                \
		.max = ARRAY_SIZE(((struct reading *)0)->member), .required = true               \
	}

/* --- a node --- */

static bool is_option_name(const char *name)
{
	return name[0] != '\0' && strlen(name) < FENCER_OPTION_SIZE &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == strlen(name);
}

/* A value is one line of the agent's input: printable ASCII. */
static bool is_value(const char *value)
{
	for (const char *c = value; *c != '\0'; c++)
		if (*c < ' ' || *c > '~')
			return false;
	return strlen(value) < FENCER_VALUE_SIZE;
}

/* The fencer sets the action itself; with "cycle" a node that is switched off comes back. */
static bool is_reserved(const char *name, const char *value)
{
	return str_eq(name, "action") || str_eq(name, "option") ||
	       (str_eq(name, "method") && !str_eq(value, "onoff"));
}

/* Agents whose off writes a record, which their metadata do not show; of others, see agent_check_metadata().
 */
static bool is_no_switch(const char *agent)
{
	return str_eq(agent, "fence_evacuate") || str_eq(agent, "fence_sbd");
}

static enum status add_option(const struct conf *conf, json_t *body, const char *name, const char *value,
			      bool is_secret, struct fencer_node *node, struct error *err)
{
	struct fencer_option *option = &node->options[node->n_options];

	if (node->n_options == FENCER_OPTIONS_MAX)
		return conf_error(conf, body, name, err, "more than %d options", FENCER_OPTIONS_MAX);
	if (!is_option_name(name))
		return conf_error(conf, body, name, err,
				  "'%.64s': an option's name has a-z, 0-9, _ and - (up to %d)", name,
				  FENCER_OPTION_SIZE - 1);
	if (!value || !is_value(value) ||
	    (is_secret && !id_is_name(value, FENCER_VALUE_SIZE - 1) && !str_is_made_of(value, ".-_")))
		return conf_error(conf, body, name, err,
				  "%s: expected a text of one line, up to %d printable characters", name,
				  FENCER_VALUE_SIZE - 1);
	if (is_reserved(name, is_secret ? "" : value))
		return conf_error(conf, body, name, err,
				  "%s: the fencer sets the action itself: off, then status", name);
	if (str_eq(name, "missing_as_off"))
		return conf_error(conf, body, name, err, "%s: a switch that does not exist would be off",
				  name);
	for (size_t i = 0; i < node->n_options; i++)
		if (str_eq(node->options[i].name, name))
			return conf_error(conf, body, name, err, "%s: given twice", name);
	(void)str_copy(option->name, sizeof(option->name), name);
	(void)str_copy(option->value, sizeof(option->value), value);
	option->is_secret = is_secret;
	node->n_options++;
	return STATUS_OK;
}

static enum status bind_options_of(const struct conf *conf, const char *label, json_t *body,
				   struct fencer_node *node, bool is_secret, struct error *err)
{
	const char *name;
	json_t *value;

	if (label)
		return conf_error(conf, body, NULL, err, "options and secrets have no name");
	json_object_foreach (body, name, value)
		TRY(add_option(conf, body, name, json_string_value(value), is_secret, node, err));
	return STATUS_OK;
}

static enum status bind_options(const struct conf *conf, const char *label, json_t *body, void *target,
				struct error *err)
{
	return bind_options_of(conf, label, body, target, false, err);
}

static enum status bind_secrets(const struct conf *conf, const char *label, json_t *body, void *target,
				struct error *err)
{
	return bind_options_of(conf, label, body, target, true, err);
}

static const struct conf_field node_fields[] = {
	{.key = "agent",
	 .type = CONF_STRING,
	 .offset = offsetof(struct fencer_node, agent),
	 .size = FENCER_NAME_SIZE,
	 .required = true},
	{.key = "options", .type = CONF_BLOCKS, .block = bind_options},
	{.key = "secrets", .type = CONF_BLOCKS, .block = bind_secrets},
	{.key = "timeout",
	 .type = CONF_DURATION,
	 .offset = offsetof(struct fencer_node, timeout_us),
	 .min = USEC_PER_SEC,
	 .max = TIMEOUT_MAX_S * USEC_PER_SEC},
};

static enum status bind_node(const struct conf *conf, const char *label, json_t *body, void *target,
			     struct error *err)
{
	struct fencer_settings *settings = &((struct reading *)target)->settings;
	struct fencer_node *nodes, *node;

	if (!label || !id_is_name(label, FENCER_NAME_SIZE - 1))
		return conf_error(conf, body, NULL, err,
				  "node \"NAME\": a name is 1 to %d of A-Z a-z 0-9 _ and -",
				  FENCER_NAME_SIZE - 1);
	if (settings->n_nodes == FENCER_NODES_MAX)
		return conf_error(conf, body, NULL, err, "more than %d nodes", FENCER_NODES_MAX);
	nodes = reallocarray(settings->nodes, settings->n_nodes + 1, sizeof(*nodes));
	if (!nodes)
		return error_no_memory(err, "the nodes of the fencer's file");
	settings->nodes = nodes;
	node = &nodes[settings->n_nodes++];
	*node = (struct fencer_node){.timeout_us = TIMEOUT_DEFAULT_S * USEC_PER_SEC};
	(void)str_copy(node->id, sizeof(node->id), label);
	TRY(conf_bind(conf, body, node_fields, ARRAY_SIZE(node_fields), node, err));
	if (!str_starts_with(node->agent, AGENT_PREFIX) || !id_is_name(node->agent, FENCER_NAME_SIZE - 1))
		return conf_error(conf, body, "agent", err,
				  "agent: '%s' is no name of a fence agent, as in fence_ipmilan",
				  node->agent);
	if (is_no_switch(node->agent))
		return conf_error(conf, body, "agent", err,
				  "agent: %s writes a record, and the node may run on", node->agent);
	return STATUS_OK;
}

/* --- the file --- */

static const struct conf_field tls_fields[] = {
	{MEMBER("ca", CONF_PATH, ca)},
	{MEMBER("cert", CONF_PATH, cert)},
	{MEMBER("key", CONF_PATH, key)},
};

static const struct conf_field top_fields[] = {
	{MEMBER("name", CONF_STRING, name), .required = true},
	{MEMBER("cluster", CONF_STRING, cluster), .required = true},
	LIST("servers", servers),
	LIST("ticket_keys", keys),
	{MEMBER("state_dir", CONF_PATH, state_dir)},
	{.key = "check_interval",
	 .type = CONF_DURATION,
	 .offset = offsetof(struct reading, settings.check_interval_us),
	 .min = USEC_PER_SEC,
	 .max = 86400 * USEC_PER_SEC},
	{.key = "tls", .type = CONF_BLOCKS, .fields = tls_fields, .n_fields = ARRAY_SIZE(tls_fields)},
	{.key = "node", .type = CONF_BLOCKS, .block = bind_node},
};

static enum status apply_lists(struct reading *reading, const struct conf *conf, struct error *err)
{
	struct fencer_settings *settings = &reading->settings;

	for (size_t i = 0; i < RPC_SERVERS_MAX && reading->servers[i][0] != '\0'; i++)
		if (rpc_address_parse(reading->servers[i], &settings->servers[settings->n_servers++]) < 0)
			return conf_error(conf, conf_root(conf), "servers", err,
					  "servers: '%s' is not an address: HOST:PORT, [V6ADDRESS]:PORT",
					  reading->servers[i]);
	for (size_t i = 0; i < FENCER_KEYS_MAX && reading->keys[i][0] != '\0'; i++)
		if (hex_decode(settings->keys[settings->n_keys++], FENCE_ORDER_KEY_SIZE, reading->keys[i]) <
		    0)
			return conf_error(conf, conf_root(conf), "ticket_keys", err,
					  "ticket_keys: '%s' is no key of 64 hex digits; holdfast operator "
					  "status shows the cluster's",
					  reading->keys[i]);
	return STATUS_OK;
}

static enum status check_names(const struct fencer_settings *settings, const struct conf *conf,
			       struct error *err)
{
	const struct {
		const char *key, *value;
	} names[] = {{"name", settings->name}, {"cluster", settings->cluster}};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!id_is_name(names[i].value, FENCER_NAME_SIZE - 1))
			return conf_error(conf, conf_root(conf), names[i].key, err,
					  "%s '%s': a name is 1 to %d of A-Z a-z 0-9 _ and -", names[i].key,
					  names[i].value, FENCER_NAME_SIZE - 1);
	if (settings->n_nodes == 0)
		return conf_error(conf, conf_root(conf), NULL, err,
				  "no node is named: node \"NAME\" { agent = ... }");
	return STATUS_OK;
}

static enum status read_all(const char *text, const char *name, struct reading *reading, struct error *err)
{
	cleanup(conf_freep) struct conf *conf = NULL;

	TRY(conf_parse(text, name, &conf, err));
	TRY(conf_bind(conf, conf_root(conf), top_fields, ARRAY_SIZE(top_fields), reading, err));
	TRY(apply_lists(reading, conf, err));
	return check_names(&reading->settings, conf, err);
}

enum status fencer_settings_parse(const char *text, const char *name, struct fencer_settings *ret,
				  struct error *err)
{
	cleanup_free struct reading *reading = calloc(1, sizeof(*reading));
	enum status status;

	if (!reading)
		return error_no_memory(err, "the fencer's file");
	reading->settings = (struct fencer_settings){.state_dir = "/var/lib/holdfast-fencer",
						     .agent_dir = "/usr/sbin",
						     .ca = "/etc/holdfast/tls/ca.pem",
						     .cert = "/etc/holdfast/tls/fencer.pem",
						     .check_interval_us = CHECK_DEFAULT_S * USEC_PER_SEC};
	status = read_all(text, name, reading, err);
	if (status != STATUS_OK) {
		fencer_settings_release(&reading->settings);
		return status;
	}
	(void)credential_choose(FENCER_KEY_CREDENTIAL, KEY_DEFAULT, reading->settings.key,
				sizeof(reading->settings.key));
	(void)str_copy(reading->settings.path, sizeof(reading->settings.path), name);
	*ret = reading->settings;
	return STATUS_OK;
}

enum status fencer_settings_load(const char *path, struct fencer_settings *ret, struct error *err)
{
	cleanup_free char *text = NULL;

	TRY(conf_read_trusted(path, "names the switches of nodes", &text, err));
	return fencer_settings_parse(text, path, ret, err);
}

void fencer_settings_release(struct fencer_settings *settings)
{
	free(settings->nodes);
	settings->nodes = NULL;
	settings->n_nodes = 0;
}

const struct fencer_node *fencer_settings_node(const struct fencer_settings *settings, const char *id)
{
	for (size_t i = 0; i < settings->n_nodes; i++)
		if (str_eq(settings->nodes[i].id, id))
			return &settings->nodes[i];
	return NULL;
}
