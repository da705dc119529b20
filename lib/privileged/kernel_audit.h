/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The kernel's audit, spoken to without libaudit: at most two sends and two receives for a record. */

#include <stdint.h>

enum {
	KERNEL_AUDIT_TRUSTED_APP = 1121, /* type of records of programs like ours */
	KERNEL_AUDIT_TEXT_MAX = 2048,	 /* bytes with the NUL; longer texts are not sent */
};

/** Opens a socket to it. Returns the descriptor or a negative errno. */
int kernel_audit_open(void);

/** Puts @text on record with @type, a message type that programs may use (1100 to 1199, 2100 to 2999). Never
 * waits.
 *
 * @text without quotes and new lines, which the kernel would store as they are
 * @seq  any number
 * Returns 0 when the kernel has confirmed it, else a negative errno: -EPERM without CAP_AUDIT_WRITE, -ENODATA
 * when auditing is switched off and it was forgotten. Source: audit_user(8), the kernel's
 * audit_receive_msg().
 */
int kernel_audit_send(int fd, uint16_t type, uint32_t seq, const char *text);

/** The same for a record after which nothing changes: the kernel is not asked for an acknowledgement, which
 * spares it the answer. It still reports a refusal, and the next kernel_audit_send() skips that. */
int kernel_audit_report(int fd, uint16_t type, uint32_t seq, const char *text);
