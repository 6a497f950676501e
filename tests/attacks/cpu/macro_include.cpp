// Includes a file of the machine whose name a macro makes.
// clang-format off
#define TEXT(x) #x
#define NAME(x) TEXT(x)
#include NAME(/etc/passwd)
extern "C" void entry() {}
