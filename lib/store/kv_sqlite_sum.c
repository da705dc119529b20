/* SPDX-License-Identifier: Apache-2.0 */
/* The checksum of a record: what the disk gives back is what was written, or an error, never another state.
 */

#include "store/checksum.h"
#include "store/kv_sqlite_internal.h"

#include <string.h>

enum { NUMBER_BYTES = 8 };

static uint64_t add_number(uint64_t sum, uint64_t number)
{
	uint8_t bytes[NUMBER_BYTES];

	for (size_t i = 0; i < NUMBER_BYTES; i++)
		bytes[i] = (uint8_t)(number >> (8 * i));
	return checksum_add(sum, bytes, sizeof(bytes));
}

/* The key with its NUL, which no key contains: where it ends is part of the sum. */
uint64_t kv_sqlite_sum(const struct kv_item *item)
{
	uint64_t sum = checksum_add(CHECKSUM_INIT, item->key, strlen(item->key) + 1);

	sum = add_number(sum, item->create_revision);
	sum = add_number(sum, item->mod_revision);
	return checksum_add(sum, item->value, item->len);
}

static void run_sum(sqlite3_context *context, int n, sqlite3_value **values)
{
	struct kv_item item;

	(void)n;
	item = (struct kv_item){
		.key = (const char *)sqlite3_value_text(values[0]),
		.value = sqlite3_value_blob(values[1]),
		.len = (size_t)sqlite3_value_bytes(values[1]),
		.create_revision = (uint64_t)sqlite3_value_int64(values[2]),
		.mod_revision = (uint64_t)sqlite3_value_int64(values[3]),
	};
	if (item.key)
		sqlite3_result_int64(context, (sqlite3_int64)kv_sqlite_sum(&item));
	else
		sqlite3_result_error_nomem(context); /* or NULL, which the tables do not hold */
}

int kv_sqlite_add_sum(sqlite3 *db)
{
	return sqlite3_create_function_v2(db, "record_sum", 4,
					  SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, NULL,
					  run_sum, NULL, NULL, NULL);
}
