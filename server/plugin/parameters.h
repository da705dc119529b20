/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Root's settings for CSI plugins: the keys of `parameters` and `secrets` that a caller may choose who has no
 * right to existing storage, and the file system of volumes without fs_type.
 *
 * A plugin makes a volume or a snapshot by them, and many name storage that is there already: a folder of a
 * file server, a container of an account, a pool. Some plugins take mount flags from secrets. Root lists the
 * keys that do no such thing, in the blocks plugin "ID" { parameters = [...] secrets = [...] } of server.hcl.
 * Others need csi-adopt-volume.
 *
 * A plugin may mount a volume without a type by its contents, as mount(8) does. A program with the raw
 * device writes them, and those of f2fs name further devices. So block devices need a type for all volumes of
 * the plugin. */

#include "base/error.h"
#include "conf/conf.h"
#include "model/message.h"
#include "model/volume_detail.h"

#include <stdbool.h>
#include <stddef.h>

enum {
	PARAMETERS_LISTS_MAX = 32, /* blocks */
	PARAMETERS_KEYS_MAX = 16,  /* of a block */
	PARAMETERS_KEY_SIZE = 64,
};

#define PARAMETERS_ANY "*" /* as label: plugins without a block of their own; as key: each */

enum parameters_kind { PARAMETERS_OF_CALLS, PARAMETERS_SECRETS, PARAMETERS_KIND_N };

struct parameters_list {
	char plugin_id[PLUGIN_ID_MAX + 1]; /* or PARAMETERS_ANY */
	char keys[PARAMETERS_KIND_N][PARAMETERS_KEYS_MAX]
		 [PARAMETERS_KEY_SIZE];	      /* ends with an empty one unless it is full */
	char fs_type[VOLUME_FS_TYPE_MAX + 1]; /* "": volumes without a type stay so */
};

struct parameters_lists {
	struct parameters_list lists[PARAMETERS_LISTS_MAX];
	size_t n_lists;
};

/** Adds a block's list. Errors name file and line. Matches the callback of struct conf_field except for
 * @lists. */
enum status parameters_bind(const struct conf *conf, const char *label, json_t *body,
			    struct parameters_lists *lists, struct error *err);

/** Returns the first key of @map that the plugin's block, or that of all plugins without one, does not list;
 * NULL: each is listed. Borrowed from @map. */
const char *parameters_find_unlisted(const struct parameters_lists *lists, const char *plugin_id,
				     enum parameters_kind kind, struct message_text_entry *const *map,
				     size_t n);

/** Returns the file system of the plugin's volumes without one: of its block, or else of all plugins; "":
 * they have no setting. Borrowed from @lists. */
const char *parameters_fs_type(const struct parameters_lists *lists, const char *plugin_id);
