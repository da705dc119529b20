/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit.h"
#include "rpc/base64.h"

TEST(each_length_is_read_back_as_written)
{
	uint8_t bytes[64];
	char text[BASE64_SIZE(sizeof(bytes))];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(255 - i * 7);
	for (size_t n = 0; n <= sizeof(bytes); n++) {
		uint8_t *back = NULL;
		size_t length = 99;

		base64_encode(text, bytes, n);
		assert_int_equal(strlen(text), BASE64_SIZE(n) - 1);
		assert_int_equal(base64_decode(text, strlen(text), false, &back, &length), 0);
		assert_int_equal(length, n);
		if (n > 0)
			assert_memory_equal(back, bytes, n);
		free(back);
		/* without padding only where that is allowed */
		text[strcspn(text, "=")] = '\0';
		back = NULL;
		assert_int_equal(base64_decode(text, strlen(text), true, &back, &length), 0);
		assert_int_equal(length, n);
		free(back);
		back = NULL;
		assert_int_equal(base64_decode(text, strlen(text), false, &back, &length),
				 n % 3 == 0 ? 0 : -EINVAL);
		free(back);
	}
}

TEST(invalid_base64_is_refused)
{
	static const char *const texts[] = {"A",	"AA=",	 "A===",  "====",   "=",
					    "QQ==QQ==", "QQ= =", " QQ==", "QQ==\n", "Q\nQ==",
					    "QQ-_",	"Q=Q=",	 "AAAAA", "QUJD=",  "AAA=A"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		uint8_t *untouched = (uint8_t *)(uintptr_t)texts;
		size_t n = 7;

		if (base64_decode(texts[i], strlen(texts[i]), true, &untouched, &n) != -EINVAL)
			fail_msg("%s is read", texts[i]);
		assert_ptr_equal(untouched, texts);
		assert_int_equal(n, 7);
	}
}
