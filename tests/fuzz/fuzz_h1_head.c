/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of HTTP/1.1 requests: the verdict does not depend on how the bytes are cut. */

#include "rpc/h1_head.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct h1_head head = {.size = 0};
	struct error err;
	int http = 0;
	enum h1_head_result result = h1_head_read((const char *)data, size, &head, &http, &err);

	if (result == H1_HEAD_BAD && (http < 400 || http > 599 || err.status == STATUS_OK))
		abort();
	if (result == H1_HEAD_WHOLE) {
		struct h1_head cut;

		if (head.size > size || memcmp(data + head.size - 4, "\r\n\r\n", 4) != 0)
			abort();
		if (h1_head_read((const char *)data, head.size - 1, &cut, &http, &err) != H1_HEAD_MORE)
			abort();
		(void)request_head_check(&head.request, &http, &err);
	}
	return 0;
}
