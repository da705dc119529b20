/* SPDX-License-Identifier: Apache-2.0 */
#include "pool.h"

#include "unit_loop.h"

#include "base/clock.h"

#include <signal.h>

struct request {
	struct pool *f;
	const char *name;
	uint16_t op;
};

static void on_ready(pid_t pid, void *userdata)
{
	assert_true(pid > 0);
	((struct pool *)userdata)->ready++;
}

static void on_down(const struct error *err, void *userdata)
{
	struct pool *f = userdata;

	f->down++;
	f->last_down = *err;
}

static void on_stale(void *userdata)
{
	((struct pool *)userdata)->stale++;
}

static const struct helper_client_events events = {
	.on_ready = on_ready, .on_down = on_down, .on_stale = on_stale};

static void on_done(const union helper_reply *reply, const struct error *err, void *userdata)
{
	struct request *request = userdata;
	struct pool *f = request->f;

	assert_true(f->n_results < POOL_RESULTS_MAX);
	f->results[f->n_results++] = (struct result){.name = request->name,
						     .op = request->op,
						     .is_answered = reply != NULL,
						     .status = reply ? reply->reply.status : MH_STATUS_N,
						     .err = err ? *err : (struct error){0}};
	request->f = NULL;
}

int pool_setup(void **state)
{
	struct pool *f = calloc(1, sizeof(*f));
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	assert_int_equal(sigprocmask(SIG_BLOCK, &set, NULL), 0);
	assert_non_null(f);
	fake_helper_init(&f->fake);
	f->fake.state->fault_call = 1;
	f->fake.state->fault_calls = 1;
	f->requests = NON_NULL(calloc(POOL_RESULTS_MAX, sizeof(*f->requests)));
	assert_true(sd_event_new(&f->event) >= 0);
	*state = f;
	return 0;
}

int pool_teardown(void **state)
{
	struct pool *f = *state;

	assert_string_equal(f->fake.state->violation, "");
	helper_client_free(f->client);
	sd_event_unref(f->event);
	fake_helper_release(&f->fake);
	free(f->requests);
	free(f);
	return 0;
}

void pool_make(struct pool *f, unsigned int instances, uint64_t request_timeout_ms)
{
	const struct helper_client_options options = {
		.launch = {.path = f->fake.socket[0] ? f->fake.socket : f->fake.path,
			   .is_socket = f->fake.socket[0] != '\0'},
		.instances = instances,
		.start_timeout_us = 2 * USEC_PER_SEC,
		.request_timeout_us = request_timeout_ms * USEC_PER_MSEC,
	};
	struct error err;

	assert_int_equal(helper_client_new(f->event, &options, &events, f, &f->client, &err), STATUS_OK);
	assert_int_equal(helper_client_start(f->client, &err), STATUS_OK);
}

static void turn(struct pool *f, uint64_t end)
{
	f->fake.state->now_us = clock_monotonic_us();
	assert_true(f->fake.state->now_us < end);
	assert_true(sd_event_run(f->event, 5 * USEC_PER_MSEC) >= 0);
	if (f->ready > 0 && !helper_client_info(f->client)->is_running)
		f->was_down = true;
}

void pool_until(struct pool *f, pool_condition *is_met)
{
	uint64_t end = clock_monotonic_us() + 30 * USEC_PER_SEC;

	while (!is_met(f))
		turn(f, end);
}

void pool_count(struct pool *f, const unsigned int *counter, unsigned int n)
{
	uint64_t end = clock_monotonic_us() + 30 * USEC_PER_SEC;

	while (*counter < n)
		turn(f, end);
}

void pool_idle(struct pool *f)
{
	f->fake.state->now_us = clock_monotonic_us();
	run_for(f->event, 40);
}

static enum status make_request(enum mh_op op, const struct helper_mount *mount, union helper_request *ret,
				struct error *err)
{
	switch (op) {
	case MH_OP_STAGE:
		return helper_request_stage(mount, ret, err);
	case MH_OP_PUBLISH:
		return helper_request_publish(mount, ret, err);
	case MH_OP_UNPUBLISH:
		return helper_request_unpublish(mount->volume, mount->alloc, mount->slot, ret, err);
	case MH_OP_UNSTAGE:
		return helper_request_unstage(mount->volume, "", ret, err);
	case MH_OP_LIST:
		helper_request_list(MH_LIST_STAGED, 0, ret);
		return STATUS_OK;
	case MH_OP_HELLO:
	case MH_OP_ACK:
	case MH_OP_FAILURE:
	case MH_OP_N:
		break;
	}
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "no request");
}

static void ask(struct pool *f, enum mh_op op, const char *volume, enum helper_lane lane, const char *group)
{
	static const struct mh_source source = {.class = MH_CLASS_TMPFS, .u.tmpfs = {1, 1}};
	const struct helper_mount mount = {.volume = volume,
					   .profile = "p",
					   .alloc = POOL_ALLOC,
					   .slot = (uint8_t)(volume[0] % 32),
					   .source = &source};
	struct request *userdata = &f->requests[f->n_requests++];
	union helper_request request;
	struct error err;

	assert_true(f->n_requests <= POOL_RESULTS_MAX);
	*userdata = (struct request){.f = f, .name = volume, .op = (uint16_t)op};
	assert_int_equal(make_request(op, &mount, &request, &err), STATUS_OK);
	assert_ok(helper_client_request(f->client, &request, lane, group, on_done, userdata, &err));
}

void pool_ask(struct pool *f, enum mh_op op, const char *volume, enum helper_lane lane)
{
	ask(f, op, volume, lane, "");
}

void pool_ask_of(struct pool *f, enum mh_op op, const char *volume, const char *group)
{
	ask(f, op, volume, HELPER_NORMAL, group);
}

void pool_ask_nfs(struct pool *f, enum mh_op op, const char *volume, const char *server)
{
	ask(f, op, volume, HELPER_NFS, server);
}

void pool_inject(struct pool *f, enum fake_fault fault, const char *volume, uint32_t calls)
{
	f->fake.state->fault = fault;
	f->fake.state->fault_calls = calls;
	(void)snprintf(f->fake.state->fault_volume, sizeof(f->fake.state->fault_volume), "%s", volume);
}
