/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Parameters and secrets of the fence service of a plugin, as root's settings name them. A secret is a
 * credential of this process, and is read for each request. */

#include "base/error.h"
#include "model/message.h"
#include "model/node.h"

#include <stdbool.h>
#include <stddef.h>

enum {
	FENCE_ARGS_PLUGINS_MAX = 4,
	FENCE_ARGS_MAX = 8,		/* parameters and secrets of one plugin */
	FENCE_ARG_NAME_SIZE = 64,	/* with the NUL */
	FENCE_ARG_VALUE_SIZE = 256,	/* of a parameter, or of a credential's name */
	FENCE_ARG_SECRET_MAX = 4 << 10, /* bytes */
};

struct fence_arg {
	char name[FENCE_ARG_NAME_SIZE];
	char value[FENCE_ARG_VALUE_SIZE]; /* of a secret the name of its credential */
	bool is_secret;
};

struct fence_args {
	char plugin_id[PLUGIN_ID_MAX + 1];
	struct fence_arg rows[FENCE_ARGS_MAX];
	size_t n;
};

/* The maps of one request; it borrows from them. */
struct fence_maps {
	struct message_text_entry entries[2][FENCE_ARGS_MAX]; /* parameters, secrets */
	struct message_text_entry *lists[2][FENCE_ARGS_MAX];
	size_t n[2];
};

/** Returns those of the plugin, NULL: the settings have no block for it. */
const struct fence_args *fence_args_find(const struct fence_args *all, size_t n, const char *plugin_id);

/** Reads the secrets. @args may be NULL. @ret borrows from @args; fence_maps_release(), also on failure,
 * wipes the secrets. */
enum status fence_maps_make(const struct fence_args *args, struct fence_maps *ret, struct error *err);
void fence_maps_release(struct fence_maps *maps);

/* Lends the maps to a request of the service. */
#define FENCE_MAPS_LEND(maps, request)                            \
	do {                                                      \
		(request)->parameters = (void *)(maps)->lists[0]; \
		(request)->n_parameters = (maps)->n[0];           \
		(request)->secrets = (void *)(maps)->lists[1];    \
		(request)->n_secrets = (maps)->n[1];              \
	} while (0)
