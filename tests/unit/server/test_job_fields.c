/* SPDX-License-Identifier: Apache-2.0 */
/* Each field of a job, changed on its own, at any depth: is the job another one, and are its members
 * replaced? */

#include "unit.h"

#include "base/str.h"
#include "job/job_spec.h"

#include <string.h>

enum { PATH_SIZE = 256, ELEMENT_SIZE = 1024 };

/* Changed by a submission, and no member is replaced for it. */
static const char *const kept[] = {"id",
				   "namespace",
				   "type",
				   "groups.name",
				   "groups.count",
				   "groups.update",
				   "groups.update.",
				   "groups.reschedule",
				   "groups.reschedule.",
				   "groups.on_node_loss",
				   "groups.on_node_loss."};

/* The server's: no part of what was submitted. */
static const char *const servers[] = {"version",      "stop",	      "update_status",	"submit_time_ms",
				      "create_index", "modify_index", "restart_version"};

static Holdfast__V1__JobGroup group = HOLDFAST__V1__JOB_GROUP__INIT, *groups[] = {&group};
static Holdfast__V1__Job job = HOLDFAST__V1__JOB__INIT;
static Holdfast__V1__Allocation allocation = HOLDFAST__V1__ALLOCATION__INIT;
static size_t n_fields, n_running;

/* Is @path of the list? An entry that ends with a dot means all below it. */
static bool is_of(const char *const *list, size_t n, const char *path)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(list[i], path) ||
		    (strchr(list[i], '\0')[-1] == '.' && str_starts_with(path, list[i])))
			return true;
	return false;
}

static Holdfast__V1__Job *copy_of_job(void)
{
	size_t n = holdfast__v1__job__get_packed_size(&job);
	cleanup_free uint8_t *bytes = NON_NULL(malloc(n + 1));

	(void)holdfast__v1__job__pack(&job, bytes);
	return holdfast__v1__job__unpack(NULL, n, bytes);
}

/* The job after one change, compared with @before. */
static void compare(const Holdfast__V1__Job *before, uint64_t content, const char *path)
{
	bool is_submitted = !is_of(servers, ARRAY_SIZE(servers), path);
	bool is_run = is_submitted && !is_of(kept, ARRAY_SIZE(kept), path);

	if (job_same_submission(before, &job) == is_submitted)
		fail_msg("%s: the job counts as %s", path, is_submitted ? "unchanged" : "changed");
	if ((job_content(&group) == content) == is_run)
		fail_msg("%s: members are %s for it", path, is_run ? "not replaced" : "replaced");
	n_fields++;
	n_running += is_run;
}

static void visit(ProtobufCMessage *message, const char *path);

/* Lets the field hold something; @element is what its pointer, if it is one, points to. */
static void fill(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, void *element, void **list)
{
	char *at = (char *)message + field->offset;
	const bool is_list = field->label == PROTOBUF_C_LABEL_REPEATED;

	if (field->type == PROTOBUF_C_TYPE_MESSAGE)
		protobuf_c_message_init(field->descriptor, element);
	if (field->type == PROTOBUF_C_TYPE_STRING)
		(void)strcpy(element, "x");
	*list = element;
	if (is_list) {
		void *values = field->type == PROTOBUF_C_TYPE_MESSAGE || field->type == PROTOBUF_C_TYPE_STRING
				       ? (void *)list
				       : element;

		*(size_t *)(void *)((char *)message + field->quantifier_offset) = 1;
		memcpy(at, &values, sizeof(values));
		return;
	}
	if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
		*(uint32_t *)(void *)((char *)message + field->quantifier_offset) = field->id;
	if (field->type == PROTOBUF_C_TYPE_MESSAGE || field->type == PROTOBUF_C_TYPE_STRING)
		memcpy(at, &element, sizeof(element));
	else if (field->type == PROTOBUF_C_TYPE_BYTES)
		*(ProtobufCBinaryData *)(void *)at = (ProtobufCBinaryData){.len = 1, .data = element};
	else
		*at ^= 1;
}

static void visit_field(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, const char *path)
{
	_Alignas(16) char element[ELEMENT_SIZE] = {0};
	const size_t size = message->descriptor->sizeof_message;
	cleanup_free void *saved = malloc(size);
	cleanup_pb Holdfast__V1__Job *before = copy_of_job();
	uint64_t content = job_content(&group);
	void *list;

	assert_true(saved && before);
	assert_true(field->type != PROTOBUF_C_TYPE_MESSAGE ||
		    ((const ProtobufCMessageDescriptor *)field->descriptor)->sizeof_message <= ELEMENT_SIZE);
	memcpy(saved, message, size);
	fill(message, field, element, &list);
	compare(before, content, path);
	if (field->type == PROTOBUF_C_TYPE_MESSAGE)
		visit((ProtobufCMessage *)(void *)element, path);
	memcpy(message, saved, size);
}

static void visit(ProtobufCMessage *message, const char *path)
{
	for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
		char below[PATH_SIZE];

		(void)str_format(below, sizeof(below), "%s%s%s", path, path[0] == '\0' ? "" : ".",
				 field->name);
		if (message == &job.base && str_eq(field->name, "groups"))
			visit(&group.base, below);
		else if (message == &group.base && str_eq(field->name, "allocation"))
			visit(&allocation.base, below);
		else
			visit_field(message, field, below);
	}
}

TEST(only_fields_of_the_allocation_replace_members)
{
	group.allocation = &allocation;
	job.groups = groups;
	job.n_groups = 1;
	visit(&job.base, "");
	print_message("%zu fields, %zu of what members run\n", n_fields, n_running);
	assert_true(n_running > 100 && n_fields > n_running + 15);
}
