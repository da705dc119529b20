/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What is in a kit beside the store (settings, certificates, keys): taken from a server, and put on a fresh
 * machine.
 *
 * There nothing that is there is replaced. Only the folder of the settings, folders in it and /etc/credstore
 * are written to, whatever the settings in the kit name: who can write a kit to a certificate is not known.
 */

#include "config.h"

#include "kit/kit.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct ticket_issuer;

/** What the server has, as it is on its disk. @ret the caller's, kit_release(), on failure too.
 * STATUS_FAILED_PRECONDITION: the file of the ticket key is another one than @issuer has signed with. */
enum status kit_collect(const struct config *config, const struct ticket_issuer *issuer, struct kit *ret,
			struct error *err);

enum kit_there { KIT_MISSING, KIT_SAME, KIT_OTHER };

struct kit_place {
	const struct kit_file *file; /* borrowed of the kit */
	char path[PATH_MAX];
	bool is_key;	    /* nobody but who reads it may read it */
	bool is_credential; /* systemd reads it, as root */
	enum kit_there there;
};

struct kit_plan {
	struct kit_place places[KIT_FILES_MAX];
	size_t n;
};

/** Where the files of @kit belong on this machine. Nothing is written but a folder in /var/tmp, for a moment.
 * @ret_config the settings that count then: those of this machine at @config_path, or if it has none those of
 * the kit. STATUS_FAILED_PRECONDITION: this machine has another ticket key, or the settings name a place
 * elsewhere. */
enum status kit_plan_make(const struct kit *kit, const char *config_path, struct config *ret_config,
			  struct kit_plan *ret, struct error *err);

/** Write what is missing, durably: keys for @uid alone (credentials: root), all else for everybody to read.
 */
enum status kit_plan_do(const struct kit_plan *plan, uid_t uid, gid_t gid, struct error *err);
