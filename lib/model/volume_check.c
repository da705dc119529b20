/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "base/utf8.h"
#include "model/node.h"
#include "model/node_loss.h"
#include "model/schedule.h"
#include "model/volume_detail.h"
#include "pb/reflect.h"

#include <stdlib.h>
#include <string.h>

MESSAGE_ASSERT_TEXT_ENTRY(Holdfast__V1__Topology__SegmentsEntry);

static enum status too_many(const char *field, size_t n, size_t max, struct error *err)
{
	return error_invalid(err, field, "%zu entries, at most %zu", n, max);
}

/* Values may be secret: no message has one. */
static enum status check_map(const char *field, struct message_text_entry *const *map, size_t n,
			     struct error *err)
{
	size_t bytes = 0;

	if (n > VOLUME_MAP_ENTRIES_MAX)
		return too_many(field, n, VOLUME_MAP_ENTRIES_MAX, err);
	for (size_t i = 0; i < n; i++) {
		size_t key_len = strlen(map[i]->key);

		if (key_len == 0 || key_len > VOLUME_MAP_KEY_MAX || !str_is_text(map[i]->key))
			return error_invalid(err, field,
					     "entry %zu has a key that is empty, longer than %d bytes or not "
					     "text",
					     i, VOLUME_MAP_KEY_MAX);
		if (message_text_map_find(map + i + 1, n - i - 1, map[i]->key))
			return error_invalid(err, field, "'%.64s' is given twice", map[i]->key);
		bytes += key_len + strlen(map[i]->value);
	}
	if (bytes > VOLUME_MAP_BYTES_MAX)
		return error_invalid(err, field, "%zu bytes of keys and values, at most %d", bytes,
				     VOLUME_MAP_BYTES_MAX);
	return STATUS_OK;
}

static enum status check_values(const char *field, struct message_text_entry *const *map, size_t n,
				struct error *err)
{
	for (size_t i = 0; i < n; i++) /* line breaks are allowed: keys and certificates have them */
		if (!utf8_is_valid(map[i]->value, strlen(map[i]->value)))
			return error_invalid(err, field, "the value of '%.64s' is not UTF-8", map[i]->key);
	return STATUS_OK;
}

enum status volume_check_map(const char *field, struct message_text_entry *const *map, size_t n,
			     struct error *err)
{
	TRY(check_map(field, map, n, err));
	return check_values(field, map, n, err);
}

enum status volume_check_secrets(struct message_text_entry *const *secrets, size_t n, struct error *err)
{
	TRY(volume_check_map("secrets", secrets, n, err));
	for (size_t i = 0; i < n; i++)
		if (str_eq(secrets[i]->value, VOLUME_REDACTED))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "secrets: '%.64s' is \"" VOLUME_REDACTED
					 "\", which keeps a value only when a registered volume is "
					 "registered again: give the value",
					 secrets[i]->key);
	return STATUS_OK;
}

enum status mount_options_check(const Holdfast__V1__MountOptions *options, struct error *err)
{
	if (strlen(options->fs_type) > VOLUME_FS_TYPE_MAX || !str_is_made_of(options->fs_type, "._-"))
		return error_invalid(err, "mount_options.fs_type",
				     "'%.64s' is not the name of a file system (letters, "
				     "digits and ._-, up to %d)",
				     options->fs_type, VOLUME_FS_TYPE_MAX);
	if (options->n_mount_flags > VOLUME_MOUNT_FLAGS_MAX)
		return too_many("mount_options.mount_flags", options->n_mount_flags, VOLUME_MOUNT_FLAGS_MAX,
				err);
	for (size_t i = 0; i < options->n_mount_flags;
	     i++) { /* may hold a password: never part of a message */
		const char *flag = options->mount_flags[i];
		char field[ERROR_FIELD_SIZE];

		(void)str_format(field, sizeof(field), "mount_options.mount_flags[%zu]", i);
		if (flag[0] == '\0' || strlen(flag) > VOLUME_MOUNT_FLAG_MAX || !str_is_text(flag))
			return error_invalid(err, field, "it is empty, longer than %d bytes or not text",
					     VOLUME_MOUNT_FLAG_MAX);
	}
	return STATUS_OK;
}

static enum status check_mount_options(const struct volume *volume, const Holdfast__V1__MountOptions *options,
				       struct error *err)
{
	if (!options || (options->fs_type[0] == '\0' && options->n_mount_flags == 0))
		return STATUS_OK;
	if (!volume_has_attachment(volume, ATTACHMENT_FILE_SYSTEM))
		return error_invalid(err, "mount_options",
				     "a volume that is only attached as a block device is never "
				     "mounted; leave them out, or add a capability with attachment_mode "
				     "\"file-system\"");
	return mount_options_check(options, err);
}

