/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/byteq.h"

#include <assert.h>

/* An empty queue keeps this much memory for what comes next, not more. */
enum { BYTEQ_KEEP = 2 * 1024 };

void byteq_release(struct byteq *q)
{
	strbuf_release(&q->buf);
	q->head = 0;
}

size_t byteq_len(const struct byteq *q)
{
	return q->buf.len - q->head;
}

const uint8_t *byteq_data(const struct byteq *q)
{
	return q->buf.data ? (const uint8_t *)q->buf.data + q->head : NULL;
}

void byteq_reserve(struct byteq *q, size_t n)
{
	strbuf_reserve(&q->buf, n);
}

bool byteq_put(struct byteq *q, const void *bytes, size_t n)
{
	strbuf_put(&q->buf, bytes, n);
	return q->buf.error == 0;
}

void byteq_take(struct byteq *q, size_t n)
{
	assert(n <= byteq_len(q));
	q->head += n;
	if (q->head == q->buf.len && q->buf.cap > BYTEQ_KEEP) {
		byteq_release(q);
	} else if (q->head >= q->buf.len - q->head) {
		/* moving at most as much as was taken keeps the cost per byte constant */
		strbuf_consume(&q->buf, q->head);
		q->head = 0;
	}
}
