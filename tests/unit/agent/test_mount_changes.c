/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "alloc/mount_changes.h"
#include "rpc/message_text.h"
#include "rpc/pack.h"

#include <holdfast/v1/nodes.pb-c.h>

TEST(a_mount_says_whom_it_waits_for_and_since_when)
{
	static const struct {
		struct volume_op_info info;
		const char *text;
	} rows[] = {
		{{.step = "stage", .step_since_ms = 0, .last_error = ""},
		 "mounting volume db: at step 'stage' since 1970-01-01T00:00:00.000Z"},
		ROW({.step = "queued", .step_since_ms = 1, .last_error = "pool is away"},
		    "mounting volume db: at step 'queued' since 1970-01-01T00:00:00.001Z; last error: pool "
		    "is away"),
		{{.step = "wait for plugin", .plugin_id = "ebs", .last_error = ""},
		 "mounting volume db: waiting for plugin ebs since 1970-01-01T00:00:00.000Z"},
		ROW({.step = "plugin stage",
		     .plugin_id = "ebs",
		     .call = "NodeStageVolume",
		     .is_calling = true,
		     .attempts = 1,
		     .last_error = ""},
		    "mounting volume db: plugin ebs: NodeStageVolume, since 1970-01-01T00:00:00.000Z, "
		    "attempt 1, has not answered yet"),
		ROW({.step = "plugin publish",
		     .plugin_id = "ebs",
		     .call = "NodePublishVolume",
		     .attempts = 3,
		     .last_error = "busy"},
		    "mounting volume db: plugin ebs: NodePublishVolume, since 1970-01-01T00:00:00.000Z, "
		    "attempt 3; last error: busy"),
		ROW({.step = "plugin publish",
		     .plugin_id = "ebs",
		     .call = "NodePublishVolume",
		     .attempts = 3,
		     .gives_up_ms = 300000,
		     .last_error = "busy"},
		    "mounting volume db: plugin ebs: NodePublishVolume, since 1970-01-01T00:00:00.000Z, "
		    "attempt 3; given up at 1970-01-01T00:05:00.000Z; last error: busy"),
	};
	char text[ALLOC_DESCRIPTION_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_string_equal(mount_changes_text(&rows[i].info, false, "db", text), rows[i].text);
}

TEST(a_long_description_is_cut_at_its_end)
{
	char error[2 * ALLOC_DESCRIPTION_MAX], text[ALLOC_DESCRIPTION_MAX + 1];
	const struct volume_op_info info = {
		.plugin_id = "ebs", .call = "NodeStageVolume", .attempts = 1, .last_error = error};

	memset(error, 'e', sizeof(error));
	error[sizeof(error) - 1] = '\0';
	(void)mount_changes_text(&info, true, "db", text);
	assert_int_equal(strlen(text), ALLOC_DESCRIPTION_MAX);
	assert_non_null(strstr(text, "releasing volume db: plugin ebs: NodeStageVolume, since "));
}

/* Is the description of an allocation in a message that its receiver takes? */
static void expect_received(char *description)
{
	Holdfast__V1__AllocStatus status = HOLDFAST__V1__ALLOC_STATUS__INIT, *received;
	cleanup_free uint8_t *bytes = NULL;
	const char *field = NULL;
	size_t n = 0;

	status.description = description;
	bytes = NON_NULL(pack_message(&status.base, 0, &n));
	received = NON_NULL(holdfast__v1__alloc_status__unpack(NULL, n, bytes));
	assert_true(message_text_is_valid(&received->base, &field));
	assert_int_equal(strlen(received->description), strlen(description));
	holdfast__v1__alloc_status__free_unpacked(received, NULL);
}

TEST(a_description_that_is_cut_within_a_character_is_received)
{
	char error[2 * ALLOC_DESCRIPTION_MAX + 4], text[ALLOC_DESCRIPTION_MAX + 1];
	const struct volume_op_info info = {
		.plugin_id = "ebs", .call = "NodeStageVolume", .attempts = 1, .last_error = error};

	for (size_t shift = 0; shift < 3; shift++) {
		memset(error, 'x', shift);
		for (size_t n = shift; n + 3 < sizeof(error); n += 3)
			memcpy(error + n, "\xe5\xad\x98", 4);
		expect_received(mount_changes_text(&info, false, "db", text));
	}
}
