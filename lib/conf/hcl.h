/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The HCL subset to a JSON tree. */

#include "conf/lines.h"

enum { CONF_DEPTH_MAX = 32 }; /* blocks, objects and lists inside one another, in HCL and JSON */

/** @text  valid UTF-8
 * @file   from lines_file()
 * @ret    owned by the caller, json_decref(); the places of its members are in @lines */
enum status hcl_parse(const char *text, const char *file, struct lines *lines, json_t **ret,
		      struct error *err);
