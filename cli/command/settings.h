/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Where the server and the agent are and who we are: options, then the environment, then the dev folder. */

#include "command/command.h"
#include "conf/conf.h"
#include "rpc/address.h"

#include <limits.h>

enum { TOKEN_SIZE = 4096 };

struct server_settings {
	struct rpc_address servers[RPC_SERVERS_MAX]; /* that are one */
	size_t n_servers;
	char socket[PATH_MAX]; /* of the server on this machine; "": @servers, over TLS */
	char ca[PATH_MAX];
	char cert[PATH_MAX]; /* "" with key "": a client without identity */
	char key[PATH_MAX];
	char token[TOKEN_SIZE]; /* "": no token. A secret */
	const char *server_uri; /* NULL: any that the CA signed; borrowed from the invocation */
};

/** Value of the option or its variable; NULL if both are missing or empty. */
const char *setting_value(const struct invocation *inv, enum option_id id);

/** STATUS_INVALID_ARGUMENT names the missing setting and how to give it. A missing dev folder has the status
 * of its errno. */
enum status server_settings_resolve(struct invocation *inv, struct server_settings *ret, struct error *err);

/** If systemd hands over the credential @name, and no token file is given, its first line is the token.
 * @path room for the file's name, which the invocation borrows */
void settings_prefer_credential(struct invocation *inv, const char *name, char path[static PATH_MAX]);

/** Load the settings of this machine's agent, @path with its drop-ins. @ret NULL: they cannot be read */
enum status agent_settings_load(const char *path, struct conf **ret, struct error *err);

/** Path of the agent's socket: that of its @settings by default, if they can be read. Mistakes in them count
 * only if no agent listens at the packages' default. */
enum status agent_socket_path(const struct invocation *inv, const char *settings, char ret[static PATH_MAX],
			      struct error *err);

/** Returns the mount helper's publish_base: of root's _cli.env_, else the packages' default; borrowed. A path
 * that a node reports is never used for engines and units. */
const char *publish_dir(void);

/** The same for its stage_base. */
const char *stage_dir(void);
