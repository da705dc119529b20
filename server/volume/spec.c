/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/spec.h"

#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "volume/store.h"
#include "volume/volumes.h"

#include <string.h>

void volume_spec_release(struct volume_spec *spec)
{
	volume_parts_release(&spec->parts);
}

static bool has_mode(const struct capability *modes, size_t n, const struct claim *claim)
{
	for (size_t i = 0; i < n; i++)
		if (modes[i].access_mode == claim->access_mode &&
		    modes[i].attachment_mode == claim->attachment_mode)
			return true;
	return false;
}

/* Modes of the live claims, each once, at most VOLUME_CAPABILITIES_MAX; their number. */
static size_t volume_spec_modes_in_use(struct volume_entry *entry,
				       struct capability ret[static VOLUME_CAPABILITIES_MAX])
{
	struct claim_entry *claim;
	size_t n = 0;

	/* each is one of the volume's capabilities, so they fit */
	LIST_FOREACH (claim, &entry->claims, of_volume)
		if (claim_is_live(&claim->claim) && n < VOLUME_CAPABILITIES_MAX &&
		    !has_mode(ret, n, &claim->claim))
			ret[n++] =
				(struct capability){claim->claim.access_mode, claim->claim.attachment_mode};
	return n;
}

/* A creation continues with what is being created; nothing else touches it, or what is being deleted. */
static enum status check_phase(struct server *server, const struct volume_parts *current, bool is_creation,
			       struct error *err)
{
	if (is_creation && current->detail->phase == HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING)
		return STATUS_OK;
	return volume_store_check_usable(server, &current->volume, err);
}

static enum status merge(struct server *server, struct volume_entry *entry, const struct volume_parts *update,
			 bool is_creation, struct volume_spec *spec, struct error *err)
{
	struct capability in_use[VOLUME_CAPABILITIES_MAX];
	size_t n_in_use = volume_spec_modes_in_use(entry, in_use);
	enum status st = volume_store_load(server, entry, &spec->parts, err);

	if (st == STATUS_OK)
		st = check_phase(server, &spec->parts, is_creation, err);
	if (st == STATUS_OK)
		st = volume_parts_merge(&spec->parts, update, in_use, n_in_use, &spec->changed, err);
	if (st == STATUS_OK)
		st = volume_detail_resize(spec->parts.detail, update->detail->capacity_min,
					  update->detail->capacity_max, &spec->resized, err);
	spec->changed = spec->changed || spec->resized;
	return st;
}

static enum status volume_spec_begin(struct server *server, const struct volume_parts *update,
				     bool is_creation, struct volume_spec *spec, struct error *err)
{
	struct volume *volume = &spec->parts.volume;
	enum status st =
		volume_parts_copy(&update->volume, update->detail, update->secrets, &spec->parts, err);

	if (st != STATUS_OK)
		return st;
	volume->generation = state_generation_floor(&server->state);
	volume->create_index = volume->modify_index = 0;
	volume->create_time_ms = volume->modify_time_ms = clock_realtime_ms();
	spec->is_new = spec->changed = true;
	/* a creation's come from the provider */
	return is_creation ? STATUS_OK : volume_parts_begin(&spec->parts, err);
}

static enum status refuse_redacted(const struct volume_parts *given, struct error *err)
{
	for (size_t i = 0; i < given->secrets->n_secrets; i++)
		if (str_eq(given->secrets->secrets[i]->value, VOLUME_REDACTED))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "secrets: '%.64s' is \"" VOLUME_REDACTED
					 "\", which keeps what is stored, but the volume is new",
					 given->secrets->secrets[i]->key);
	return STATUS_OK;
}

/* What may be left out, and the rules of a type. */
static enum status complete(struct volume_parts *update, struct volume_entry *entry, bool is_creation,
			    struct error *err)
{
	bool is_made = entry && entry->volume.external_id[0] != '\0';
	enum status st;

	if (is_creation && !is_made && update->volume.external_id[0] != '\0')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "external_id: a volume that is created gets it from its provider; one that "
				 "exists there is registered: holdfast volume register");
	if (entry)
		volume_parts_inherit(update, &entry->volume);
	volume_default(&update->volume);
	if (is_creation && !is_made)
		update->volume.external_id[0] = '\0';
	if (is_creation)
		volume_parts_forget_answer(update);
	st = volume_parts_validate(update, err);
	if (st == STATUS_OK && is_creation && update->volume.type != VOLUME_CSI)
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"type: only csi volumes have a provider that creates them; a native volume is "
			"registered: holdfast volume register");
	return st == STATUS_OK && !entry ? refuse_redacted(update, err) : st;
}

enum status volume_spec_prepare(struct server *server, const struct volume_parts *given, bool is_creation,
				struct volume_spec *ret, struct error *err)
{
	cleanup(volume_parts_release) struct volume_parts update = VOLUME_PARTS_INIT;
	cleanup(volume_spec_release) struct volume_spec spec = VOLUME_SPEC_INIT;
	struct volume_entry *entry =
		state_volume(&server->state, namespace_or_default(given->volume.namespace), given->volume.id);
	enum status st = volume_parts_copy(&given->volume, given->detail, given->secrets, &update, err);

	if (st == STATUS_OK)
		st = complete(&update, entry, is_creation, err);
	if (st != STATUS_OK)
		return st;
	st = entry ? merge(server, entry, &update, is_creation, &spec, err)
		   : volume_spec_begin(server, &update, is_creation, &spec, err);
	if (st != STATUS_OK)
		return st;
	*ret = spec;
	spec = (struct volume_spec)VOLUME_SPEC_INIT; /* handed over */
	return STATUS_OK;
}
