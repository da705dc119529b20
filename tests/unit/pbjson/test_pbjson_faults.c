/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation fails in turn: the answer is RESOURCE_EXHAUSTED, nothing is handed out, and (under the
 * address sanitizer) nothing is leaked. */

#include "failing_memory.h"
#include "random_message.h"

#include "rpc/pbjson.h"

#include <all.pb-c.h>

static const ProtobufCMessageDescriptor *const all = &test__v1__all__descriptor;

TEST(decoding_survives_the_failure_of_every_allocation)
{
	ProtobufCMessage *message = random_message(all, 4);
	json_t *json = NULL;
	long failures = 0;

	assert_int_equal(pbjson_encode(message, 0, &json, NULL), STATUS_OK);
	for (;;) {
		struct error err = {0};
		ProtobufCMessage *got = NULL;
		enum status status;
		bool failed;

		countdown = failures;
		status = pbjson_decode(all, json, 0, &got, &err);
		failed = countdown < 0;
		countdown = -1;
		if (!failed) {
			assert_int_equal(status, STATUS_OK);
			protobuf_c_message_free_unpacked(got, NULL);
			break;
		}
		assert_int_equal(status, STATUS_RESOURCE_EXHAUSTED);
		assert_int_equal(err.status, STATUS_RESOURCE_EXHAUSTED);
		assert_null(got);
		failures++;
	}
	assert_in_range(failures, 50, 10000);
	json_decref(json);
	protobuf_c_message_free_unpacked(message, NULL);
}

TEST(printing_survives_the_failure_of_every_allocation)
{
	ProtobufCMessage *message = random_message(all, 4);
	long failures = 0;

	for (;;) {
		cleanup_strbuf struct strbuf text = STRBUF_INIT(PBJSON_TEXT_MAX);
		struct error err = {0};
		enum status status;
		bool failed;

		countdown = failures;
		status = pbjson_print(message, PBJSON_DEFAULTS, 0, &text, &err);
		failed = countdown < 0;
		countdown = -1;
		if (!failed) {
			assert_int_equal(status, STATUS_OK);
			break;
		}
		assert_int_equal(status, STATUS_RESOURCE_EXHAUSTED);
		failures++;
	}
	assert_in_range(failures, 5, 10000);
	protobuf_c_message_free_unpacked(message, NULL);
}

static int use_failing_memory(void **state)
{
	json_set_alloc_funcs(__wrap_malloc, free);
	return 0;
}

TEST_GROUP(use_failing_memory, NULL)
