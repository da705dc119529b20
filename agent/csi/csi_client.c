/* SPDX-License-Identifier: Apache-2.0 */
/* The row of CSI plugins for service/client. */
#include "csi/csi_client.h"

#include "csi/csi_request.h"
#include "csi/csi_secret.h"
#include "csi/csi_text.h"

#include <stdio.h>
#include <string.h>

enum { SUBJECT_SIZE = 150 };

static void subject(const ProtobufCMessage *request, char *ret, size_t size)
{
	const char *kind = "";
	const char *id = csi_request_subject(request, &kind);
	char line[SUBJECT_SIZE];

	csi_text_line(id, line, sizeof(line));
	if (id)
		(void)snprintf(ret, size, "%s %s", kind, line);
}

static void clean(const ProtobufCMessage *request, const char *text, char *ret, size_t size)
{
	char open_text[ERROR_MSG_MAX];

	csi_redact(request, text, open_text, sizeof(open_text));
	csi_text_ends(open_text, ret, size);
}

const struct service_kind csi_kind = {
	.noun = "plugin",
	.methods = csi_methods,
	.calls_max = CSI_CALLS_MAX,
	.calls_kept = CSI_CALLS_KEPT,
	.queue_max = CSI_QUEUE_MAX,
	.queue_bytes_max = CSI_QUEUE_BYTES_MAX,
	.request_max = CSI_REQUEST_MAX,
	.message_max = CSI_MESSAGE_MAX,
	.copy = csi_request_copy,
	.free = csi_request_free,
	.subject = subject,
	.clean = clean,
	.print = csi_text,
};
