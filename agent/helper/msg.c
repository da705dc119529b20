/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/msg.h"

#include "mounthelper_words.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/names.h"
#include "base/str.h"
#include "helper/end.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

static const char *const op_names[MH_OP_N] = {
	[MH_OP_HELLO] = "HELLO",	 [MH_OP_ACK] = "ACK",
	[MH_OP_STAGE] = "STAGE",	 [MH_OP_PUBLISH] = "PUBLISH",
	[MH_OP_UNPUBLISH] = "UNPUBLISH", [MH_OP_UNSTAGE] = "UNSTAGE",
	[MH_OP_LIST] = "LIST",		 [MH_OP_FAILURE] = "FAILURE",
};

#define STEP_NAME(name, word) [name] = (word),
static const char *const step_names[STEP_N] = {MH_STEPS(STEP_NAME)};

const char *helper_op_name(unsigned int op)
{
	const char *name = op < MH_OP_N ? names_get(op_names, MH_OP_N, (int)op) : NULL;

	return name ? name : "unknown operation";
}

static void request_init(union helper_request *request, enum mh_op op, size_t length)
{
	memset(request, 0, sizeof(*request));
	request->header = (struct mh_header){
		.magic = MH_MAGIC,
		.version = MH_VERSION,
		.op = (uint16_t)op,
		.length = (uint32_t)length,
	};
}

const char *helper_request_volume(const union helper_request *request)
{
	switch ((enum mh_op)request->header.op) {
	case MH_OP_STAGE:
		return request->stage.volume;
	case MH_OP_PUBLISH:
		return request->publish.volume;
	case MH_OP_UNPUBLISH:
		return request->unpublish.volume;
	case MH_OP_UNSTAGE:
		return request->unstage.volume;
	case MH_OP_LIST:
		return request->list.volume;
	case MH_OP_HELLO:
	case MH_OP_ACK:
	case MH_OP_FAILURE:
	case MH_OP_N:
		break;
	}
	return "";
}

/* The fields are zero beforehand and stay so after the text. */
static enum status put_profile(char dst[static MH_LABEL_SIZE], const char *profile, struct error *err)
{
	if (!id_is_plugin(profile))
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"invalid profile '%s': it must be [a-z0-9][a-z0-9.-]*, at most 63 characters, "
			"with dots between letters and digits",
			profile);
	(void)str_copy(dst, MH_LABEL_SIZE, profile);
	return STATUS_OK;
}

static enum status put_label(char dst[static MH_LABEL_SIZE], const char *what, const char *label,
			     struct error *err)
{
	if (!id_is_label(label))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "%s '%s' cannot be sent to the mount helper: it must be [a-z0-9][a-z0-9-]*, "
				 "at most 63 characters",
				 what, label);
	(void)str_copy(dst, MH_LABEL_SIZE, label); /* fits: a label is shorter */
	return STATUS_OK;
}

static enum status put_alloc(char dst[static MH_UUID_SIZE], const char *alloc, struct error *err)
{
	if (!id_is_uuid(alloc))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "allocation id '%s' is not a lower-case UUID", alloc);
	(void)str_copy(dst, MH_UUID_SIZE, alloc); /* fits: a UUID is shorter */
	return STATUS_OK;
}

static enum status check_slot(uint8_t slot, struct error *err)
{
	if (slot > MH_SLOT_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "slot %u is above %d", slot, MH_SLOT_MAX);
	return STATUS_OK;
}

enum status helper_request_stage(const struct helper_mount *mount, union helper_request *ret,
				 struct error *err)
{
	union helper_request request;

	request_init(&request, MH_OP_STAGE, sizeof(request.stage));
	TRY(put_label(request.stage.volume, "volume", mount->volume, err));
	TRY(put_profile(request.stage.profile, mount->profile, err));
	TRY(put_alloc(request.stage.alloc, mount->alloc, err));
	request.stage.read_only = mount->read_only;
	request.stage.source = *mount->source;
	if (mount->ticket)
		request.stage.ticket = *mount->ticket;
	*ret = request;
	return STATUS_OK;
}

