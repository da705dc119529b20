/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Pages of lists. */

#include "base/error.h"
#include "model/volume.h"

#include <stddef.h>
#include <stdint.h>

/* Above all characters of ids and namespaces: PREFIX BEHIND is the place behind all keys with that prefix. */
#define BEHIND "\x7f"

enum {
	LIST_PAGE_DEFAULT = 1000, /* objects, where the caller sets 0 */
	LIST_PAGE_BYTES_MAX =
		2 * 1024 * 1024, /* with one more object below what clients take in one message */
};

/** Returns the number of objects for a page. STATUS_INVALID_ARGUMENT above @most. */
enum status list_page_size(uint32_t per_page, uint32_t most, size_t *ret, struct error *err);

/** Reads "namespace.id", a token that names the first object of a page: neither has a dot. */
enum status list_page_token(const char *token, char ret_namespace[static NAMESPACE_MAX + 1], char *ret_id,
			    size_t size, struct error *err);
