/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit.h"
#include "holdfast/v1/nodes.pb-c.h"
#include "holdfast/v1/volumes.pb-c.h"
#include "rpc/message_text.h"

static char good[] = "na\xc3\xafve";
static char bad[] = "na\xc3ve";

static void check(const ProtobufCMessage *message, const char *expected)
{
	const char *field = NULL;

	if (message_text_is_valid(message, &field) != (expected == NULL))
		fail_msg("%s", field ? field : "accepted");
	if (expected)
		assert_string_equal(field, expected);
	else
		assert_null(field);
}

TEST(strings_are_looked_at_wherever_they_are)
{
	Holdfast__V1__GetVolumeResponse response;
	Holdfast__V1__ListVolumesResponse list;
	Holdfast__V1__Volume volume;
	Holdfast__V1__Volume *volumes[2] = {&volume, &volume};

	holdfast__v1__get_volume_response__init(&response);
	holdfast__v1__list_volumes_response__init(&list);
	holdfast__v1__volume__init(&volume);
	check(&response.base, NULL);
	response.why = good;
	check(&response.base, NULL);
	response.why = bad;
	check(&response.base, "why");
	response.why = good;
	response.volume = &volume;
	check(&response.base, NULL);
	volume.name = bad;
	check(&response.base, "name");
	list.volumes = volumes;
	check(&list.base, NULL); /* an empty list, whatever it points to */
	list.n_volumes = 2;
	check(&list.base, "name");
	volume.name = good;
	check(&list.base, NULL);
}

TEST(only_the_member_of_a_oneof_that_is_there_is_looked_at)
{
	Holdfast__V1__SessionUp up;
	Holdfast__V1__Heartbeat heartbeat;

	holdfast__v1__session_up__init(&up);
	holdfast__v1__heartbeat__init(&heartbeat);
	heartbeat.boot_id = bad;
	up.heartbeat = &heartbeat;
	check(&up.base, NULL);
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HEARTBEAT;
	check(&up.base, "boot_id");
	heartbeat.boot_id = good;
	check(&up.base, NULL);
}

TEST(any_bytes_may_be_bytes)
{
	Holdfast__V1__ClaimVolumeResponse response;

	holdfast__v1__claim_volume_response__init(&response);
	response.ticket.data = (uint8_t *)bad;
	response.ticket.len = strlen(bad);
	check(&response.base, NULL);
}

TEST(messages_that_are_missing_are_no_trouble)
{
	Holdfast__V1__ListVolumesResponse list;
	Holdfast__V1__Volume *volumes[1] = {NULL};

	holdfast__v1__list_volumes_response__init(&list);
	list.volumes = volumes;
	list.n_volumes = 1;
	check(&list.base, NULL);
}
