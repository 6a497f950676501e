// Small grids whose figures are known by hand.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "report/html_data.h"

namespace warpsmith {

inline constexpr const char* kOfflineHeader =
    "m,n,k,ours_us,ours_nn_us,ours_tn_us,ours_warm_us,ours_pdl_us,lt_auto_us,lt_auto_nn_us,lt_auto_tn_us,"
    "lt_auto_warm_us,lt_heuristic_us,cublas_us,recipe,gates\n";

// Five shapes in four buckets; cold ratios 2, 0.5, 1.25, 0.8 and 1 by hand.
inline std::string hand_made_offline() {
  return std::string("# device: NVIDIA H200\n# driver: 580.1\n# date: 2026-01-31T12:00:00Z\n# a remark\n") +
         kOfflineHeader +
         "64,64,64,1,1,2,1,0.5,2,2,4,3,2,4,tiny tile=16x16,passed 17\n"
         "64,128,64,4,4,5,,,2,2,3,,,,tiny tile=16x16,passed 17\n"
         "256,256,256,4,6,4,4,4,5,5,6,4,6,8,\"sm90 tile=128x64x64, \"\"odd\"\"\",passed 17\n"
         "1024,1024,1024,10,10,10,10,8,8,8,8,10,8,8,sm90 tile=128x256x64,passed 17\n"
         "16384,16384,16384,100,100,100,100,100,100,100,100,100,100,100,sm90 tile=128x256x64,passed 16\n";
}

// 3 x 3 x 3 shapes without the last one. Ratios: 2 where m = 64, 1 where m = 128, 0.5 where m = 256; theirs takes 8 us.
inline ReportInputs three_panels() {
  std::string text = std::string("# device: Test device\n# commit: 0123abc\n") + kOfflineHeader;
  for (const std::int64_t k : {64, 512, 4096}) {
    for (const std::int64_t m : {64, 128, 256}) {
      for (const std::int64_t n : {64, 128, 256}) {
        if (k == 4096 && m == 256 && n == 256) continue;
        const double ours_us = m == 64 ? 4 : m == 128 ? 8 : 16;
        text += fmt::format("{},{},{},{},{},{},{},{},8,9,8,8,8.5,9,{} tile={}x64 note=<b>&amp;</b>,passed 17\n", m, n,
                            k, ours_us, ours_us, 2 * ours_us, ours_us, ours_us, k == 64 ? "tiny" : "sm90", m);
      }
    }
  }
  ReportInputs inputs;
  inputs.offline = ReportFile{"grid-offline.csv", text};
  return inputs;
}

}  // namespace warpsmith
