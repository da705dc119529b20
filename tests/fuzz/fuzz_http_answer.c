/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of an engine: the same body, code and verdict however the bytes are cut. */

#include "http_answer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BODY_MAX = 1 << 16 };

struct read_answer {
	struct http_answer http;
	char body[BODY_MAX];
	size_t n_body;
	size_t n; /* bytes that were consumed */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In pieces of at most @piece bytes. */
static void read_in_pieces(struct read_answer *ret, const char *bytes, size_t n, size_t piece)
{
	*ret = (struct read_answer){.http = {.state = HTTP_HEAD}};
	while (ret->n < n && ret->http.state < HTTP_OVER) {
		const char *body = NULL;
		size_t n_body = 0;
		size_t most = n - ret->n < piece ? n - ret->n : piece;
		size_t taken = http_answer_read(&ret->http, bytes + ret->n, most, &body, &n_body);

		if (taken == 0 || taken > most || n_body > taken || ret->n_body + n_body > BODY_MAX)
			abort();
		if (n_body > 0)
			memcpy(ret->body + ret->n_body, body, n_body);
		ret->n_body += n_body;
		ret->n += taken;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct read_answer whole, bytewise, cut;

	if (size == 0 || size > BODY_MAX)
		return 0;
	read_in_pieces(&whole, (const char *)data, size, size);
	read_in_pieces(&bytewise, (const char *)data, size, 1);
	read_in_pieces(&cut, (const char *)data, size, 1 + data[0] % 7);
	if (whole.http.state != bytewise.http.state || whole.http.state != cut.http.state ||
	    whole.http.code != bytewise.http.code || whole.n != bytewise.n ||
	    whole.n_body != bytewise.n_body || whole.n != cut.n ||
	    memcmp(whole.body, bytewise.body, whole.n_body) != 0 ||
	    memcmp(whole.body, cut.body, whole.n_body) != 0)
		abort();
	if (whole.http.state == HTTP_OVER && (whole.http.code < 200 || whole.http.code > 599))
		abort();
	return 0;
}
