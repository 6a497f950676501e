// Traffic of waves of tiles.
#include "model/traffic.h"

#include <algorithm>

namespace warpsmith::model {

Patch patch_of(const Raster& raster, double concurrent) {
  const double tiles = std::min(concurrent, raster.along * raster.across);
  const double band = std::min(raster.group, raster.along);
  const double columns = std::max(1.0, std::min(raster.across, tiles / band));
  // Bands that a wave fills beyond the first.
  const double bands = std::max(1.0, tiles / (band * raster.across));
  return {std::min({raster.along, band * bands, tiles}), columns};
}

double operand_dram_bytes(const Raster& raster, double along_bytes, double across_bytes, double concurrent,
                          double kept_bytes) {
  const double once = raster.along * along_bytes + raster.across * across_bytes;
  if (once <= kept_bytes) return once;
  const Patch patch = patch_of(raster, concurrent);
  const double waves = std::max(1.0, raster.along * raster.across / std::max(1.0, concurrent));
  const double every_wave = waves * (patch.along * along_bytes + patch.across * across_bytes);
  const double missing = (once - kept_bytes) / once;
  return once + missing * std::max(0.0, every_wave - once);
}

}  // namespace warpsmith::model
