// Instead of src/device/ptx: the same functions on the host.
#pragma once

#include "instructions.h"
