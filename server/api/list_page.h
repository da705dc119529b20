/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Pages of lists. */

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum {
	LIST_PAGE_DEFAULT = 1000, /* objects, where the caller sets 0 */
};

/** Returns the number of objects for a page. STATUS_INVALID_ARGUMENT above @most. */
enum status list_page_size(uint32_t per_page, uint32_t most, size_t *ret, struct error *err);
