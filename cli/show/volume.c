/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "rpc/pbjson_word.h"
#include "show/output.h"
#include "show/show.h"

#include <inttypes.h>
#include <string.h>

/* protobuf-c's enums all have the descriptor as argument: one short name for what tables show. */
static const char *word(const ProtobufCEnumDescriptor *descriptor, int value,
			char text[static PBJSON_WORD_SIZE])
{
	return value == 0 ? "" : pbjson_word_text(descriptor, value, text);
}

static const char *yes_no(bool value)
{
	return value ? "yes" : "no";
}

static void add_volume(struct table *table, const Holdfast__V1__Volume *v, int64_t now_ms)
{
	char type[PBJSON_WORD_SIZE], mode[PBJSON_WORD_SIZE], phase[PBJSON_WORD_SIZE];
	char readers[16], writers[16], age[AGE_SIZE], size[SIZE_TEXT_SIZE];

	(void)str_format(readers, sizeof(readers), "%" PRIu32, v->readers);
	(void)str_format(writers, sizeof(writers), "%" PRIu32, v->writers);
	table_add(table, (const char *const[]){
				 v->id, v->namespace_,
				 word(&holdfast__v1__volume_type__descriptor, (int)v->type, type),
				 v->plugin_id, v->profile, yes_no(v->schedulable),
				 word(&holdfast__v1__access_mode__descriptor, (int)v->access_mode, mode),
				 readers, writers, age_text(v->create_time_ms, now_ms, age), v->external_id,
				 size_text(v->capacity, size),
				 word(&holdfast__v1__volume_phase__descriptor, (int)v->phase, phase),
				 v->unschedulable_reason});
}

enum status show_volumes(Holdfast__V1__Volume *const *volumes, size_t n, bool verbose, struct error *err)
{
	enum { COLUMNS = 10 };
	static const struct column columns[] = {
		{.name = "ID"},
		{.name = "NAMESPACE"},
		{.name = "TYPE"},
		{.name = "PLUGIN"},
		{.name = "PROFILE"},
		{.name = "SCHEDULABLE", .is_state = true},
		{.name = "ACCESS MODE"},
		{.name = "READERS", .is_number = true},
		{.name = "WRITERS", .is_number = true},
		{.name = "AGE"},
		/* verbose */
		{.name = "EXTERNAL ID"},
		{.name = "CAPACITY"},
		{.name = "PHASE"},
		{.name = "NOT SCHEDULABLE BECAUSE"},
	};
	cleanup(table_freep) struct table *table = NULL;
	int64_t now_ms = clock_realtime_ms();

	if (n == 0) {
		print_line("no volumes");
		return STATUS_OK;
	}
	table = table_new(columns, verbose ? ARRAY_SIZE(columns) : COLUMNS);
	for (size_t i = 0; i < n; i++)
		add_volume(table, volumes[i], now_ms);
	return table_print(table, NULL, err);
}

static void show_source(const Holdfast__V1__Source *source)
{
	char class[PBJSON_WORD_SIZE];
	char number[32];

	print_field("source", word(&holdfast__v1__source_class__descriptor, (int)source->class_, class));
	if (source->by_id[0])
		print_field("by_id", source->by_id);
	if (source->server[0])
		print_field("server", source->server);
	if (source->export[0])
		print_field("export", source->export);
	if (source->host_volume[0])
		print_field("host volume", source->host_volume);
	if (source->size_bytes) {
		(void)str_format(number, sizeof(number), "%" PRIu64 " bytes", source->size_bytes);
		print_field("size", number);
	}
	if (source->inodes) {
		(void)str_format(number, sizeof(number), "%" PRIu64, source->inodes);
		print_field("inodes", number);
	}
}

/* What the provider made, or is being asked for. */
static void show_provisioning(const Holdfast__V1__Volume *v)
{
	char text[PBJSON_WORD_SIZE], size[SIZE_TEXT_SIZE];

	if (v->phase != HOLDFAST__V1__VOLUME_PHASE__VOLUME_READY)
		print_field("phase", word(&holdfast__v1__volume_phase__descriptor, (int)v->phase, text));
	if (v->phase_error[0])
		print_field("last try", v->phase_error);
	if (v->capacity)
		print_field("capacity", size_text(v->capacity, size));
	if (v->capacity_min)
		print_field("capacity at least", size_text(v->capacity_min, size));
	if (v->capacity_max)
		print_field("capacity at most", size_text(v->capacity_max, size));
	for (size_t i = 0; i < v->n_node_capacities; i++)
		print_line("%-20s %s on node %s", i ? "" : "file system",
			   v->node_capacities[i]->bytes > 0 ? size_text(v->node_capacities[i]->bytes, size)
							    : "not grown yet",
			   v->node_capacities[i]->node_id);
	if (v->mount_options && v->mount_options->fs_type[0])
		print_field("file system type", v->mount_options->fs_type);
	if (v->mount_options && v->mount_options->n_mount_flags > 0)
		print_field("mount flags", "[redacted]");
	if (v->snapshot_id[0])
		print_field("from snapshot", v->snapshot_id);
	if (v->clone_id[0])
		print_field("from volume", v->clone_id);
}

