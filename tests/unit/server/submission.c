/* SPDX-License-Identifier: Apache-2.0 */
#include "submission.h"

#include "asks.h"
#include "unit.h"

#include "base/str.h"

#include <string.h>

char *text(const char *s)
{
	return TEXT(s);
}

void make_job(struct fixture *f, struct submission *s)
{
	memset(s, 0, sizeof(*s));
	holdfast__v1__run_job_request__init(&s->request);
	holdfast__v1__job__init(&s->job);
	holdfast__v1__job_group__init(&s->group);
	holdfast__v1__job_update__init(&s->update);
	holdfast__v1__job_reschedule__init(&s->reschedule);
	holdfast__v1__allocation__init(&s->alloc);
	holdfast__v1__csi_plugin__init(&s->plugin);
	holdfast__v1__volume_request__init(&s->volume);
	s->plugins[0] = &s->plugin;
	s->volume.name = text("data");
	s->volume.source = text("db");
	s->volume.access_mode = f->access_mode;
	s->volumes[0] = &s->volume;
	s->alloc.volumes = s->volumes;
	s->alloc.n_volumes = 1;
	s->group.name = text("one");
	s->group.count = 1;
	s->group.allocation = &s->alloc;
	s->update.max_parallel = 1;
	s->group.update = &s->update;
	s->reschedule.unlimited = true;
	s->group.reschedule = &s->reschedule;
	s->groups[0] = &s->group;
	s->job.id = text("web");
	s->job.type = HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SERVICE;
	s->job.groups = s->groups;
	s->job.n_groups = 1;
	s->request.job = &s->job;
	s->per_alloc[0] = text("data");
}

uint64_t run(struct fixture *f, const struct submission *s, struct error *err)
{
	ProtobufCMessage *message = NULL;
	uint64_t version;

	if (call(&f->operator, JOBS, "Run", &s->request.base, &message, err) != STATUS_OK)
		return 0;
	version = ((const Holdfast__V1__RunJobResponse *)(const void *)message)->job->version;
	protobuf_c_message_free_unpacked(message, NULL);
	return version;
}

Holdfast__V1__GetJobResponse *get(struct fixture *f)
{
	Holdfast__V1__GetJobRequest request = V1(get_job_request, .id = text("web"));
	ProtobufCMessage *message = NULL;

	assert_int_equal(call(&f->operator, JOBS, "Get", &request.base, &message, NULL), STATUS_OK);
	return (void *)message;
}

bool is_in(struct fixture *f, const char *state, size_t n_waits)
{
	cleanup_pb Holdfast__V1__GetJobResponse *response = get(f);
	bool is = str_eq(response->state, state) && response->n_waits == n_waits;

	return is;
}

enum status stop_job(struct fixture *f, bool purge, struct error *err)
{
	Holdfast__V1__StopJobRequest request = V1(stop_job_request, .id = text("web"), .purge = purge);

	return call(&f->operator, JOBS, "Stop", &request.base, NULL, err);
}

size_t n_allocs(struct fixture *f)
{
	const struct job_entry *job = state_job(&f->server->state, "default", "web");

	return job ? job->n_allocs : 0;
}

void connect_both(struct fixture *f)
{
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
}

void start_last(struct fixture *f, struct fake_node *node)
{
	struct claim claim;

	assert_int_equal(fake_node_claim(node, "db", node->last_run, NULL, NULL), STATUS_OK);
	claim = claim_of(f, node->last_run);
	fake_node_send_mounted(node, &claim);
	fake_node_send_alloc(node, node->last_run, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	UNTIL(f,
	      state_of(f, node->last_run) == CLAIM_TAKEN &&
		      state_alloc(&f->server->state, node->last_run)->alloc.client_status == CLIENT_RUNNING);
}

void end(struct fixture *f, struct fake_node *node, const char *id)
{
	struct claim claim = claim_of(f, id);

	fake_node_send_alloc(node, id, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, alloc_is_client_terminal(&state_alloc(&f->server->state, id)->alloc));
	fake_node_send_released(node, &claim);
}
