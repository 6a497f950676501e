// Recipes as knobs with their estimated times: what each family offers for a problem, before legality is asked.
#pragma once

#include <array>
#include <vector>

#include "model/family_models.h"

namespace warpsmith::model {

struct Candidate {
  double time_us = 0;
  const Family* family = nullptr;
  AnyKnobs knobs;
  int mode = 0;                // way of working, within the family
  std::array<int, 4> shape{};  // tile and split: candidates that share these differ in details
  const char* loop = nullptr;  // sm80: the named program of its main loop
};

void add_sm90_candidates(const Setting& setting, std::vector<Candidate>& found);
void add_sm80_candidates(const Setting& setting, std::vector<Candidate>& found);
void add_tiny_candidates(const Setting& setting, std::vector<Candidate>& found);
void add_skinny_candidates(const Setting& setting, std::vector<Candidate>& found);

}  // namespace warpsmith::model