static void show_fields(const Holdfast__V1__Volume *v)
{
	int64_t now_ms = clock_realtime_ms();
	char text[PBJSON_WORD_SIZE];
	char number[64];

	print_field("ID", v->id);
	print_field("name", v->name);
	if (v->description[0])
		print_field("description", v->description);
	print_field("namespace", v->namespace_);
	print_field("external ID", v->external_id);
	print_field("type", word(&holdfast__v1__volume_type__descriptor, (int)v->type, text));
	print_field("plugin", v->plugin_id);
	if (v->profile[0])
		print_field("profile", v->profile);
	if (v->source && v->source->class_)
		show_source(v->source);
	print_field("schedulable", v->schedulable ? "yes" : "no");
	if (!v->schedulable)
		print_field("because", v->unschedulable_reason);
	if (v->provider[0]) {
		print_field("provider", v->provider);
		print_field("provider version", v->provider_version);
	}
	if (v->controller_required) {
		(void)str_format(number, sizeof(number), "%" PRIu32 "/%" PRIu32, v->controllers_healthy,
				 v->controllers_expected);
		print_field("controllers healthy", number);
	}
	(void)str_format(number, sizeof(number), "%" PRIu32 "/%" PRIu32, v->nodes_healthy, v->nodes_expected);
	print_field("nodes healthy", number);
	show_provisioning(v);
	(void)str_format(number, sizeof(number), "readers: %" PRIu32 ", writers: %" PRIu32, v->readers,
			 v->writers);
	print_field("in use by", v->readers + v->writers > 0 ? number : "nobody");
	if (v->access_mode) /* those of the claims: a free volume has none */
		print_field("access mode",
			    word(&holdfast__v1__access_mode__descriptor, (int)v->access_mode, text));
	if (v->attachment_mode)
		print_field("attachment mode",
			    word(&holdfast__v1__attachment_mode__descriptor, (int)v->attachment_mode, text));
	(void)str_format(number, sizeof(number), "%" PRIu64, v->generation);
	print_field("generation", number);
	print_field("age", age_text(v->create_time_ms, now_ms, number));
}

static enum status show_capabilities(const Holdfast__V1__Volume *volume, struct error *err)
{
	static const struct column columns[] = {{.name = "ACCESS MODE"}, {.name = "ATTACHMENT MODE"}};
	cleanup(table_freep) struct table *table = NULL;

	if (volume->n_requested_capabilities == 0)
		return STATUS_OK;
	table = table_new(columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < volume->n_requested_capabilities; i++) {
		const Holdfast__V1__Capability *c = volume->requested_capabilities[i];
		char access[PBJSON_WORD_SIZE], attachment[PBJSON_WORD_SIZE];

		table_add(table,
			  (const char *const[]){
				  word(&holdfast__v1__access_mode__descriptor, (int)c->access_mode, access),
				  word(&holdfast__v1__attachment_mode__descriptor, (int)c->attachment_mode,
				       attachment),
			  });
	}
	return table_print(table, "capabilities", err);
}

/* rack=R1,zone=a */
static void segments_text(const Holdfast__V1__Topology *topology, char *text, size_t size)
{
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < topology->n_segments && n < size; i++)
		n += (size_t)snprintf(text + n, size - n, "%s%s=%s", i ? "," : "", topology->segments[i]->key,
				      topology->segments[i]->value);
}

static void show_topologies(const char *name, Holdfast__V1__Topology *const *topologies, size_t n)
{
	enum { TOPOLOGY_TEXT_SIZE = 512 };
	char text[TOPOLOGY_TEXT_SIZE];

	if (n == 0)
		return;
	(void)printf("\n%s\n", name);
	for (size_t i = 0; i < n; i++) {
		segments_text(topologies[i], text, sizeof(text));
		print_line("%s", text);
	}
}

static void show_why(const Holdfast__V1__GetVolumeResponse *answer)
{
	if (!answer->why[0] && answer->n_explanations == 0)
		return;
	(void)fputs("\nwhy\n", stdout);
	if (answer->why[0])
		print_text(stdout, answer->why);
	for (size_t i = 0; i < answer->n_explanations; i++)
		if (!strstr(answer->why, answer->explanations[i]->text))
			print_text(stdout, answer->explanations[i]->text);
}

enum status show_volume(const Holdfast__V1__GetVolumeResponse *answer, bool verbose, struct error *err)
{
	const Holdfast__V1__Volume *volume = answer->volume;
	enum status status;

	if (!volume)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no volume");
	show_fields(volume);
	show_topologies("topologies", volume->topologies, volume->n_topologies);
	status = show_capabilities(volume, err);
	if (status == STATUS_OK)
		status = show_claims(volume->claims, volume->n_claims, "claims", verbose, err);
	if (status == STATUS_OK)
		show_why(answer);
	return status;
}
