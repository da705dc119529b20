/* SPDX-License-Identifier: Apache-2.0 */
/* How a helper that served ends. The socket is a list of messages; the kernel is the model. */

#include "record.h"
#include "startup.h"
#include "workbench.h"

#include "privileged/peer_socket.h"

#include <sodium.h>

static struct {
	union mh_request in[4];
	int n_in, given;
	ssize_t end;	   /* what comes after them: 0 at the end of the socket, or a negative errno */
	int send_fails_at; /* counted from 1, HELLO first; 0: never */
	int n_sent;
	struct mh_reply last;
	struct mh_list_reply last_list;
	struct mh_hello hello;
	int replaced_at; /* the policy is another one before this message; 0: never */
	const struct statx *replaced;
	int replaced_r;
} wire;

WRAPPED(ssize_t, peer_socket_receive, int fd, const struct ucred *peer, void *buf, size_t size)
{
	assert_int_equal(fd, HELPER_SOCKET_FD);
	assert_int_equal(peer->uid, FIXTURE_UID);
	assert_int_equal(peer->pid, 4711);
	/* whoever waits has given every record to every sink */
	if (helper.trail_fault == TRAIL_GOOD)
		assert_string_equal(fake_audit(), fake_log());
	if (wire.given == wire.n_in)
		return wire.end;
	assert_true(size >= sizeof(wire.in[0]));
	if (wire.given + 1 == wire.replaced_at)
		fake_policy(wire.replaced, wire.replaced_r);
	memcpy(buf, &wire.in[wire.given], sizeof(wire.in[0]));
	return (ssize_t)wire.in[wire.given++].header.length;
}

WRAPPED(int, peer_socket_send, int fd, const void *bytes, size_t n)
{
	assert_int_equal(fd, HELPER_SOCKET_FD);
	if (++wire.n_sent == wire.send_fails_at)
		return -EPIPE;
	if (n == sizeof(wire.hello))
		memcpy(&wire.hello, bytes, n);
	if (n == sizeof(wire.last))
		memcpy(&wire.last, bytes, n);
	if (n == sizeof(wire.last_list))
		memcpy(&wire.last_list, bytes, n);
	return 0;
}

static void say(const void *request, size_t n)
{
	union mh_request *req = &wire.in[wire.n_in];

	*req = (union mh_request){.bytes = {0}};
	memcpy(req, request, n);
	req->header.seq = (uint64_t)++wire.n_in;
}

static int connected(void **state)
{
	const struct mh_ack ack = {.header = mh_header_make(MH_OP_ACK, sizeof(ack), 1)};

	memset(&wire, 0, sizeof(wire));
	say(&ack, sizeof(ack));
	return setup(state);
}

TEST_FIXTURE(hello_has_the_number_and_hash_of_the_start, connected, teardown)
{
	uint8_t want[TICKET_DIGEST_SIZE];

	record_start(&helper, 0, 0);
	(void)crypto_hash_sha256(want, (const unsigned char *)fake_log(), strlen(fake_log()) - 1);
	assert_int_equal(serve(&helper), MH_EXIT_CLOSED);
	assert_int_equal(wire.hello.trail, TRAIL_GOOD);
	assert_int_equal(wire.hello.record, 1);
	assert_memory_equal(wire.hello.head, want, sizeof(want));
}

TEST_FIXTURE(hello_says_that_the_start_is_not_on_record, connected, teardown)
{
	static const uint8_t nothing[TICKET_DIGEST_SIZE];

	fake_log_full(true);
	record_start(&helper, 0, 0);
	assert_int_equal(serve(&helper), MH_EXIT_CLOSED);
	assert_int_equal(wire.hello.trail, TRAIL_LOG_END);
	assert_int_equal(wire.hello.record, 0);
	assert_memory_equal(wire.hello.head, nothing, sizeof(nothing));
}

TEST_FIXTURE(the_end_of_the_socket_is_on_record_and_changes_nothing, connected, teardown)
{
	const struct mh_stage s = fixture_stage();

	say(&s, sizeof(s));
	assert_int_equal(serve(&helper), MH_EXIT_CLOSED);
	assert_int_equal(wire.n_sent, 2);
	assert_int_equal(wire.last.status, MH_OK);
	ASSERT_RECORDED("op=stop phase=event seq=3 ");
	ASSERT_RECORDED("reason=closed res=success");
	assert_true(fake_is_mount(STAGED));
	/* and so is one that says nothing at all */
	(void)teardown(state);
	(void)connected(state);
	assert_int_equal(serve(&helper), MH_EXIT_CLOSED);
	ASSERT_RECORDED("reason=closed");
}

TEST_FIXTURE(requests_before_the_end_are_done_and_recorded, connected, teardown)
{
	const struct mh_stage s = fixture_stage();

	say(&s, sizeof(s));
	wire.send_fails_at = 2;
	assert_int_equal(serve(&helper), MH_EXIT_SEND);
	assert_true(fake_is_mount(STAGED));
	assert_non_null(strstr(fake_log(), "op=stage phase=result seq=2 "));
	ASSERT_RECORDED("op=stop phase=event");
	ASSERT_RECORDED("reason=reply-not-taken res=failed");
}

