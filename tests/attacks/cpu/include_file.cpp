// Includes a file of the machine: the compiler's log quotes its first lines.
#include "/etc/passwd"
extern "C" void entry() {}
