#include "cmocka_all.h"
#include "local.h"
#include "mounthelper_wire.h"
#include "privileges.h"
#include "verify.h"

#include <string.h>

static const struct verify_wanted strict = {
	.path = "/p", .read_only = true, .propagation = PROPAGATION_PRIVATE};
static const struct verify_reply good_reply = {
	.state = MH_STATE_PUBLISHED | MH_STATE_READ_ONLY, .dev_major = 8, .dev_minor = 1};
static const struct mount_view good_view = {.dev_major = 8,
					    .dev_minor = 1,
					    .is_read_only = true,
					    .is_nosuid = true,
					    .is_nodev = true,
					    .is_noexec = true};

static enum status check(struct verify_wanted wanted, struct verify_reply reply, struct mount_view view)
{
	struct error err = {0};
	enum status status = verify_publish(&wanted, &reply, &view, &err);

	if (status != STATUS_OK)
		assert_non_null(strstr(err.msg, "/p"));
	return status;
}

static void what_was_asked_for_is_accepted(void **state)
{
	struct verify_wanted loose = {.path = "/p", .exec = true, .propagation = PROPAGATION_BIDIRECTIONAL};
	struct verify_reply reply = good_reply;
	struct mount_view view = good_view;

	assert_int_equal(check(strict, good_reply, good_view), STATUS_OK);
	reply.state = MH_STATE_PUBLISHED | MH_STATE_EXEC | MH_STATE_SHARED;
	view.is_read_only = view.is_noexec = false;
	view.propagation = MOUNT_SHARED;
	assert_int_equal(check(loose, reply, view), STATUS_OK);
	/* stricter than asked for is fine, but for propagation */
	reply.state = good_reply.state | MH_STATE_SHARED;
	assert_int_equal(check(loose, reply, good_view), STATUS_OK);
}

static void each_witness_alone_can_object(void **state)
{
	struct verify_reply reply = good_reply;
	struct mount_view view = good_view;

	reply.state &= (uint16_t)~MH_STATE_PUBLISHED;
	assert_int_equal(check(strict, reply, view), STATUS_FAILED_PRECONDITION);
	reply.state = MH_STATE_PUBLISHED;
	assert_int_equal(check(strict, reply, view), STATUS_FAILED_PRECONDITION);
	reply.state = good_reply.state | MH_STATE_EXEC;
	assert_int_equal(check(strict, reply, view), STATUS_FAILED_PRECONDITION);
	reply.state = good_reply.state | MH_STATE_SHARED;
	assert_int_equal(check(strict, reply, view), STATUS_FAILED_PRECONDITION);
	reply = good_reply;
	reply.dev_major++;
	assert_int_equal(check(strict, reply, view), STATUS_FAILED_PRECONDITION);
	reply = good_reply;
	reply.dev_minor++;
	assert_int_equal(check(strict, reply, view), STATUS_FAILED_PRECONDITION);
	view.is_nosuid = false;
	assert_int_equal(check(strict, good_reply, view), STATUS_FAILED_PRECONDITION);
	view = good_view;
	view.is_nodev = false;
	assert_int_equal(check(strict, good_reply, view), STATUS_FAILED_PRECONDITION);
	view = good_view;
	view.is_read_only = false;
	assert_int_equal(check(strict, good_reply, view), STATUS_FAILED_PRECONDITION);
	view = good_view;
	view.is_noexec = false;
	assert_int_equal(check(strict, good_reply, view), STATUS_FAILED_PRECONDITION);
}

