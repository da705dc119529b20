/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The call that gets the first certificate, for the line of an operator. */

#include "base/error.h"
#include "rpc/enroll_line.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <systemd/sd-event.h>

/** Calls a server whose CA has the digest of @line; the token reaches no other server. The answer is checked:
 * the certificate is of @ret_key, of @line's identity and of the answer's CA. The new key and its request are
 * kept in @path (0600): a repeat with the key of the attempt before gets the answer that was lost. Remove
 * @path after the certificate is written.
 * @ret_key owned by the caller, pki_key_free(); @ret, protobuf_c_message_free_unpacked(); both on failure too
 */
enum status enroll_call(sd_event *event, const struct enroll_line *line, const char *path, char **ret_key,
			Holdfast__V1__EnrollResponse **ret, struct error *err);
