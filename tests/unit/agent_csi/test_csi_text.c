/* SPDX-License-Identifier: Apache-2.0 */
/* What may be seen of messages and texts. */

#include "unit.h"

#include "base/clock.h"
#include "base/utf8.h"
#include "csi/csi_map.h"
#include "csi/csi_method.h"
#include "csi/csi_request.h"
#include "csi/csi_secret.h"
#include "csi/csi_text.h"

#include <csi/v1/csi.pb-c.h>
#include <holdfast/v1/plugin_call.pb-c.h>
#include <sys/mman.h>
#include <time.h>

enum { SIZE = 600 };

static const struct {
	const char *text, *line;
} lines[] = {
	{NULL, ""},
	{"", ""},
	{"plain text, with \"quotes\" and \\", "plain text, with \"quotes\" and \\"},
	{"a\nb\tc\rd", "a\\nb\\tc\\rd"},
	{"\x1b[31mred\x1b[0m \x07\x7f", "\\x1b[31mred\\x1b[0m \\x07\\x7f"},
	{"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x92\xa9", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x92\xa9"},
	/* not UTF-8: alone, overlong, a surrogate, cut */
	{"\xff \xc0\xaf \xed\xa0\x80 \xe2\x82", "\\xff \\xc0\\xaf \\xed\\xa0\\x80 \\xe2\\x82"},
	/* C1 controls, line separators, turned writing */
	{"\xc2\x85 \xc2\x9f \xc2\xa0", "\\xc2\\x85 \\xc2\\x9f \xc2\xa0"},
	/* NOLINTNEXTLINE(misc-misleading-bidirectional): escaped here, and that is the test */
	{"\xe2\x80\xa8 \xe2\x80\xae \xe2\x81\xa6 \xe2\x80\xaf",
	 "\\xe2\\x80\\xa8 \\xe2\\x80\\xae \\xe2\\x81\\xa6 \xe2\x80\xaf"},
};

TEST(a_text_becomes_one_line_that_can_be_read)
{
	char line[SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		csi_text_line(lines[i].text, line, sizeof(line));
		assert_string_equal(line, lines[i].line);
		assert_true(str_is_text(line));
	}
}

TEST(a_line_is_cut_between_characters_with_dots_at_every_size)
{
	static const char text[] = "caf\xc3\xa9\n\xff\xf0\x9f\x92\xa9 end";
	static const char whole[] = "caf\xc3\xa9\\n\\xff\xf0\x9f\x92\xa9 end";

	for (size_t size = 1; size < sizeof(whole) + 4; size++) {
		char *line = malloc(size); /* exactly, so that a sanitizer sees what is beyond */
		size_t n;

		assert_non_null(line);
		csi_text_line(text, line, size);
		n = strlen(line);
		assert_in_range(n, 0, size - 1);
		assert_true(utf8_is_valid(line, n));
		if (size >= sizeof(whole)) {
			assert_string_equal(line, whole);
		} else if (size > 4) {
			assert_in_range(n, size - 1 - 3, size - 1); /* the longest piece has four bytes */
			assert_string_equal(line + n - 3, "...");
			assert_memory_equal(line, whole, n - 3);
		}
		free(line);
	}
}

#define SECRET "hunter2-hunter2"

/* A message with the same text in every field there is, entries of maps included; two of what is repeated. */
static ProtobufCMessage *full(const ProtobufCMessageDescriptor *type, const char *text);

static void fill_value(const ProtobufCFieldDescriptor *field, void *place, const char *text)
{
	if (field->type == PROTOBUF_C_TYPE_STRING)
		*(char **)place = strdup(text);
	else if (field->type == PROTOBUF_C_TYPE_MESSAGE)
		*(ProtobufCMessage **)place = full(field->descriptor, text);
	else if (field->type == PROTOBUF_C_TYPE_INT64)
		*(int64_t *)place = 7;
	else
		*(int32_t *)place = 1;
}

static void fill_field(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, const char *text)
{
	char *base = (char *)message;
	void *place = base + field->offset;

	if (field->label == PROTOBUF_C_LABEL_REPEATED) {
		void **list = calloc(2, sizeof(void *));

		assert_non_null(list);
		fill_value(field, &list[0], text);
		fill_value(field, &list[1], text);
		*(void ***)place = list;
		*(size_t *)(void *)(base + field->quantifier_offset) = 2;
		return;
	}
	if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
		uint32_t *which = (uint32_t *)(void *)(base + field->quantifier_offset);

		if (*which != 0)
			return;
		*which = field->id;
	}
	fill_value(field, place, text);
}

