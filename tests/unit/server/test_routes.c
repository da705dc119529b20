/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"
#include "routes.h"
#include "unit.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/jobs.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/plugins.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>

static const ProtobufCMethodDescriptor *method_of(const struct rpc_route *route)
{
	static const ProtobufCServiceDescriptor *const known[] = {
		&holdfast__v1__volumes__descriptor,  &holdfast__v1__plugins__descriptor,
		&holdfast__v1__nodes__descriptor,    &holdfast__v1__allocations__descriptor,
		&holdfast__v1__operator__descriptor, &holdfast__v1__jobs__descriptor,
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (str_eq(known[i]->name, route->service))
			return protobuf_c_service_descriptor_get_method_by_name(known[i], route->call);
	return NULL;
}

TEST(every_route_leads_to_a_method_and_its_segments_to_fields)
{
	for (size_t i = 0; i < n_routes; i++) {
		const struct rpc_route *route = &routes[i];
		const ProtobufCMethodDescriptor *method;
		cleanup_pb ProtobufCMessage *message = NULL;
		char target[256];
		bool pretty = false;
		struct error err;
		size_t n = 0;

		if (route->text)
			continue;
		method = method_of(route);
		assert_msg(method, "%s: no method %s/%s", route->pattern, route->service, route->call);
		/* "{id}" as the text of a segment does: a path of the pattern is the pattern */
		n = (size_t)str_format(target, sizeof(target), "%s", route->pattern);
		if (route->name.parameter)
			(void)str_format(target + n, sizeof(target) - n, "?%s=x", route->name.parameter);
		assert_msg(route_request(route, target, method->input, &(struct route_body){.text = NULL},
					 &pretty, &message, &err) == STATUS_OK,
			   "%s %s: %s", route->method, route->pattern, err.msg);
	}
}

TEST(no_two_routes_take_the_same_request)
{
	for (size_t i = 0; i < n_routes; i++) {
		unsigned int allow = 0;
		bool near = false;

		assert_ptr_equal(
			route_find(routes, n_routes, routes[i].method, routes[i].pattern, &allow, &near),
			&routes[i]);
	}
}

static void expect(struct fixture *f, const struct http_request *request, const char *status,
		   const char *const *texts)
{
	const char *answer = http_send(f, request);

	assert_msg(strncmp(answer, "HTTP/1.1 ", 9) == 0 && strncmp(answer + 9, status, strlen(status)) == 0,
		   "%s %s: %s", request->method, request->target, answer);
	for (; *texts; texts++)
		assert_msg(strstr(answer, *texts), "%s %s lacks '%s': %s", request->method, request->target,
			   *texts, answer);
}

/* One request of the operator and texts that its answer must hold. */
static void ask(struct fixture *f, const char *method, const char *target, const char *body,
		const char *status, const char *text, const char *other)
{
	const struct http_request request = {
		.cert = "operator", .method = method, .target = target, .body = body};
	const char *texts[] = {text, other, NULL};

	expect(f, &request, status, texts);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(a_volume_lives_and_goes_by_addresses_alone)
{
	static const char volume[] =
		"{\"volume\": {\"type\": \"native\", \"profile\": \"disk\", \"source\": {\"class\": "
		"\"block\", \"by_id\": \"wwn-0x1\"}, \"requested_capabilities\": [{\"access_mode\": "
		"\"single-node-writer\", \"attachment_mode\": \"file-system\"}]}}";

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	ask(f, "PUT", "/v1/volume/csi/db", volume, "200", "\"created\":true", "\"id\":\"db\"");
	ask(f, "POST", "/v1/volume/csi/db?pretty", volume, "200", "\"created\": false", "\n");
	ask(f, "GET", "/v1/volumes?prefix=d", NULL, "200", "\"id\":\"db\"", "\r\nx-holdfast-index: ");
	ask(f, "GET", "/v1/volumes?type=native", NULL, "200", "\"id\":\"db\"", "x-nomad-index");
	ask(f, "GET", "/v1/volumes?type=csi", NULL, "200", "\"volumes\":[]", "x-nomad-index");
	ask(f, "GET", "/v1/volumes?type=host", NULL, "400", "host", "invalid_argument");
	ask(f, "DELETE", "/v1/volume/csi/db?force=true", NULL, "400", "holdfast volume status ID --why",
	    "holdfast volume detach ID NODE with --fence or --attest");
	ask(f, "GET", "/v1/volumes?prefix=e", NULL, "200", "\"volumes\":[]", "\r\nx-nomad-index: ");
	ask(f, "GET", "/v1/volume/csi/db?why&pretty", NULL, "200", "\"id\": \"db\"", "\"why\": ");
	ask(f, "DELETE", "/v1/volume/csi/db/detach?node=n1", NULL, "400", "node n1 holds",
	    "failed_precondition");
	ask(f, "DELETE", "/v1/volume/csi/db?force=false", NULL, "200", "\"left_at_provider\":\"\"",
	    "application/json");
	ask(f, "GET", "/v1/volume/csi/db", NULL, "404", "\"code\":\"not_found\"", "db");
	ask(f, "GET", "/v1/nodes", NULL, "200", "\"id\":\"n1\"", "x-holdfast-index");
	ask(f, "GET", "/v1/node/n1", NULL, "200", "\"id\":\"n1\"", "x-holdfast-index");
	ask(f, "GET", "/v1/allocations", NULL, "200", "\"allocations\":[]", "x-holdfast-index");
	ask(f, "GET", "/v1/status", NULL, "200", "\"version\":", "x-holdfast-index");
	ask(f, "GET", "/v1/operator/members", NULL, "200", "\"leads\":true", "\"etcd\":[]"); /* itself */
	ask(f, "PUT", "/v1/operator/step-down", NULL, "400", "the only one", "failed_precondition");
}

CLUSTER_TEST(a_job_lives_and_goes_by_addresses_alone)
{
	static const char job[] = "{\"job\": {\"type\": \"service\", \"groups\": [{\"name\": \"app\", "
				  "\"count\": 1, \"allocation\": {\"csi_plugins\": [{\"id\": \"ebs\", "
				  "\"type\": \"node\"}]}}]}}";

	ask(f, "GET", "/v1/jobs", NULL, "200", "\"jobs\":[]", "x-holdfast-index");
	ask(f, "GET", "/v1/job/web", NULL, "404", "there is no job web", "not_found");
	ask(f, "GET", "/v1/job/web?namespace=shop", NULL, "404",
	    "holdfast job status --namespace shop lists them", "not_found");
	ask(f, "POST", "/v1/job/web/plan", job, "200", "\"modify_index\":\"0\"", "\"group\":\"app\"");
	ask(f, "PUT", "/v1/job/web", job, "200", "\"id\":\"web\"", "\"version\":\"1\"");
	ask(f, "PUT", "/v1/jobs", job, "400", "id", "invalid_argument");
	ask(f, "POST", "/v1/job/web", "{\"job\": {\"id\": \"api\"}}", "400", "id is given", "body");
	ask(f, "GET", "/v1/jobs?filter=type%20==%20service", NULL, "200", "\"id\":\"web\"",
	    "x-holdfast-index");
	ask(f, "GET", "/v1/job/web", NULL, "200", "\"state\":\"pending\"", "x-holdfast-index");
	ask(f, "GET", "/v1/job/web/versions", NULL, "200", "\"versions\":[{\"id\":\"web\"", "200");
	ask(f, "DELETE", "/v1/job/web", NULL, "200", "\"stop\":true", "\"id\":\"web\"");
	ask(f, "DELETE", "/v1/job/web?purge=true", NULL, "200", "\"id\":\"web\"", "200");
	ask(f, "GET", "/v1/job/web", NULL, "404", "there is no job web", "not_found");
}

CLUSTER_TEST(invalid_requests_get_their_own_status)
{
	ask(f, "GET", "/v1/volumes?typ=csi", NULL, "400", "\\\"typ\\\"", "invalid_argument");
	ask(f, "GET", "/v1/volume", NULL, "404", "nothing at /v1/volume", "not_found");
	ask(f, "PATCH", "/v1/volumes", NULL, "405", "allow: GET, PUT, POST\r\n", "takes");
	ask(f, "GET", "/v1/volume/csi/db/delete", NULL, "405", "allow: DELETE\r\n", "takes");
	ask(f, "PUT", "/v1/volume/csi/db", "{", "400", "line 1", "invalid_argument");
	ask(f, "PUT", "/v1/volume/csi/db", "{\"volume\": {\"id\": \"other\"}}", "400", "id is given", "body");
}

/* The number behind @line of the metrics; -1: there is none. */
static long metric(struct fixture *f, const char *line)
{
	const char *answer = http_send(
		f, &(struct http_request){.cert = "operator", .method = "GET", .target = "/metrics"});
	const char *at = strstr(answer, line);

	assert_msg(strstr(answer, "content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "%s",
		   answer);
	return at ? strtol(at + strlen(line), NULL, 10) : -1;
}

CASE(metrics_count_existing_objects)
{
	assert_int_equal(metric(f, "\nholdfast_volumes "), 0);
	assert_int_equal(metric(f, "\nholdfast_nodes{status=\"connected\"} "), 0);
	take_volume(f);
	assert_int_equal(metric(f, "\nholdfast_volumes "), 1);
	assert_int_equal(metric(f, "\nholdfast_claims{state=\"taken\"} "), 1);
	assert_int_equal(metric(f, "\nholdfast_claims{state=\"reserved\"} "), 0);
	assert_int_equal(metric(f, "\nholdfast_nodes{status=\"connected\"} "), 2);
	assert_int_equal(metric(f, "\nholdfast_sessions "), 2);
	assert_int_equal(metric(f, "\nholdfast_rpc_streams "), 2);
	assert_int_equal(metric(f, "\nholdfast_releases_waiting "), 0);
	assert_true(metric(f, "\nholdfast_store_commits_total ") > 0);
	assert_int_equal(
		metric(f, "\nholdfast_rpc_calls_total{service=\"holdfast.v1.Volumes\",method=\"Register\","
			  "code=\"OK\"} "),
		1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	fake_node_disconnect(&f->n1);
	UNTIL(f, f->server->n_sessions == 1);
	assert_int_equal(metric(f, "\nholdfast_nodes{status=\"connected\"} "), 1);
	assert_int_equal(metric(f, "\nholdfast_nodes{status=\"disconnected\"} "), 1);
	assert_int_equal(metric(f, "\nholdfast_build_info{version=\"" HOLDFAST_VERSION "\"} "), 1);
}

CASE(counts_are_the_same_after_a_restart)
{
	take_volume(f);
	restart(f);
	assert_int_equal(metric(f, "\nholdfast_claims{state=\"taken\"} "), 1);
	assert_int_equal(metric(f, "\nholdfast_volumes "), 1);
	assert_int_equal(metric(f, "\nholdfast_nodes{status=\"disconnected\"} "), 2);
}

CLUSTER_TEST(a_node_may_not_read_the_metrics)
{
	const char *const texts[] = {"\"code\":\"permission_denied\"", NULL};

	expect(f, &(struct http_request){.cert = "node-n1", .method = "GET", .target = "/metrics"}, "403",
	       texts);
	assert_null(strstr(
		http_send(f,
			  &(struct http_request){.cert = "node-n1", .method = "GET", .target = "/metrics"}),
		"holdfast_volumes"));
}

CLUSTER_TEST(every_line_of_the_metrics_is_one_that_prometheus_takes)
{
	const char *answer;
	char line[512];

	take_volume(f);
	answer = NON_NULL(strstr(
		http_send(f,
			  &(struct http_request){.cert = "operator", .method = "GET", .target = "/metrics"}),
		"\r\n\r\n"));
	for (answer += 4; *answer != '\0'; answer += strcspn(answer, "\n") + 1) {
		const char *value;

		assert_true(str_format(line, sizeof(line), "%.*s", (int)strcspn(answer, "\n"), answer) > 0);
		if (str_starts_with(line, "# HELP holdfast_") || str_starts_with(line, "# TYPE holdfast_"))
			continue;
		value = strrchr(line, ' ');
		assert_true(str_starts_with(line, "holdfast_"));
		assert_non_null(value);
		assert_msg(value[1] != '\0' && strspn(value + 1, "0123456789") == strlen(value + 1), "%s",
			   line);
		assert_true(value[-1] == '}' || !strchr(line, '{'));
	}
}

CASE(a_server_with_its_store_is_ready)
{
	const char *const live[] = {"ok\n", NULL};
	const char *const ready[] = {"ready\n", NULL};

	expect(f, &(struct http_request){.method = "GET", .target = "/healthz"}, "200", live);
	expect(f, &(struct http_request){.method = "GET", .target = "/readyz"}, "200", ready);
	assert_int_equal(metric(f, "\nholdfast_leads "), 1);
	f->server->is_serving = false;
	expect(f, &(struct http_request){.method = "GET", .target = "/readyz"}, "503",
	       (const char *const[]){"unavailable", NULL});
	expect(f, &(struct http_request){.method = "GET", .target = "/healthz"}, "200", live);
	f->server->is_serving = true;
}
