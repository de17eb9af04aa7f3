/* reading.c: opens files for reading; nothing else in norma does.
 *
 * Names come from model folders that other people made. Opening a FIFO waits
 * for its writer, and a device may never end, so files of a model must be
 * regular ones. A text that the user names may be a pipe.
 * Tests: base, text. */
#include "base/reading.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int open_to_read(const char *path, bool takes_streams, struct stat *st,
                 const char **error) {
    const int waits = takes_streams ? 0 : O_NONBLOCK;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | waits);
    *error = NULL;
    if (fd < 0 || fstat(fd, st))
        *error = strerror(errno);
    else if (takes_streams || S_ISREG(st->st_mode))
        return fd;
    else if (S_ISDIR(st->st_mode))
        *error = "is a directory, expected a file";
    else
        *error = "is not a regular file";
    if (fd >= 0)
        close(fd);
    return -1;
}
