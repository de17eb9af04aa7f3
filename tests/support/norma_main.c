/* norma_main.c: the program's main as a function, for tests that run it in a
 * forked process. */
#define main norma_main
int main(int argc, char **argv);
#include "run.c" // NOLINT(bugprone-suspicious-include)
