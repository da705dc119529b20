/* SPDX-License-Identifier: Apache-2.0 */

#include "../unit.h"
#include "holdfast/v1/operator.pb-c.h"
#include "holdfast/v1/volumes.pb-c.h"
#include "rpc/route.h"

static const struct rpc_route list = {.method = "GET", .pattern = "/v1/volumes"};
static const struct rpc_route get = {.method = "GET", .pattern = "/v1/volume/csi/{id}"};
static const struct rpc_route put = {.method = "PUT", .pattern = "/v1/volume/csi/{volume.id}"};
static const struct rpc_route detach = {
	.method = "DELETE", .pattern = "/v1/volume/csi/{id}/detach", .name = {"node", "node_id"}};
static const struct rpc_route text = {.method = "GET", .pattern = "/metrics"};

static enum status make(const struct rpc_route *route, const ProtobufCMessageDescriptor *descriptor,
			const char *target, const char *body, bool *ret_pretty, ProtobufCMessage **ret,
			struct error *err)
{
	return route_request(route, target, descriptor, &(struct route_body){body, strlen(body), NULL},
			     ret_pretty, ret, err);
}

TEST(parameters_fill_fields_of_every_kind)
{
	cleanup_pb Holdfast__V1__ListVolumesRequest *request = NULL;
	ProtobufCMessage *message = NULL;
	bool pretty = true;
	struct error err;

	assert_ok(make(&list, &holdfast__v1__list_volumes_request__descriptor,
		       "/v1/volumes?prefix=d%20b&per_page=7&index=18446744073709551615&wait_ms=5", "",
		       &pretty, &message, &err));
	request = (Holdfast__V1__ListVolumesRequest *)message;
	assert_string_equal(request->prefix, "d b");
	assert_int_equal(request->per_page, 7);
	assert_true(request->index == UINT64_MAX);
	assert_int_equal(request->wait_ms, 5);
	assert_false(pretty);
}