static ProtobufCMessage *full(const ProtobufCMessageDescriptor *type, const char *text)
{
	ProtobufCMessage *message = NON_NULL(malloc(type->sizeof_message));

	protobuf_c_message_init(type, message);
	/* from the end: of a oneof, the mount and not the block */
	for (unsigned int i = type->n_fields; i-- > 0;)
		fill_field(message, &type->fields[i], text);
	return message;
}

static bool is_known(ProtobufCType type)
{
	static const ProtobufCType known[] = {PROTOBUF_C_TYPE_STRING, PROTOBUF_C_TYPE_MESSAGE,
					      PROTOBUF_C_TYPE_INT64,  PROTOBUF_C_TYPE_INT32,
					      PROTOBUF_C_TYPE_BOOL,   PROTOBUF_C_TYPE_ENUM};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i] == type)
			return true;
	return false;
}

static void check_types(const ProtobufCMessageDescriptor *type)
{
	for (unsigned int i = 0; i < type->n_fields; i++) {
		assert_msg(is_known(type->fields[i].type), "%s.%s", type->name, type->fields[i].name);
		if (type->fields[i].type == PROTOBUF_C_TYPE_MESSAGE)
			check_types(type->fields[i].descriptor);
	}
}

TEST(every_field_of_every_message_has_a_type_that_is_known)
{
	for (unsigned int i = 0; i < CSI_METHOD_N; i++) {
		check_types(csi_methods[(enum csi_method)i].request);
		check_types(csi_methods[(enum csi_method)i].response);
	}
}

/* Texts of all requests, with @text in every field. */
static void show_all(const char *text, void (*check)(const ProtobufCMessage *message, const char *shown))
{
	for (unsigned int i = 0; i < CSI_METHOD_N; i++) {
		const struct service_method *info = &csi_methods[(enum csi_method)i];
		const ProtobufCMessageDescriptor *types[] = {info->request, info->response};

		for (size_t k = 0; k < ARRAY_SIZE(types); k++) {
			cleanup_pb ProtobufCMessage *message = full(types[k], text);
			char shown[8192];

			csi_text(message, shown, sizeof(shown));
			check(message, shown);
		}
	}
}

static void check_secrets(const ProtobufCMessage *message, const char *shown)
{
	static const char *const fields[] = {"secrets=", "mount_flags="};

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		for (const char *at = shown; (at = strstr(at, fields[i])) != NULL; at++)
			assert_true(str_starts_with(at + strlen(fields[i]), "[redacted]"));
	/* there they are, though nothing is seen of them */
	if (protobuf_c_message_descriptor_get_field_by_name(message->descriptor, "secrets"))
		assert_non_null(strstr(shown, "secrets=[redacted]"));
	if (protobuf_c_message_descriptor_get_field_by_name(message->descriptor, "volume_capability"))
		assert_non_null(strstr(shown, "mount_flags=[redacted]"));
}

TEST(secrets_and_mount_flags_of_every_message_are_redacted)
{
	show_all(SECRET, check_secrets);
}

static void check_line(const ProtobufCMessage *message, const char *shown)
{
	assert_true(str_is_text(shown));
	assert_null(strstr(shown, "\n"));
}

TEST(no_text_in_any_field_forges_a_line)
{
	show_all("x\n\x1b\xff\" secrets={", check_line);
}

