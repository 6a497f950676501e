# Writes OUTPUT, a C++ file with the bytes of INPUT as an array.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(([^,]*,){32})" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "// Generated; do not edit.
#include \"library/runtime/device_kernels.h\"

namespace warpsmith::library {

alignas(64) const unsigned char kDeviceKernels[] = {
${bytes}};

}  // namespace warpsmith::library
")