enum status helper_request_publish(const struct helper_mount *mount, union helper_request *ret,
				   struct error *err)
{
	union helper_request request;

	request_init(&request, MH_OP_PUBLISH, sizeof(request.publish));
	TRY(put_label(request.publish.volume, "volume", mount->volume, err));
	TRY(put_profile(request.publish.profile, mount->profile, err));
	TRY(put_alloc(request.publish.alloc, mount->alloc, err));
	TRY(check_slot(mount->slot, err));
	if ((unsigned int)mount->propagation >= PROPAGATION_N)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "propagation %d does not exist",
				 (int)mount->propagation);
	request.publish.slot = mount->slot;
	request.publish.read_only = mount->read_only;
	request.publish.exec = mount->exec;
	request.publish.propagation = (uint8_t)mount->propagation;
	request.publish.source = *mount->source;
	if (mount->ticket)
		request.publish.ticket = *mount->ticket;
	*ret = request;
	return STATUS_OK;
}

enum status helper_request_unpublish(const char *volume, const char *alloc, uint8_t slot,
				     union helper_request *ret, struct error *err)
{
	union helper_request request;

	request_init(&request, MH_OP_UNPUBLISH, sizeof(request.unpublish));
	TRY(put_label(request.unpublish.volume, "volume", volume, err));
	TRY(put_alloc(request.unpublish.alloc, alloc, err));
	TRY(check_slot(slot, err));
	request.unpublish.slot = slot;
	*ret = request;
	return STATUS_OK;
}

/* Empty for a native volume. */
static enum status put_plugin(char field[static MH_LABEL_SIZE], const char *plugin, struct error *err)
{
	return plugin[0] == '\0' ? STATUS_OK : put_profile(field, plugin, err);
}

enum status helper_request_unstage(const char *volume, const char *plugin, union helper_request *ret,
				   struct error *err)
{
	union helper_request request;

	request_init(&request, MH_OP_UNSTAGE, sizeof(request.unstage));
	TRY(put_label(request.unstage.volume, "volume", volume, err));
	TRY(put_plugin(request.unstage.profile, plugin, err));
	*ret = request;
	return STATUS_OK;
}

void helper_request_list(enum mh_list_kind kind, uint32_t cursor, union helper_request *ret)
{
	request_init(ret, MH_OP_LIST, sizeof(ret->list));
	ret->list.kind = (uint8_t)kind;
	ret->list.cursor = cursor;
}

enum status helper_request_look(const char *volume, const char *plugin, union helper_request *ret,
				struct error *err)
{
	union helper_request request;

	helper_request_list(MH_LIST_STAGED, 0, &request);
	TRY(put_label(request.list.volume, "volume", volume, err));
	TRY(put_plugin(request.list.profile, plugin, err));
	*ret = request;
	return STATUS_OK;
}

void helper_request_ack(union helper_request *ret)
{
	request_init(ret, MH_OP_ACK, sizeof(ret->ack));
}

void helper_request_seal(union helper_request *request, uint64_t seq)
{
	request->header.seq = seq;
}

/* Terminated, and zero to the end. */
static bool is_text(const char *field, size_t size)
{
	size_t n = strnlen(field, size);

	if (n == size)
		return false;
	for (size_t i = n; i < size; i++) {
		if (field[i] != '\0')
			return false;
	}
	return true;
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (bytes[i] != 0)
			return false;
	}
	return true;
}

static enum status malformed(struct error *err, const char *message, const char *what)
{
	return error_set(err, STATUS_DATA_LOSS, 0, "the mount helper's %s is malformed (%s)", message, what);
}

static enum status check_header(const void *bytes, size_t n, const struct mh_header *expected,
				const char *message, struct error *err)
{
	struct mh_header header;

	if (n != expected->length)
		return malformed(err, message, "size");
	memcpy(&header, bytes, sizeof(header));
	if (header.magic != MH_MAGIC)
		return malformed(err, message, "magic");
	if (header.version != MH_VERSION)
		return error_set(
			err, STATUS_UNIMPLEMENTED, 0,
			"the mount helper speaks version %u of the protocol, this agent %d: install both "
			"from the same release",
			header.version, MH_VERSION);
	if (header.length != expected->length || header.flags != 0 || header.reserved != 0)
		return malformed(err, message, "header");
	if (header.op != expected->op || header.seq != expected->seq)
		return malformed(err, message, "answers another request");
	return STATUS_OK;
}

