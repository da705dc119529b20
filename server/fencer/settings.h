/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The fencer's file, /etc/holdfast/fencer.hcl: the servers and keys that it believes, and the power switch of
 * each node. Only root can change it, since it decides which machine is switched off.
 *
 * The file has no secret, but names of credentials of the unit. */

#include "base/error.h"
#include "rpc/address.h"

#include <fence_order.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define FENCER_KEY_CREDENTIAL "holdfast.fencer.key"

enum {
	FENCER_NAME_SIZE = 64,
	FENCER_KEYS_MAX = 4,
	FENCER_NODES_MAX = 1024,
	FENCER_OPTIONS_MAX = 24, /* of a node, secrets included */
	FENCER_OPTION_SIZE = 64,
	FENCER_VALUE_SIZE = 256,
};

/* A line for the agent: NAME=VALUE. */
struct fencer_option {
	char name[FENCER_OPTION_SIZE];
	char value[FENCER_VALUE_SIZE]; /* or the name of the credential that has it */
	bool is_secret;
};

struct fencer_node {
	char id[FENCER_NAME_SIZE];
	char agent[FENCER_NAME_SIZE]; /* "fence_ipmilan" */
	struct fencer_option options[FENCER_OPTIONS_MAX];
	size_t n_options;
	uint64_t timeout_us; /* of one action */
};

struct fencer_settings {
	char path[PATH_MAX]; /* for messages */
	char name[FENCER_NAME_SIZE];
	char cluster[FENCER_NAME_SIZE];
	struct rpc_address servers[RPC_SERVERS_MAX];
	size_t n_servers;
	uint8_t keys[FENCER_KEYS_MAX][FENCE_ORDER_KEY_SIZE];
	size_t n_keys;
	char state_dir[PATH_MAX];
	char agent_dir[PATH_MAX]; /* of all agents; not a setting of the file */
	char ca[PATH_MAX], cert[PATH_MAX], key[PATH_MAX];
	uint64_t check_interval_us;
	struct fencer_node *nodes; /* owned */
	size_t n_nodes;
};

/** Read the text of a file called @name. @ret owned by the caller, settings_release(); untouched on failure.
 */
enum status fencer_settings_parse(const char *text, const char *name, struct fencer_settings *ret,
				  struct error *err);

/** The same of the file at @path, which only root can change. */
enum status fencer_settings_load(const char *path, struct fencer_settings *ret, struct error *err);
void fencer_settings_release(struct fencer_settings *settings);

const struct fencer_node *fencer_settings_node(const struct fencer_settings *settings, const char *id);
