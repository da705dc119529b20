/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/h2_io.h"

#include <errno.h>

enum status h2_fill(struct h2 *h2, struct transport *tr, struct error *err)
{
	while (!transport_is_full(tr)) {
		const uint8_t *bytes;
		size_t n;
		enum status status = h2_send(h2, &bytes, &n, err);

		if (status != STATUS_OK)
			return transport_queued(tr) == 0 ? status : STATUS_OK; /* the final frames first */
		if (n == 0)
			return STATUS_OK;
		if (!transport_put(tr, bytes, n))
			return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "send");
	}
	return STATUS_OK;
}
