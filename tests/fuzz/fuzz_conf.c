/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration parser: any bytes give a tree or an error; a tree that prints as JSON reads back the
 * same. */

#include "conf/conf.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void reads_back(const struct conf *conf)
{
	char *text = json_dumps(conf_root(conf), 0);
	struct conf *again = NULL;
	struct error err;

	assert(text);
	if (conf_parse(text, "again", &again, &err) == STATUS_OK)
		assert(json_object_size(conf_root(again)) == json_object_size(conf_root(conf)));
	else
		assert(strlen(text) > CONF_SIZE_MAX || err.status == STATUS_INVALID_ARGUMENT);
	conf_free(again);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *text = calloc(1, n + 1);
	struct conf *conf = NULL;
	struct error err;

	assert(text);
	memcpy(text, data, n);
	if (conf_parse(text, "fuzz", &conf, &err) == STATUS_OK)
		reads_back(conf);
	conf_free(conf);
	for (int i = CONF_NO_TEMPLATES; i <= CONF_EXPRESSIONS; i++) {
		struct conf *whole = NULL;

		if (conf_parse_whole(text, "fuzz", (enum conf_templates)i, &whole, &err) == STATUS_OK)
			(void)conf_mistakes(whole, &err);
		conf_free(whole);
	}
	free(text);
	return 0;
}
