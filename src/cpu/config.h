// What a generated CPU kernel fixes at compile time. Everything else (cache blocks, order, thread grid) is a run-time
// parameter, so that recipes differing only there share one compiled artifact.
#pragma once

#include <cstdint>

namespace warpsmith::cpu {

enum class Element { f16, bf16 };

// How a register tile of C is accumulated.
//   outer  one rank-1 update per k: vectors along n, elements of A broadcast
//   inner  dot products: vectors along k, summed across lanes once at the end
enum class Form { outer, inner };

// Where the inner loop finds B.
//   direct  in place, 16-bit, widened in registers
//   fused   in place for the first row tile of a block, which leaves a widened copy for the others
//   packed  in a float copy made before, tile by tile
enum class Source { direct, fused, packed };

struct CpuConfig {
  Element element = Element::f16;
  bool a_k_major = true;   // A stored m x k; else k x m
  bool b_k_major = false;  // B stored n x k; else k x n
  Form form = Form::outer;
  int lanes = 16;             // floats per vector: 8 or 16
  int rows = 14;              // of C per register tile; balanced tiles have `rows` or `rows - 1`
  int columns = 2;            // per register tile: vectors (outer) or elements (inner); `columns` or `columns - 1`
  int unroll = 4;             // of the loop over k (outer)
  Source a = Source::packed;  // outer needs packed
  Source b = Source::fused;
  bool prefetch = false;       // software prefetch of B in place
  bool prefetch_a = false;     // software prefetch of A in place (inner)
  bool uneven_rows = true;     // some row tiles have `rows - 1`
  bool uneven_columns = true;  // some column tiles have `columns - 1`
  bool ragged_columns = true;  // n is no multiple of the vector (outer)
  int a_stride = 272;          // floats between rows of packed A (outer, A stored m x k); a multiple of 16
};

// Indices into WarpsmithCpuArguments::parameters.
enum Parameter {
  kBlockK,        // elements of k per block
  kBlockRows,     // row tiles per block
  kBlockColumns,  // column tiles per block
  kRowsInner,     // 1: the loop over row tiles is innermost, 0: the loop over column tiles
  kDepthInner,    // 1: all blocks of k of a row block before the next row block, 0: the other way round
  kPrefetch,      // distance of the prefetch of B: rows of k (outer), elements of k (inner)
  kPrefetchA,     // distance of the prefetch of A while it is packed: elements of k; 0: none
  kPreload,       // sum of Preload flags
  kRowTiles,      // number of row tiles that m is dealt into
  kColumnTiles,   // number of column tiles that n is dealt into
  kThreadsM,      // threads along m, n and k; their product is the launch's threads
  kThreadsN,
  kThreadsK,
  kPackedABytes,  // per thread: packed A, then packed B, then float C
  kPackedBBytes,
  kThreadBytes,  // workspace per thread
  kParameterCount
};

// What is fetched ahead of its use, as a whole.
enum Preload {
  kPreloadPages = 1,  // one line of every page of the operands, at the start
  kPreloadB = 2,      // a block of B in place, before A is packed
};

}  // namespace warpsmith::cpu
