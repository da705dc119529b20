/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the secrets of a plugin's fence service, and makes the maps of its requests. */

#include "plugins/fence_args.h"

#include "base/credential.h"
#include "base/fd.h"
#include "base/str.h"

#include <csi_addons/fence.pb-c.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

MESSAGE_ASSERT_TEXT_ENTRY(Fence__FenceClusterNetworkRequest__ParametersEntry);

const struct fence_args *fence_args_find(const struct fence_args *all, size_t n, const char *plugin_id)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(all[i].plugin_id, plugin_id))
			return &all[i];
	return NULL;
}

static enum status read_secret(const char *name, char **ret, struct error *err)
{
	char path[PATH_MAX];
	size_t n = 0;
	int r = credential_path(name, path, sizeof(path));

	*ret = NULL;
	if (r == 0)
		r = file_read(path, FENCE_ARG_SECRET_MAX, ret, &n);
	if (r < 0)
		return error_set(err, status_from_errno(r), r,
				 "read credential %s (LoadCredential= in a drop-in of the agent's unit)",
				 name);
	if (n > 0 && (*ret)[n - 1] == '\n')
		(*ret)[n - 1] = '\0';
	return STATUS_OK;
}

/* The entries of all maps have one form. */
static enum status add(const struct fence_arg *arg, struct fence_maps *maps, struct error *err)
{
	struct message_text_entry *entry = &maps->entries[arg->is_secret][maps->n[arg->is_secret]];

	protobuf_c_message_init(&fence__fence_cluster_network_request__parameters_entry__descriptor, entry);
	entry->key = (char *)(uintptr_t)arg->name; /* only read, as the value of a parameter */
	entry->value = (char *)(uintptr_t)arg->value;
	if (arg->is_secret)
		TRY(read_secret(arg->value, &entry->value, err));
	maps->lists[arg->is_secret][maps->n[arg->is_secret]++] = entry;
	return STATUS_OK;
}

enum status fence_maps_make(const struct fence_args *args, struct fence_maps *ret, struct error *err)
{
	*ret = (struct fence_maps){.n = {0}};
	for (size_t i = 0; args && i < args->n; i++)
		TRY(add(&args->rows[i], ret, err));
	return STATUS_OK;
}

void fence_maps_release(struct fence_maps *maps)
{
	for (size_t i = 0; i < maps->n[1]; i++) {
		char *secret = maps->entries[1][i].value;

		explicit_bzero(secret, strlen(secret));
		free(secret);
	}
	*maps = (struct fence_maps){.n = {0}};
}
