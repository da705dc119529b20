/* SPDX-License-Identifier: Apache-2.0 */
#include "command/secrets.h"

#include "base/cleanup.h"
#include "conf/conf.h"

#include <errno.h>
#include <string.h>

/* The message quotes text of the file, which may be a secret without quotes. */
static void hide_words(struct error *err)
{
	const char *from = err ? strchr(err->msg, '\'') : NULL, *to = from ? strrchr(from, '\'') : NULL;

	if (to > from)
		(void)error_set(err, err->status, 0, "%.*s[redacted]%s", (int)(from - err->msg + 1), err->msg,
				to);
}

enum status secrets_load(int fd, const char *path, json_t **ret, struct error *err)
{
	struct conf *conf = NULL;
	enum status status = conf_load_open(fd, path, CONF_NO_TEMPLATES, &conf, err);
	const char *key;
	json_t *value;

	if (status == STATUS_OK)
		status = conf_mistakes(conf, err);
	if (status == STATUS_INVALID_ARGUMENT)
		hide_words(err);
	if (status != STATUS_OK) {
		conf_free(conf);
		return status;
	}
	if (json_object_size(conf_root(conf)) > SECRETS_MAX)
		status = conf_error(conf, NULL, NULL, err, "more than %d secrets", SECRETS_MAX);
	json_object_foreach (conf_root(conf), key, value) {
		if (status == STATUS_OK && !json_is_string(value))
			status = conf_error(conf, conf_root(conf), key, err,
					    "the value of '%s' must be a text in quotes", key);
	}
	if (status == STATUS_OK)
		*ret = json_incref(conf_root(conf));
	conf_free(conf);
	return status;
}
