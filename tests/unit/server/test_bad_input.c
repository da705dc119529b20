/* SPDX-License-Identifier: Apache-2.0 */
/* One table: what is sent, and the exact answer. */

#include "http.h"

#include "base/str.h"

#include <string.h>

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

static const struct row {
	const char *method;
	const char *target;
	const char *body;   /* NULL: none */
	const char *status; /* of HTTP */
	const char *says;   /* the whole message, as it stands in JSON */
} rows[] = {
	{"DELETE", "/v1/volume/csi/db/detach", NULL, "400",
	 "node_id: say which node is to let go of volume db (over HTTP ?node=ID); holdfast volume status db "
	 "shows "
	 "which have it"},
	{"DELETE", "/v1/volume/csi/db/detach?node=", NULL, "400",
	 "node_id: say which node is to let go of volume db (over HTTP ?node=ID); holdfast volume status db "
	 "shows "
	 "which have it"},
	{"DELETE", "/v1/volume/csi/db/detach?node=n9", NULL, "404",
	 "there is no node n9; holdfast node status lists them"},
	{"GET", "/v1/node/n9", NULL, "404", "there is no node n9; holdfast node status lists them"},
	{"PUT", "/v1/node/n9/drain", "{}", "404", "there is no node n9; holdfast node status lists them"},
};

static void each_bad_request_gets_its_answer(void **state)
{
	struct fixture *f = *state;

	take_volume(f);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		const struct http_request request = {
			.cert = "operator", .method = row->method, .target = row->target, .body = row->body};
		const char *answer = http_send(f, &request);
		const char *message = strstr(answer, "\"message\":\"");
		char want[ERROR_MSG_MAX];

		assert_true(str_format(want, sizeof(want), "\"message\":\"%s\"", row->says) > 0);
		if (!str_starts_with(answer, "HTTP/1.1 ") ||
		    !str_starts_with(answer + strlen("HTTP/1.1 "), row->status) || !message ||
		    !str_starts_with(message, want))
			fail_msg("%s %s:\n%s\nnot %s %s", row->method, row->target, answer, row->status,
				 want);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_bad_request_gets_its_answer, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
