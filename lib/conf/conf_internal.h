/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What conf.c and conf_bind.c share. */

#include "conf/conf.h"
#include "conf/lines.h"

struct conf {
	const char *name; /* of the first file; borrowed from lines */
	json_t *root;
	/* Values that later files replaced. They stay, so that no node of another tree gets their address and
	 * with it their lines. */
	json_t *replaced;
	struct lines *lines;
};
