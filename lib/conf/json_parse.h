/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* JSON text to a tree whose lines are known; jansson does the parsing and tells no lines. */

#include "conf/lines.h"

/** @text  an object
 * @file   from lines_file()
 * @ret    owned by the caller, json_decref(); the places of its members are in @lines */
enum status json_parse(const char *text, const char *file, struct lines *lines, json_t **ret,
		       struct error *err);
