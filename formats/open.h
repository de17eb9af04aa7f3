/* open.h: opens a checkpoint of any format.
 */
#ifndef NORMA_OPEN_H
#define NORMA_OPEN_H

#include "model.h"

/* Opens a checkpoint of any format and checks every size in it against the file's length
 * before anything is allocated. The caller closes it. */
int model_open(Model *model, const char *path);

#endif
