/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations that wait for a volume: in which order they get it, what ends their wait, and that a writer is
 * never placed beside another one. */

#include "asks.h"
#include "cluster.h"
#include "unit.h"

#include "alloc/allocs.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <signal.h>
#include <sys/wait.h>

#define ALLOCS (&holdfast__v1__allocations__descriptor)
#define VOLUMES (&holdfast__v1__volumes__descriptor)
#define ID_OF "018%05u-0000-7000-" ID_MARK

enum { LONG_MS = 3600 * 1000 };

static char *text(const char *s)
{
	return TEXT(s);
}

/* An allocation of volume db that may wait. */
static enum status run_waiting(struct fixture *f, const char *id, const char *node, uint32_t wait_ms,
			       struct error *err)
{
	Holdfast__V1__Allocation alloc = HOLDFAST__V1__ALLOCATION__INIT;
	Holdfast__V1__RunAllocationRequest request =
		V1(run_allocation_request, .allocation = &alloc, .wait_ms = wait_ms);
	Holdfast__V1__VolumeRequest volume = V1(volume_request, .name = text("data"), .source = text("db"),
						.access_mode = f->access_mode, .read_only = f->read_only);
	Holdfast__V1__VolumeRequest *volumes[] = {&volume};

	alloc.id = text(id);
	alloc.name = text("app");
	alloc.node_id = text(node);
	alloc.volumes = volumes;
	alloc.n_volumes = 1;
	return call(&f->operator, ALLOCS, "Run", &request.base, NULL, err);
}

static enum status withdraw(struct fixture *f, const char *id, struct error *err)
{
	Holdfast__V1__StopAllocationRequest request =
		V1(stop_allocation_request, .id = text(id), .pending_only = true);

	return call(&f->operator, ALLOCS, "Stop", &request.base, NULL, err);
}

static const struct alloc *alloc_of(struct fixture *f, const char *id)
{
	const struct alloc_entry *entry = NON_NULL(state_alloc(&f->server->state, id));

	return &entry->alloc;
}

static bool is_pending(struct fixture *f, const char *id)
{
	return alloc_is_pending(alloc_of(f, id));
}

/* What alloc status says of it; to be freed. */
static char *description(struct fixture *f, const char *id)
{
	Holdfast__V1__GetAllocationRequest request = V1(get_allocation_request, .id = text(id));
	const Holdfast__V1__GetAllocationResponse *response;
	cleanup_pb ProtobufCMessage *message = NULL;
	char *ret;

	assert_int_equal(call(&f->operator, ALLOCS, "Get", &request.base, &message, NULL), STATUS_OK);
	response = (const void *)message;
	assert_int_equal(response->node_disconnected_ms, 0);
	ret = strdup(response->allocation->client_description);
	return ret;
}

static void expect_says(struct fixture *f, const char *id, const char *words)
{
	cleanup_free char *said = description(f, id);

	assert_msg(strstr(said, words), "'%s' is not in: %s", words, said);
}

/* As the volume shows them. */
static size_t n_waiting(struct fixture *f, const char *first)
{
	Holdfast__V1__GetVolumeRequest request = V1(get_volume_request, .id = text("db"));
	const Holdfast__V1__GetVolumeResponse *response;
	cleanup_pb ProtobufCMessage *message = NULL;
	size_t n;

	assert_int_equal(call(&f->operator, VOLUMES, "Get", &request.base, &message, NULL), STATUS_OK);
	response = (const void *)message;
	n = response->n_pending;
	if (n > 0 && first)
		assert_string_equal(response->pending[0], first);
	return n;
}

static struct fake_node *node_of(struct fixture *f, const char *id)
{
	return str_eq(alloc_of(f, id)->node_id, "n1") ? &f->n1 : &f->n2;
}

