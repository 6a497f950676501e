// How many bytes a tiled kernel takes from the L2 cache and from memory.
#pragma once

namespace warpsmith::model {

// Tiles in the order in which they run: bands of `group` along one direction, that direction fastest inside a band.
struct Raster {
  double along = 1, across = 1;  // tiles in the band's direction and in the other
  double group = 1;
};

// Rows of tiles in both directions that `concurrent` neighbouring tiles touch.
struct Patch {
  double along = 1, across = 1;
};
Patch patch_of(const Raster& raster, double concurrent);

// Bytes of operands that memory delivers. along_bytes, across_bytes: of the operand strips that one tile needs, one of
// the direction `along`, one of `across`. Operands that fit in `kept_bytes` of cache are read once; of larger ones
// every wave reads its patch again, as far as they exceed the cache.
double operand_dram_bytes(const Raster& raster, double along_bytes, double across_bytes, double concurrent,
                          double kept_bytes);

}  // namespace warpsmith::model
