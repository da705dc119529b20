/* SPDX-License-Identifier: Apache-2.0 */
#include "model/volume_detail.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/utf8.h"
#include "model/pb.h"

#include <stdlib.h>
#include <string.h>

MESSAGE_ASSERT_TEXT_ENTRY(Holdfast__V1__Volume__SecretsEntry);
MESSAGE_ASSERT_TEXT_ENTRY(Holdfast__V1__VolumeSecrets__SecretsEntry);
MESSAGE_ASSERT_TEXT_ENTRY(Holdfast__V1__VolumeDetail__ParametersEntry);
MESSAGE_ASSERT_TEXT_ENTRY(Holdfast__V1__VolumeDetail__ContextEntry);

void volume_parts_release(struct volume_parts *parts)
{
	holdfast__v1__volume_detail__free_unpacked(parts->detail, NULL);
	holdfast__v1__volume_secrets__free_unpacked(parts->secrets, NULL);
	parts->detail = NULL;
	parts->secrets = NULL;
}

static bool make_parts(struct volume_parts *parts)
{
	parts->detail = malloc(sizeof(*parts->detail));
	parts->secrets = malloc(sizeof(*parts->secrets));
	if (!parts->detail || !parts->secrets) {
		free(parts->detail);
		free(parts->secrets);
		parts->detail = NULL;
		parts->secrets = NULL;
		return false;
	}
	holdfast__v1__volume_detail__init(parts->detail);
	holdfast__v1__volume_secrets__init(parts->secrets);
	return true;
}

static void forget_what_callers_cannot_know(Holdfast__V1__VolumeDetail *detail)
{
	for (size_t i = 0; i < detail->n_node_capacities; i++)
		holdfast__v1__node_capacity__free_unpacked(detail->node_capacities[i], NULL);
	free(detail->node_capacities);
	detail->node_capacities = NULL;
	detail->n_node_capacities = 0;
	detail->capacity = 0;
	detail->phase = HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY;
	detail->node_expansion_due = false;
	if (detail->phase_error != protobuf_c_empty_string)
		free(detail->phase_error);
	detail->phase_error = (char *)(uintptr_t)protobuf_c_empty_string;
}

static void free_context(Holdfast__V1__VolumeDetail *detail)
{
	for (size_t i = 0; i < detail->n_context; i++)
		protobuf_c_message_free_unpacked(&detail->context[i]->base, NULL);
	free(detail->context);
	detail->context = NULL;
	detail->n_context = 0;
}

void volume_parts_forget_answer(struct volume_parts *update)
{
	Holdfast__V1__VolumeDetail *detail = update->detail;

	free_context(detail);
	for (size_t i = 0; i < detail->n_topologies; i++)
		holdfast__v1__topology__free_unpacked(detail->topologies[i], NULL);
	free(detail->topologies);
	detail->topologies = NULL;
	detail->n_topologies = 0;
}

static bool split_plain(Holdfast__V1__VolumeDetail *detail, const Holdfast__V1__Volume *pb)
{
	static const Holdfast__V1__Volume none = HOLDFAST__V1__VOLUME__INIT;
	ProtobufCMessage *plain = message_convert(none.base.descriptor, &none.base);

	if (!plain || !message_copy_from(plain, &pb->base, VOLUME_PLAIN_FIRST)) {
		protobuf_c_message_free_unpacked(plain, NULL);
		return false;
	}
	if (message_eq(plain, NULL))
		protobuf_c_message_free_unpacked(plain, NULL);
	else
		detail->plain = (Holdfast__V1__Volume *)(void *)plain;
	return true;
}

enum status volume_parts_from_pb(const Holdfast__V1__Volume *pb, struct volume_parts *ret, struct error *err)
{
	cleanup(volume_parts_release) struct volume_parts parts = VOLUME_PARTS_INIT;

	TRY(volume_from_pb(pb, &parts.volume, err));
	if (!make_parts(&parts) || !message_copy_fields(&parts.detail->base, &pb->base) ||
	    !message_copy_fields(&parts.secrets->base, &pb->base) || !split_plain(parts.detail, pb))
		return error_no_memory(err, "a volume");
	forget_what_callers_cannot_know(parts.detail);
	*ret = parts;
	parts = (struct volume_parts)VOLUME_PARTS_INIT; /* handed over */
	return STATUS_OK;
}

enum status volume_parts_copy(const struct volume *volume, const Holdfast__V1__VolumeDetail *detail,
			      const Holdfast__V1__VolumeSecrets *secrets, struct volume_parts *ret,
			      struct error *err)
{
	struct volume_parts parts = {.volume = *volume};

