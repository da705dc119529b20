/* SPDX-License-Identifier: Apache-2.0 */
#include "api/list_page.h"

#include "base/id.h"
#include "base/str.h"

#include <string.h>

enum status list_page_size(uint32_t per_page, uint32_t most, size_t *ret, struct error *err)
{
	if (per_page > most)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "per_page: more than %u", most);
	*ret = per_page > 0 ? per_page : LIST_PAGE_DEFAULT;
	return STATUS_OK;
}

enum status list_page_token(const char *token, char ret_namespace[static NAMESPACE_MAX + 1], char *ret_id,
			    size_t size, struct error *err)
{
	int n = (int)strcspn(token, ".");

	if (token[n] == '.' && str_format(ret_namespace, NAMESPACE_MAX + 1, "%.*s", n, token) >= 0 &&
	    id_is_name(ret_namespace, NAMESPACE_MAX) && str_copy(ret_id, size, token + n + 1) == 0)
		return STATUS_OK;
	return error_set(err, STATUS_INVALID_ARGUMENT, 0,
			 "next_token: '%.64s' is not one that a list gave; begin without it", token);
}
