/* SPDX-License-Identifier: Apache-2.0 */
/* Every text of every message that nodes and fencers send: one reason, or a row names who gets it as it
 * is. */
#include "unit.h"

#include "access/words.h"
#include "base/str.h"
#include "pb/reflect.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/fences.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>

#define SAID "busy;\nn2 is dead. Next: holdfast node attest n2 db; then reboot\r"
#define TAKEN "busy, n2 is dead. next: holdfast node attest n2 db, then reboot "

static const struct row {
	const char *part; /* "Message.field", on the way from the session's message to the text */
	const char *gets; /* it as it is */
} rows[] = {
	{"Allocation.constraints", "the server compares it with attributes of nodes, which have no ;"},
	{"Allocation.tasks", "the driver, in an order"},
	{"Claim.external_id", "the server compares it with the volume's; else the claim is refused"},
	{"ControllerAttachResponse.publish_context", "the plugin on the node"},
	{"ControllerCreateResponse.context", "the plugin"},
	{"ControllerCreateResponse.external_id", "the plugin"},
	{"ControllerListSnapshotsResponse.next_token", "the plugin"},
	{"ControllerListVolumesResponse.next_token", "the plugin"},
	{"EnrollRequest.csr", "OpenSSL, which reads its lines"},
	{"ExternalSnapshot.external_source_id", "the plugin"},
	{"ExternalSnapshot.snapshot_id", "the plugin"},
	{"ExternalVolume.clone_id", "the plugin"},
	{"ExternalVolume.context", "the plugin"},
	{"ExternalVolume.external_id", "the plugin"},
	{"ExternalVolume.published_node_ids", "the plugin"},
	{"ExternalVolume.snapshot_id", "the plugin"},
	{"NodeHalf.provider_node_id", "the plugin's controller"},
	{"RenewRequest.csr", "OpenSSL, which reads its lines"},
	{"Topology.segments", "the plugin"},
	{"VolumeRequest.mount_options", "the plugin"},
};

enum { DEPTH_MAX = 16 };

struct way {
	const ProtobufCMessage *root;
	char parts[DEPTH_MAX][REFLECT_NAME_SIZE];
	size_t n;
	size_t n_texts;
	bool used[ARRAY_SIZE(rows)];
};

/* One value, of a list or not. */
static void put(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, void **value)
{
	const size_t one = 1;
	char *quantifier = (char *)message + field->quantifier_offset;

	memcpy((char *)message + field->offset, reflect_is_list(field) ? (void *)&value : (void *)value,
	       sizeof(void *));
	if (reflect_is_list(field))
		memcpy(quantifier, &one, sizeof(one));
	else if (reflect_in_oneof(field))
		memcpy(quantifier, &field->id, sizeof(field->id));
}

static void look_at_text(struct way *way, const char *text)
{
	bool has_row = false;

	words_take(way->root);
	way->n_texts++;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t k = 0; k < way->n; k++)
			if (str_eq(rows[i].part, way->parts[k]))
				has_row = way->used[i] = true;
	assert_msg(str_eq(text, has_row ? SAID : TAKEN), "%s of %s: '%s'", way->parts[way->n - 1],
		   way->root->descriptor->name, text);
}

static void look_at(struct way *way, ProtobufCMessage *message)
{
	const ProtobufCMessageDescriptor *type = message->descriptor;

	assert_true(way->n < DEPTH_MAX);
	for (unsigned int i = 0; i < type->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &type->fields[i];
		const ProtobufCMessageDescriptor *inner = field->descriptor;
		char said[] = SAID;
		void *value = said;

		protobuf_c_message_init(type, message);
		(void)str_format(way->parts[way->n++], REFLECT_NAME_SIZE, "%s.%s", type->short_name,
				 field->name);
		if (field->type == PROTOBUF_C_TYPE_STRING) {
			put(message, field, &value);
			look_at_text(way, said);
		} else if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
			value = NON_NULL(calloc(1, inner->sizeof_message));
			protobuf_c_message_init(inner, value);
			put(message, field, &value);
			look_at(way, value);
			free(value);
		}
		way->n--;
	}
	protobuf_c_message_init(type, message);
}

TEST(every_text_of_a_node_or_fencer_is_one_reason_or_has_a_row)
{
	Holdfast__V1__SessionUp session;
	Holdfast__V1__TaskStreamUp stream;
	Holdfast__V1__FencerUp fencer;
	Holdfast__V1__ClaimVolumeRequest claim;
	Holdfast__V1__OrderTaskRequest order;
	Holdfast__V1__RenewRequest renewal;
	Holdfast__V1__EnrollRequest enrolment;
	ProtobufCMessage *const roots[] = {&session.base, &stream.base,	 &fencer.base,	 &claim.base,
					   &order.base,	  &renewal.base, &enrolment.base};
	struct way way = {.n_texts = 0};

	holdfast__v1__session_up__init(&session);
	holdfast__v1__task_stream_up__init(&stream);
	holdfast__v1__fencer_up__init(&fencer);
	holdfast__v1__claim_volume_request__init(&claim);
	holdfast__v1__order_task_request__init(&order);
	holdfast__v1__renew_request__init(&renewal);
	holdfast__v1__enroll_request__init(&enrolment);
	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		way.root = roots[i];
		look_at(&way, roots[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_msg(way.used[i], "%s is no part of what a node sends", rows[i].part);
	assert_true(way.n_texts > 100);
}
