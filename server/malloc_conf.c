/* What jemalloc is told, which is linked into the program, see CMakeLists.txt. */

/* Of its own name and kind, which jemalloc looks for. MALLOC_CONF and /etc/malloc.conf still have the last
 * word.
 * narenas: the threads seldom want memory at the same time, and each arena keeps some of what was freed. */
extern const char *malloc_conf;
const char *malloc_conf = "narenas:1";