TEST(a_message_is_shown_with_its_fields_and_maps_with_their_keys)
{
	Csi__V1__NodePublishVolumeRequest__SecretsEntry secret =
		CSI__V1__NODE_PUBLISH_VOLUME_REQUEST__SECRETS_ENTRY__INIT;
	Csi__V1__NodePublishVolumeRequest__VolumeContextEntry context =
		CSI__V1__NODE_PUBLISH_VOLUME_REQUEST__VOLUME_CONTEXT_ENTRY__INIT;
	Csi__V1__NodePublishVolumeRequest__SecretsEntry *secrets[] = {&secret};
	Csi__V1__NodePublishVolumeRequest__VolumeContextEntry *contexts[] = {&context, &context};
	Csi__V1__VolumeCapability capability = CSI__V1__VOLUME_CAPABILITY__INIT;
	Csi__V1__NodePublishVolumeRequest request =
		PB(csi__v1__node_publish_volume_request, .volume_id = "127.0.0.1/share#vol \"a\"##",
		   .readonly = true, .secrets = secrets, .n_secrets = 1, .volume_context = contexts,
		   .n_volume_context = 2, .volume_capability = &capability);
	Csi__V1__VolumeCapability__AccessMode mode = CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__INIT;
	Csi__V1__VolumeCapability__MountVolume mount = CSI__V1__VOLUME_CAPABILITY__MOUNT_VOLUME__INIT;
	char *flags[] = {(char[]){"password=" SECRET}};
	char text[SIZE];

	secret.key = "password";
	secret.value = (char[]){SECRET};
	context.key = "share";
	context.value = "//server/share";
	mode.mode = CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_WRITER;
	mount.fs_type = "cifs";
	mount.mount_flags = flags;
	mount.n_mount_flags = 1;
	capability.access_mode = &mode;
	capability.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT;
	capability.mount = &mount;
	csi_text(&request.base, text, sizeof(text));
	assert_string_equal(text, "volume_id=\"127.0.0.1/share#vol \\\"a\\\"##\" "
				  "volume_capability={mount={fs_type=\"cifs\" mount_flags=[redacted]} "
				  "access_mode={mode=SINGLE_NODE_WRITER}} readonly=true secrets=[redacted] "
				  "volume_context={\"share\" \"share\"}");
	for (size_t size = 1; size < 64; size++) {
		cleanup_free char *small = NON_NULL(malloc(size));

		csi_text(&request.base, small, size);
		assert_in_range(strlen(small), 0, size - 1);
	}
}

TEST(places_are_shown_and_a_false_in_a_wrapper_too)
{
	Csi__V1__Topology topology = CSI__V1__TOPOLOGY__INIT;
	Csi__V1__NodeGetInfoResponse info = PB(csi__v1__node_get_info_response,
					       .accessible_topology = &topology, .max_volumes_per_node = -1);
	Csi__V1__Topology__SegmentsEntry zone = CSI__V1__TOPOLOGY__SEGMENTS_ENTRY__INIT;
	Csi__V1__Topology__SegmentsEntry *segments[] = {&zone};
	Csi__V1__ProbeResponse probe = CSI__V1__PROBE_RESPONSE__INIT;
	Google__Protobuf__BoolValue ready = GOOGLE__PROTOBUF__BOOL_VALUE__INIT;
	Csi__V1__ValidateVolumeCapabilitiesResponse refusal =
		CSI__V1__VALIDATE_VOLUME_CAPABILITIES_RESPONSE__INIT;
	char text[SIZE];

	zone.key = "zone";
	zone.value = "z1";
	topology.segments = segments;
	topology.n_segments = 1;
	csi_text(&info.base, text, sizeof(text));
	assert_string_equal(text, "max_volumes_per_node=-1 accessible_topology={segments={\"zone\"=\"z1\"}}");
	csi_text(&probe.base, text, sizeof(text));
	assert_string_equal(text, "");
	probe.ready = &ready;
	csi_text(&probe.base, text, sizeof(text));
	assert_string_equal(text, "ready={value=false}");
	refusal.message = "login as app:hunter2 failed";
	csi_text(&refusal.base, text, sizeof(text));
	assert_string_equal(text, "message=[redacted]");
}

/* The .proto file itself, read again in another way: "message.field" of every mark. */
static size_t count_marks(char names[][64], size_t max)
{
	cleanup_fclose FILE *file = NON_NULL(fopen(CSI_PROTO, "re"));
	char message[64] = "", line[512];
	size_t n = 0;

	while (fgets(line, sizeof(line), file)) {
		char field[64];

		(void)sscanf(line, "message %63s", message);
		if (!strstr(line, "[(csi_secret) = true]"))
			continue;
		assert_int_equal(sscanf(line, " map<string, string> %63s =", field), 1);
		assert_in_range(n, 0, max - 1);
		assert_true(snprintf(names[n++], 64, "%s.%s", message, field) < 64);
	}
	return n;
}

