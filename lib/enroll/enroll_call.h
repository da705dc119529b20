/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The call that gets the first certificate, for the line of an operator. */

#include "base/error.h"
#include "rpc/enroll_line.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <systemd/sd-event.h>

/** A new key and its request, kept together in @path (0600), or those that @path has: a repeat with the key
 * of the attempt before gets the answer that was lost. Remove @path after the certificate is written.
 * @ret_key owned by the caller, pki_key_free(); @ret_csr, free() */
enum status enroll_begin(const char *path, char **ret_key, char **ret_csr, struct error *err);

/** Calls a server whose CA has the digest of @line; the token reaches no other server.
 * @ret owned by the caller, protobuf_c_message_free_unpacked() */
enum status enroll_call(sd_event *event, const struct enroll_line *line, const char *csr,
			Holdfast__V1__EnrollResponse **ret, struct error *err);
