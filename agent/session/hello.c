/* SPDX-License-Identifier: Apache-2.0 */
#include "session/hello.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "model/pb.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* An empty string stays the descriptor's own; false when memory is short. */
static bool put_text(char **dst, const char *text)
{
	if (text[0] == '\0')
		return true;
	*dst = strdup(text);
	return *dst != NULL;
}

static bool put_tasks(Holdfast__V1__AllocStatus *pb, const struct message_list *status)
{
	size_t n = message_list_n(status);

	if (n == 0)
		return true;
	pb->tasks = calloc(n, sizeof(void *));
	for (size_t i = 0; pb->tasks && i < n; i++) {
		pb->tasks[i] = (void *)message_convert(status->messages[i]->descriptor, status->messages[i]);
		if (!pb->tasks[i])
			return false;
		pb->n_tasks = i + 1;
	}
	return pb->tasks != NULL;
}

Holdfast__V1__AllocStatus *hello_alloc_status(const struct alloc *alloc, bool is_short)
{
	Holdfast__V1__AllocStatus *pb = malloc(sizeof(*pb));

	if (!pb)
		return NULL;
	holdfast__v1__alloc_status__init(pb);
	pb->client_status = (Holdfast__V1__ClientStatus)alloc->client_status;
	pb->code = alloc->client_code;
	if (!put_text(&pb->alloc_id, alloc->id) || !put_text(&pb->namespace_, alloc->namespace) ||
	    (!is_short && !put_text(&pb->description, alloc_description(alloc))))
		goto fail;
	if (is_short)
		return pb;
	if (!put_tasks(pb, alloc->task_status))
		goto fail;
	if (alloc->n_published == 0)
		return pb;
	pb->published = calloc(alloc->n_published, sizeof(void *));
	if (!pb->published)
		goto fail;
	for (uint32_t i = 0; i < alloc->n_published; i++) {
		pb->published[i] = alloc_volume_to_pb(&alloc->published[i]);
		if (!pb->published[i])
			goto fail;
		pb->n_published = i + 1;
	}
	return pb;
fail:
	protobuf_c_message_free_unpacked(&pb->base, NULL);
	return NULL;
}

static bool put_allocs(Holdfast__V1__SessionHello *hello, const struct allocs *allocs, bool is_short)
{
	const struct alloc_runner *runner = NULL;
	size_t n = allocs_count(allocs);

	if (n == 0)
		return true;
	hello->allocs = calloc(n, sizeof(void *));
	if (!hello->allocs)
		return false;
	while ((runner = allocs_next(allocs, runner))) {
		Holdfast__V1__AllocStatus *status =
			hello_alloc_status(&alloc_runner_record(runner)->alloc, is_short);

		if (!status)
			return false;
		assert(hello->n_allocs < n);
		hello->allocs[hello->n_allocs++] = status;
	}
	return true;
}

static Holdfast__V1__MountedClaim *mounted_claim(const struct volume_record *volume)
{
	Holdfast__V1__MountedClaim *pb = malloc(sizeof(*pb));

	if (!pb)
		return NULL;
	holdfast__v1__mounted_claim__init(pb);
	pb->generation = volume->generation;
	if (put_text(&pb->claim_id, volume->claim_id))
		return pb;
	free(pb);
	return NULL;
}

/* Adds the volumes that were granted and not released: they may be mounted, no matter which step the journal
 * shows. Leaves out those of an earlier boot, whose mounts ended with it. */
static bool put_mounted(Holdfast__V1__SessionHello *hello, const struct hello_facts *facts)
{
	const struct alloc_runner *runner = NULL;
	size_t n = allocs_count(facts->allocs) * ALLOC_VOLUMES_MAX;

	if (n == 0)
		return true;
	hello->mounted = calloc(n, sizeof(void *));
	if (!hello->mounted)
		return false;
	while ((runner = allocs_next(facts->allocs, runner))) {
		const struct alloc_record *record = alloc_runner_record(runner);

		if (!str_eq(record->boot_id, facts->boot_id))
			continue;
		for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
			if (!volume_record_is_live(&record->volumes[i]))
				continue;
			assert(hello->n_mounted < n);
			hello->mounted[hello->n_mounted] = mounted_claim(&record->volumes[i]);
			if (!hello->mounted[hello->n_mounted])
				return false;
			hello->n_mounted++;
		}
	}
	return true;
}

static bool put_mark(Holdfast__V1__SessionHello *hello, const Holdfast__V1__Mark *mark)
{
	size_t n = mark ? holdfast__v1__mark__get_packed_size(mark) : 0;
	cleanup_free uint8_t *bytes = malloc(n + 1);

	if (!mark || !bytes)
		return bytes != NULL;
	hello->mark = holdfast__v1__mark__unpack(NULL, holdfast__v1__mark__pack(mark, bytes), bytes);
	return hello->mark != NULL;
}

static bool put_trail(Holdfast__V1__SessionHello *hello, const struct trail_head *head)
{
	Holdfast__V1__TrailHead *pb;

	if (head->record == 0)
		return true;
	pb = malloc(sizeof(*pb));
	if (!pb)
		return false;
	holdfast__v1__trail_head__init(pb);
	hello->trail = pb;
	pb->record = head->record;
	pb->sha256.data = malloc(sizeof(head->sha256));
	if (!pb->sha256.data)
		return false;
	pb->sha256.len = sizeof(head->sha256);
	memcpy(pb->sha256.data, head->sha256, sizeof(head->sha256));
	return true;
}

static bool put_attributes(Holdfast__V1__SessionHello *hello, const struct message_list *attributes)
{
	size_t n = message_list_n(attributes);

	hello->attributes = calloc(n + 1, sizeof(Holdfast__Driver__V1__KeyValue *));
	for (size_t i = 0; hello->attributes && i < n; i++) {
		const ProtobufCMessage *one = attributes->messages[i];

		hello->attributes[i] = (void *)message_convert(one->descriptor, one);
		if (!hello->attributes[i])
			return false;
		hello->n_attributes = i + 1;
	}
	return hello->attributes != NULL;
}

static Holdfast__V1__SessionHello *make(const struct hello_facts *facts, bool is_short)
{
	Holdfast__V1__SessionHello *hello = malloc(sizeof(*hello));

	if (!hello)
		return NULL;
	holdfast__v1__session_hello__init(hello);
	hello->fingerprint = fingerprint_make(&facts->fingerprint);
	hello->adoption_complete = allocs_is_adopted(facts->allocs);
	if (hello->fingerprint && put_text(&hello->node_id, facts->node_id) &&
	    put_text(&hello->boot_id, facts->boot_id) &&
	    put_text(&hello->agent_version, facts->fingerprint.agent_version) &&
	    put_text(&hello->kernel, facts->kernel) && put_text(&hello->machine, facts->machine) &&
	    put_attributes(hello, facts->attributes) && put_mark(hello, facts->mark) &&
	    put_trail(hello, &facts->fingerprint.helper->head) &&
	    put_allocs(hello, facts->allocs, is_short) && (is_short || put_mounted(hello, facts)))
		return hello;
	protobuf_c_message_free_unpacked(&hello->base, NULL);
	return NULL;
}

Holdfast__V1__SessionHello *hello_make(const struct hello_facts *facts, bool *ret_is_short)
{
	Holdfast__V1__SessionHello *hello = make(facts, false);

	*ret_is_short = hello && protobuf_c_message_get_packed_size(&hello->base) > HELLO_BYTES_MAX;
	if (!*ret_is_short)
		return hello;
	protobuf_c_message_free_unpacked(&hello->base, NULL);
	return make(facts, true);
}