enum status helper_hello_check(const void *bytes, size_t n, struct mh_hello *ret, struct error *err)
{
	const struct mh_header expected = {.op = MH_OP_HELLO, .length = sizeof(struct mh_hello)};
	struct mh_hello hello;

	TRY(check_header(bytes, n, &expected, "HELLO", err));
	memcpy(&hello, bytes, sizeof(hello));
	if (!is_text(hello.cluster, sizeof(hello.cluster)) || !is_text(hello.node, sizeof(hello.node)) ||
	    !is_text(hello.publish_base, sizeof(hello.publish_base)) || hello.publish_base[0] != '/' ||
	    !is_text(hello.stage_base, sizeof(hello.stage_base)))
		return malformed(err, "HELLO", "text");
	if ((hello.launch_mode != 1 && hello.launch_mode != 2) || hello.container > 1 ||
	    hello.ticket_optional > 1 || hello.trail >= TRAIL_N)
		return malformed(err, "HELLO", "flags");
	*ret = hello;
	return STATUS_OK;
}

bool helper_failure_check(const void *bytes, size_t n, struct mh_failure *ret)
{
	const struct mh_header expected = {.op = MH_OP_FAILURE, .length = sizeof(struct mh_failure)};
	struct mh_failure failure;

	if (check_header(bytes, n, &expected, "FAILURE", NULL) != STATUS_OK)
		return false;
	memcpy(&failure, bytes, sizeof(failure));
	if (!is_text(failure.detail, sizeof(failure.detail)) || !str_is_text(failure.detail))
		return false;
	*ret = failure;
	return true;
}

/* Which strings an entry must have, by kind of list. */
static bool entry_is_valid(const struct mh_list_entry *entry, enum mh_list_kind kind)
{
	if (!is_text(entry->volume, sizeof(entry->volume)) || !is_text(entry->alloc, sizeof(entry->alloc)) ||
	    !is_zero(entry->reserved, sizeof(entry->reserved)) || entry->slot > MH_SLOT_MAX)
		return false;
	switch (kind) {
	case MH_LIST_PUBLISHED:
		return id_is_uuid(entry->alloc);
	case MH_LIST_PROFILES:
		return id_is_plugin(entry->volume) && entry->class > 0 && entry->class < MH_CLASS_N;
	case MH_LIST_STAGED:
		return id_is_label(entry->volume);
	}
	return false;
}

static enum status check_list(const struct mh_list_reply *list, const struct mh_list *request,
			      struct error *err)
{
	if (list->status >= MH_STATUS_N || list->count > MH_LIST_MAX || list->reserved != 0 ||
	    list->reserved2 != 0)
		return malformed(err, "LIST", "counts");
	/* a cursor that does not move would make the list endless, as would a first page that begins again */
	if ((list->cursor != 0 && list->cursor <= request->cursor) ||
	    (list->status == MH_CONFLICT && request->cursor == 0))
		return malformed(err, "LIST", "cursor");
	for (size_t i = 0; i < list->count; i++) {
		const struct mh_list_entry *entry = &list->entries[i];

		if (!entry_is_valid(entry, (enum mh_list_kind)request->kind) ||
		    (request->volume[0] != '\0' && !str_eq(entry->volume, request->volume)))
			return malformed(err, "LIST", "entry");
	}
	return STATUS_OK;
}

enum status helper_reply_check(const void *bytes, size_t n, const union helper_request *request,
			       union helper_reply *ret, struct error *err)
{
	const struct mh_header expected = {
		.op = request->header.op,
		.seq = request->header.seq,
		.length = request->header.op == MH_OP_LIST ? sizeof(struct mh_list_reply)
							   : sizeof(struct mh_reply),
	};
	union helper_reply reply = {0};
	enum status status = STATUS_OK;

