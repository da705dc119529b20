/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What is told of a call that failed: plugin, call, what it is about, and why. */

#include "base/error.h"
#include "csi/csi_method.h"

struct csi_where {
	const char *plugin_id;
	enum csi_method method;
	const ProtobufCMessage *request;
};

/** The plugin's own word: its code, its text on one line without secrets, both ends of it within
 * CSI_TEXT_MAX. */
void csi_error_answered(const struct csi_where *where, enum status status, const char *text,
			struct error *ret);

/** Why there is no answer: @why names the call, whether it comes from the transport or from us. */
void csi_error_unanswered(const struct csi_where *where, const struct error *why, struct error *ret);
