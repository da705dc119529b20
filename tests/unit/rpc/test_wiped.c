/* SPDX-License-Identifier: Apache-2.0 */
/* What passed through is not left behind in memory, on neither side. */

#include "memory.h"
#include "tls_world.h"

#include "rpc/byteq.h"
#include "rpc/message_text.h"

/* free() writes over the first bytes of what it takes: looked for is the rest. */
enum { SECRET_SIZE = 61, TAIL = 30 };

/* On the caller's stack only, and in no other test. */
static void make_secret(char ret[static SECRET_SIZE], char what)
{
	for (int i = 0; i < SECRET_SIZE - 1; i++)
		ret[i] = (char)(i % 3 == 0 ? what : 'a' + (i * 7 + i / 26) % 26);
	ret[SECRET_SIZE - 1] = '\0';
}

static bool is_left(const char secret[static SECRET_SIZE])
{
	return memory_holds(secret + TAIL, SECRET_SIZE - 1 - TAIL);
}

TEST(a_secret_on_the_heap_is_found)
{
	char secret[SECRET_SIZE], *copy;

	make_secret(secret, '0');
	assert_false(is_left(secret));
	copy = NON_NULL(strdup(secret));
	assert_true(is_left(secret));
	explicit_bzero(copy, strlen(copy));
	assert_false(is_left(secret));
	free(copy);
}

static void call(struct tls_world *tw, struct rpc_client *client, char what)
{
	char secret[SECRET_SIZE];
	struct answer answer;

	make_secret(secret, what);
	assert_int_equal(world_get_now(tw->world, client, secret, &answer), STATUS_OK);
	assert_string_equal(answer.id, "long id");
	world_settle(tw->world);
	assert_false(is_left(secret));
}

TLS_TEST(a_call_and_its_answer_leave_nothing)
{
	call(tw, tw->world->client, '1');
	call(tw, tw->client, '2');
}

TLS_TEST(a_message_of_a_stream_leaves_nothing)
{
	struct session session;
	char secret[SECRET_SIZE];

	make_secret(secret, '3');
	session_open(&session, tw->world, tw->client);
	session_say(&session, secret);
	world_run_until_count(tw->world, &session.n_messages, 1);
	assert_string_equal(session.last, secret);
	world_settle(tw->world);
	assert_false(is_left(secret));
	rpc_stream_cancel(session.stream);
	world_settle(tw->world);
}

/* As it was received: a copy by way of the wire. */
static ProtobufCMessage *copy(const ProtobufCMessage *message)
{
	ProtobufCMessage *ret;
	uint8_t packed[1024];
	size_t n = protobuf_c_message_get_packed_size(message);

	assert_in_range(n, 1, sizeof(packed));
	(void)protobuf_c_message_pack(message, packed);
	ret = NON_NULL(protobuf_c_message_unpack(message->descriptor, NULL, n, packed));
	return ret;
}

/* In a text, a list, a map inside a message inside another, bytes, a oneof, and a field that nobody knows. */
static ProtobufCMessage *make_full(char *secret)
{
	Holdfast__V1__Volume volume = HOLDFAST__V1__VOLUME__INIT;
	Holdfast__V1__ClaimVolumeResponse response = V1(claim_volume_response, .volume = &volume);
	Holdfast__V1__Volume__SecretsEntry entry = HOLDFAST__V1__VOLUME__SECRETS_ENTRY__INIT;
	Holdfast__V1__Volume__SecretsEntry *entries[] = {&entry};
	char *flags[] = {secret, secret};
	Holdfast__V1__MountOptions options = V1(mount_options, .mount_flags = flags, .n_mount_flags = 2);
	uint8_t bytes[SECRET_SIZE - 1];
	ProtobufCMessageUnknownField unknown = {.tag = 994,
						.wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED};

	memcpy(bytes, secret, sizeof(bytes));
	bytes[0] = sizeof(bytes) - 1; /* its length on the wire */
	entry.key = entry.value = secret;
	volume.id = secret;
	volume.secrets = entries;
	volume.n_secrets = 1;
	volume.mount_options = &options;
	response.ticket = (ProtobufCBinaryData){.data = (uint8_t *)secret, .len = SECRET_SIZE - 1};
	unknown.data = bytes;
	unknown.len = sizeof(bytes);
	response.base.unknown_fields = &unknown;
	response.base.n_unknown_fields = 1;
	return copy(&response.base);
}

TEST(every_string_of_a_message_is_wiped)
{
	Holdfast__V1__SessionWelcome welcome = HOLDFAST__V1__SESSION_WELCOME__INIT;
	Holdfast__V1__SessionDown down =
		V1(session_down, .message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME,
		   .welcome = &welcome);
	ProtobufCMessage *messages[2];
	char secret[SECRET_SIZE];

	make_secret(secret, '4');
	messages[0] = make_full(secret);
	welcome.cluster = secret;
	messages[1] = copy(&down.base);
	for (int i = 0; i < 2; i++) {
		assert_true(is_left(secret));
		message_text_wipe(messages[i]);
		protobuf_c_message_free_unpacked(messages[i], NULL);
	}
	assert_false(is_left(secret));
}

TEST(a_queue_keeps_nothing_that_was_taken)
{
	static const char filler[4096];
	cleanup(byteq_release) struct byteq queue = BYTEQ_INIT;
	char secret[SECRET_SIZE];

	make_secret(secret, '5');
	assert_true(byteq_put(&queue, secret, strlen(secret)));
	assert_true(byteq_put(&queue, filler, sizeof(filler))); /* it grows, and moves */
	byteq_take(&queue, strlen(secret));
	byteq_take(&queue, sizeof(filler) - 1);
	assert_false(is_left(secret));
}
