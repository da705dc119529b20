/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/limits.h"

#include "base/str.h"
#include "model/message.h"
#include "model/plain_options.h"

#include <stdlib.h>
#include <string.h>

bool limits_is_part(const Holdfast__V1__VolumeDetail *detail)
{
	return detail && (!mount_options_are_plain(detail->mount_options) ||
			  (!detail->made_by_provider && detail->n_context > 0));
}

Holdfast__V1__SourceLimits *limits_of(const struct volume *volume, const Holdfast__V1__VolumeDetail *detail,
				      const Holdfast__V1__VolumeSecrets *secrets)
{
	size_t n = secrets ? secrets->n_secrets : 0;
	Holdfast__V1__SourceLimits *limits = calloc(1, sizeof(*limits));

	if (!limits)
		return NULL;
	holdfast__v1__source_limits__init(limits);
	limits->is_part = limits_is_part(detail);
	limits->is_device = volume_has_attachment(volume, ATTACHMENT_BLOCK_DEVICE);
	limits->secrets = calloc(n + 1, sizeof(char *));
	for (size_t i = 0; limits->secrets && i < n; i++) {
		if (volume_secret_is_blank(secrets->secrets[i]->value))
			continue;
		limits->secrets[limits->n_secrets] = strdup(secrets->secrets[i]->key);
		if (!limits->secrets[limits->n_secrets++])
			break;
	}
	if (limits->secrets && (limits->n_secrets == 0 || limits->secrets[limits->n_secrets - 1]))
		return limits;
	holdfast__v1__source_limits__free_unpacked(limits, NULL);
	return NULL;
}

static bool has_secret(const Holdfast__V1__SourceLimits *limits, const char *key)
{
	for (size_t i = 0; i < limits->n_secrets; i++)
		if (str_eq(limits->secrets[i], key))
			return true;
	return false;
}

bool limits_join(Holdfast__V1__SourceLimits *limits, const Holdfast__V1__SourceLimits *other)
{
	char **secrets =
		reallocarray(limits->secrets, limits->n_secrets + other->n_secrets + 1, sizeof(*secrets));

	if (!secrets)
		return false;
	limits->secrets = secrets;
	limits->is_part = limits->is_part || other->is_part;
	limits->is_device = limits->is_device && other->is_device;
	limits->was_device = limits->was_device || other->was_device;
	for (size_t i = 0; i < other->n_secrets; i++) {
		if (has_secret(limits, other->secrets[i]))
			continue;
		limits->secrets[limits->n_secrets] = strdup(other->secrets[i]);
		if (!limits->secrets[limits->n_secrets++])
			return false;
	}
	return true;
}

bool limits_are_kept(const Holdfast__V1__SourceLimits *limits, const struct volume_parts *copy)
{
	if (!limits || limits->is_part ||
	    (!limits->is_device && volume_has_attachment(&copy->volume, ATTACHMENT_BLOCK_DEVICE)))
		return false;
	for (size_t i = 0; i < limits->n_secrets; i++) {
		const struct message_text_entry *found = message_text_map_find(
			VOLUME_MAP(copy->secrets->secrets), copy->secrets->n_secrets, limits->secrets[i]);

		if (!found || volume_secret_may_be_blank(found->value))
			return false;
	}
	return true;
}
