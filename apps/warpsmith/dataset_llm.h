// `warpsmith dataset sft|preference|prompts|pretrain`: training data for language models.
#pragma once

#include "cli.h"

namespace warpsmith::cli {

void add_language_datasets(CLI::App& dataset, Run& run);

}  // namespace warpsmith::cli