	if (!make_parts(&parts))
		return error_no_memory(err, "a volume");
	if ((detail && !message_copy_fields(&parts.detail->base, &detail->base)) ||
	    (secrets && !message_copy_fields(&parts.secrets->base, &secrets->base))) {
		volume_parts_release(&parts);
		return error_no_memory(err, "a volume");
	}
	*ret = parts;
	return STATUS_OK;
}

void volume_parts_inherit(struct volume_parts *update, const struct volume *current)
{
	/* the name of a placeholder describes it until it is registered */
	if (update->volume.name[0] == '\0' && !volume_is_placeholder(current))
		memcpy(update->volume.name, current->name, sizeof(update->volume.name));
	if (update->volume.external_id[0] == '\0' &&
	    (current->type == VOLUME_CSI || !volume_is_placeholder(current)))
		memcpy(update->volume.external_id, current->external_id, sizeof(update->volume.external_id));
}

enum status volume_parts_begin(struct volume_parts *parts, struct error *err)
{
	Holdfast__V1__VolumeDetail *detail = parts->detail;
	const Holdfast__V1__TopologyRequest *request = detail->topology_request;

	if (detail->n_topologies > 0 || !request || request->n_required == 0)
		return STATUS_OK;
	detail->topologies = calloc(request->n_required, sizeof(Holdfast__V1__Topology *));
	if (!detail->topologies)
		return error_no_memory(err, "a volume");
	for (; detail->n_topologies < request->n_required; detail->n_topologies++) {
		ProtobufCMessage *copy = message_convert(&holdfast__v1__topology__descriptor,
							 &request->required[detail->n_topologies]->base);

		if (!copy)
			return error_no_memory(err, "a volume");
		detail->topologies[detail->n_topologies] = (Holdfast__V1__Topology *)(void *)copy;
	}
	return STATUS_OK;
}

enum status volume_detail_resize(Holdfast__V1__VolumeDetail *detail, uint64_t min, uint64_t max,
				 bool *ret_changed, struct error *err)
{
	uint64_t new_min = min > 0 ? min : detail->capacity_min;
	uint64_t new_max = max > 0 ? max : detail->capacity_max;

	if (new_min > VOLUME_CAPACITY_MAX || new_max > VOLUME_CAPACITY_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "capacity_%s: more than %llu bytes",
				 new_min > VOLUME_CAPACITY_MAX ? "min" : "max",
				 (unsigned long long)VOLUME_CAPACITY_MAX);
	if (new_max > 0 && new_max < new_min)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "capacity_max: %llu bytes is less than capacity_min, %llu",
				 (unsigned long long)new_max, (unsigned long long)new_min);
	if (max > 0 && max < detail->capacity)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"capacity_max: the volume has %llu bytes already, more than %llu; volumes do "
			"not shrink",
			(unsigned long long)detail->capacity, (unsigned long long)max);
	*ret_changed = new_min != detail->capacity_min || new_max != detail->capacity_max;
	detail->capacity_min = new_min;
	detail->capacity_max = new_max;
	return STATUS_OK;
}

static bool add_secret(Holdfast__V1__VolumeSecrets *secrets, const struct message_text_entry *from)
{
	Holdfast__V1__VolumeSecrets__SecretsEntry **more =
		reallocarray(secrets->secrets, secrets->n_secrets + 1,
			     sizeof(Holdfast__V1__VolumeSecrets__SecretsEntry *));
	ProtobufCMessage *entry =
		more ? message_convert(&holdfast__v1__volume_secrets__secrets_entry__descriptor, &from->base)
		     : NULL;

	if (more)
		secrets->secrets = more;
	if (!entry)
		return false;
	more[secrets->n_secrets++] = (Holdfast__V1__VolumeSecrets__SecretsEntry *)(void *)entry;
	return true;
}

bool volume_secrets_overlay(Holdfast__V1__VolumeSecrets *secrets, struct message_text_entry *const *over,
			    size_t n_over)
{
	for (size_t i = 0; i < n_over; i++) {
		struct message_text_entry *known =
			message_text_map_find(VOLUME_MAP(secrets->secrets), secrets->n_secrets, over[i]->key);

		if (!(known ? message_set_text(&known->value, over[i]->value) : add_secret(secrets, over[i])))
			return false;
	}
	return true;
}

bool volume_secret_is_blank(const char *text)
{
	while (*text > '\0' && *text <= ' ')
		text++;
	return *text == '\0';
}

/* Returns the bytes of the character at the start of @text if it shows nothing, else 0: white space, controls
 * and characters without width. UTF-8 has the order of the characters' numbers. */
