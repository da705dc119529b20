/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The HCL subset to a JSON tree. */

#include "conf/lines.h"
#include "conf/templates.h"

enum { CONF_DEPTH_MAX = 32 }; /* blocks, objects and lists inside one another, in HCL and JSON */

/** Reads the whole text, also after mistakes.
 * @text      valid UTF-8
 * @file      from lines_file()
 * @ret       owned by the caller, json_decref(); the places of its members are in @lines. If the status is
 * STATUS_INVALID_ARGUMENT: all parts without a mistake, or untouched if the text lacks its end
 * @mistakes  a line each */
enum status hcl_parse(const char *text, const char *file, enum conf_templates templates, struct lines *lines,
		      json_t **ret, struct error *mistakes);