static enum status check_topology(const char *list, size_t i, const Holdfast__V1__Topology *topology,
				  struct error *err)
{
	char field[ERROR_FIELD_SIZE];

	(void)str_format(field, sizeof(field), "%s[%zu].segments", list, i);
	if (topology->n_segments == 0)
		return error_invalid(err, field, "at least one is needed");
	if (topology->n_segments > TOPOLOGY_SEGMENTS_MAX)
		return too_many(field, topology->n_segments, TOPOLOGY_SEGMENTS_MAX, err);
	for (size_t k = 0; k < topology->n_segments; k++) {
		const Holdfast__V1__Topology__SegmentsEntry *segment = topology->segments[k];

		if (segment->key[0] == '\0' || strlen(segment->key) > TOPOLOGY_TEXT_MAX ||
		    strlen(segment->value) > TOPOLOGY_TEXT_MAX || !str_is_text(segment->key) ||
		    !str_is_text(segment->value))
			return error_invalid(err, field,
					     "'%.64s' is empty, not text, or longer than %d bytes (it or its "
					     "value)",
					     segment->key, TOPOLOGY_TEXT_MAX);
	}
	return STATUS_OK;
}

enum status volume_check_topologies(const char *field, Holdfast__V1__Topology *const *topologies, size_t n,
				    struct error *err)
{
	if (n > VOLUME_TOPOLOGIES_MAX)
		return too_many(field, n, VOLUME_TOPOLOGIES_MAX, err);
	for (size_t i = 0; i < n; i++)
		TRY(check_topology(field, i, topologies[i], err));
	return STATUS_OK;
}

static enum status check_all_topologies(const struct volume_parts *parts, struct error *err)
{
	const Holdfast__V1__VolumeDetail *detail = parts->detail;
	const Holdfast__V1__TopologyRequest *request = detail->topology_request;

	TRY(volume_check_topologies("topologies", detail->topologies, detail->n_topologies, err));
	if (request)
		TRY(volume_check_topologies("topology_request.required", request->required,
					    request->n_required, err));
	if (request)
		TRY(volume_check_topologies("topology_request.preferred", request->preferred,
					    request->n_preferred, err));
	return STATUS_OK;
}

static enum status check_content(const struct volume_parts *parts, struct error *err)
{
	const Holdfast__V1__VolumeDetail *detail = parts->detail;

	if (detail->clone_id[0] != '\0' && detail->snapshot_id[0] != '\0')
		return error_invalid(err, "clone_id",
				     "a volume is made from another one or from a snapshot (snapshot_id), "
				     "not from both");
	if (strlen(detail->clone_id) > EXTERNAL_ID_MAX || !str_is_text(detail->clone_id))
		return error_invalid(err, "clone_id", "longer than %d bytes or not text", EXTERNAL_ID_MAX);
	if (strlen(detail->snapshot_id) > EXTERNAL_ID_MAX || !str_is_text(detail->snapshot_id))
		return error_invalid(err, "snapshot_id", "longer than %d bytes or not text", EXTERNAL_ID_MAX);
	return STATUS_OK;
}

static enum status check_capacity(const struct volume_parts *parts, struct error *err)
{
	const Holdfast__V1__VolumeDetail *detail = parts->detail;

	if (detail->capacity_min > VOLUME_CAPACITY_MAX)
		return error_invalid(err, "capacity_min", "more than %lld bytes",
				     (long long)VOLUME_CAPACITY_MAX);
	if (detail->capacity_max > VOLUME_CAPACITY_MAX)
		return error_invalid(err, "capacity_max", "more than %lld bytes",
				     (long long)VOLUME_CAPACITY_MAX);
	if (detail->capacity_max > 0 && detail->capacity_max < detail->capacity_min)
		return error_invalid(err, "capacity_max", "%llu bytes is less than capacity_min, %llu",
				     (unsigned long long)detail->capacity_max,
				     (unsigned long long)detail->capacity_min);
	return STATUS_OK;
}

static enum status check_options(const struct volume_parts *parts, struct error *err)
{
	return check_mount_options(&parts->volume, parts->detail->mount_options, err);
}

static enum status check_parameters(const struct volume_parts *parts, struct error *err)
{
	return volume_check_map("parameters", VOLUME_MAP(parts->detail->parameters),
				parts->detail->n_parameters, err);
}

static enum status check_context(const struct volume_parts *parts, struct error *err)
{
	return volume_check_map("context", VOLUME_MAP(parts->detail->context), parts->detail->n_context, err);
}

static enum status check_secrets(const struct volume_parts *parts, struct error *err)
{
	return volume_check_map("secrets", VOLUME_MAP(parts->secrets->secrets), parts->secrets->n_secrets,
				err);
}

