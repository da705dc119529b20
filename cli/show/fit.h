/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Makes a table as narrow as a terminal. */

#include <libsmartcols.h>
#include <stddef.h>

/** Shortens ids to beginnings that are unique in the table, then the widest texts, then hides columns from
 * the right, until @table has at most @width columns. Numbers and headings stay whole. Returns how many
 * columns are hidden, or a negative errno. */
int fit_table(struct libscols_table *table, size_t width);
