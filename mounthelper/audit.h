#pragma once
/* The kernel's audit log as second sink of the trail: one record of type TRUSTED_APP.
 *
 * Best effort: a kernel without audit, or with audit switched off, is fine, because the own log comes first.
 */

#include <stdint.h>

/** Send @text, which must hold neither quotes nor new lines (the kernel stores it as it is).
 * @fd  NETLINK_AUDIT socket, or negative: nothing happens
 * @seq of the message, any number */
void audit_send(int fd, uint32_t seq, const char *text);
