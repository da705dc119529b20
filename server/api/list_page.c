/* SPDX-License-Identifier: Apache-2.0 */
#include "api/list_page.h"

enum status list_page_size(uint32_t per_page, uint32_t most, size_t *ret, struct error *err)
{
	if (per_page > most)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "per_page: more than %u", most);
	*ret = per_page > 0 ? per_page : LIST_PAGE_DEFAULT;
	return STATUS_OK;
}