TEST(the_list_of_secrets_is_that_of_the_marks_in_the_interface)
{
	char marks[64][64];
	size_t n = count_marks(marks, ARRAY_SIZE(marks));
	size_t n_secret = 0;

	assert_in_range(n, 10, 64);
	for (unsigned int i = 0; i < CSI_METHOD_N; i++) {
		const ProtobufCMessageDescriptor *type = csi_methods[(enum csi_method)i].request;

		for (unsigned int f = 0; f < type->n_fields; f++) {
			bool is_secret = csi_is_secret(type, &type->fields[f]);
			char name[64];
			bool is_marked = false;

			assert_int_equal(is_secret, str_eq(type->fields[f].name, "secrets"));
			if (!str_eq(type->package_name, "csi.v1")) /* csi-addons; our copy has no marks */
				continue;
			(void)snprintf(name, sizeof(name), "%s.%s", type->short_name, type->fields[f].name);
			for (size_t k = 0; k < n; k++)
				is_marked = is_marked || str_eq(marks[k], name);
			assert_int_equal(is_secret, is_marked);
			n_secret += is_secret;
		}
	}
	/* ControllerModifyVolume and GetSnapshot are never called */
	assert_int_equal(n_secret + 2, n);
}

/* What a plugin says after it was given password=hunter2 and the flags vers=3.0, ro, pw=sesame-open. */
static const struct {
	const char *said, *shown;
} sayings[] = {
	{"", ""},
	{"nothing of it", "nothing of it"},
	{"mount -o pw=sesame-open failed", "mount -o [redacted] failed"},
	{"mount -o vers=3.0,ro,pw=sesame-open failed", "mount -o [redacted],[redacted],[redacted] failed"},
	{"user bob password hunter2", "user bob password [redacted]"},
	{"hunter2hunter2", "hunter2hunter2"},  /* short: only as a word */
	{"xxsesame-openxx", "xx[redacted]xx"}, /* long: anywhere, the value of a flag by itself too */
	{"error: read-only? ro!", "error: read-only? [redacted]!"},
	{"cut off: pw=sesa", "cut off: [redacted]"},
	{"cut off: sesa", "cut off: [redacted]"},
	{"cut off: ses", "cut off: ses"},
	{"hunter", "[redacted]"},
	/* long secrets in base64, by themselves, behind other bytes, and before them in the alphabet of URLs
	 */
	{"data: c2VzYW1lLW9wZW4=.", "data: [redacted]."},
	{"Authorization: Basic YTpzZXNhbWUtb3Blbg==", "Authorization: Basic YTp[redacted]"},
	{"Basic Ym9iOnNlc2FtZS1vcGVu\"", "Basic Ym9iOn[redacted]\""},
	{"sig=c2VzYW1lLW9wZW4_Pg==&x=1", "sig=[redacted]&x=1"},
	{"cut off: c2VzYW1lLW9", "cut off: [redacted]"},
	{"other: c2VzYW1lLW9wZX==", "other: c2VzYW1lLW9wZX=="},
};

TEST(secrets_that_a_plugin_repeats_are_redacted)
{
	Csi__V1__NodeStageVolumeRequest__SecretsEntry password =
		CSI__V1__NODE_STAGE_VOLUME_REQUEST__SECRETS_ENTRY__INIT;
	Csi__V1__NodeStageVolumeRequest__SecretsEntry empty =
		CSI__V1__NODE_STAGE_VOLUME_REQUEST__SECRETS_ENTRY__INIT;
	Csi__V1__NodeStageVolumeRequest__SecretsEntry *secrets[] = {&empty, &password};
	Csi__V1__VolumeCapability capability = CSI__V1__VOLUME_CAPABILITY__INIT;
	Csi__V1__NodeStageVolumeRequest request = PB(csi__v1__node_stage_volume_request, .secrets = secrets,
						     .n_secrets = 2, .volume_capability = &capability);
	Csi__V1__VolumeCapability__MountVolume mount = CSI__V1__VOLUME_CAPABILITY__MOUNT_VOLUME__INIT;
	char *flags[] = {"vers=3.0", "ro", "pw=sesame-open"};
	char shown[SIZE];

	password.key = "password";
	password.value = "hunter2";
	mount.mount_flags = flags;
	mount.n_mount_flags = 3;
	capability.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT;
	capability.mount = &mount;
	for (size_t i = 0; i < ARRAY_SIZE(sayings); i++) {
		csi_redact(&request.base, sayings[i].said, shown, sizeof(shown));
		assert_string_equal(shown, sayings[i].shown);
	}
	for (size_t size = 1; size < 32; size++) {
		csi_redact(&request.base, "mount -o pw=sesame-open failed", shown, size);
		assert_in_range(strlen(shown), 0, size - 1);
		assert_null(strstr(shown, "ses"));
	}
}

