/* SPDX-License-Identifier: Apache-2.0 */
#include "privileged/kernel_audit.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/sys.h"

#include <assert.h>
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>

int kernel_audit_open(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_AUDIT);

	return fd < 0 ? -errno : fd;
}

struct message {
	struct nlmsghdr header;
	char text[KERNEL_AUDIT_TEXT_MAX];
};

static int send_message(int fd, uint16_t type, uint16_t flags, uint32_t seq, const char *text)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	struct message message = {
		.header = {.nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | flags, .nlmsg_seq = seq}};
	ssize_t n;

	assert(!strpbrk(text, "'\"\n"));
	if (fd < 0) /* not even the call: a filter may allow it for a real descriptor only */
		return -EBADF;
	if (str_copy(message.text, sizeof(message.text), text) < 0)
		return -EMSGSIZE;
	message.header.nlmsg_len = (uint32_t)NLMSG_LENGTH(strlen(text) + 1);
	n = sys_sendto(fd, &message, message.header.nlmsg_len, MSG_DONTWAIT | MSG_NOSIGNAL,
		       (const struct sockaddr *)&kernel, sizeof(kernel));
	if (n <= 0) /* without the capability some kernels return 0 */
		return n < 0 ? (int)n : -EPERM;
	return 0;
}

int kernel_audit_report(int fd, uint16_t type, uint32_t seq, const char *text)
{
	return send_message(fd, type, 0, seq, text);
}

static int send_and_wait(int fd, uint16_t type, uint32_t seq, const char *text)
{
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
		uint8_t original[sizeof(struct message)]; /* sent back with an error */
	} answer;

	TRY_SYS(send_message(fd, type, NLM_F_ACK, seq, text));
	/* the kernel answers before the send returns; an older answer may have been left */
	do {
		ssize_t n = sys_recvfrom(fd, &answer, sizeof(answer), MSG_DONTWAIT);

		if (n < (ssize_t)NLMSG_LENGTH(sizeof(answer.error)))
			return n < 0 ? (int)n : -EPROTO;
	} while (answer.header.nlmsg_seq != seq);
	if (answer.header.nlmsg_type != NLMSG_ERROR)
		return -EPROTO;
	return answer.error.error;
}

/* A record without text is refused where auditing is on, and where it is off confirmed like every other: to
 * ask outright (AUDIT_GET) takes CAP_AUDIT_CONTROL. */
int kernel_audit_send(int fd, uint16_t type, uint32_t seq, const char *text)
{
	int r;

	TRY_SYS(send_and_wait(fd, type, seq, text));
	r = send_and_wait(fd, type, seq, "");
	return r == 0 ? -ENODATA : r == -EINVAL ? 0 : r;
}
