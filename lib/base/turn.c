/* SPDX-License-Identifier: Apache-2.0 */
/* Turns in the order of names. */

#include "base/turn.h"

#include <stdbool.h>
#include <string.h>

int turn_compare(const char *last, const char *a, const char *b)
{
	bool is_a_behind = strcmp(a, last) > 0, is_b_behind = strcmp(b, last) > 0;

	return is_a_behind != is_b_behind ? is_b_behind - is_a_behind : strcmp(a, b);
}