/* Its node has it mounted and runs it. */
static void start(struct fixture *f, const char *id)
{
	struct fake_node *node;
	struct claim claim;

	UNTIL(f, !is_pending(f, id));
	node = node_of(f, id);
	UNTIL(f, str_eq(node->last_run, id));
	assert_int_equal(fake_node_claim(node, "db", id, NULL, NULL), STATUS_OK);
	claim = claim_of(f, id);
	fake_node_send_mounted(node, &claim);
	fake_node_send_alloc(node, id, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	UNTIL(f, alloc_of(f, id)->client_status == CLIENT_RUNNING);
}

/* Its work ends; that its node has released it is not known yet. */
static void end_work(struct fixture *f, const char *id)
{
	assert_int_equal(stop_alloc(f, id, NULL), STATUS_OK);
	fake_node_send_alloc(node_of(f, id), id, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, alloc_is_client_terminal(alloc_of(f, id)));
}

static void end(struct fixture *f, const char *id)
{
	struct claim claim = claim_of(f, id);

	end_work(f, id);
	fake_node_send_released(node_of(f, id), &claim);
}

#define ALLOC_4 "01890004-0000-7000-" ID_MARK

CLUSTER_TEST(those_that_wait_are_placed_in_the_order_in_which_they_came)
{
	struct claim claim;

	take_volume(f);
	/* not in the order of their ids */
	assert_int_equal(run_waiting(f, ALLOC_3, "", LONG_MS, NULL), STATUS_OK);
	assert_int_equal(run_waiting(f, ALLOC_2, "n2", LONG_MS, NULL), STATUS_OK);
	assert_true(is_pending(f, ALLOC_3) && is_pending(f, ALLOC_2));
	assert_int_equal(alloc_of(f, ALLOC_3)->client_status, CLIENT_PENDING);
	expect_says(f, ALLOC_3, "waits for volume db, ");
	expect_says(f, ALLOC_3, "allocation " ALLOC_1 " on node n1");
	assert_int_equal(n_waiting(f, ALLOC_3), 2);
	claim = claim_of(f, ALLOC_1);
	end_work(f, ALLOC_1);
	settle(f);
	assert_true(is_pending(f, ALLOC_3)); /* no evidence yet */
	fake_node_send_released(&f->n1, &claim);
	start(f, ALLOC_3);
	settle(f);
	assert_true(is_pending(f, ALLOC_2));
	expect_says(f, ALLOC_2, ALLOC_3);
	assert_int_equal(n_waiting(f, ALLOC_2), 1);
	end(f, ALLOC_3);
	start(f, ALLOC_2);
	assert_string_equal(alloc_of(f, ALLOC_2)->node_id, "n2");
	assert_int_equal(n_waiting(f, NULL), 0);
	assert_null(state_node(&f->server->state, ""));
}

CLUSTER_TEST(the_order_and_the_wait_outlive_the_server)
{
	take_volume(f);
	assert_int_equal(run_waiting(f, ALLOC_3, "", LONG_MS, NULL), STATUS_OK);
	assert_int_equal(run_waiting(f, ALLOC_2, "n2", LONG_MS, NULL), STATUS_OK);
	restart(f);
	assert_int_equal(n_waiting(f, ALLOC_3), 2);
	assert_string_equal(alloc_of(f, ALLOC_2)->wait_node_id, "n2");
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	lose(f, &f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0); /* which is the evidence */
	start(f, ALLOC_3);
	assert_true(is_pending(f, ALLOC_2));
}

CLUSTER_TEST(a_placed_allocation_reserves_its_volume_before_its_claim)
{
	struct error err;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	assert_int_equal(run_waiting(f, ALLOC_1, "", LONG_MS, NULL), STATUS_OK);
	assert_false(is_pending(f, ALLOC_1)); /* nobody had it */
	assert_int_equal(run_waiting(f, ALLOC_2, "", LONG_MS, NULL), STATUS_OK);
	assert_true(is_pending(f, ALLOC_2));
	assert_int_equal(run_waiting(f, ALLOC_4, "", LONG_MS, NULL), STATUS_OK);
	assert_int_equal(run_alloc(f, ALLOC_3, "", &err), STATUS_FAILED_PRECONDITION);
	start(f, ALLOC_1);
	end(f, ALLOC_1);
	/* free, and ALLOC_2 comes first, placed by now or not; ALLOC_4 waits behind it */
	assert_msg(run_alloc(f, ALLOC_3, "", &err) == STATUS_FAILED_PRECONDITION,
		   "it went past one that waits");
	start(f, ALLOC_2);
}

CLUSTER_TEST(an_expired_wait_names_the_holder)
{
	take_volume(f);
	assert_int_equal(run_waiting(f, ALLOC_2, "", 1, NULL), STATUS_OK);
	UNTIL(f, alloc_of(f, ALLOC_2)->client_status == CLIENT_FAILED);
	assert_int_equal(alloc_of(f, ALLOC_2)->client_code, STATUS_DEADLINE_EXCEEDED);
	expect_says(f, ALLOC_2, "nothing was started: waits for volume db");
	expect_says(f, ALLOC_2, "allocation " ALLOC_1 " on node n1");
	expect_says(f, ALLOC_2, "holdfast ");
	end(f, ALLOC_1);
	settle(f);
	assert_int_equal(f->n1.runs + f->n2.runs, 1);
}

CLUSTER_TEST(one_that_was_withdrawn_leaves_its_place)
{
	struct error err;

	take_volume(f);
	assert_int_equal(run_waiting(f, ALLOC_2, "", LONG_MS, NULL), STATUS_OK);
	assert_int_equal(run_waiting(f, ALLOC_3, "", LONG_MS, NULL), STATUS_OK);
	assert_int_equal(withdraw(f, ALLOC_2, NULL), STATUS_OK);
	assert_int_equal(alloc_of(f, ALLOC_2)->client_status, CLIENT_COMPLETE);
	assert_int_equal(withdraw(f, ALLOC_1, &err), STATUS_FAILED_PRECONDITION); /* it runs */
	assert_non_null(strstr(err.msg, "holdfast alloc stop " ALLOC_1));
	end(f, ALLOC_1);
	start(f, ALLOC_3);
}

CLUSTER_TEST(an_unplaceable_waiter_blocks_no_other)
{
	take_volume(f);
	assert_int_equal(run_waiting(f, ALLOC_2, "n2", LONG_MS, NULL), STATUS_OK);
	assert_int_equal(run_waiting(f, ALLOC_3, "n1", LONG_MS, NULL), STATUS_OK);
	assert_int_equal(set_eligible(f, "n2", false, NULL), STATUS_OK);
	end(f, ALLOC_1);
	start(f, ALLOC_3);
	assert_true(is_pending(f, ALLOC_2));
	end(f, ALLOC_3);
	settle(f);
	assert_true(is_pending(f, ALLOC_2));
	expect_says(f, ALLOC_2, "waits to be placed: ");
	assert_int_equal(set_eligible(f, "n2", true, NULL), STATUS_OK);
	start(f, ALLOC_2);
}

CLUSTER_TEST(so_many_wait_for_a_volume_and_no_more)
{
	char id[UUID_TEXT_SIZE];
	struct error err;

	take_volume(f);
	for (unsigned int i = 0; i < PENDING_PER_VOLUME_MAX; i++) {
		(void)str_format(id, sizeof(id), ID_OF, 100 + i);
		assert_int_equal(run_waiting(f, id, "", LONG_MS, NULL), STATUS_OK);
	}
	assert_int_equal(run_waiting(f, ALLOC_2, "", LONG_MS, &err), STATUS_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(err.msg, "volume db: 64 allocations wait for it"));
	(void)str_format(id, sizeof(id), ID_OF, 163U);
	assert_int_equal(withdraw(f, id, NULL), STATUS_OK);
	assert_int_equal(run_waiting(f, ALLOC_2, "", LONG_MS, NULL), STATUS_OK);
}

CLUSTER_TEST(only_a_volume_is_waited_for)
{
	struct error err;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	assert_int_equal(run_waiting(f, ALLOC_2, "", LONG_MS, &err), STATUS_FAILED_PRECONDITION);
	assert_null(state_alloc(&f->server->state, ALLOC_2));
}

CLUSTER_TEST(the_same_submission_again_is_the_one_that_waits)
{
	take_volume(f);
	for (int i = 0; i < 2; i++)
		assert_int_equal(run_waiting(f, ALLOC_2, "n2", LONG_MS, NULL), STATUS_OK);
	assert_int_equal(n_waiting(f, ALLOC_2), 1);
	assert_int_equal(run_waiting(f, ALLOC_2, "n1", LONG_MS, NULL), STATUS_ALREADY_EXISTS);
}

/* holdfast alloc run --wait of volume db, as an operator types it. */
static pid_t type_run(struct fixture *f)
{
	char file[FOLDER_SIZE + 16], address[32], ca[FOLDER_SIZE + 32], cert[FOLDER_SIZE + 32],
		key[FOLDER_SIZE + 32];
	pid_t pid;
	FILE *spec;

	(void)snprintf(file, sizeof(file), "%s/app.hcl", f->dir);
	(void)snprintf(address, sizeof(address), "127.0.0.1:%u", f->port);
	(void)snprintf(ca, sizeof(ca), "%s/tls/ca.pem", f->dir);
	(void)snprintf(cert, sizeof(cert), "%s/tls/operator.pem", f->dir);
	(void)snprintf(key, sizeof(key), "%s/tls/operator.key", f->dir);
	spec = NON_NULL(fopen(file, "we"));
	(void)fprintf(spec, "name = \"app\"\nvolume \"data\" {\n  source = \"db\"\n"
			    "  access_mode = \"single-node-writer\"\n}\n");
	assert_int_equal(fclose(spec), 0);
	pid = fork();
	if (pid == 0) {
		(void)execl(CLI_PROGRAM, "holdfast", "alloc", "run", file, "--wait", "1h", "--id", ALLOC_2,
			    "--address", address, "--ca", ca, "--cert", cert, "--key", key, (char *)NULL);
		_exit(127);
	}
	assert_true(pid > 0);
	return pid;
}

CLUSTER_TEST(ctrl_c_withdraws_the_pending_allocation)
{
	int ended = 0;
	pid_t pid;

	take_volume(f);
	pid = type_run(f);
	UNTIL(f, state_alloc(&f->server->state, ALLOC_2));
	assert_true(is_pending(f, ALLOC_2));
	UNTIL(f, f->server->n_watches > 0); /* it has its answer, and waits for the next one */
	assert_int_equal(kill(pid, SIGINT), 0);
	UNTIL(f, waitpid(pid, &ended, WNOHANG) == pid);
	assert_true(WIFEXITED(ended));
	assert_int_equal(WEXITSTATUS(ended), 128 + SIGINT);
	assert_int_equal(alloc_of(f, ALLOC_2)->client_status, CLIENT_COMPLETE);
}