	TRY(check_header(bytes, n, &expected, helper_op_name(expected.op), err));
	memcpy(&reply, bytes, n);
	if (expected.op == MH_OP_LIST)
		status = check_list(&reply.list, &request->list, err);
	else if (reply.reply.status >= MH_STATUS_N)
		status = malformed(err, helper_op_name(expected.op), "status");
	if (status != STATUS_OK)
		return status;
	*ret = reply;
	return STATUS_OK;
}

/* The status for the caller, and the sentence for a person. */
struct outcome {
	enum status status;
	const char *text;
};

static const struct outcome outcomes[MH_STATUS_N] = {
	[MH_OK] = {STATUS_OK, ""},
	[MH_ALREADY] = {STATUS_OK, ""},
	[MH_REFUSED] = {STATUS_PERMISSION_DENIED, "refused by its policy or for the ticket"},
	[MH_NOT_FOUND] = {STATUS_NOT_FOUND, "the volume is not staged"},
	[MH_BUSY] =
		{STATUS_FAILED_PRECONDITION,
		 "in use: a process has files open or its working directory there, or it is still published"},
	[MH_CONFLICT] = {STATUS_ALREADY_EXISTS,
			 "something else is mounted there, or the medium is mounted elsewhere"},
	[MH_LIMIT] = {STATUS_RESOURCE_EXHAUSTED, "a limit of its policy is reached"},
	[MH_UNAVAILABLE] = {STATUS_UNAVAILABLE, "the kernel lacks the file system type"},
	[MH_KERNEL] = {STATUS_INTERNAL, "the kernel refused"},
	[MH_INTERNAL] = {STATUS_INTERNAL, "a check after the operation failed"},
	[MH_REPLACED] = {STATUS_UNAVAILABLE, "its policy was replaced again and again while it started"},
};

/* Uses the last entry if there are several, like a mount snapshot. */
struct mh_reply helper_reply_of_look(const struct mh_list_reply *list)
{
	const struct mh_list_entry *last = &list->entries[list->count > 0 ? list->count - 1 : 0];
	bool is_nothing = list->status == MH_OK && list->count == 0;

	return (struct mh_reply){.header = list->header,
				 .status = is_nothing ? (uint16_t)MH_NOT_FOUND : list->status,
				 .sys_errno = list->sys_errno,
				 .step = list->status == MH_OK ? STEP_NONE : STEP_TABLE,
				 .state = last->state,
				 .dev_major = last->dev_major,
				 .dev_minor = last->dev_minor};
}

bool helper_reply_is_locked(const struct mh_reply *reply)
{
	return reply->status == MH_BUSY && reply->step == STEP_NONE;
}

bool helper_reply_is_without_trail(const struct mh_reply *reply)
{
	return reply->status == MH_UNAVAILABLE && reply->step == STEP_TRAIL;
}

bool helper_reply_is_over_rate(const struct mh_reply *reply)
{
	_Static_assert(offsetof(struct mh_list_reply, status) == offsetof(struct mh_reply, status),
		       "both begin alike");
	return reply->status == MH_LIMIT && (reply->reason == REASON_RATE || reply->header.op == MH_OP_LIST);
}

bool helper_reply_is_unmounted(const struct mh_reply *reply)
{
	return reply->status == MH_REFUSED && reply->reason == REASON_NOT_MOUNTED;
}

#define REASON_ROW(name, word, sentence) [name] = {word, sentence},
static const struct {
	const char *word;
	const char *sentence;
} reasons[REASON_N] = {MH_REASONS(REASON_ROW)};

const char *helper_reason_word(unsigned int reason)
{
	if (reason == REASON_NONE)
		return NULL;
	return reason < REASON_N ? reasons[reason].word : "unknown";
}

