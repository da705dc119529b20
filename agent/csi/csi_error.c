/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/csi_error.h"

#include "csi/csi_client.h"
#include "csi/csi_request.h"
#include "csi/csi_secret.h"
#include "csi/csi_text.h"

#include <stdio.h>

enum { SUBJECT_SIZE = 160, WHERE_SIZE = 320 };

/* "plugin nfs, volume pvc-1"; returns @ret. */
static const char *where_text(const struct csi_where *where, char ret[static WHERE_SIZE])
{
	const char *kind = "";
	const char *subject = csi_request_subject(where->request, &kind);
	char line[SUBJECT_SIZE];

	csi_text_line(subject, line, sizeof(line));
	(void)snprintf(ret, WHERE_SIZE, "plugin %s%s%s%s%s", where->plugin_id, subject ? ", " : "", kind,
		       subject ? " " : "", line);
	return ret;
}

void csi_error_answered(const struct csi_where *where, enum status status, const char *text,
			struct error *ret)
{
	char open_text[ERROR_MSG_MAX];
	char line[CSI_TEXT_MAX + 1];
	char prefix[WHERE_SIZE];

	csi_redact(where->request, text, open_text, sizeof(open_text));
	csi_text_ends(open_text, line, sizeof(line));
	error_fill(ret, status, 0, "%s: %s answered %s%s%s", where_text(where, prefix),
		   csi_method_info(where->method)->name, status_name(status),
		   line[0] != '\0' ? ": " : " and no reason", line);
}

void csi_error_unanswered(const struct csi_where *where, const struct error *why, struct error *ret)
{
	struct error copy = *why;
	char prefix[WHERE_SIZE];

	(void)error_prefix(&copy, "%s", where_text(where, prefix));
	*ret = copy;
}
