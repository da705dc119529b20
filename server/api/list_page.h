/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Pages of lists. */

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct server;
struct record_entry;

enum {
	LIST_PAGE_DEFAULT = 1000,	      /* objects, where the caller says 0 */
	LIST_PAGE_RECORDS_MAX = 1000,	      /* of one page of records */
	LIST_PAGE_RECORDS_BYTES = 512 * 1024, /* below the largest message */
};

/** How many objects a page is to have. STATUS_INVALID_ARGUMENT above @most. */
enum status list_page_size(uint32_t per_page, uint32_t most, size_t *ret, struct error *err);

/* Records of one table in the order of their keys, as many as one page takes. Good for one callback. */
struct list_page {
	const char *table;  /* prefix of its keys */
	const char *prefix; /* of the rest of the key */
	struct record_entry *entry;
	size_t size; /* most that there can be */
	size_t n;
	size_t bytes;
	const char *next_token; /* borrowed; at the end of the page: where the next one begins, or "" */
};

/** The page of @table from @next_token on, or from @prefix on when that is empty. Both are borrowed, as is
 * @table. STATUS_INVALID_ARGUMENT names the field that is wrong. */
enum status list_page_begin(struct server *server, struct list_page *ret, const char *table,
			    const char *prefix, const char *next_token, struct error *err);

/** The next record, or NULL at the end of the page. */
const struct record_entry *list_page_next(struct list_page *page);
