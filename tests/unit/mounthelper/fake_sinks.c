/* SPDX-License-Identifier: Apache-2.0 */
/* The model's side of the kernel's audit, and of the log's reserved room. */
#include "fake_model.h"

#include <linux/falloc.h>
#include <linux/netlink.h>
#include <sys/socket.h>

enum { SINK = 1 << 17, ANSWERS = 8 };

static struct {
	char audit[SINK];
	size_t audit_len;
	struct answer {
		uint32_t seq; /* of the record */
		int error;
	} answers[ANSWERS]; /* to be fetched */
	size_t n_answers;
	int confirmed, answer;
	bool is_off, is_mute, takes_nothing;
	off_t reserved; /* end of the reserved room */
} s;

void fake_sinks_reset(void)
{
	memset(&s, 0, sizeof(s));
}

void fake_sinks_process_died(void)
{
	s.n_answers = 0;
}

const char *fake_audit(void)
{
	return s.audit;
}

int fake_audit_confirmed(void)
{
	return s.confirmed;
}

void fake_audit_answers(int sys_errno)
{
	s.answer = -sys_errno;
}

void fake_audit_is_mute(void)
{
	s.is_mute = true;
}

void fake_audit_is_off(void)
{
	s.is_off = true;
}

void fake_audit_takes_nothing(void)
{
	s.takes_nothing = true;
}

uint64_t fake_log_ahead(void)
{
	return s.reserved > (off_t)k.log_len ? (uint64_t)s.reserved - k.log_len : 0;
}

int model_fallocate(int fd, int mode, off_t offset, off_t n)
{
	assert_int_equal(fd, FAKE_LOG_FD);
	assert_int_equal(mode, FALLOC_FL_KEEP_SIZE); /* all that an append-only file allows */
	assert_int_equal(offset, k.log_len);
	if (k.log_full)
		return -ENOSPC;
	s.reserved = offset + n;
	return 0;
}

static long to_audit(const void *bytes, size_t n)
{
	const char *text = (const char *)bytes + NLMSG_HDRLEN;
	size_t length = n - NLMSG_HDRLEN - 1;
	struct nlmsghdr header;

	assert_true(n > NLMSG_HDRLEN);
	memcpy(&header, bytes, sizeof(header));
	assert_int_equal(header.nlmsg_type, 1121);
	assert_int_equal(header.nlmsg_len, n);
	assert_int_equal(strlen(text), length);
	/* the kernel would let these forge records */
	assert_null(strpbrk(text, "'\"\n\r"));
	if (s.takes_nothing)
		return 0;
	assert_true(s.n_answers < ANSWERS);
	if (length == 0) { /* nothing to record, where auditing is on */
		s.answers[s.n_answers++] =
			(struct answer){.seq = header.nlmsg_seq, .error = s.is_off ? 0 : -EINVAL};
		return (long)n;
	}
	s.confirmed += (header.nlmsg_flags & NLM_F_ACK) != 0;
	if (!s.is_mute && ((header.nlmsg_flags & NLM_F_ACK) != 0 || s.answer != 0))
		s.answers[s.n_answers++] = (struct answer){.seq = header.nlmsg_seq, .error = s.answer};
	if (s.answer != 0 || s.is_mute || s.is_off)
		return (long)n;
	assert_true(s.audit_len + length + 2 < SINK);
	memcpy(s.audit + s.audit_len, text, length);
	s.audit[s.audit_len + length] = '\n';
	s.audit_len += length + 1;
	return (long)n;
}

long model_sendto(int fd, const void *bytes, size_t n, int flags)
{
	assert_int_equal(flags, MSG_DONTWAIT | MSG_NOSIGNAL);
	assert_int_equal(fd, FAKE_AUDIT_FD);
	return to_audit(bytes, n);
}

long model_recvfrom(int fd, void *buf, size_t n, int flags)
{
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
	} answer = {.header = {.nlmsg_type = NLMSG_ERROR, .nlmsg_len = sizeof(answer)},
		    .error = {.error = s.answers[0].error}};

	assert_int_equal(fd, FAKE_AUDIT_FD);
	assert_int_equal(flags, MSG_DONTWAIT);
	assert_true(n >= sizeof(answer));
	if (s.n_answers == 0)
		return -EAGAIN;
	answer.header.nlmsg_seq = s.answers[0].seq;
	memmove(s.answers, s.answers + 1, --s.n_answers * sizeof(s.answers[0]));
	memcpy(buf, &answer, sizeof(answer));
	return sizeof(answer);
}
