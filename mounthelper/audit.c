#include "audit.h"

#include "trail.h"

#include "base/sys.h"

#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>

enum { AUDIT_TRUSTED_APP_ = 1121 };

struct message {
	struct nlmsghdr header;
	char text[TRAIL_LINE_MAX];
};

struct answer {
	struct nlmsghdr header;
	struct nlmsgerr error;
	uint8_t original[sizeof(struct message)]; /* sent back with an error */
};

void audit_send(int fd, uint32_t seq, const char *text)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	struct message message = {.header = {.nlmsg_type = AUDIT_TRUSTED_APP_,
					     .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
					     .nlmsg_seq = seq}};
	struct answer answer;
	size_t n = strnlen(text, sizeof(message.text) - 1);

	if (fd < 0)
		return;
	memcpy(message.text, text, n);
	message.header.nlmsg_len = (uint32_t)NLMSG_LENGTH(n + 1);
	if (sys_sendto(fd, &message, message.header.nlmsg_len, MSG_DONTWAIT | MSG_NOSIGNAL,
		       (const struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return;
	/* the answer is there when the send returns; it is taken so that answers do not pile up */
	(void)sys_recvfrom(fd, &answer, sizeof(answer), MSG_DONTWAIT);
}