/* A message may have 4 MiB: behind the part that is read, memory that cannot be read, and no end. */
TEST(a_text_of_megabytes_is_read_only_as_far_as_it_is_kept)
{
	enum { READ_MAX = 32 << 10, READABLE = 2 * READ_MAX + 4096 };
	static const char *const said[] = {".", "sesame-ope", "c2VzYW1lLW9wZW4", "zesame-open"};
	Csi__V1__VolumeCapability__MountVolume mount = CSI__V1__VOLUME_CAPABILITY__MOUNT_VOLUME__INIT;
	char *flags[] = {(char[]){"pw=sesame-open"}, (char[]){""}};
	char *text = mmap(NULL, READABLE + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char shown[SIZE];

	mount.mount_flags = flags;
	mount.n_mount_flags = ARRAY_SIZE(flags);
	assert_ptr_not_equal(text, MAP_FAILED);
	assert_int_equal(mprotect(text + READABLE, 4096, PROT_NONE), 0);
	for (size_t i = 0; i < ARRAY_SIZE(said); i++) {
		for (size_t at = 0; at < READABLE; at++)
			text[at] = said[i][at % strlen(said[i])];
		csi_redact(&mount.base, text, shown, sizeof(shown));
		assert_in_range(strlen(shown), 1, sizeof(shown) - 1);
	}
	for (size_t at = 0; at < READABLE; at++) /* secrets shorten it */
		text[at] = "sesame-open"[at % 11];
	csi_redact(&mount.base, text, shown, sizeof(shown));
	assert_null(strstr(shown, "sesa"));
	(void)munmap(text, READABLE + 4096);
}

TEST(equal_requests_are_equal_bytes_in_whatever_order_their_maps_are)
{
	Csi__V1__CreateVolumeRequest__ParametersEntry entries[5], *list[5];
	static const char *const keys[] = {"b", "a", "zz", "c", "z"};
	static const size_t orders[][5] = {{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 0, 4, 1, 3}};
	uint8_t packed[ARRAY_SIZE(orders)][256];
	size_t n[ARRAY_SIZE(orders)];

	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		Csi__V1__CreateVolumeRequest request = CSI__V1__CREATE_VOLUME_REQUEST__INIT;
		ProtobufCMessage *copy;

		for (size_t k = 0; k < 5; k++) {
			csi__v1__create_volume_request__parameters_entry__init(&entries[k]);
			entries[k].key = (char *)(uintptr_t)keys[k];
			entries[k].value = (char *)(uintptr_t)keys[4 - k];
		}
		for (size_t k = 0; k < 5; k++)
			list[k] = &entries[orders[i][k]];
		request.parameters = list;
		request.n_parameters = 5;
		copy = NON_NULL(csi_request_copy(&request.base));
		n[i] = protobuf_c_message_pack(copy, packed[i]);
		csi_request_free(copy);
		assert_ptr_equal(list[0], &entries[orders[i][0]]); /* the caller's stays */
	}
	for (size_t i = 1; i < ARRAY_SIZE(orders); i++) {
		assert_int_equal(n[i], n[0]);
		assert_memory_equal(packed[i], packed[0], n[0]);
	}
	csi_request_free(NULL);
}

TEST(every_request_is_copied_whole)
{
	for (unsigned int i = 0; i < CSI_METHOD_N; i++) {
		cleanup_pb ProtobufCMessage *message = full(csi_methods[(enum csi_method)i].request, "text");
		ProtobufCMessage *copy = NON_NULL(csi_request_copy(message));
		uint8_t packed[2][2048];
		size_t n = protobuf_c_message_pack(message, packed[0]);

		assert_int_equal(protobuf_c_message_pack(copy, packed[1]), n);
		assert_memory_equal(packed[0], packed[1], n);
		csi_request_free(copy);
	}
}

