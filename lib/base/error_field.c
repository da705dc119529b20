/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/str.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void error_fill_field(struct error *err, const char *field, const char *fmt, ...)
{
	char text[ERROR_MSG_MAX], whole[2 * ERROR_MSG_MAX], shown[ERROR_MSG_MAX];
	va_list args;
	size_t n = strlen(field);

	if (!err)
		return;
	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	(void)snprintf(whole, sizeof(whole), "%s: %s", field, text);
	str_copy_text(shown, sizeof(shown), whole); /* a value with a line break makes no line of a list */
	error_fill(err, STATUS_INVALID_ARGUMENT, 0, "%s", shown);
	if (n < ERROR_FIELD_SIZE)
		err->fields[err->n_fields++] = (struct error_field){.at = 0, .n = (uint16_t)n};
}

enum status error_collect(enum status so_far, enum status status, const struct error *one, struct error *err)
{
	static const char more[] = "\nand more";
	size_t n, n_one;

	if (status == STATUS_OK)
		return so_far;
	if (so_far == STATUS_OK || status != STATUS_INVALID_ARGUMENT) {
		*err = *one;
		return status;
	}
	n = strlen(err->msg);
	n_one = strlen(one->msg);
	if (n >= sizeof(more) - 1 && strcmp(err->msg + n - (sizeof(more) - 1), more) == 0)
		return so_far;
	if (n + 1 + n_one + sizeof(more) > sizeof(err->msg)) {
		if (n + sizeof(more) <= sizeof(err->msg))
			memcpy(err->msg + n, more, sizeof(more));
		return so_far;
	}
	err->msg[n] = '\n';
	memcpy(err->msg + n + 1, one->msg, n_one + 1);
	for (size_t i = 0; i < one->n_fields && err->n_fields < ERROR_FIELDS_MAX; i++)
		err->fields[err->n_fields++] = (struct error_field){
			.at = (uint16_t)(n + 1 + one->fields[i].at), .n = one->fields[i].n};
	return so_far;
}

bool error_get_field(const struct error *err, size_t i, char field[static ERROR_FIELD_SIZE],
		     char text[static ERROR_MSG_MAX])
{
	const struct error_field *at = &err->fields[i];
	const char *line = err->msg + at->at;

	assert(i < err->n_fields && i < ERROR_FIELDS_MAX);
	if (at->at + (size_t)at->n + 2 > strlen(err->msg) || at->n >= ERROR_FIELD_SIZE)
		return false; /* it was cut */
	(void)snprintf(field, ERROR_FIELD_SIZE, "%.*s", (int)at->n, line);
	line += at->n + 2;
	(void)snprintf(text, ERROR_MSG_MAX, "%.*s", (int)strcspn(line, "\n"), line);
	return true;
}

enum status error_below(struct error *err, const char *path)
{
	const struct error given = *err;
	enum status status = STATUS_OK;

	if (given.n_fields == 0)
		return error_invalid(err, path, "%s", given.msg);
	for (size_t i = 0; i < given.n_fields; i++) {
		char field[ERROR_FIELD_SIZE], text[ERROR_MSG_MAX], whole[ERROR_FIELD_SIZE];
		struct error one;

		if (!error_get_field(&given, i, field, text))
			break;
		(void)str_format(whole, sizeof(whole), "%s.%s", path, field);
		(void)error_invalid(&one, whole, "%s", text);
		status = error_collect(status, STATUS_INVALID_ARGUMENT, &one, err);
	}
	return err->status;
}