/* Source and profile define a native volume completely: a field without effect would be a promise. */
static enum status check_native(const struct volume_parts *parts, struct error *err)
{
	const Holdfast__V1__VolumeDetail *detail = parts->detail;
	const struct {
		const char *field;
		bool is_given;
	} fields[] = {
		{"mount_options", detail->mount_options != NULL},
		{"parameters", detail->n_parameters > 0},
		{"context", detail->n_context > 0},
		{"secrets", parts->secrets->n_secrets > 0},
		{"topology_request", detail->topology_request != NULL},
		{"topologies", detail->n_topologies > 0},
		{"capacity_min", detail->capacity_min > 0},
		{"capacity_max", detail->capacity_max > 0},
		{"clone_id", detail->clone_id[0] != '\0'},
		{"snapshot_id", detail->snapshot_id[0] != '\0'},
	};

	enum status status = STATUS_OK;

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		struct error one = {.msg = ""};

		if (fields[i].is_given)
			status = error_collect(
				status,
				error_invalid(
					&one, fields[i].field,
					"is for csi volumes; source and profile define a native volume"),
				&one, err);
	}
	return status;
}

static enum status check_plain(const struct volume_parts *parts, struct error *err)
{
	const Holdfast__V1__Volume *plain = parts->detail->plain;

	if (plain && plain->warn_at > 100)
		return error_invalid(err, "warn_at", "is a percentage, 1 to 100; 0 or no value is 90");

	for (unsigned int i = 0; plain && i < plain->base.descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &plain->base.descriptor->fields[i];
		const struct reflect_values values = reflect_values(&plain->base, field);

		for (size_t k = 0; field->type == PROTOBUF_C_TYPE_STRING && k < values.n; k++) {
			const char *text = reflect_text(reflect_value(&values, k));

			if (strlen(text) > VOLUME_PLAIN_TEXT_MAX || !str_is_text(text))
				return error_invalid(err, field->name, "longer than %d bytes or not text",
						     VOLUME_PLAIN_TEXT_MAX);
		}
	}
	return STATUS_OK;
}

static enum status check_shares(const struct volume_parts *parts, struct error *err)
{
	const char *shares = parts->detail->shares;

	if (shares[0] == '\0')
		return STATUS_OK;
	if (!volume_id_is_valid(shares))
		return error_invalid(err, "shares", "'%.64s' is not a volume id", shares);
	if (str_eq(shares, parts->volume.id))
		return error_invalid(err, "shares",
				     "names the volume itself; name another volume of the same storage");
	return STATUS_OK;
}

static enum status check_node_loss(const struct volume_parts *parts, struct error *err)
{
	return node_loss_check(parts->detail->on_node_loss, parts->volume.type != VOLUME_CSI, err);
}

static enum status check_snapshots(const struct volume_parts *parts, struct error *err)
{
	const Holdfast__V1__SnapshotSchedule *schedule = parts->detail->snapshots;

	if (!schedule)
		return STATUS_OK;
	if (parts->volume.type != VOLUME_CSI)
		return error_invalid(
			err, "snapshots",
			"is for csi volumes; a native volume has no provider that makes snapshots");
	if (schedule->every_ms < SCHEDULE_EVERY_MIN_MS || schedule->every_ms > SCHEDULE_EVERY_MAX_MS)
		return error_invalid(err, "snapshots.every", "it is 1m to 31d");
	if (schedule->keep < 1 || schedule->keep > SCHEDULE_KEEP_MAX)
		return error_invalid(err, "snapshots.keep", "it is 1 to %d", SCHEDULE_KEEP_MAX);
	return STATUS_OK;
}

enum status volume_parts_validate(const struct volume_parts *parts, struct error *err)
{
	static enum status (*const csi[])(const struct volume_parts *parts, struct error *err) = {
		check_options,	      check_parameters, check_context,	check_secrets,
		check_all_topologies, check_content,	check_capacity,
	};
	struct error one, all = {.msg = ""};
	enum status status = volume_validate(&parts->volume, &all);

	status = error_collect(status, check_plain(parts, &one), &one, &all);
	status = error_collect(status, check_shares(parts, &one), &one, &all);
	status = error_collect(status, check_node_loss(parts, &one), &one, &all);
	status = error_collect(status, check_snapshots(parts, &one), &one, &all);
	if (parts->volume.type == VOLUME_NATIVE)
		status = error_collect(status, check_native(parts, &one), &one, &all);
	for (size_t i = 0; i < ARRAY_SIZE(csi) && parts->volume.type == VOLUME_CSI; i++)
		status = error_collect(status, csi[i](parts, &one), &one, &all);
	if (status != STATUS_OK && err)
		*err = all;
	return status;
}
