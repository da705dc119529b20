/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/tls_session.h"

#include <openssl/err.h>
#include <stdio.h>
#include <string.h>

/* Alerts that need an action, with texts that name it. */
static const struct hint {
	int reason;
	const char *text;
} hints[] = {
	{SSL_R_TLSV1_ALERT_UNKNOWN_CA,
	 "the other side does not trust our certificate: it was signed by another CA than theirs"},
	{SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, "the other side refused our certificate"},
	{SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, "the other side reports that our certificate has expired"},
	{SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, "the other side refused our certificate"},
	{SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, "the other side wants a client certificate"},
	{SSL_R_UNEXPECTED_EOF_WHILE_READING, "closed by the other side"},
	{SSL_R_WRONG_VERSION_NUMBER, "the other side does not speak TLS"},
	{SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, "the other side does not speak TLS 1.3"},
	{SSL_R_UNSUPPORTED_PROTOCOL, "the other side does not speak TLS 1.3"},
	{SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL, "the other side does not speak HTTP/2"},
};

char *tls_error_text(char *text, size_t size)
{
	unsigned long code = ERR_peek_error();
	const char *reason = ERR_reason_error_string(code);

	if (code == 0)
		reason = "the connection ended unexpectedly";
	for (size_t i = 0;
	     code != 0 && ERR_GET_LIB(code) == ERR_LIB_SSL && i < sizeof(hints) / sizeof(hints[0]); i++)
		if (ERR_GET_REASON(code) == hints[i].reason)
			reason = hints[i].text;
	(void)snprintf(text, size, "%s", reason ? reason : "unknown TLS error");
	ERR_clear_error();
	return text;
}