TEST_FIXTURE(an_agent_that_does_not_read_hello_is_not_served, connected, teardown)
{
	const struct mh_stage s = fixture_stage();

	say(&s, sizeof(s));
	wire.send_fails_at = 1;
	assert_int_equal(serve(&helper), MH_EXIT_SEND);
	assert_int_equal(wire.given, 0);
	assert_false(fake_is_mount(STAGED));
}

TEST_FIXTURE(a_failed_post_condition_is_answered_and_ends_it, connected, teardown)
{
	const struct mh_stage s = fixture_stage();
	const struct mh_stage t = fixture_stage_tmpfs();

	say(&s, sizeof(s));
	say(&t, sizeof(t)); /* is not served any more */
	fake_private_has_no_effect();
	assert_int_equal(serve(&helper), MH_EXIT_INTERNAL);
	assert_int_equal(wire.last.status, MH_INTERNAL);
	assert_int_equal(wire.given, 2);
	assert_false(fake_is_mount(STAGED));
	assert_false(fake_is_mount(MEMORY));
	ASSERT_RECORDED("op=stop phase=event");
	ASSERT_RECORDED("reason=post-condition res=failed");
}

TEST_FIXTURE(a_violation_is_recorded_and_never_answered, connected, teardown)
{
	static const struct {
		ssize_t end;
		const char *reason;
	} rows[] = {
		{-EMSGSIZE, "reason=truncated "},
		{-EBADMSG, "reason=control-data "},
		{-EACCES, "reason=credentials "},
	};
	const struct mh_unstage u = fixture_unstage();

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)teardown(state);
		(void)connected(state);
		wire.end = rows[i].end;
		assert_int_equal(serve(&helper), MH_EXIT_VIOLATION);
		assert_int_equal(wire.n_sent, 1); /* HELLO */
		ASSERT_RECORDED("op=violation phase=event seq=2 ");
		ASSERT_RECORDED(rows[i].reason);
	}
	/* the first byte of a known operation that is out of its form, and nothing after it */
	(void)teardown(state);
	(void)connected(state);
	say(&u, sizeof(u));
	wire.in[1].unstage.detach = 2;
	say(&u, sizeof(u));
	assert_int_equal(serve(&helper), MH_EXIT_VIOLATION);
	assert_int_equal(wire.given, 2);
	ASSERT_RECORDED("reason=field ");
}

/* Nothing that the former one allowed is done, and nothing is unmounted or listed by it either. */
TEST_FIXTURE(a_request_after_the_policy_was_replaced_changes_nothing_and_is_the_last, connected, teardown)
{
	static const struct {
		struct statx is;
		int r;
	} rows[] = {
		{{.stx_ino = 8, .stx_ctime = {.tv_sec = 100, .tv_nsec = 5}}},
		{{.stx_ino = 7, .stx_ctime = {.tv_sec = 101, .tv_nsec = 5}}},
		{{.stx_ino = 7, .stx_ctime = {.tv_sec = 100, .tv_nsec = 6}}},
		{{.stx_ino = 7, .stx_ctime = {.tv_sec = 100, .tv_nsec = 5}, .stx_mnt_id = 1}},
		{{.stx_ino = 7, .stx_ctime = {.tv_sec = 100, .tv_nsec = 5}, .stx_dev_major = 7}},
		{{.stx_ino = 7, .stx_ctime = {.tv_sec = 100, .tv_nsec = 5}, .stx_dev_minor = 3}},
		{{.stx_ino = 7, .stx_ctime = {.tv_sec = 100, .tv_nsec = 5}}, -ENOENT},
		{{.stx_ino = 7, .stx_ctime = {.tv_sec = 100, .tv_nsec = 5}}, -EACCES},
	};
	const struct statx was = {.stx_ino = 7, .stx_ctime = {.tv_sec = 100, .tv_nsec = 5}};
	const struct mh_list list = {.header = mh_header_make(MH_OP_LIST, sizeof(list), 0)};
	const struct mh_stage s = fixture_stage();
	const struct mh_publish p = fixture_publish();

	for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		(void)teardown(state);
		(void)connected(state);
		helper.policy_file = was;
		fake_policy(&was, 0);
		assert_int_equal(setup_compare_policy(&helper), 0);
		say(&s, sizeof(s));
		say(&p, sizeof(p));
		wire.replaced = &rows[i / 2].is;
		wire.replaced_r = rows[i / 2].r;
		if (i % 2 == 1) {
			wire.n_in = 2;
			say(&list, sizeof(list));
		}
		wire.replaced_at = 3;
		say(&s, sizeof(s)); /* is never read */
		assert_int_equal(serve(&helper), MH_EXIT_CLOSED);
		assert_int_equal(wire.given, 3);
		assert_true(fake_is_mount(STAGED));
		assert_false(fake_is_mount(PUBLISHED));
		assert_int_equal(i % 2 == 1 ? wire.last_list.status : wire.last.status, MH_REPLACED);
		assert_int_equal(i % 2 == 1 ? wire.last_list.count : wire.last.record, 0);
		ASSERT_RECORDED("op=stop phase=event seq=3 ");
		ASSERT_RECORDED("reason=policy-replaced ");
	}
}