static void propagation_is_exactly_what_was_asked_for(void **state)
{
	static const unsigned int states[] = {0, MH_STATE_SLAVE, MH_STATE_SHARED,
					      MH_STATE_SLAVE | MH_STATE_SHARED};
	static const bool is_right[PROPAGATION_N][4] = {
		[PROPAGATION_PRIVATE] = {true, false, false, false},
		[PROPAGATION_HOST_TO_TASK] = {false, true, false, false},
		[PROPAGATION_BIDIRECTIONAL] = {false, false, true, true},
	};

	for (int wanted = 0; wanted < PROPAGATION_N; wanted++) {
		for (size_t i = 0; i < 4; i++) {
			struct verify_wanted as_asked = strict;
			struct verify_reply reply = good_reply;

			as_asked.propagation = (enum propagation)wanted;
			reply.state |= (uint16_t)states[i];
			assert_int_equal(check(as_asked, reply, good_view),
					 is_right[wanted][i] ? STATUS_OK : STATUS_FAILED_PRECONDITION);
		}
	}
}

static void the_real_mount_table_is_read(void **state)
{
	struct mount_table *table;
	struct mount_view view;
	struct error err;

	assert_int_equal(mount_table_read(&table, &err), STATUS_OK);
	assert_int_equal(mount_table_find(table, "/proc", &view, &err), STATUS_OK);
	assert_int_equal(mount_table_find(table, "/proc/self", &view, &err), STATUS_NOT_FOUND);
	assert_int_equal(mount_table_find(table, "/no/such/place", &view, &err), STATUS_NOT_FOUND);
	assert_non_null(strstr(err.msg, "/no/such/place"));
	mount_table_free(table);
}

/* Who reads it again gets the same one, as long as nothing is mounted or unmounted anywhere. */
static void a_table_is_kept_until_it_changes(void **state)
{
	struct mount_table *table = NULL, *first;
	struct mount_view view;
	struct error err;

	assert_int_equal(mount_table_refresh(&table, "/proc", &err), STATUS_OK);
	for (int i = 0; i < 100; i++) {
		first = table;
		assert_int_equal(mount_table_refresh(&table, "/proc", &err), STATUS_OK);
		assert_int_equal(mount_table_find(table, "/proc", &view, &err), STATUS_OK);
		if (table == first)
			break;
	}
	assert_ptr_equal(table, first); /* not a hundred changes in a row */
	assert_int_equal(mount_table_find(table, "/", &view, &err), STATUS_NOT_FOUND); /* not below /proc */
	mount_table_free(table);
	mount_table_free(NULL);
}

static void neither_root_nor_capabilities_are_accepted(void **state)
{
	struct error err;

	assert_int_equal(privileges_check(1000, 0, 0, &err), STATUS_OK);
	assert_int_equal(privileges_check(0, 0, 0, &err), STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(err.msg, "root"));
	assert_int_equal(privileges_check(1000, 1, 1, &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(privileges_check(1000, 0, UINT64_C(1) << 40, &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(privileges_check(1000, UINT64_C(1) << 40, 0, &err), STATUS_FAILED_PRECONDITION);
}

static void status_and_drain_are_for_root_and_the_agent_itself(void **state)
{
	struct rpc_peer peer = {.kind = RPC_PEER_UNIX, .uid = 1000};
	struct error err;

	assert_int_equal(local_authorize(&peer, 1000, "drain", &err), STATUS_OK);
	assert_int_equal(local_authorize(&peer, 1001, "drain", &err), STATUS_PERMISSION_DENIED);
	assert_non_null(strstr(err.msg, "sudo holdfast agent drain"));
	peer.uid = 0;
	assert_int_equal(local_authorize(&peer, 1001, "drain", &err), STATUS_OK);
	peer.kind = RPC_PEER_TLS;
	assert_int_equal(local_authorize(&peer, 0, "drain", &err), STATUS_PERMISSION_DENIED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_asked_for_is_accepted),
		cmocka_unit_test(each_witness_alone_can_object),
		cmocka_unit_test(propagation_is_exactly_what_was_asked_for),
		cmocka_unit_test(the_real_mount_table_is_read),
		cmocka_unit_test(a_table_is_kept_until_it_changes),
		cmocka_unit_test(neither_root_nor_capabilities_are_accepted),
		cmocka_unit_test(status_and_drain_are_for_root_and_the_agent_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
