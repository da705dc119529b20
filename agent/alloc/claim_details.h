/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a grant brings for the plugin on the node: contexts, mount options, secrets. Kept in memory only. */

#include "base/error.h"
#include "volume/secret_message.h"

#include <holdfast/v1/volumes.pb-c.h>

/** A ClaimVolumeResponse with nothing but these. Mount options are as the server has merged those of the
 * allocation over the volume's.
 * STATUS_INVALID_ARGUMENT names what is too large; no value is part of the message.
 * @ret owned by the caller, secret_message_unref() */
enum status claim_details_new(const Holdfast__V1__ClaimVolumeResponse *response, struct secret_message **ret,
			      struct error *err);
