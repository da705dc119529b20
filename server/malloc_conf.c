/* SPDX-License-Identifier: Apache-2.0 */
/* What jemalloc is told, which is linked into the program, see CMakeLists.txt. */

/* Of its own name and kind, which jemalloc looks for. MALLOC_CONF and /etc/malloc.conf still have the last
 * word.
 * narenas: the threads seldom want memory at the same time, and each arena keeps some of what was freed.
 * thp: in huge pages, where the kernel gives them to those who ask; else the state grows by a page fault for
 * nearly each claim. An idle server takes 5 MB more. */
extern const char *malloc_conf;
const char *malloc_conf = "narenas:1,thp:always";
