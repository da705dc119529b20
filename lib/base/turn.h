/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Turns in the order of names: many requests under one name delay those under another by one turn. */

/** Compares @a and @b as strcmp() does, by whose turn comes first when @last had the last one: turns begin
 * behind @last, go on at the first name, and end at @last itself. */
int turn_compare(const char *last, const char *a, const char *b);
