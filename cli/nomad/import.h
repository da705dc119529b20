/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A job file of Nomad as Holdfast takes it, with a remark for each line that changed. Pure. */

#include "conf/conf.h"
#include "nomad/keys.h"

#include <stddef.h>

struct nomad_remark {
	unsigned int line; /* of the original */
	enum nomad_fate fate;
	char *text; /* owned; one line, "datacenters is dropped: ..." */
};

struct nomad_import {
	char *text;		      /* owned: the file, which spec_job() can read */
	struct nomad_remark *remarks; /* owned, by line */
	size_t n_remarks;
	size_t n_refused; /* remarks that a person must act upon: the file is another job without them */
};

/** Prints the job of @conf as a file for spec_job().
 * @conf    read with CONF_EXPRESSIONS, without mistakes
 * @values  texts by name, of variables of the file; NULL: all have their defaults
 * @ret     owned by the caller, nomad_import_release()
 * STATUS_INVALID_ARGUMENT: it is no job file. */
enum status nomad_import(const struct conf *conf, const json_t *values, struct nomad_import *ret,
			 struct error *err);

void nomad_import_release(struct nomad_import *import);
