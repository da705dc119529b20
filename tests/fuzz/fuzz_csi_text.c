/* SPDX-License-Identifier: Apache-2.0 */
/* What is shown of CSI's messages and of a plugin's texts.
 *
 * The first byte chooses a request, the second the size of the room; the rest is the message, and the text.
 */

#include "base/str.h"
#include "csi/csi_method.h"
#include "csi/csi_request.h"
#include "csi/csi_secret.h"
#include "csi/csi_text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One line of text, in its room. */
static void check(const char *text, size_t room)
{
	if (strlen(text) >= room || !str_is_text(text))
		abort();
}

/* A copy of a copy is the same bytes. */
static void check_copy(const ProtobufCMessage *message)
{
	ProtobufCMessage *copy = csi_request_copy(message);
	ProtobufCMessage *again = copy ? csi_request_copy(copy) : NULL;
	size_t n = copy ? protobuf_c_message_get_packed_size(copy) : 0;
	uint8_t *packed[2] = {malloc(n + 1), malloc(n + 1)};

	if (!packed[0] || !packed[1])
		abort();
	/* unknown fields, which no request of ours has, may make a message that cannot be copied */
	if (again && protobuf_c_message_get_packed_size(again) == n) {
		(void)protobuf_c_message_pack(copy, packed[0]);
		(void)protobuf_c_message_pack(again, packed[1]);
		if (memcmp(packed[0], packed[1], n) != 0)
			abort();
	}
	free(packed[0]);
	free(packed[1]);
	csi_request_free(again);
	csi_request_free(copy);
}

static void check_message(const ProtobufCMessage *message, const char *said, size_t room)
{
	char *text = malloc(room);
	char redacted[2048];

	if (!text)
		abort();
	csi_text(message, text, room);
	check(text, room);
	csi_redact(message, said, redacted, sizeof(redacted));
	free(text);
	check_copy(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct service_method *info;
	ProtobufCMessage *message;
	size_t room;
	char *said;
	char *line;

	if (size < 2 || size > 1024)
		return 0;
	info = &csi_methods[(enum csi_method)(data[0] % CSI_METHOD_N)];
	room = 1 + data[1] * 4U;
	said = malloc(size);
	line = malloc(room);
	if (!said || !line)
		abort();
	memcpy(said, data + 2, size - 2);
	said[size - 2] = '\0';
	csi_text_line(said, line, room);
	check(line, room);
	message = protobuf_c_message_unpack(data[0] & 0x80 ? info->response : info->request, NULL, size - 2,
					    data + 2);
	if (message)
		check_message(message, said, room);
	protobuf_c_message_free_unpacked(message, NULL);
	free(line);
	free(said);
	return 0;
}