TEST(flags_may_stand_alone_and_pretty_is_nobodys_field)
{
	static const struct row {
		const char *target;
		bool why, pretty;
	} rows[] = {
		{"/v1/volume/csi/db", false, false},	       {"/v1/volume/csi/db?why", true, false},
		{"/v1/volume/csi/db?why=", true, false},       {"/v1/volume/csi/db?why=true", true, false},
		{"/v1/volume/csi/db?why=false", false, false}, {"/v1/volume/csi/db?why&pretty", true, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup_pb ProtobufCMessage *message = NULL;
		bool pretty = !rows[i].pretty;
		struct error err;

		assert_ok(make(&get, &holdfast__v1__get_volume_request__descriptor, rows[i].target, "",
			       &pretty, &message, &err));
		assert_string_equal(((Holdfast__V1__GetVolumeRequest *)message)->id, "db");
		assert_int_equal(((Holdfast__V1__GetVolumeRequest *)message)->why, rows[i].why);
		assert_int_equal(pretty, rows[i].pretty);
	}
}

TEST(a_body_is_merged_over_the_path)
{
	Holdfast__V1__RegisterVolumeRequest *request;
	cleanup_pb ProtobufCMessage *message = NULL;
	bool pretty = false;
	struct error err;

	assert_ok(make(&put, &holdfast__v1__register_volume_request__descriptor,
		       "/v1/volume/csi/a%2Fb?volume.namespace=prod",
		       "{\"volume\": {\"plugin_id\": \"p\", \"id\": \"a/b\", \"type\": \"csi\"}}", &pretty,
		       &message, &err));
	request = (Holdfast__V1__RegisterVolumeRequest *)message;
	assert_string_equal(request->volume->id, "a/b");
	assert_string_equal(request->volume->plugin_id, "p");
	assert_string_equal(request->volume->namespace_, "prod");
	assert_int_equal(request->volume->type, HOLDFAST__V1__VOLUME_TYPE__CSI);
}

TEST(lists_are_given_by_repetition)
{
	static const struct rpc_route watch = {.method = "GET", .pattern = "/v1/watch"};
	Holdfast__V1__WatchRequest *request;
	cleanup_pb ProtobufCMessage *message = NULL;
	bool pretty = false;
	struct error err;

	assert_ok(make(&watch, &holdfast__v1__watch_request__descriptor,
		       "/v1/watch?topics=volume&topics=node", "", &pretty, &message, &err));
	request = (Holdfast__V1__WatchRequest *)message;
	assert_int_equal(request->n_topics, 2);
	assert_string_equal(request->topics[0], "volume");
	assert_string_equal(request->topics[1], "node");
}

TEST(a_parameter_may_have_another_name_than_its_field)
{
	cleanup_pb ProtobufCMessage *message = NULL;
	bool pretty = false;
	struct error err;

	assert_ok(make(&detach, &holdfast__v1__detach_volume_request__descriptor,
		       "/v1/volume/csi/db/detach?node=n1", "", &pretty, &message, &err));
	assert_string_equal(((Holdfast__V1__DetachVolumeRequest *)message)->node_id, "n1");
}

TEST(secrets_come_by_the_header_of_tools_for_nomad_where_they_are_taken)
{
	static const struct rpc_route delete = {
		.method = "DELETE", .pattern = "/v1/volume/csi/{id}/delete", .secrets = "secrets"};
	static const struct {
		const struct rpc_route *route;
		const char *header, *body;
		size_t n; /* of secrets; 0: refused */
		const char *text;
	} rows[] = {
		{&delete, "user=ann,password=a=b", "", 2, "a=b"},
		{&delete, "password=", "", 1, ""},
		{&delete, "user=ann", "{\"secrets\": {\"password\": \"x\"}}", 2, "x"},
		{&delete, "password=y", "{\"secrets\": {\"password\": \"x\"}}", 0, "not the same"},
		{&delete, "hunter2", "", 0, "each secret is KEY=VALUE"},
		{&delete, "=hunter2", "", 0, "each secret is KEY=VALUE"},
		{&delete, "a=b,", "", 0, "each secret is KEY=VALUE"},
		{&delete, "a=b,a=hunter2", "", 0, "given twice"},
		{&delete, "a=\xff", "", 0, "UTF-8"},
		{&detach, "a=b", "", 0, "nothing here takes secrets"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct route_body body = {rows[i].body, strlen(rows[i].body), rows[i].header};
		Holdfast__V1__DeleteVolumeRequest *request;
		cleanup_pb ProtobufCMessage *message = NULL;
		bool pretty;
		struct error err;
		enum status status;

		status = rows[i].route == &delete
				 ? route_request(&delete, "/v1/volume/csi/db/delete",
						 &holdfast__v1__delete_volume_request__descriptor, &body,
						 &pretty, &message, &err)
				 : route_request(&detach, "/v1/volume/csi/db/detach",
						 &holdfast__v1__detach_volume_request__descriptor, &body,
						 &pretty, &message, &err);
		assert_int_equal(status, rows[i].n > 0 ? STATUS_OK : STATUS_INVALID_ARGUMENT);
		if (status != STATUS_OK) {
			if (!strstr(err.msg, rows[i].text) || strstr(err.msg, "hunter2"))
				fail_msg("row %zu: %s", i, err.msg);
			continue;
		}
		request = (Holdfast__V1__DeleteVolumeRequest *)message;
		assert_int_equal(request->n_secrets, rows[i].n);
		assert_string_equal(request->secrets[rows[i].n - 1]->value, rows[i].text);
	}
}

TEST(a_force_parameter_is_refused_with_the_alternative)
{
	static const struct rpc_route deregister = {.method = "DELETE",
						    .pattern = "/v1/volume/csi/{id}",
						    .refuses = {"force", "say holdfast volume detach"}};
	static const struct {
		const char *query;
		enum status status;
	} rows[] = {
		{"", STATUS_OK},
		{"?force=false", STATUS_OK},
		{"?force", STATUS_INVALID_ARGUMENT},
		{"?force=true", STATUS_INVALID_ARGUMENT},
		{"?force=perhaps", STATUS_INVALID_ARGUMENT},
		{"?forced=false", STATUS_INVALID_ARGUMENT},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		ProtobufCMessage *message = NULL;
		char target[64];
		bool pretty;
		struct error err;

		(void)str_format(target, sizeof(target), "/v1/volume/csi/db%s", rows[i].query);
		assert_int_equal(make(&deregister, &holdfast__v1__deregister_volume_request__descriptor,
				      target, "", &pretty, &message, &err),
				 rows[i].status);
		if (rows[i].status == STATUS_OK)
			protobuf_c_message_free_unpacked(message, NULL);
		else if (i < 5)
			assert_string_equal(err.msg, "force: say holdfast volume detach");
	}
}

TEST(invalid_parameters_are_refused_by_name)
{
	static const struct row {
		const struct rpc_route *route;
		const ProtobufCMessageDescriptor *descriptor;
		const char *target, *body;
		const char *text; /* in the message */
	} rows[] = {
		{&list, &holdfast__v1__list_volumes_request__descriptor, "/v1/volumes?typ=csi", "",
		 "\"typ\""},
		{&list, &holdfast__v1__list_volumes_request__descriptor, "/v1/volumes?type=host", "", "host"},
		{&list, &holdfast__v1__list_volumes_request__descriptor, "/v1/volumes?perPage=1", "",
		 "\"perPage\""},
		{&list, &holdfast__v1__list_volumes_request__descriptor, "/v1/volumes?a%0Ab=1", "",
		 "\"a b\""},
		{&list, &holdfast__v1__list_volumes_request__descriptor, "/v1/volumes?prefix=a&prefix=b", "",
		 "prefix is given twice"},
		{&list, &holdfast__v1__list_volumes_request__descriptor, "/v1/volumes?per_page=x", "",
		 "per_page"},
		{&list, &holdfast__v1__list_volumes_request__descriptor, "/v1/volumes?per_page=-1", "",
		 "per_page"},
		{&list, &holdfast__v1__list_volumes_request__descriptor, "/v1/volumes?per_page=4294967296",
		 "", "per_page"},
		{&list, &holdfast__v1__list_volumes_request__descriptor, "/v1/volumes?prefix=%", "",
		 "parameter 1"},
		{&list, &holdfast__v1__list_volumes_request__descriptor, "/v1/volumes", "{}", "no body"},
		{&get, &holdfast__v1__get_volume_request__descriptor, "/v1/volume/csi/db?id=other", "",
		 "id is given twice"},
		{&get, &holdfast__v1__get_volume_request__descriptor, "/v1/volume/csi/%00", "", "the id in"},
		{&get, &holdfast__v1__get_volume_request__descriptor, "/v1/volume/csi/%ff", "", "the id in"},
		{&get, &holdfast__v1__get_volume_request__descriptor, "/v1/volume/csi/db?why=maybe", "",
		 "why"},
		{&put, &holdfast__v1__register_volume_request__descriptor, "/v1/volume/csi/db",
		 "{\"volume\": {\"id\": \"other\"}}", "id is given in the address"},
		{&put, &holdfast__v1__register_volume_request__descriptor, "/v1/volume/csi/db",
		 "{\"volume\": 1}", "volume is given in the address"},
		{&put, &holdfast__v1__register_volume_request__descriptor, "/v1/volume/csi/db", "[]",
		 "object"},
		{&put, &holdfast__v1__register_volume_request__descriptor, "/v1/volume/csi/db", "{",
		 "line 1"},
		{&put, &holdfast__v1__register_volume_request__descriptor, "/v1/volume/csi/db",
		 "{\"nonsense\": 1}", "nonsense"},
		{&put, &holdfast__v1__register_volume_request__descriptor,
		 "/v1/volume/csi/db?volume.secrets.password=x", "", "\"volume.secrets.password\""},
		{&put, &holdfast__v1__register_volume_request__descriptor, "/v1/volume/csi/db?volume=x", "",
		 "\"volume\""},
		{&put, &holdfast__v1__register_volume_request__descriptor, "/v1/volume/csi/db?volume.=x", "",
		 "\"volume.\""},
		/* what is shown of a wrong text is cut between its characters */
		{&list, &holdfast__v1__list_volumes_request__descriptor,
		 "/v1/"
		 "volumes?per_page=123456789012345678901234567890123456789012345678901234567890123\xc3\xa9",
		 "", "90123' is not"},
		{&text, NULL, "/metrics?format=x", "", "\"format\""},
		{&text, NULL, "/metrics", "x", "no body"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		ProtobufCMessage *message = NULL;
		bool pretty = false;
		struct error err = {0};

		assert_msg(make(rows[i].route, rows[i].descriptor, rows[i].target, rows[i].body, &pretty,
				&message, &err) == STATUS_INVALID_ARGUMENT,
			   "%s is taken: %s", rows[i].target, err.msg);
		assert_msg(strstr(err.msg, rows[i].text), "%s: %s", rows[i].target, err.msg);
		assert_null(message);
	}
}

TEST(a_path_that_others_methods_have_says_which)
{
	static const struct rpc_route routes[] = {
		{.method = "GET", .pattern = "/v1/volume/csi/{id}"},
		{.method = "PUT", .pattern = "/v1/volume/csi/{id}"},
		{.method = "DELETE", .pattern = "/v1/volume/csi/{id}/detach"},
	};
	static const struct row {
		const char *method, *target;
		int found; /* -1: none */
		const char *allow;
		bool near;
	} rows[] = {
		{"GET", "/v1/volume/csi/a?b=/c", 0, "", true},
		{"PUT", "/v1/volume/csi/a", 1, "GET", true},
		{"POST", "/v1/volume/csi/a", -1, "GET, PUT", true},
		{"HEAD", "/v1/volume/csi/a", -1, "GET, PUT", true},
		{"GET", "/v1/volume/csi/a/detach", -1, "DELETE", true},
		{"get", "/v1/volume/csi/a/detach", -1, "DELETE", true},
		{"GET", "/v1/nothing", -1, "", true},
		{"GET", "/v1?x", -1, "", true},
		{"GET", "/v1", -1, "", true},
		{"GET", "/v10/volume/csi/a", -1, "", false},
		{"GET", "/", -1, "", false},
		{"GET", "", -1, "", false},
	};
	char allow[ROUTE_ALLOW_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned int methods = 99;
		bool near = !rows[i].near;
		const struct rpc_route *found = route_find(routes, ARRAY_SIZE(routes), rows[i].method,
							   rows[i].target, &methods, &near);

		assert_ptr_equal(found, rows[i].found < 0 ? NULL : &routes[rows[i].found]);
		if (!found) {
			assert_string_equal(route_allow(methods, allow), rows[i].allow);
			assert_int_equal(near, rows[i].near);
		}
	}
	assert_string_equal(route_allow(ROUTE_GET | ROUTE_PUT | ROUTE_POST | ROUTE_DELETE, allow),
			    "GET, PUT, POST, DELETE");
}
