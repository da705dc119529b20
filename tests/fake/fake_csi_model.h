/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between fake_csi.c, which is the connection, and fake_csi_model.c, which is the plugin. */

#include "fake_csi.h"

struct fake_csi_method {
	const char *name;
	const ProtobufCMessageDescriptor *request;
	const ProtobufCMessageDescriptor *response;
};

extern const struct fake_csi_method fake_csi_methods[CSI_METHOD_N];

/** Check a call that was made, and take note of it. */
void fake_csi_begin(struct fake_csi_plugin *plugin, enum csi_method method, const ProtobufCMessage *request);

/** It has ended for its caller. */
void fake_csi_end(enum csi_method method, const ProtobufCMessage *request);

/** Do what the call says.
 * @ret owned by the caller, free(): the answer's bytes */
enum status fake_csi_perform(struct fake_csi_plugin *plugin, enum csi_method method,
			     const ProtobufCMessage *request, uint8_t **ret, size_t *ret_len,
			     struct error *err);

void fake_csi_violate(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
