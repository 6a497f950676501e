// `warpsmith dataset spaces`: declares what a dense sweep measures.
#pragma once

#include "cli.h"

namespace warpsmith::cli {

void add_spaces_dataset(CLI::App& dataset, Run& run);

}  // namespace warpsmith::cli
