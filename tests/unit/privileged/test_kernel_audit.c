/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/sys.h"
#include "privileged/kernel_audit.h"

#include <linux/netlink.h>
#include <stdbool.h>
#include <sys/socket.h>

/* The kernel's side: what it was sent, and what it answers. */
static struct {
	struct nlmsghdr sent;
	char text[KERNEL_AUDIT_TEXT_MAX];
	ssize_t sends; /* result of the send when not 1 */
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
	} answer;
	ssize_t answer_size; /* or a negative errno */
	int receives;
	int stale; /* answers to older records that come first */
	bool is_off;
	int questions; /* whether it is */
} kernel;

WRAPPED(ssize_t, sys_sendto, int fd, const void *bytes, size_t n, int flags, const struct sockaddr *to,
	unsigned int to_len)
{
	assert_int_equal(fd, 5);
	assert_int_equal(flags, MSG_DONTWAIT | MSG_NOSIGNAL);
	assert_int_equal(to->sa_family, AF_NETLINK);
	assert_int_equal(to_len, sizeof(struct sockaddr_nl));
	if (n == NLMSG_HDRLEN + 1) { /* no text: nothing to record, where anything would be */
		kernel.answer.error.error = kernel.is_off ? 0 : -EINVAL;
		kernel.questions++;
		return (ssize_t)n;
	}
	memcpy(&kernel.sent, bytes, sizeof(kernel.sent));
	assert_int_equal(kernel.sent.nlmsg_len, n);
	memcpy(kernel.text, (const char *)bytes + NLMSG_HDRLEN, n - NLMSG_HDRLEN);
	return kernel.sends == 1 ? (ssize_t)n : kernel.sends;
}

WRAPPED(ssize_t, sys_recvfrom, int fd, void *buf, size_t n, int flags)
{
	assert_int_equal(fd, 5);
	assert_int_equal(flags, MSG_DONTWAIT);
	assert_true(n >= sizeof(kernel.answer) + KERNEL_AUDIT_TEXT_MAX); /* an error repeats the message */
	kernel.receives++;
	if (kernel.answer_size > 0)
		memcpy(buf, &kernel.answer, sizeof(kernel.answer));
	if (kernel.stale > 0 && kernel.stale-- > 0)
		((struct nlmsghdr *)buf)->nlmsg_seq--;
	return kernel.answer_size;
}

static int confirm(void **state)
{
	memset(&kernel, 0, sizeof(kernel));
	kernel.sends = 1;
	kernel.answer.header.nlmsg_type = NLMSG_ERROR;
	kernel.answer.header.nlmsg_seq = 7;
	kernel.answer_size = sizeof(kernel.answer);
	return 0;
}

TEST_FIXTURE(a_confirmed_record_was_sent_as_it_is, confirm, NULL)
{
	assert_int_equal(kernel_audit_send(5, 1121, 7, "op=stage res=success"), 0);
	assert_string_equal(kernel.text, "op=stage res=success");
	assert_int_equal(kernel.sent.nlmsg_type, 1121);
	assert_int_equal(kernel.sent.nlmsg_seq, 7);
	assert_int_equal(kernel.sent.nlmsg_flags, NLM_F_REQUEST | NLM_F_ACK);
	assert_int_equal(kernel.sent.nlmsg_len, NLMSG_HDRLEN + strlen(kernel.text) + 1);
}

TEST_FIXTURE(a_record_dropped_by_the_kernel_is_an_error, confirm, NULL)
{
	kernel.is_off = true;
	assert_int_equal(kernel_audit_send(5, 1121, 7, "op=stage res=success"), -ENODATA);
	assert_int_equal(kernel.questions, 1);
	(void)confirm(state);
	kernel.answer.error.error = -EINVAL; /* of the record itself: not the answer to the question */
	assert_int_equal(kernel_audit_send(5, 1121, 7, "op=stage res=success"), -EINVAL);
	assert_int_equal(kernel.questions, 0);
}

TEST_FIXTURE(a_record_that_is_reported_asks_for_no_answer, confirm, NULL)
{
	assert_int_equal(kernel_audit_report(5, 1121, 7, "op=stage res=success"), 0);
	assert_string_equal(kernel.text, "op=stage res=success");
	assert_int_equal(kernel.sent.nlmsg_flags, NLM_F_REQUEST);
	assert_int_equal(kernel.sent.nlmsg_seq, 7);
	kernel.sends = -ECONNREFUSED;
	assert_int_equal(kernel_audit_report(5, 1121, 7, "x"), -ECONNREFUSED);
	assert_int_equal(kernel_audit_report(-1, 1121, 7, "x"), -EBADF);
	assert_int_equal(kernel.receives, 0);
}

TEST_FIXTURE(nothing_but_the_kernels_word_is_success, confirm, NULL)
{
	kernel.answer.error.error = -EPERM;
	assert_int_equal(kernel_audit_send(5, 1121, 7, "x"), -EPERM);
	(void)confirm(state);
	kernel.sends = 0;
	assert_int_equal(kernel_audit_send(5, 1121, 7, "x"), -EPERM);
	assert_int_equal(kernel.receives, 0);
	kernel.sends = -ECONNREFUSED;
	assert_int_equal(kernel_audit_send(5, 1121, 7, "x"), -ECONNREFUSED);
	(void)confirm(state);
	kernel.answer_size = -EAGAIN;
	assert_int_equal(kernel_audit_send(5, 1121, 7, "x"), -EAGAIN);
	kernel.answer_size = sizeof(kernel.answer) - 1;
	assert_int_equal(kernel_audit_send(5, 1121, 7, "x"), -EPROTO);
	(void)confirm(state);
	kernel.answer.header.nlmsg_type = NLMSG_DONE;
	assert_int_equal(kernel_audit_send(5, 1121, 7, "x"), -EPROTO);
}

TEST_FIXTURE(an_answer_to_an_older_record_is_passed_over, confirm, NULL)
{
	kernel.stale = 2;
	kernel.answer.error.error = -ENOBUFS;
	assert_int_equal(kernel_audit_send(5, 1121, 7, "x"), -ENOBUFS);
	assert_int_equal(kernel.receives, 3);
}

TEST_FIXTURE(without_a_socket_nothing_is_sent, confirm, NULL)
{
	assert_int_equal(kernel_audit_send(-EPROTONOSUPPORT, 1121, 7, "x"), -EBADF);
	assert_string_equal(kernel.text, "");
}

TEST_FIXTURE(a_text_that_does_not_fit_is_not_cut, confirm, NULL)
{
	char text[KERNEL_AUDIT_TEXT_MAX + 1];

	memset(text, 'a', sizeof(text));
	text[KERNEL_AUDIT_TEXT_MAX - 1] = '\0';
	assert_int_equal(kernel_audit_send(5, 1121, 7, text), 0);
	text[KERNEL_AUDIT_TEXT_MAX - 1] = 'a';
	text[KERNEL_AUDIT_TEXT_MAX] = '\0';
	assert_int_equal(kernel_audit_send(5, 1121, 7, text), -EMSGSIZE);
}
