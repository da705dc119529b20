/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Keeps, in memory only, a grant's parts for the plugin on the node: contexts, mount options, secrets. */

#include "base/error.h"
#include "volume/secret_message.h"

#include <holdfast/v1/volumes.pb-c.h>

/** Copies only these parts of a ClaimVolumeResponse. The server has merged the allocation's mount options
 * over the volume's.
 * STATUS_INVALID_ARGUMENT names the part that is too large; the message contains no value.
 * @ret owned by the caller, secret_message_unref() */
enum status claim_details_new(const Holdfast__V1__ClaimVolumeResponse *response, struct secret_message **ret,
			      struct error *err);
