/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "privileged/journal_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct journal_field fields[] = {{" vol=", "HOLDFAST_VOLUME"}, {" res=", "HOLDFAST_RESULT"}};

TEST(words_of_the_text_become_fields)
{
	char got[512] = "";
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
	journal_socket_send(pair[0], 4, "mounter", NULL, "ts=1 vol=db-1 res=failed", fields,
			    ARRAY_SIZE(fields));
	assert_true(recv(pair[1], got, sizeof(got) - 1, MSG_DONTWAIT) > 0);
	assert_string_equal(got, "PRIORITY=4\nSYSLOG_IDENTIFIER=mounter\nMESSAGE=ts=1 vol=db-1 res=failed\n"
				 "HOLDFAST_VOLUME=db-1\nHOLDFAST_RESULT=failed\n");
	memset(got, 0, sizeof(got));
	journal_socket_send(pair[0], 6, "mounter", NULL, "ts=1 op=stop", fields, ARRAY_SIZE(fields));
	assert_true(recv(pair[1], got, sizeof(got) - 1, MSG_DONTWAIT) > 0);
	assert_string_equal(got, "PRIORITY=6\nSYSLOG_IDENTIFIER=mounter\nMESSAGE=ts=1 op=stop\n");
	(void)close(pair[0]);
	(void)close(pair[1]);
}

static const char *sent(const char *event, const char *text, const struct journal_field *field)
{
	static char got[512];
	int pair[2];

	memset(got, 0, sizeof(got));
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
	journal_socket_send(pair[0], 6, "m", event, text, field, 1);
	assert_true(recv(pair[1], got, sizeof(got) - 1, MSG_DONTWAIT) > 0);
	(void)close(pair[0]);
	(void)close(pair[1]);
	return got;
}

TEST(the_fields_of_an_event_come_before_those_of_the_text)
{
	assert_string_equal(sent("MESSAGE_ID=0\nEVENT=x\n", "ts=1 vol=db", fields),
			    "PRIORITY=6\nSYSLOG_IDENTIFIER=m\nMESSAGE=ts=1 vol=db\nMESSAGE_ID=0\nEVENT=x\n"
			    "HOLDFAST_VOLUME=db\n");
}

TEST(a_hash_at_the_end_of_a_value_is_left_out_where_that_is_wanted)
{
	static const struct journal_field without = {" vol=", "V", 4};
	static const struct {
		const char *text;
		const char *expected;
	} cases[] = {
		{"ts=1 vol=db-12af", "\nV=db\n"},
		{"ts=1 vol=db-12af res=ok", "\nV=db\n"},
		{"ts=1 vol=a-b-0000", "\nV=a-b\n"},
		{"ts=1 vol=x-12af", "\nV=x\n"},
		{"ts=1 vol=-12af", "\nV=-12af\n"},   /* nothing would be left */
		{"ts=1 vol=12af", "\nV=12af\n"},     /* nothing but the hash */
		{"ts=1 vol=db-12a", "\nV=db-12a\n"}, /* too short */
		{"ts=1 vol=db-12afe", "\nV=db-12afe\n"},
		{"ts=1 vol=db-12ag", "\nV=db-12ag\n"},
		{"ts=1 vol=db-12AF", "\nV=db-12AF\n"},
		{"ts=1 vol=db.12af", "\nV=db.12af\n"},
		{"ts=1 vol= 12af", "\nV=\n"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_non_null(strstr(sent(NULL, cases[i].text, &without), cases[i].expected));
}

TEST(a_journal_that_does_not_listen_is_not_waited_for)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
	for (int i = 0; i < 5000; i++) /* more than its queue holds */
		journal_socket_send(pair[0], 6, "mounter", NULL, "ts=1 vol=db-1", fields, ARRAY_SIZE(fields));
	(void)close(pair[1]);
	journal_socket_send(pair[0], 6, "mounter", NULL, "ts=1 vol=db-1", fields, ARRAY_SIZE(fields));
	(void)close(pair[0]);
	journal_socket_send(-EBADF, 6, "mounter", NULL, "ts=1 vol=db-1", fields, ARRAY_SIZE(fields));
}

TEST(a_text_that_does_not_fit_is_not_sent)
{
	static char text[16384];
	char got[16];
	int pair[2];

	memset(text, 'a', sizeof(text) - 1);
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
	journal_socket_send(pair[0], 6, "mounter", NULL, text, fields, ARRAY_SIZE(fields));
	assert_int_equal(recv(pair[1], got, sizeof(got), MSG_DONTWAIT), -1);
	(void)close(pair[0]);
	(void)close(pair[1]);
}