enum log_event helper_reply_event(const struct mh_reply *reply)
{
	static const enum log_event done[MH_OP_N] = {[MH_OP_STAGE] = LOG_EVENT_MOUNT_STAGED,
						     [MH_OP_PUBLISH] = LOG_EVENT_MOUNT_PUBLISHED,
						     [MH_OP_UNPUBLISH] = LOG_EVENT_MOUNT_UNPUBLISHED,
						     [MH_OP_UNSTAGE] = LOG_EVENT_MOUNT_UNSTAGED};
	enum log_event event = reply->header.op < MH_OP_N ? done[reply->header.op] : LOG_EVENT_NONE;

	if (event == LOG_EVENT_NONE || reply->status == MH_OK || reply->status == MH_ALREADY)
		return event;
	return reply->step == STEP_NONE ? LOG_EVENT_MOUNT_REFUSED : LOG_EVENT_MOUNT_FAILED;
}

/* Returns the advice for a person if step and errno determine it. */
static const char *text_of_errno(const struct mh_reply *reply)
{
	if (helper_reply_is_without_trail(reply))
		return HELPER_NO_TRAIL;
	if (reply->status == MH_BUSY && reply->sys_errno == ENOTDIR)
		return "the CSI plugin left the device of a block attachment in the volume's folder; it goes "
		       "with NodeUnpublishVolume, or by hand: umount the file there, and rm it";
	if (reply->status == MH_BUSY && reply->sys_errno == ENOTEMPTY)
		return "the CSI plugin left files in the volume's folder, which are not removed: look there";
	if (reply->status == MH_KERNEL && reply->step == STEP_CREATE &&
	    (reply->sys_errno == EINVAL || reply->sys_errno == EOPNOTSUPP))
		return "the kernel finds no file system of the profile's type on the device, or refuses it: "
		       "journalctl -k has its reason, blkid shows the content; a blank device needs mkfs";
	if (reply->status == MH_KERNEL && reply->step == STEP_CREATE && reply->sys_errno == EUCLEAN)
		return "the file system on the device is damaged: journalctl -k has the kernel's reason; "
		       "repair it with fsck while it is not mounted";
	if (reply->status == MH_KERNEL && reply->step == STEP_SOURCE && reply->sys_errno == ENOENT)
		return "the device has no entry in /dev/disk/by-id on this node: look with ls -l there, "
		       "whether "
		       "it is attached";
	return NULL;
}

/* Why it was not done, with what to do next. */
static const char *text_of(const struct mh_reply *reply, char buf[static HELPER_SENTENCE_SIZE])
{
	const char *text = text_of_errno(reply);

	if (text)
		return text;
	if (reply->reason < REASON_N && reasons[reply->reason].sentence[0] != '\0')
		return helper_end_fill_in(reasons[reply->reason].sentence, reply->policy_line, buf);
	return outcomes[reply->status].text;
}

enum status helper_reply_outcome(const struct mh_reply *reply, const char *subject, struct error *err)
{
	assert(reply->status < MH_STATUS_N);

	const struct outcome *outcome;
	const char *step = names_get(step_names, STEP_N, reply->step);
	const char *word =
		reply->reason > REASON_NONE && reply->reason < REASON_N ? reasons[reply->reason].word : NULL;
	char sentence[HELPER_SENTENCE_SIZE];
	char where[64] = "more in";

	if (helper_reply_is_locked(reply))
		return error_set(
			err, STATUS_ABORTED, 0,
			"%s of %s: another instance of the mount helper is at work on the volume, "
			"since before the agent was started or replaced the instance, or instances "
			"hold all places of its plugin, or of host volumes; an end is waited for: see "
			"them with ps -ef | grep mounthelper, and if one hangs, its stack in "
			"/proc/PID/stack",
			helper_op_name(reply->header.op), subject);
	outcome = &outcomes[reply->status];
	if (outcome->status == STATUS_OK)
		return STATUS_OK;
	if (reply->record > 0)
		(void)str_format(where, sizeof(where), "step %s, record %" PRIu64 " of",
				 step ? step : "unknown", reply->record);
	return error_set(err, outcome->status, reply->sys_errno,
			 "%s of %s: mount helper: %s%s%s (see %s its trail: holdfast audit show FILE)",
			 helper_op_name(reply->header.op), subject, word ? word : "", word ? ": " : "",
			 text_of(reply, sentence), where);
}