static size_t blank_bytes(const char *text)
{
	static const char *const ranges[][2] = {
		{"\x01", " "},	      {"\x7f", "\x7f"},	    {"\xc2\x80", "\u00a0"}, {"\u00ad", "\u00ad"},
		{"\u034f", "\u034f"}, {"\u061c", "\u061c"}, {"\u115f", "\u1160"},   {"\u1680", "\u1680"},
		{"\u17b4", "\u17b5"}, {"\u180b", "\u180f"}, {"\u2000", "\u200f"},   {"\u2028", "\u202f"},
		{"\u205f", "\u206f"}, {"\u2800", "\u2800"}, {"\u3000", "\u3000"},   {"\u3164", "\u3164"},
		{"\ufe00", "\ufe0f"}, {"\ufeff", "\ufeff"}, {"\uffa0", "\uffa0"},   {"\ufff9", "\ufffb"},
	};
	size_t n = utf8_sequence(text);

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (strncmp(text, ranges[i][0], n) >= 0 && strncmp(text, ranges[i][1], n) <= 0)
			return n;
	return 0;
}

bool volume_secret_may_be_blank(const char *text)
{
	size_t n;

	while ((n = blank_bytes(text)) > 0)
		text += n;
	return *text == '\0';
}

bool volume_secret_is_left_out(const struct message_text_entry *stored,
			       struct message_text_entry *const *given, size_t n)
{
	const struct message_text_entry *found = message_text_map_find(given, n, stored->key);

	return !found || (volume_secret_may_be_blank(found->value) &&
			  !volume_secret_is_blank(stored->value) && !str_eq(found->value, stored->value));
}

enum status volume_secrets_take(Holdfast__V1__VolumeSecrets *secrets, struct message_text_entry *const *given,
				size_t n, struct error *err)
{
	TRY(volume_check_secrets(given, n, err));
	for (size_t i = 0; n > 0 && i < secrets->n_secrets; i++)
		if (volume_secret_is_left_out(VOLUME_MAP(secrets->secrets)[i], given, n))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "secrets: '%.64s' is stored, and stored ones are not combined with "
					 "others: give all secrets of the volume",
					 secrets->secrets[i]->key);
	return volume_secrets_overlay(secrets, given, n) ? STATUS_OK : error_no_memory(err, "a volume");
}

static bool redact_flags(Holdfast__V1__MountOptions *options)
{
	if (!options || options->n_mount_flags == 0)
		return true;
	for (size_t i = 1; i < options->n_mount_flags; i++)
		free(options->mount_flags[i]);
	options->n_mount_flags = 1;
	return message_set_text(&options->mount_flags[0], VOLUME_REDACTED);
}

/* Copies only the keys of the secrets, never the values. */
static bool show_keys(Holdfast__V1__Volume *view, const Holdfast__V1__VolumeSecrets *secrets)
{
	view->secrets = calloc(secrets->n_secrets + 1, sizeof(Holdfast__V1__Volume__SecretsEntry *));
	if (!view->secrets)
		return false;
	for (size_t i = 0; i < secrets->n_secrets; i++) {
		Holdfast__V1__Volume__SecretsEntry *entry = malloc(sizeof(*entry));

		if (!entry)
			return false;
		holdfast__v1__volume__secrets_entry__init(entry);
		view->secrets[view->n_secrets++] = entry;
		if (!message_set_text(&entry->key, secrets->secrets[i]->key) ||
		    !message_set_text(&entry->value, VOLUME_REDACTED))
			return false;
	}
	return true;
}

static bool show_detail(Holdfast__V1__Volume *view, const Holdfast__V1__VolumeDetail *detail)
{
	return !detail ||
	       (message_copy_fields(&view->base, &detail->base) &&
		(!detail->plain || message_copy_from(&view->base, &detail->plain->base, VOLUME_PLAIN_FIRST)));
}

bool volume_show(Holdfast__V1__Volume *view, const Holdfast__V1__VolumeDetail *detail,
		 const Holdfast__V1__VolumeSecrets *secrets)
{
	/* flags are redacted before the copy gets anywhere */
	return show_detail(view, detail) && redact_flags(view->mount_options) &&
	       (!secrets || show_keys(view, secrets));
}

bool volume_show_to_node(Holdfast__V1__Volume *view, const Holdfast__V1__VolumeDetail *detail,
			 const Holdfast__V1__VolumeSecrets *secrets)
{
	return show_detail(view, detail) && (!secrets || message_copy_fields(&view->base, &secrets->base));
}
