// Instead of src/device/ptx: the same functions on the host.
#pragma once

#include "sm80_instructions.h"
