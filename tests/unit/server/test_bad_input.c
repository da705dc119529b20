/* SPDX-License-Identifier: Apache-2.0 */
/* One table: what is sent, and the exact answer. */

#include "http.h"
#include "unit.h"

static const struct row {
	const char *method, *target;
	const char *body;   /* NULL: none */
	const char *status; /* of HTTP */
	const char *says;   /* the whole message, as it stands in JSON */
} rows[] = {
	{"DELETE", "/v1/volume/csi/db/detach", NULL, "400",
	 "node_id: missing: the node that must release volume db (over HTTP ?node=ID); holdfast volume "
	 "status db "
	 "shows which have it"},
	{"DELETE", "/v1/volume/csi/db/detach?node=", NULL, "400",
	 "node_id: missing: the node that must release volume db (over HTTP ?node=ID); holdfast volume "
	 "status db "
	 "shows which have it"},
	{"DELETE", "/v1/volume/csi/db/detach?node=n9", NULL, "404",
	 "there is no node n9; holdfast node status lists them"},
	{"GET", "/v1/node/n9", NULL, "404", "there is no node n9; holdfast node status lists them"},
	{"PUT", "/v1/node/n9/drain", "{}", "404", "there is no node n9; holdfast node status lists them"},
};

static void send_rows(struct fixture *f, const struct row *sent, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct row *row = &sent[i];
		const struct http_request request = {
			.cert = "operator", .method = row->method, .target = row->target, .body = row->body};
		const char *answer = http_send(f, &request);
		const char *message = strstr(answer, "\"message\":\"");
		char want[ERROR_MSG_MAX];

		assert_true(str_format(want, sizeof(want), "\"message\":\"%s\"", row->says) > 0);
		assert_msg(str_starts_with(answer, "HTTP/1.1 ") &&
				   str_starts_with(answer + strlen("HTTP/1.1 "), row->status) && message &&
				   str_starts_with(message, want),
			   "%s %s:\n%s\nnot %s %s", row->method, row->target, answer, row->status, want);
	}
}

CLUSTER_TEST(each_bad_request_gets_its_answer)
{
	take_volume(f);
	send_rows(f, rows, sizeof(rows) / sizeof(rows[0]));
}

/* Two volumes name CSI_PLUGIN, which its nodes do not have any more; and nobody has ever had "other". */
TEST_ON(a_departed_plugin_is_distinguished_from_an_unknown_one, struct fixture, f, setup, teardown)
{
#define CSI_VOLUME(plugin)                                                                             \
	"{\"volume\": {\"type\": \"csi\", \"plugin_id\": \"" plugin "\", \"requested_capabilities\": " \
	"[{\"access_mode\": \"single-node-writer\", \"attachment_mode\": \"file-system\"}]}}"
	static const struct row gone[] = {
		{"PUT", "/v1/volume/csi/new", CSI_VOLUME(CSI_PLUGIN), "400",
		 "plugin_id: no node has plugin " CSI_PLUGIN
		 ", which 2 volumes name; start it again, or see which nodes are away: holdfast "
		 "node status"},
		{"PUT", "/v1/volume/csi/new", CSI_VOLUME("other"), "400",
		 "plugin_id: no node has reported a plugin other; run it first, or correct the name: "
		 "holdfast plugin status lists those that are known"},
	};
	Holdfast__V1__NodePlugin *none[1] = {NULL};

	connect_csi(f);
	register_csi(f, "db");
	register_csi(f, "logs");
	f->n1.plugins = f->n2.plugins = none;
	f->n1.n_plugins = f->n2.n_plugins = 0;
	fake_node_send_fingerprint(&f->n1);
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	send_rows(f, gone, sizeof(gone) / sizeof(gone[0]));
}
