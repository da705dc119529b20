/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include "alloc/journal.h"
#include "base/clock.h"
#include "rpc/client.h"

enum client_status status_of(struct world *w, const char *id)
{
	struct model_alloc *entry = model_server_alloc(&w->server, id);

	return entry ? entry->alloc.client_status : CLIENT_UNSPECIFIED;
}

bool a_runs(struct world *w)
{
	return status_of(w, ALLOC_A) == CLIENT_RUNNING;
}

bool a_ended(struct world *w)
{
	const struct model_alloc *entry = model_server_alloc(&w->server, ALLOC_A);

	return entry && alloc_is_client_terminal(&entry->alloc);
}

bool a_ended_and_all_is_released(struct world *w)
{
	return a_ended(w) && model_server_unreleased(&w->server) == 0;
}

bool is_connected(struct world *w)
{
	return w->server.session && w->server.hellos > 0;
}

bool has_mount_snapshot(struct world *w)
{
	return is_connected(w) && w->server.adoption_complete;
}

bool all_is_acknowledged(struct world *w)
{
	Holdfast__V1__GetAgentStatusResponse *report = world_report(w);
	bool is_all = report->receipts_pending == 0;

	protobuf_c_message_free_unpacked(&report->base, NULL);
	return is_all;
}

/* Nothing of the model's mounts is left. */
void expect_nothing_mounted(struct world *w)
{
	for (size_t i = 0; i < FAKE_MOUNTS_MAX; i++)
		assert_false(w->fake.state->mounts[i].is_used);
}

unsigned int done(struct world *w, enum mh_op op)
{
	return fake_helper_count(&w->fake, op, MH_OK, NULL, NULL);
}

void run_a(struct world *w, uint32_t n_volumes)
{
	const struct alloc alloc = records_alloc(ALLOC_A, n_volumes);

	model_server_run(&w->server, &alloc);
}

void start_with_a(struct world *w, uint32_t n_volumes)
{
	world_start_agent(w);
	run_a(w, n_volumes);
	WORLD_UNTIL(w, a_runs);
}

void stop_a(struct world *w)
{
	model_server_want_stop(&w->server, ALLOC_A);
	WORLD_UNTIL(w, a_ended_and_all_is_released);
}

void expect_failed_and_undone(struct world *w, enum status code, const char *words)
{
	const struct model_alloc *a;

	WORLD_UNTIL(w, a_ended_and_all_is_released);
	a = model_server_alloc(&w->server, ALLOC_A);
	assert_int_equal(a->alloc.client_status, CLIENT_FAILED);
	assert_int_equal(a->alloc.client_code, code);
	if (!strstr(alloc_description(&a->alloc), words))
		fail_msg("'%s' lacks '%s'", alloc_description(&a->alloc), words);
	for (unsigned int i = 0; i < w->server.n_claims; i++)
		assert_true(w->server.claims[i].released_clock < a->clock);
	expect_nothing_mounted(w);
}

static enum status keep_record(struct alloc_record *record, void *userdata, struct error *err)
{
	*(struct alloc_record **)userdata = record;
	return STATUS_OK;
}

static enum status ignore_receipt(const struct receipt *receipt, void *userdata, struct error *err)
{
	return STATUS_OK;
}

void age_journal(struct world *w)
{
	static const struct journal_reader reader = {.on_alloc = keep_record, .on_receipt = ignore_receipt};
	cleanup_free struct alloc_record *record = NULL;
	struct journal *journal;
	struct error err;

	assert_ok(journal_open(w->event,
			       &(struct journal_options){.data_dir = w->config.data_dir,
							 .cluster = MODEL_CLUSTER,
							 .node_id = "n1"},
			       &journal, &err));
	assert_int_equal(journal_read(journal, &reader, &record, &err), STATUS_OK);
	assert_non_null(record);
	(void)str_copy(record->boot_id, sizeof(record->boot_id), EARLIER_BOOT);
	assert_ok(journal_write(journal, &(struct journal_write){.alloc = record}, NULL, NULL, &err));
	journal_close(journal);
}

static void on_answer(enum status status, const ProtobufCMessage *response, const struct error *err,
		      void *userdata)
{
	struct drain_answer *answer = userdata;
	uint8_t *bytes;
	size_t n;

	answer->is_there = true;
	if (status != STATUS_OK) {
		answer->err = *err;
		return;
	}
	/* a copy that outlives the callback */
	n = protobuf_c_message_get_packed_size(response);
	bytes = malloc(n + 1);
	(void)protobuf_c_message_pack(response, bytes);
	answer->response = holdfast__v1__drain_agent_response__unpack(NULL, n, bytes);
	free(bytes);
	assert_non_null(answer->response);
}

struct drain_answer ask_drain(struct world *w, uint32_t timeout_ms, bool cancel, int64_t follows_ms)
{
	Holdfast__V1__DrainAgentRequest request =
		V1(drain_agent_request, .timeout_ms = timeout_ms, .cancel = cancel, .follows_ms = follows_ms);
	const struct rpc_endpoint endpoint = {.unix_path = w->config.socket};
	struct rpc_client *client;
	struct drain_answer answer = {0};
	struct error err;

	assert_int_equal(rpc_client_new(w->event, &endpoint, &client, &err), STATUS_OK);
	assert_ok(rpc_client_call(client, &holdfast__v1__agent__descriptor, "Drain", &request.base,
				  5 * USEC_PER_SEC, on_answer, &answer, NULL, &err));
	while (!answer.is_there)
		assert_true(sd_event_run(w->event, 100 * USEC_PER_MSEC) >= 0);
	rpc_client_free(client);
	return answer;
}
