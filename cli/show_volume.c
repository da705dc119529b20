#include "output.h"
#include "show.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "rpc/pbjson_word.h"

#include <inttypes.h>

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

enum status show_volumes(Holdfast__V1__Volume *const *volumes, size_t n, struct error *err)
{
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
	};
	cleanup(table_freep) struct table *table = NULL;
	int64_t now_ms = clock_realtime_ms();

	if (n == 0) {
		print_line("no volumes");
		return STATUS_OK;
	}
	table = table_new(columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < n; i++) {
		const Holdfast__V1__Volume *v = volumes[i];
		char type[PBJSON_WORD_SIZE], mode[PBJSON_WORD_SIZE];
		char readers[16], writers[16], age[AGE_SIZE];

		(void)str_format(readers, sizeof(readers), "%" PRIu32, v->readers);
		(void)str_format(writers, sizeof(writers), "%" PRIu32, v->writers);
		table_add(table,
			  (const char *const[]){
				  v->id, v->namespace_,
				  word(&holdfast__v1__volume_type__descriptor, (int)v->type, type),
				  v->plugin_id, v->profile, yes_no(v->schedulable),
				  word(&holdfast__v1__access_mode__descriptor, (int)v->access_mode, mode),
				  readers, writers, age_text(v->create_time_ms, now_ms, age)});
	}
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

static void show_fields(const Holdfast__V1__Volume *v)
{
	int64_t now_ms = clock_realtime_ms();
	char text[PBJSON_WORD_SIZE];
	char number[64];

	print_field("ID", v->id);
	print_field("name", v->name);
	print_field("namespace", v->namespace_);
	print_field("external ID", v->external_id);
	print_field("type", word(&holdfast__v1__volume_type__descriptor, (int)v->type, text));
	print_field("plugin", v->plugin_id);
	if (v->profile[0])
		print_field("profile", v->profile);
	if (v->source)
		show_source(v->source);
	print_field("schedulable", v->schedulable ? "yes" : "no");
	if (!v->schedulable)
		print_field("because", v->unschedulable_reason);
	(void)str_format(number, sizeof(number), "%" PRIu32, v->nodes_healthy);
	print_field("nodes healthy", number);
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

enum status show_claims(Holdfast__V1__Claim *const *claims, size_t n, const char *title, struct error *err)
{
	static const struct column columns[] = {
		{.name = "VOLUME"},	{.name = "ALLOCATION"},
		{.name = "NODE"},	{.name = "STATE", .is_state = true},
		{.name = "MODE"},	{.name = "EVIDENCE"},
		{.name = "AGE"},	{.name = "TRIES", .is_number = true},
		{.name = "LAST ERROR"},
	};
	cleanup(table_freep) struct table *table = NULL;
	int64_t now_ms = clock_realtime_ms();

	if (n == 0)
		return STATUS_OK;
	table = table_new(columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < n; i++) {
		const Holdfast__V1__Claim *c = claims[i];
		char state[PBJSON_WORD_SIZE], mode[PBJSON_WORD_SIZE], evidence[PBJSON_WORD_SIZE];
		char age[AGE_SIZE], tries[16];

		(void)str_format(tries, sizeof(tries), "%" PRIu32, c->attempts);
		table_add(table,
			  (const char *const[]){
				  c->volume_id, c->allocation_id, c->node_id,
				  word(&holdfast__v1__claim_state__descriptor, (int)c->state, state),
				  word(&holdfast__v1__access_mode__descriptor, (int)c->access_mode, mode),
				  word(&holdfast__v1__evidence__descriptor, (int)c->evidence, evidence),
				  age_text(c->create_time_ms, now_ms, age), tries, c->last_error});
	}
	return table_print(table, title, err);
}

enum status show_volume(const Holdfast__V1__Volume *volume, const char *why, struct error *err)
{
	enum status status;

	if (!volume)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no volume");
	show_fields(volume);
	status = show_capabilities(volume, err);
	if (status == STATUS_OK)
		status = show_claims(volume->claims, volume->n_claims, "claims", err);
	if (status == STATUS_OK && why[0]) {
		(void)fputs("\nwhy\n", stdout);
		print_text(stdout, why);
	}
	return status;
}
