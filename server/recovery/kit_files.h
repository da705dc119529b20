/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The files of a kit except the store (settings, certificates, keys): taken from a server, and put on a fresh
 * machine.
 *
 * Existing files of the machine are not replaced. Only the folder of the settings, folders in it and
 * /etc/credstore are written to, even if the settings in the kit name other places: the author of a kit that
 * is encrypted to a certificate is unknown. */

#include "config.h"

#include "kit/kit.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct server;

/** Collects the files of the server from its disk. @ret the caller's, kit_release(), on failure too.
 * STATUS_FAILED_PRECONDITION: the file of the ticket key is another one than that of its start, or
 * kit_check() refuses the files. */
enum status kit_collect(const struct server *server, struct kit *ret, struct error *err);

enum kit_there { KIT_MISSING, KIT_SAME, KIT_OTHER };

struct kit_place {
	const struct kit_file *file; /* borrowed of the kit */
	char path[PATH_MAX];
	bool is_key;	    /* it holds one: only its user may read it */
	bool is_credential; /* systemd reads it, as root */
	enum kit_there there;
};

struct kit_plan {
	struct kit_place places[KIT_FILES_MAX];
	size_t n;
};

/** Plans the places of the files of @kit on this machine. Writes only a folder in /var/tmp, for a moment.
 * @ret_config the settings in force afterwards: those of this machine at @config_path, or if they are missing
 * those of the kit. STATUS_FAILED_PRECONDITION: this machine has another ticket key, or the settings name a
 * place elsewhere. */
enum status kit_plan_make(const struct kit *kit, const char *config_path, struct config *ret_config,
			  struct kit_plan *ret, struct error *err);

/** Write missing files, durably: those with a key readable only by @uid (credentials: root), all others by
 * all users. */
enum status kit_plan_do(const struct kit_plan *plan, uid_t uid, gid_t gid, struct error *err);