TEST(a_request_is_about_its_volume_or_snapshot)
{
	static const struct {
		enum csi_method method;
		const char *kind; /* NULL: about nothing */
	} cases[] = {
		{CSI_NODE_STAGE_VOLUME, "volume"},
		{CSI_CREATE_VOLUME, "volume"},
		{CSI_CREATE_SNAPSHOT, "volume"},
		{CSI_DELETE_SNAPSHOT, "snapshot"},
		{CSI_PROBE, NULL},
		{CSI_NODE_GET_INFO, NULL},
		{CSI_LIST_SNAPSHOTS, "snapshot"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cleanup_pb ProtobufCMessage *message = full(csi_methods[cases[i].method].request, "text");
		const char *kind = NULL;
		const char *subject = csi_request_subject(message, &kind);

		if (cases[i].kind) {
			assert_string_equal(subject, "text");
			assert_string_equal(kind, cases[i].kind);
		} else {
			assert_null(subject);
		}
	}
}

static uint64_t cpu_us(void)
{
	struct timespec now;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
	return (uint64_t)now.tv_sec * USEC_PER_SEC + (uint64_t)now.tv_nsec / 1000;
}

/* The agent's event loop waits for it. As many flags as a volume may have, in each capability, all alike. */
TEST(a_text_is_redacted_quickly_however_many_flags_there_are)
{
	enum { FLAGS = 32, CAPABILITIES = 16, FLAG = 256, TEXT = 1600, LIMIT_US = 50 * 1000 };
	static const struct {
		const char *letters;
		bool is_whole; /* a text that is not made of beginnings of secrets is not cut */
	} rows[] = {{"x", true}, {"a", true}, {"k=", true}, {"i", false}, {"aWlp", false}};
	static char bytes[FLAGS][FLAG + 1], text[TEXT], out[TEXT];
	Csi__V1__CreateVolumeRequest request = CSI__V1__CREATE_VOLUME_REQUEST__INIT;
	Holdfast__V1__MountOptions options = HOLDFAST__V1__MOUNT_OPTIONS__INIT;
	struct csi_capability capabilities[CAPABILITIES];
	Csi__V1__VolumeCapability *list[CAPABILITIES];
	char *flags[FLAGS];

	for (size_t i = 0; i < FLAGS; i++) {
		memset(bytes[i], 'i', FLAG);
		memcpy(bytes[i], "k=", 2);
		(void)snprintf(bytes[i] + FLAG - 2, 3, "%02zu", i);
		flags[i] = bytes[i];
	}
	options.mount_flags = flags;
	options.n_mount_flags = FLAGS;
	for (size_t i = 0; i < CAPABILITIES; i++) {
		csi_borrow_capability(SINGLE_NODE_WRITER, ATTACHMENT_FILE_SYSTEM, &options, &capabilities[i]);
		list[i] = &capabilities[i].pb;
	}
	request.volume_capabilities = list;
	request.n_volume_capabilities = CAPABILITIES;
	for (size_t k = 0; k < ARRAY_SIZE(rows); k++) {
		uint64_t begin_us = cpu_us(), took_us;

		for (size_t i = 0; i < TEXT; i++)
			text[i] = rows[k].letters[i % strlen(rows[k].letters)];
		memcpy(text + TEXT - 1 - FLAG, bytes[FLAGS - 1], FLAG + 1);
		csi_redact(&request.base, text, out, sizeof(out));
		took_us = cpu_us() - begin_us;
		assert_msg(took_us < LIMIT_US, "%s: %u us", rows[k].letters, (unsigned int)took_us);
		assert_null(strstr(out, "31"));
		assert_int_equal(strstr(out, "[redacted]") != NULL, rows[k].is_whole);
	}
}

/* More than any request of ours has: none of them is looked for, and nothing is shown. */
TEST(a_text_about_too_many_secrets_is_not_shown)
{
	enum { SECRETS = 300 };
	Csi__V1__VolumeCapability__MountVolume mount = CSI__V1__VOLUME_CAPABILITY__MOUNT_VOLUME__INIT;
	static char bytes[SECRETS][16];
	char *flags[SECRETS];
	char shown[SIZE];

	for (size_t i = 0; i < SECRETS; i++) {
		(void)snprintf(bytes[i], sizeof(bytes[i]), "secret-%zu", i);
		flags[i] = bytes[i];
	}
	mount.mount_flags = flags;
	mount.n_mount_flags = SECRETS;
	csi_redact(&mount.base, "it failed with secret-299", shown, sizeof(shown));
	assert_string_equal(shown, "");
}

/* What is compared is bounded, so little of it is shown. */
TEST(a_text_made_of_the_beginning_of_a_long_secret_is_cut_early)
{
	enum { LONG = 16 << 10, BIG = 1 << 20 };
	static char secret[LONG + 1], text[BIG + 1], shown[8192];
	Csi__V1__VolumeCapability__MountVolume mount = CSI__V1__VOLUME_CAPABILITY__MOUNT_VOLUME__INIT;
	char *flags[] = {secret};

	memset(secret, 'i', LONG - 1);
	secret[LONG - 1] = 'b';
	memset(text, 'i', BIG);
	mount.mount_flags = flags;
	mount.n_mount_flags = 1;
	csi_redact(&mount.base, text, shown, sizeof(shown));
	assert_in_range(strlen(shown), 0, 100);
}
