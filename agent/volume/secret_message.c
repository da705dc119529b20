/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/secret_message.h"

#include "model/message.h"

#include <errno.h>
#include <stdlib.h>

struct secret_message {
	unsigned int refs;
	ProtobufCMessage *pb;
};

enum status secret_message_new(const ProtobufCMessage *from, struct secret_message **ret, struct error *err)
{
	struct secret_message *secret = calloc(1, sizeof(*secret));

	if (secret)
		secret->pb = message_copy_secret(from);
	if (!secret || !secret->pb) {
		free(secret);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot keep what a plugin needs");
	}
	secret->refs = 1;
	*ret = secret;
	return STATUS_OK;
}

struct secret_message *secret_message_ref(struct secret_message *secret)
{
	if (secret)
		secret->refs++;
	return secret;
}

void secret_message_unref(struct secret_message *secret)
{
	if (!secret || --secret->refs > 0)
		return;
	message_free_secret(secret->pb);
	free(secret);
}

const ProtobufCMessage *secret_message_get(const struct secret_message *secret)
{
	return secret->pb;
}
