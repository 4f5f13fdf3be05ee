/* Loaded before User Mode Linux 6.1, which has room for 2,696 bytes of a processor's extended state
 * and dies where there are more (AMX): `ptrace` then takes the whole state or none. What does not
 * fit stays as it is in the process.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PEEK_FIRST = 1, PEEK_LAST = 3, GET = 0x4204, SET = 0x4205, MOST = 1 << 16 };

long ptrace(int request, ...)
{
    va_list list;
    va_start(list, request);
    long process = va_arg(list, int), kind = va_arg(list, long), word;
    struct iovec *given = va_arg(list, struct iovec *);
    va_end(list);
    static char state[MOST];
    struct iovec whole = { state, MOST };
    if (request >= PEEK_FIRST && request <= PEEK_LAST) {
        if (syscall(SYS_ptrace, request, process, kind, &word) < 0)
            return -1;
        errno = 0;
        return word;
    }
    if ((request != GET && request != SET) || kind != NT_X86_XSTATE)
        return syscall(SYS_ptrace, request, process, kind, given);
    if (syscall(SYS_ptrace, GET, process, kind, &whole) < 0)
        return -1;
    size_t size = given->iov_len < whole.iov_len ? given->iov_len : whole.iov_len;
    if (request == GET) {
        memcpy(given->iov_base, state, size);
        given->iov_len = size;
        return 0;
    }
    memcpy(state, given->iov_base, size);
    return syscall(SYS_ptrace, SET, process, kind, &whole);
}
