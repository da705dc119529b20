/* SPDX-License-Identifier: Apache-2.0 */
#include "command/values.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"

#include <string.h>
#include <unistd.h>

#define TIMEOUT_MAX_US (UINT64_C(86400) * USEC_PER_SEC)
#define WAIT_MAX_US (UINT64_C(30) * 86400 * USEC_PER_SEC)

enum { REASON_MAX = 512, ANSWER_SIZE = 16 };

enum status value_duration(struct invocation *inv, enum option_id id, uint64_t absent_ms, uint64_t max_ms,
			   uint64_t *ret_ms, struct error *err)
{
	const char *text = inv->options[id];
	uint64_t us;

	*ret_ms = absent_ms;
	if (!text)
		return STATUS_OK;
	if (parse_duration(text, &us) < 0 || us < USEC_PER_MSEC || us / USEC_PER_MSEC > max_ms)
		return usage_error(inv, err,
				   "--%s: '%s' is not a duration up to %llu days, as in 90s, 5m, 7d",
				   command_options[id].name, text, (unsigned long long)(max_ms / 86400000));
	*ret_ms = us / USEC_PER_MSEC;
	return STATUS_OK;
}

enum status value_timeout(struct invocation *inv, uint64_t absent_us, uint64_t *ret_us, struct error *err)
{
	const char *text = inv->options[OPT_TIMEOUT];

	*ret_us = absent_us;
	if (text && (parse_duration(text, ret_us) < 0 || *ret_us == 0 || *ret_us > TIMEOUT_MAX_US))
		return usage_error(inv, err, "'%s' is not a duration up to a day, as in 90s, 5m", text);
	return STATUS_OK;
}

enum status value_parse_wait(const char *what, const char *text, uint32_t *ret_ms, struct error *err)
{
	uint64_t us = 0;

	*ret_ms = 0;
	if (str_eq(text, "0"))
		return STATUS_OK;
	if (parse_duration(text, &us) < 0 || us < USEC_PER_MSEC || us > WAIT_MAX_US)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "%s: '%s' is not a duration up to 30 days, as in 90s, 5m, 7d", what, text);
	*ret_ms = (uint32_t)(us / USEC_PER_MSEC);
	return STATUS_OK;
}

enum status value_wait(struct invocation *inv, uint32_t *ret_ms, struct error *err)
{
	struct error why;

	*ret_ms = 0;
	if (!inv->options[OPT_WAIT])
		return STATUS_OK;
	if (value_parse_wait("--wait", inv->options[OPT_WAIT], ret_ms, &why) != STATUS_OK)
		return usage_error(inv, err, "%s", why.msg);
	return STATUS_OK;
}

enum status value_number(struct invocation *inv, enum option_id id, uint64_t min, uint64_t max,
			 uint64_t absent, uint64_t *ret, struct error *err)
{
	const char *text = inv->options[id];

	*ret = absent;
	if (text && parse_u64(text, min, max, ret) < 0)
		return usage_error(inv, err, "--%s: '%s' is not a number from %llu to %llu",
				   command_options[id].name, text, (unsigned long long)min,
				   (unsigned long long)max);
	return STATUS_OK;
}

enum status value_size(struct invocation *inv, const char *what, const char *text, uint64_t *ret_bytes,
		       struct error *err)
{
	uint64_t bytes;

	if (parse_size(text, &bytes) < 0 || bytes == 0 || bytes > INT64_MAX)
		return usage_error(inv, err, "%s: '%s' is not a size, as in 10GiB (powers of 1024) or 10G",
				   what, text);
	*ret_bytes = bytes;
	return STATUS_OK;
}

enum status value_reason(struct invocation *inv, enum option_id id, char **ret, struct error *err)
{
	const char *text = inv->options[id];

	if (!text || !text[strspn(text, " ")])
		return usage_error(inv, err, "give a reason with --%s '...': it is recorded under your name",
				   command_options[id].name);
	if (strlen(text) > REASON_MAX || !str_is_text(text))
		return usage_error(inv, err, "--%s must be one line of at most %d bytes",
				   command_options[id].name, REASON_MAX);
	*ret = option_text(inv, id);
	return STATUS_OK;
}

enum status value_check_whole(struct invocation *inv, const char *what, const char *given, const char *id,
			      struct error *err)
{
	if (str_eq(given, id))
		return STATUS_OK;
	return usage_error(inv, err, "%s needs whole ids: '%s' is only the beginning of %s", what, given, id);
}

enum status value_confirm(struct invocation *inv, const char *question, struct error *err)
{
	cleanup_free char *text = question ? strdup(question) : NULL;
	char answer[ANSWER_SIZE] = "";

	if (inv->options[OPT_YES])
		return STATUS_OK;
	if (!text || text[0] == '\0')
		return error_no_memory(err, "the question");
	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return usage_error(
			inv, err, "this asks before it acts, and there is no terminal to ask on: give --yes");
	(void)fprintf(stderr, "%.*s [y/N] ", (int)str_mask_text(text, strlen(text)), text);
	(void)fflush(stderr);
	if (!fgets(answer, sizeof(answer), stdin) || !str_eq(answer, "y\n"))
		return error_set(err, STATUS_CANCELLED, 0, "nothing was changed: the answer was not 'y'");
	return STATUS_OK;
}
