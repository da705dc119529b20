/* SPDX-License-Identifier: Apache-2.0 */
#include "api/list_page.h"

#include "server.h"

#include "base/str.h"
#include "state/objects.h"
#include "state/records.h"

#include <protobuf-c/protobuf-c.h>
#include <string.h>

enum status list_page_size(uint32_t per_page, uint32_t most, size_t *ret, struct error *err)
{
	if (per_page > most)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "per_page: more than %u", most);
	*ret = per_page > 0 ? per_page : LIST_PAGE_DEFAULT;
	return STATUS_OK;
}

enum status list_page_begin(struct server *server, struct list_page *ret, const char *table,
			    const char *prefix, const char *next_token, struct error *err)
{
	char key[OBJECT_KEY_SIZE];

	if (str_format(key, sizeof(key), "%s%s", table, next_token[0] != '\0' ? next_token : prefix) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "prefix, next_token: too long");
	ret->table = table;
	ret->prefix = prefix;
	ret->entry = records_from(&server->state.records, key);
	ret->next_token = "";
	return STATUS_OK;
}

const struct record_entry *list_page_next(struct list_page *page)
{
	struct record_entry *entry = page->entry;
	size_t table = strlen(page->table);

	if (!entry || !str_starts_with(entry->key, page->table) ||
	    !str_starts_with(entry->key + table, page->prefix))
		return NULL;
	page->bytes += protobuf_c_message_get_packed_size(entry->record.message);
	if (page->n == page->size || page->bytes > LIST_PAGE_RECORDS_BYTES) {
		page->next_token = entry->key + table;
		return NULL;
	}
	page->n++;
	page->entry = records_next(entry);
	return entry;
}
