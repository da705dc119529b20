/* SPDX-License-Identifier: Apache-2.0 */
#include "base/closest.h"

#include <string.h>

enum { WORD_MAX = 64 };

static size_t min(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Optimal string alignment distance, rows of the table from i - 2 to i. */
static size_t distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
	size_t rows[3][WORD_MAX + 1];

	for (size_t k = 0; k <= n_b; k++)
		rows[0][k] = k;
	for (size_t i = 1; i <= n_a; i++) {
		size_t *row = rows[i % 3];
		const size_t *last = rows[(i + 2) % 3];

		row[0] = i;
		for (size_t k = 1; k <= n_b; k++) {
			row[k] = min(last[k - 1] + (a[i - 1] != b[k - 1]), min(last[k], row[k - 1]) + 1);
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				row[k] = min(row[k], rows[(i + 1) % 3][k - 2] + 1);
		}
	}
	return rows[n_a % 3][n_b];
}

const char *closest(const char *word, const char *const *candidates, size_t n)
{
	size_t length = strnlen(word, WORD_MAX + 1);
	size_t best = length / 3 > 0 ? length / 3 : 1;
	const char *found = NULL;

	if (length == 0 || length > WORD_MAX)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		size_t other = strnlen(candidates[i], WORD_MAX + 1);
		size_t far;

		if (other > WORD_MAX)
			continue;
		far = distance(word, length, candidates[i], other);
		if (far > best || (found && far == best))
			continue;
		best = far;
		found = candidates[i];
	}
	return found;
}
